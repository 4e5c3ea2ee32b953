//! Which machines and host names are served.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use crate::issuer::Issuer;
use crate::program::{Ended, Folder, Running, vmcp};

fn serve(kind: &str, arguments: &[&str]) -> Ended {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", &format!("name: x\nincomingAuth: {{type: {kind}}}\n"));
    vmcp(&[&["serve", "--port", "0", "--host", "0.0.0.0", "-c", &file][..], arguments].concat())
}

#[test]
fn local_refuses_to_listen_on_a_network() {
    for arguments in [&[][..], &["--allow-anonymous-network"]] {
        let ended = serve("local", arguments);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(
            ended.err.contains("other machines would act as the user of this one"),
            "{ended:?}"
        );
    }
}

#[test]
fn anonymous_on_a_network_needs_a_flag() {
    let ended = serve("anonymous", &[]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("--allow-anonymous-network"), "{ended:?}");
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: anonymous}\n");
    let fixed = ["serve", "--port", "0", "--host", "0.0.0.0", "-c", &file];
    let server = Running::start(&[&fixed[..], &["--allow-anonymous-network"]].concat());
    server.logs("http://0.0.0.0:");
}

#[test]
fn a_reload_lets_no_network_in_as_the_local_user() {
    let (folder, issuer) = (Folder::new(), Issuer::start());
    let file = folder.write("vmcp.yaml", &format!("name: x\n{}", issuer.section("")));
    let server = Running::start(&["serve", "--port", "0", "--host", "0.0.0.0", "-c", &file]);
    server.logs("http://0.0.0.0:");
    folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: local}\n");
    server.logs("other machines would act as the user of this one");
}

/// The status of the answer to a client that knows the server by this name.
fn status(port: u16, host: &str) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET /status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn the_host_of_the_resource_needs_no_flag() {
    let (folder, issuer) = (Folder::new(), Issuer::start());
    let section = |resource: &str| {
        let section = issuer.section(&format!(", resource: \"https://{resource}/mcp\""));
        format!("name: x\n{section}")
    };
    let file = folder.write("vmcp.yaml", &section("mcp.example.com"));
    let (server, port) = Running::serve(&file, &[]);
    for (host, expected) in
        [("mcp.example.com", 200), ("mcp.example.com:443", 200), ("evil.example.com", 403)]
    {
        assert_eq!(status(port, host), expected, "{host}");
    }
    folder.write("vmcp.yaml", &section("tools.example.com"));
    server.logs("configuration reloaded");
    for (host, expected) in [("tools.example.com", 200), ("mcp.example.com", 403)] {
        assert_eq!(status(port, host), expected, "{host}");
    }
}
