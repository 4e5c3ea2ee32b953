//! `vmcp doctor auth`, against the server itself.

use std::net::TcpListener;

use serde_json::Value;
use vmcp_test_support::McpBackend;

use crate::issuer::Issuer;
use crate::login::{Provider, sections};
use crate::program::{Folder, ServerProcess, vmcp};

fn serve(section: &str) -> (Folder, McpBackend, ServerProcess, String) {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let url = backend.url();
    let config = format!(
        "name: x\n{section}backends:\n- {{name: a, url: \"{url}\", transport: streamable-http}}\n"
    );
    let (server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &config), &[]);
    (folder, backend, server, format!("http://localhost:{port}/mcp"))
}

#[test]
fn every_client_discovers_embedded_authorization_server() {
    let (corp, folder, backend) =
        (Provider::start("corp", 3600), Folder::new(), McpBackend::stateless(&["x"]));
    // The address of the server is in what clients compare.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let own = format!("\"http://localhost:{port}");
    let config = format!(
        "name: x\n{}backends:\n- {{name: a, url: \"{}\", transport: streamable-http}}\n",
        sections(&[&corp], "").replace("\"http://localhost", &own),
        backend.url()
    );
    let path = folder.write("vmcp.yaml", &config);
    let server = ServerProcess::start(&["serve", "--port", &port, "--config", &path]);
    server.logs("listening on http://");
    let url = format!("http://localhost:{port}/mcp");
    for client in ["claude", "chatgpt", "cursor", "vscode", "inspector"] {
        let arguments = ["doctor", "auth", &url, "--client", client, "--register", "-o", "json"];
        let ended = vmcp(&arguments);
        assert_eq!((ended.code, &*ended.err), (0, ""), "{}", ended.out);
        let json: Value = serde_json::from_str(&ended.out).unwrap();
        assert!(json["mismatch"].is_null());
        let steps = json["steps"].as_array().unwrap();
        let opened = steps.last().unwrap()["found"].as_str().unwrap();
        let start =
            format!("http://localhost:{port}/oauth/authorize?response_type=code&client_id=");
        assert!(opened.starts_with(&start) && opened.contains("&scope=tools&"), "{opened}");
    }
}

#[test]
fn names_first_failed_step_with_remedy() {
    let issuer = Issuer::start();
    let (_folder, _backend, _server, url) = serve(&issuer.section(""));
    let ended = vmcp(&["doctor", "auth", &url, "--client", "vscode"]);
    assert_eq!(ended.code, 1);
    // The configuration says that the resource is at another port.
    let start = format!("VS Code at {url}\n\nok        POST {url}\n          401 Unauthorized; ");
    assert!(ended.out.starts_with(&start), "{}", ended.out);
    assert!(
        ended.err.starts_with("VS Code stops at: GET http://localhost/.well-known/"),
        "{}",
        ended.err
    );
    assert!(ended.err.contains("\nchange: "), "{}", ended.err);

    let ended = vmcp(&["doctor", "auth", &url, "--client", "vscode", "-o", "json"]);
    assert_eq!((ended.code, &*ended.err), (1, ""));
    let json: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&json["client"], &json["server"]), (&"VS Code".into(), &url.into()));
    assert_eq!(json["steps"][0]["outcome"], "ok");
    assert_eq!(json["mismatch"]["outcome"], "mismatch");
    assert!(json["mismatch"]["change"].is_string());
}

#[test]
fn fails_login_check_of_anonymous_server() {
    let (_folder, _backend, _server, url) = serve("incomingAuth: {type: anonymous}\n");
    for client in ["claude", "chatgpt", "cursor", "vscode", "inspector"] {
        let ended = vmcp(&["doctor", "auth", &url, "--client", client]);
        assert_eq!(ended.code, 1);
        assert!(
            ended.err.contains("200 OK\nchange: respond with 401 to requests without a token"),
            "{ended:?}"
        );
    }
}

#[test]
fn rejects_implausible_server_address() {
    for (arguments, says) in [
        (&["mcp.example/mcp", "--client", "claude"][..], "such as https://mcp.example/mcp"),
        (&["ftp://mcp.example", "--client", "claude"], "http or https"),
        (&["https://alice:secret@mcp.example", "--client", "claude"], "password"),
        (&["https://mcp.example", "--client", "netscape"], "possible values: claude"),
        (&["https://mcp.example"], "--client"),
        (&["https://mcp.example", "--client", "claude", "--ca-bundle", "/nowhere"], "/nowhere"),
    ] {
        let ended = vmcp(&[&["doctor", "auth"], arguments].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(says), "{ended:?}");
    }
}
