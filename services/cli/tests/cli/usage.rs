use std::net::TcpListener;

use serde_json::Value;
use vmcp_test_support::McpBackend;

use crate::program::{Folder, ServerProcess, vmcp, vmcp_in, vmcp_with};

const EMPTY: &str = "name: x\nincomingAuth: {type: anonymous}\n";

#[test]
fn version_names_supported_protocol_revisions() {
    let text = vmcp(&["version"]);
    assert_eq!((text.code, &*text.err), (0, ""));
    assert!(text.out.starts_with(concat!("vmcp ", env!("CARGO_PKG_VERSION"), "\n")));
    let json: Value = serde_json::from_str(&vmcp(&["version", "-o", "json"]).out).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["mcpRevisions"][0], "2026-07-28");
    assert_eq!(json["mcpRevisions"][1], "2025-11-25");
}

#[test]
fn prints_schema_of_configuration_file() {
    let printed = vmcp(&["schema"]);
    assert_eq!(printed.code, 0);
    let schema: Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(schema, vmcp_config::schema());
}

#[test]
fn prints_completion_for_each_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let printed = vmcp(&["completion", shell]);
        assert_eq!(printed.code, 0);
        assert!(printed.out.contains("max-sessions"), "{shell}");
    }
    assert_eq!(vmcp(&["completion", "csh"]).code, 2);
}

#[test]
fn wrong_usage_exits_with_2_and_hint() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", EMPTY);
    let serve =
        |arguments: &[&'static str]| vmcp(&[&["serve", "-c", &file][..], arguments].concat());
    for (ended, says) in [
        (vmcp(&[]), "Usage: vmcp"),
        (vmcp(&["serv"]), "serve"),
        (vmcp(&["validate", "-c", &file, "-o", "xml"]), "possible values: text, json"),
        (serve(&["--session-ttl", "0"]), "must be more than 0"),
        (serve(&["--session-ttl", "0s"]), "must be more than 0"),
        (serve(&["--session-ttl", "-5m"]), "must be more than 0"),
        (serve(&["--session-ttl", "soon"]), "such as 500ms, 30s"),
        (serve(&["--max-sessions", "0"]), "must be a whole number of at least 1"),
        (serve(&["--max-buffered-bytes", "0"]), "must be a whole number of at least 1"),
        (serve(&["--allow-host", "https://tools.example.com"]), "such as tools.example.com"),
        (serve(&["--allow-origin", "app.example.com"]), "such as https://app.example.com"),
        (serve(&["--threads", "0"]), "must be a number from 1 to 1024"),
        (serve(&["--threads", "1025"]), "must be a number from 1 to 1024"),
        (serve(&["--seal-key", "/nowhere"]), "cannot read /nowhere"),
        (serve(&["--peer-listen", "10.0.0.1"]), "--peer-listen needs --seal-key"),
        (serve(&["--peer-listen", "host"]), "must be an IP address"),
        (serve(&["--peer-network", "10.0.0.0/8"]), "--peer-listen"),
        (serve(&["--peer-network", "10.0.0.1/8"]), "without bits after the prefix"),
        (serve(&["--seal-key", "Cargo.toml"]), "64 hexadecimal digits"),
        (serve(&["--enable-audit"]), "--enable-audit"),
        (vmcp(&["init", "--force"]), "--output"),
        (vmcp(&["init", "--name", ""]), "--name must not be empty"),
    ] {
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(says) && ended.out.is_empty(), "{says}: {ended:?}");
    }
    assert_eq!(vmcp(&["--help"]).code, 0);
}

#[test]
fn reads_configuration_path_from_environment() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", EMPTY);
    assert_eq!(vmcp_with(&["validate"], &[("VMCP_CONFIG", &file)]).code, 0);
    let missing = folder.path("missing.yaml");
    let ended = vmcp_with(&["validate"], &[("VMCP_CONFIG", &missing)]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.starts_with(&format!("cannot read {missing}: ")), "{ended:?}");
    assert!(ended.err.ends_with(&format!("vmcp init --output {missing}\n")), "{ended:?}");
}

#[test]
fn reports_occupied_port_with_remedy() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", EMPTY);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for arguments in [&["demo", "--port", &*port][..], &["serve", "-c", &file, "--port", &port]] {
        let ended = vmcp(arguments);
        assert_eq!(ended.code, 1, "{ended:?}");
        let says = format!("port {port} is in use: choose another with --port");
        assert!(ended.err.contains(&says), "{ended:?}");
    }
}

#[test]
fn raises_open_file_limit_or_warns() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", EMPTY);
    let server = ServerProcess::limited(
        "ulimit -Sn 256; ulimit -Hn 512",
        &["serve", "-c", &file, "--port", "0"],
    );
    let warning = server.logs("too few files");
    assert!(warning.contains("512") && warning.contains("4096"), "{warning}");
    server.logs("listening on http://");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("512"), "{line}");
}

#[test]
fn serve_exits_with_0_on_stop_signal() {
    let folder = Folder::new();
    let (server, _) = ServerProcess::serve(&folder.write("vmcp.yaml", EMPTY), &["--drain", "1s"]);
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
}

/// The rule of `healthy` in `/status`.
#[test]
fn commands_fail_when_clients_get_no_lists() {
    let (folder, there) = (Folder::new(), McpBackend::stateless(&["x"]));
    // Nothing listens on port 1.
    let gone = "- {name: gone, url: \"http://127.0.0.1:1/mcp\", transport: streamable-http}\n";
    let there = format!("- {{name: a, url: \"{}\", transport: streamable-http}}\n", there.url());
    for (mode, backends, code) in [
        ("fail", format!("{there}{gone}"), 1),
        ("best_effort", format!("{there}{gone}"), 0),
        ("best_effort", gone.to_owned(), 1),
    ] {
        let failing = format!("operational: {{failureHandling: {{partialFailureMode: {mode}}}}}\n");
        let text =
            format!("name: x\nincomingAuth: {{type: anonymous}}\n{failing}backends:\n{backends}");
        let file = folder.write("vmcp.yaml", &text);
        for command in [&["validate", "--connect"][..], &["inspect"], &["list"]] {
            let ended = vmcp(&[command, &["-c", &file]].concat());
            assert_eq!(ended.code, code, "{mode} {command:?}: {ended:?}");
        }
    }
}

#[test]
fn lists_and_calls_tools_by_configuration_or_url() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x", "y"]));
    let text = format!(
        "{EMPTY}backends: [{{name: a, url: \"{}\", transport: streamable-http}}]\n",
        backend.url()
    );
    let file = folder.write("vmcp.yaml", &text);
    let listed = vmcp(&["list", "-c", &file]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.out.starts_with("TOOLS"), "{listed:?}");
    assert!(listed.out.contains("\na_x") && listed.out.contains("\na_y"), "{listed:?}");
    let called = vmcp(&["call", "a_x", "--arguments", "{\"n\": 1}", "-c", &file]);
    assert_eq!((called.code, &*called.out), (0, "done\n"), "{called:?}");
    let url = backend.url();
    let header = "Authorization: Bearer ${CANARY}";
    let direct = ["list", "--url", &url, "--header", header, "-o", "json"];
    let listed = vmcp_with(&direct, &[("CANARY", "canary")]);
    let json: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(json["tools"][0]["name"], "x");
    assert_eq!(backend.requests().last().unwrap().header("authorization"), "Bearer canary");
    let unknown = vmcp(&["call", "z", "--url", &url]);
    assert_eq!((unknown.code, &*unknown.out), (1, ""));
    assert!(unknown.err.contains("unknown tool: z (-32602)"), "{unknown:?}");
    let wrong = vmcp(&["call", "x", "--url", &url, "--arguments", "[]"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("must be a JSON object"), "{wrong:?}");
    let gone = vmcp(&["list", "--url", "http://127.0.0.1:1/mcp"]);
    assert_eq!(gone.code, 1);
    assert!(gone.err.contains("backend server offers nothing"), "{gone:?}");
}

#[test]
fn finds_vmcp_yaml_in_the_current_folder() {
    let folder = Folder::new();
    folder.write("vmcp.yaml", EMPTY);
    let valid = vmcp_in(&folder.path(""), &["validate"]);
    assert_eq!(valid.code, 0, "{valid:?}");
    assert!(valid.out.starts_with("vmcp.yaml is valid"), "{valid:?}");
    let missing = vmcp_in(&std::env::temp_dir().to_string_lossy(), &["validate"]);
    assert!(missing.err.contains("vmcp init --output vmcp.yaml"), "{missing:?}");
}

#[test]
fn suggests_init_for_client_files() {
    let folder = Folder::new();
    for text in [
        format!("{EMPTY}mcpServers: {{}}\n"),
        format!(
            "{EMPTY}backends: [{{name: a, command: npx, url: \"http://a\", transport: sse}}]\n"
        ),
    ] {
        let refused = vmcp(&["validate", "-c", &folder.write("x.yaml", &text)]);
        assert_eq!(refused.code, 1);
        assert!(refused.err.contains("vmcp init --from FILE"), "{refused:?}");
    }
}

#[test]
fn applies_validate_timeout_to_backends() {
    let folder = Folder::new();
    // It accepts connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let text =
        format!("{EMPTY}backends: [{{name: a, url: \"{url}\", transport: streamable-http}}]\n");
    let file = folder.write("vmcp.yaml", &text);
    let asked = vmcp(&["validate", "-c", &file, "--connect", "--timeout", "100ms"]);
    assert!(asked.out.contains("no answer within 100ms"), "{asked:?}");
    assert_eq!(vmcp(&["validate", "-c", &file, "--timeout", "1s"]).code, 2);
}

#[cfg(not(feature = "demo"))]
#[test]
fn build_without_demo_names_remedy() {
    let refused = vmcp(&["demo", "--port", "0"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("--features demo"), "{refused:?}");
}
