//! `--env-dir`: secrets in the files of a directory.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;

use crate::http::get;
use crate::mcp::{Stateful, text};
use crate::program::{Folder, ServerProcess, vmcp};

/// A configuration of backends whose API keys are secrets of their own names.
fn configuration(backends: &[(&str, &McpBackend)]) -> String {
    let listed = backends.iter().map(|(name, backend)| {
        format!("- {{name: {name}, url: \"{}\", transport: streamable-http}}\n", backend.url())
    });
    let strategies = backends.iter().map(|(name, _)| {
        format!(
            "    {name}: {{type: header_injection, headerInjection: {{headerName: X-Key, headerValueEnv: KEY_{name}}}}}\n"
        )
    });
    format!(
        "name: x\nincomingAuth: {{type: anonymous}}\nbackends:\n{}outgoingAuth:\n  source: inline\n  backends:\n{}",
        listed.collect::<String>(),
        strategies.collect::<String>()
    )
}

/// Writes a version of a mounted Secret, as the kubelet does: a new directory, and then one rename of a link.
fn mount(directory: &Path, version: &str, files: &[(&str, &str)]) {
    let data = directory.join(version);
    std::fs::create_dir_all(&data).unwrap();
    for (name, value) in files {
        std::fs::write(data.join(name), value).unwrap();
        let link = directory.join(name);
        if !link.is_symlink() {
            symlink(Path::new("..data").join(name), link).unwrap();
        }
    }
    let aside = directory.join("..data_tmp");
    symlink(version, &aside).unwrap();
    std::fs::rename(aside, directory.join("..data")).unwrap();
}

fn left_out(port: u16) -> Value {
    get(port, "/status")["left_out_backends"].clone()
}

#[test]
fn rotation_under_load_keeps_sessions() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let directory = folder.path("secrets");
    let directory = Path::new(&directory);
    mount(directory, "..1", &[("KEY_a", "canary-1\n")]);
    let path = folder.write("vmcp.yaml", &configuration(&[("a", &backend)]));
    let arguments = ["--env-dir", directory.to_str().unwrap()];
    // The file wins over the variable.
    let (server, port) = ServerProcess::serve_with(&path, &arguments, &[("KEY_a", "canary-0")]);
    let (ended, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (ended, calls) = (Arc::clone(&ended), Arc::clone(&calls));
            std::thread::spawn(move || {
                let session = Stateful::open(port);
                while !ended.load(Ordering::Relaxed) {
                    assert_eq!(text(&session.call("a_x", &json!({}))), "done");
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for version in ["2", "3"] {
        mount(directory, &format!("..{version}"), &[("KEY_a", &format!("canary-{version}"))]);
        server.logs("configuration reloaded");
        let before = calls.load(Ordering::Relaxed);
        while calls.load(Ordering::Relaxed) < before + 20 {
            std::thread::yield_now();
        }
    }
    ended.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    let requests = backend.requests();
    let sent = |key: &str| requests.iter().any(|request| request.header("x-key") == key);
    assert!(sent("canary-1") && sent("canary-2") && sent("canary-3") && !sent("canary-0"));
    assert_eq!(requests.last().unwrap().header("x-key"), "canary-3");
    let status = get(port, "/status").to_string();
    let (_, log) = server.stop();
    assert!(!log.contains("canary") && !status.contains("canary"), "{log}");
}

#[test]
fn missing_secret_leaves_backend_out_until_mounted() {
    let folder = Folder::new();
    let (a, b) = (McpBackend::stateless(&["x"]), McpBackend::stateless(&["x"]));
    let directory = folder.path("secrets");
    let directory = Path::new(&directory);
    mount(directory, "..1", &[("KEY_a", "canary")]);
    let path = folder.write("vmcp.yaml", &configuration(&[("a", &a), ("b", &b)]));
    let arguments = ["--env-dir", directory.to_str().unwrap()];
    let (server, port) = ServerProcess::serve(&path, &arguments);
    let session = Stateful::open(port);
    assert_eq!(session.tools(), ["a_x"]);
    let expected = json!([
        {"name": "b", "reason": "SecretPending", "message": "secret KEY_b is not there yet"}
    ]);
    assert_eq!(left_out(port), expected);
    mount(directory, "..2", &[("KEY_a", "canary"), ("KEY_b", "canary")]);
    server.logs("configuration reloaded");
    assert_eq!(session.tools(), ["a_x", "b_x"]);
    assert_eq!(left_out(port), json!([]));
    assert!(a.requests().iter().chain(&b.requests()).all(|it| it.header("x-key") == "canary"));
    mount(directory, "..3", &[("KEY_a", "canary"), ("KEY_b", "line\nbreak")]);
    server.logs("b is left out (SecretInvalid)");
    server.logs("configuration reloaded");
    assert_eq!(session.tools(), ["a_x"]);
}

#[test]
fn validate_warns_of_missing_secret() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let path = folder.write("vmcp.yaml", &configuration(&[("a", &backend)]));
    let ended = vmcp(&["validate", "-c", &path]);
    assert!(ended.code == 1 && ended.err.contains("KEY_a, which is not set"), "{ended:?}");
    let directory = folder.path("secrets");
    let unknown = vmcp(&["validate", "-c", &path, "--env-dir", &directory]);
    assert!(unknown.code == 2 && unknown.err.contains("must be a directory"), "{unknown:?}");
    std::fs::create_dir(&directory).unwrap();
    let ended = vmcp(&["validate", "-c", &path, "--env-dir", &directory]);
    let says = "backends[0]: a is left out (SecretPending): secret KEY_a is not there yet";
    assert!(ended.code == 0 && ended.err.contains(says), "{ended:?}");
}

#[test]
fn missing_bundle_leaves_entry_out() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let bundle = folder.path("ca.pem");
    let text = format!(
        "name: x\nincomingAuth: {{type: anonymous}}\nvariables: [ORG]\nbackends:\n\
         - {{name: a, url: \"{url}\", transport: streamable-http, type: entry, caBundlePath: {bundle}}}\n\
         - {{name: b, url: \"{url}\", transport: streamable-http, headers: {{X-Org: \"${{ORG}}\"}}}}\n",
        url = backend.url()
    );
    let path = folder.write("vmcp.yaml", &text);
    assert_eq!(vmcp(&["validate", "-c", &path]).code, 1);
    let directory = folder.path("secrets");
    std::fs::create_dir(&directory).unwrap();
    let (_server, port) = ServerProcess::serve(&path, &["--env-dir", &directory]);
    let expected = json!([
        {
            "name": "a",
            "reason": "SecretPending",
            "message": format!("CA bundle {bundle} is not there yet"),
        },
        {"name": "b", "reason": "SecretPending", "message": "secret ORG is not there yet"},
    ]);
    assert_eq!(left_out(port), expected);
}
