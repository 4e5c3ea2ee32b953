//! Diagnosis of backends with the wrong transport, the wrong path or missing credentials. Each error names the remedy.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;

use crate::http::get;
use crate::program::{CommandOutput, Folder, ServerProcess, vmcp, vmcp_with};

/// A server that answers each request, by its first line and its body, with a status line, a media type and a body.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

type Answer = (&'static str, &'static str, String);

impl Server {
    fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, answer) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(answer));
        let seen = Arc::clone(&asked);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let (mut first, mut length) = (String::new(), 0);
                    reader.read_line(&mut first).unwrap();
                    loop {
                        let mut line = String::new();
                        reader.read_line(&mut line).unwrap();
                        if let Some(value) =
                            line.to_ascii_lowercase().strip_prefix("content-length:")
                        {
                            length = value.trim().parse().unwrap();
                        }
                        if line.trim().is_empty() {
                            break;
                        }
                    }
                    let mut message = vec![0; length];
                    reader.read_exact(&mut message).unwrap();
                    seen.lock().unwrap().push(first.trim().to_owned());
                    first += &String::from_utf8(message).unwrap();
                    let (status, media, body) = answer(&first);
                    let head = format!(
                        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nConnection: close\r\n"
                    );
                    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
                });
            }
        });
        Self { port, asked }
    }

    /// Returns the method and path of each request.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn file(url: &str, transport: &str, more: &str) -> String {
    format!(
        "name: x\nincomingAuth: {{type: anonymous}}\nbackends: [{{name: be, url: \"{url}\", transport: {transport}}}]\n{more}"
    )
}

fn connect(text: &str, variables: &[(&str, &str)]) -> (CommandOutput, Value) {
    let folder = Folder::new();
    let path = folder.write("vmcp.yaml", text);
    let ended = vmcp_with(&["validate", "--connect", "-o", "json", "-c", &path], variables);
    let json: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
    let backend = json["backends"][0].clone();
    (ended, backend)
}

fn message(text: &str) -> String {
    connect(text, &[]).1["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn wrong_transports_and_paths_are_named() {
    let html = || ("200 OK", "text/html; charset=utf-8", "<html></html>".to_owned());
    let missing = || ("404 Not Found", "text/html", "Cannot POST".to_owned());
    // HTTP+SSE behind a URL that is said to be streamable HTTP.
    let sse = Server::start(move |line| match line {
        line if line.starts_with("GET") => (
            "200 OK",
            "text/event-stream",
            "event: endpoint\ndata: /messages?sessionId=1\n\n".to_owned(),
        ),
        _ => ("405 Method Not Allowed", "text/plain", "no".to_owned()),
    });
    let told = message(&file(&format!("http://127.0.0.1:{}/sse", sse.port), "streamable-http", ""));
    assert!(told.contains("the server uses HTTP+SSE: set transport: sse"), "{told}");
    // And the other way round.
    let streamable = McpBackend::stateful(&["x"]);
    for backend in [streamable, McpBackend::stateless(&["x"])] {
        let told = message(&file(&backend.url(), "sse", ""));
        let remedy = "the server uses streamable HTTP: set transport: streamable-http";
        assert!(told.contains(remedy), "{told}");
    }
    // A server that refuses all but a handshake without JSON-RPC.
    for status in ["400 Bad Request", "404 Not Found", "405 Method Not Allowed"] {
        let strict = Server::start(move |request| match request {
            hello if hello.contains("\"initialize\"") => {
                let message: Value =
                    serde_json::from_str(hello.split_once("\r\n").unwrap().1).unwrap();
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                    "serverInfo": {"name": "s", "version": "1"}});
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                ("200 OK", "application/json", answer.to_string())
            }
            _ => (status, "text/plain", "a session is needed".to_owned()),
        });
        let told = message(&file(&format!("http://127.0.0.1:{}/mcp", strict.port), "sse", ""));
        let remedy = "the server uses streamable HTTP: set transport: streamable-http";
        assert!(told.contains(remedy), "{status}: {told}");
    }
    let pages = Server::start(move |line| if line.contains("/other") { missing() } else { html() });
    let at = |path: &str| format!("http://127.0.0.1:{}{path}", pages.port);
    for (path, transport, says) in [
        ("/", "streamable-http", "returns an HTML page; the MCP endpoint is probably /mcp"),
        ("/mcp", "streamable-http", "returns an HTML page; check host, port and path"),
        ("/", "sse", "returns an HTML page; the MCP endpoint is probably /sse"),
        ("/other", "streamable-http", "returned HTTP 404 Not Found"),
        ("/other", "streamable-http", "the MCP endpoint is probably /mcp"),
    ] {
        let told = message(&file(&at(path), transport, ""));
        assert!(told.contains(says), "{path} {transport}: {told}");
    }
}

#[test]
fn remedies_are_in_status_inspect_and_log() {
    let pages = Server::start(|_| ("404 Not Found", "text/plain", String::new()));
    let folder = Folder::new();
    let text = file(&format!("http://127.0.0.1:{}/", pages.port), "streamable-http", "");
    let path = folder.write("vmcp.yaml", &text);
    let says = "the MCP endpoint is probably /mcp";
    let ended = vmcp(&["inspect", "-c", &path]);
    assert!(ended.out.contains(says), "{ended:?}");
    let ended = vmcp(&["list", "-c", &path]);
    assert!(ended.err.contains(says) || ended.code == 1, "{ended:?}");
    let server = ServerProcess::start(&["serve", "--port", "0", "-c", &path]);
    let line = server.logs("failed to observe the backend");
    assert!(line.contains(says), "{line}");
    let (server, port) = ServerProcess::serve(&path, &[]);
    server.logs("\"started\"");
    let status = get(port, "/status");
    assert!(status["backends"][0]["message"].as_str().unwrap().contains(says), "{status}");
}

#[test]
fn reports_issuer_and_section_for_rejected_credentials() {
    let issuer = "https://idp.test/tenant";
    let unnamed = Server::start(move |line| {
        match line {
        line if line.contains("/.well-known/oauth-protected-resource/mcp") => (
            "200 OK",
            "application/json",
            json!({"resource": "x", "authorization_servers": [issuer], "scopes_supported": ["mcp"]})
                .to_string(),
        ),
        _ => ("401 Unauthorized", "text/plain", String::new()),
    }
    });
    let url = format!("http://127.0.0.1:{}/mcp?key=canary", unnamed.port);
    let (ended, backend) = connect(&file(&url, "streamable-http", ""), &[]);
    assert_eq!(backend["status"], "unauthenticated", "{ended:?}");
    let told = backend["message"].as_str().unwrap();
    for says in [
        "requires tokens of https://idp.test/tenant with scopes mcp",
        "authServer.upstreamProviders",
        "outgoingAuth.backends.be",
    ] {
        assert!(told.contains(says), "{told}");
    }
    assert!(!ended.out.contains("canary"), "{ended:?}");
    // A provider of callers is one.
    let oidc = file(&url, "streamable-http", "").replace(
        "{type: anonymous}",
        &format!("{{type: oidc, oidc: {{issuer: \"{issuer}\", clientId: c, audience: \"https://x.test/mcp\", clientSecretEnv: S}}}}"),
    );
    let told = connect(&oidc, &[("S", "s3cret")]).1["message"].as_str().unwrap().to_owned();
    assert!(told.contains("outgoingAuth.backends.be to type token_exchange"), "{told}");
    // The metadata of another origin is not read on a private address.
    let private = Server::start(|_| ("200 OK", "application/json", "{}".to_owned()));
    let port = private.port;
    let naming = Server::start(move |_| {
        let challenge = format!(
            "text/plain\r\nWWW-Authenticate: Bearer resource_metadata=\"http://127.0.0.1:{port}/x\""
        );
        ("401 Unauthorized", Box::leak(challenge.into_boxed_str()), String::new())
    });
    let told = message(&file(&format!("http://127.0.0.1:{}/mcp", naming.port), "sse", ""));
    assert!(
        told.contains(
            "requires credentials and does not name their issuer: set outgoingAuth.backends.be"
        ),
        "{told}"
    );
    assert_eq!(private.asked(), [""; 0]);
}

#[test]
fn forbidden_backends_are_unauthenticated_without_checks() {
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let refusing = Server::start(move |_| (status, "text/plain", String::new()));
        for transport in ["streamable-http", "sse"] {
            let text = file(&format!("http://127.0.0.1:{}/mcp", refusing.port), transport, "");
            let (ended, backend) = connect(&text, &[]);
            assert_eq!(backend["status"], "unauthenticated", "{ended:?}");
        }
    }
}

#[test]
fn variables_in_hosts_stay_out_of_messages() {
    let text = "name: x\nincomingAuth: {type: anonymous}\nvariables: [K]\nbackends: [{name: be, url: \
                \"http://${K}/mcp\", transport: streamable-http}]\n";
    let folder = Folder::new();
    let path = folder.write("vmcp.yaml", text);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let pages = Server::start(|_| {
        ("308 Permanent Redirect\r\nLocation: https://localhost/mcp", "text/plain", String::new())
    });
    for value in
        ["canary-host.invalid", &format!("localhost:{free}"), &format!("localhost:{}", pages.port)]
    {
        let host = value.split(':').next().unwrap();
        let variables = [("K", value)];
        for command in [&["validate", "--connect"][..], &["inspect"], &["list"], &["call", "be_x"]]
        {
            let ended = vmcp_with(&[command, &["-c", &path]].concat(), &variables);
            assert!(!format!("{ended:?}").contains(host), "{command:?}: {ended:?}");
        }
        let (server, port) =
            ServerProcess::serve_with(&path, &["--allow-host", "x.test"], &variables);
        server.logs("\"started\"");
        let shown = format!("{} {}", get(port, "/status"), get(port, "/api/backends/health"));
        let (_, log) = server.stop();
        assert!(shown.contains("http://${K}/mcp") && !shown.contains(host), "{shown}");
        assert!(!log.contains(host), "{log}");
    }
}
