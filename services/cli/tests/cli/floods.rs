//! Callers that take all they can get: others are served all the same, and memory is bounded.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use vmcp_test_support::McpBackend;

use crate::http::request;
use crate::mcp::{Stateless, text};
use crate::program::{Folder, ServerProcess};

const KB: usize = 1000;

/// The largest message and the budget: ten messages, of which one caller may hold two and a half.
const LARGEST: usize = 1000 * KB;
const BUDGET: usize = 10 * LARGEST;

fn config(backend: &McpBackend) -> String {
    format!(
        "name: x\nincomingAuth: {{type: anonymous}}\nbackends: [{{name: a, url: \"{}\", transport: streamable-http}}]\n\
         telemetry: {{enablePrometheusMetricsPath: true}}\n",
        backend.url()
    )
}

/// A request of this address, as a trusted proxy tells it, that announces a body and sends none of it.
fn announce(port: u16, address: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         X-Forwarded-For: {address}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Sends as much of `length` bytes as the server takes at once.
fn push(stream: &mut TcpStream, length: usize) {
    stream.set_nonblocking(true).unwrap();
    let (chunk, mut sent) = (vec![b' '; 64 * KB], 0);
    while sent < length {
        let most = chunk.len().min(length - sent);
        match stream.write(&chunk[..most]) {
            Ok(written) => sent += written,
            // It takes no more, or has refused it.
            Err(_) => break,
        }
    }
}

/// The status of a call with a message of about `bytes`, of this address.
fn call(port: u16, address: &str, bytes: usize) -> u16 {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"pad":"{}"}}}}"#,
        "x".repeat(bytes)
    );
    let headers = [("content-type", "application/json"), ("x-forwarded-for", address)];
    // A ping without a session is refused with 400 once it has been read.
    request(port, "POST", "/mcp", &headers, &body).status
}

/// The value of a metric.
fn metric(port: u16, name: &str) -> usize {
    let mut page = String::new();
    request(port, "GET", "/metrics", &[], "").read(&mut page);
    let line = page.lines().find(|line| line.split(' ').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Lets a connection be idle for longer than a new one is.
#[expect(clippy::disallowed_methods, reason = "the program's clock cannot be paused")]
fn pause() {
    std::thread::sleep(Duration::from_millis(150));
}

/// The resident memory of a process, in bytes.
fn memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
fn unfinished_bodies_do_not_block_other_clients() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let file = folder.write("vmcp.yaml", &config(&backend));
    let (budget, largest) = (BUDGET.to_string(), LARGEST.to_string());
    let limits = ["--max-buffered-bytes", &budget, "--max-message-bytes", &largest];
    let arguments = [&["--trusted-proxies", "1"][..], &limits].concat();
    let (server, port) = ServerProcess::serve(&file, &arguments);
    assert_eq!(text(&Stateless(port).call("a_x", &json!({}))), "done");
    let idle = memory(server.id());
    // Announced bytes that were not sent take nothing from the budget, not even from the share of the same address.
    let _announced: Vec<_> = (0..400).map(|_| announce(port, "10.0.0.1", 900 * KB)).collect();
    assert_eq!(call(port, "10.0.0.1", 500 * KB), 400);
    let mut stalled: Vec<_> = (0..400).map(|_| announce(port, "10.0.0.1", 900 * KB)).collect();
    let begun = Instant::now();
    let (mut others, mut most_held) = (0, 0);
    while begun.elapsed() < Duration::from_secs(4) {
        for stream in &mut stalled {
            push(stream, 100 * KB);
        }
        let asked = Instant::now();
        assert_eq!(call(port, "10.0.0.2", 500 * KB), 400, "another address");
        assert_eq!(call(port, "10.0.0.1", KB), 400, "a small message of the same address");
        assert_eq!(text(&Stateless(port).call("a_x", &json!({}))), "done");
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        let held = metric(port, "vmcp_buffered_bytes");
        assert!(held <= BUDGET / 2, "{held}");
        most_held = most_held.max(held);
        let used = memory(server.id()).saturating_sub(idle);
        assert!(used < BUDGET + (64 << 20), "{used}");
        others += 1;
    }
    assert!(others > 1 && most_held > 0);
    assert_eq!(metric(port, "vmcp_buffered_bytes_limit"), BUDGET);
    assert!(metric(port, "vmcp_buffered_bytes_refused_total") > 0);
    // A rejected request gets a 503 response.
    let refused = stalled.iter_mut().find_map(|stream| {
        let mut answer = [0; 400];
        let length = stream.read(&mut answer).ok().filter(|length| *length > 0)?;
        // On a busy machine some of them were read as a whole.
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        Some(answer).filter(|answer| answer.starts_with("HTTP/1.1 503 "))
    });
    let refused = refused.unwrap();
    assert!(refused.contains("retry-after: 2"), "{refused}");
    drop(stalled);
    let released = Instant::now();
    while metric(port, "vmcp_buffered_bytes") > 0 {
        assert!(released.elapsed() < Duration::from_secs(10), "bytes are still held");
        pause();
    }
}

#[test]
fn budget_holds_the_largest_message() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: anonymous}\n");
    let ended = crate::program::vmcp(&["serve", "-c", &file, "--max-buffered-bytes", "16777215"]);
    let says = "must be at least twice --max-message-bytes, 8388608";
    assert!(ended.code == 2 && ended.err.contains(says), "{ended:?}");
}

/// A connection that can be used again.
fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
}

/// The status of a `GET` on a connection; 0 if that is closed.
fn get(stream: &mut TcpStream, path: &str) -> u16 {
    let head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    if stream.write_all(head.as_bytes()).is_err() {
        return 0;
    }
    let mut answer = [0; 1000];
    let length = stream.read(&mut answer).unwrap_or(0);
    let answer = String::from_utf8_lossy(&answer[..length]);
    answer.split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
}

#[test]
fn evicts_idle_connection_for_new_client() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: anonymous}\n");
    let (_server, port) = ServerProcess::serve(&file, &["--max-connections", "3"]);
    // One that asks nothing, one that is used, one that is in the middle of a request.
    let mut silent = connect(port);
    pause();
    let mut used = connect(port);
    assert_eq!(get(&mut used, "/nowhere"), 404);
    let mut busy = announce(port, "10.0.0.1", 10);
    pause();
    let mut new = connect(port);
    assert_eq!(get(&mut new, "/nowhere"), 404);
    assert_eq!(
        silent.read(&mut [0; 10]).unwrap(),
        0,
        "the one that was idle for longest is closed"
    );
    pause();
    assert_eq!(get(&mut used, "/nowhere"), 404);
    let mut newer = connect(port);
    assert_eq!(get(&mut newer, "/nowhere"), 404);
    assert_eq!(new.read(&mut [0; 10]).unwrap(), 0);
    assert_eq!(get(&mut used, "/nowhere"), 404);
    // A connection with a request under way stays open.
    busy.write_all(b"no JSON...").unwrap();
    let mut answer = [0; 100];
    let length = busy.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 400 "));
}

#[test]
fn probes_are_answered_while_all_connections_are_busy() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: anonymous}\n");
    let (_server, port) = ServerProcess::serve(&file, &["--max-connections", "3"]);
    let mut busy: Vec<_> = (0..3).map(|_| announce(port, "10.0.0.1", 10)).collect();
    pause();
    // More than are kept for probes.
    let _silent: Vec<_> = (0..300).map(|_| connect(port)).collect();
    for path in ["/livez", "/readyz"] {
        assert_eq!(get(&mut connect(port), path), 200, "{path}");
    }
    let refused = request(port, "GET", "/nowhere", &[], "");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.header("connection"), Some("close"));
    // One that was there before a place became free gets it.
    let mut probe = connect(port);
    assert_eq!(get(&mut probe, "/livez"), 200);
    busy.pop();
    pause();
    assert_eq!(get(&mut probe, "/nowhere"), 404);
}

#[test]
fn evicts_idle_connection_without_free_descriptors() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: anonymous}\n");
    let arguments = ["serve", "--config", &file, "--port", "0", "--threads", "1"];
    let (_server, port) = ServerProcess::serve_limited("ulimit -n 64", &arguments);
    // One that is in the middle of a request, and more that ask nothing than there are descriptors.
    let mut busy = announce(port, "10.0.0.1", 10);
    let _silent: Vec<_> = (0..100).map(|_| connect(port)).collect();
    pause();
    assert_eq!(get(&mut connect(port), "/nowhere"), 404);
    busy.write_all(b"no JSON...").unwrap();
    let mut answer = [0; 100];
    let length = busy.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 400 "));
}
