use std::net::TcpListener;

use serde_json::Value;

use crate::program::{Folder, Running, vmcp, vmcp_with};

const EMPTY: &str = "name: x\nincomingAuth: {type: anonymous}\n";

#[test]
fn the_version_names_the_revisions_that_are_spoken() {
    let text = vmcp(&["version"]);
    assert_eq!((text.code, &*text.err), (0, ""));
    assert!(text.out.starts_with(concat!("vmcp ", env!("CARGO_PKG_VERSION"), "\n")));
    let json: Value = serde_json::from_str(&vmcp(&["version", "-o", "json"]).out).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["mcpRevisions"][0], "2026-07-28");
    assert_eq!(json["mcpRevisions"][1], "2025-11-25");
}

#[test]
fn the_schema_is_that_of_the_file() {
    let printed = vmcp(&["schema"]);
    assert_eq!(printed.code, 0);
    let schema: Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(schema, vmcp_config::schema());
}

#[test]
fn each_shell_has_its_completion() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let printed = vmcp(&["completion", shell]);
        assert_eq!(printed.code, 0);
        assert!(printed.out.contains("max-sessions"), "{shell}");
    }
    assert_eq!(vmcp(&["completion", "csh"]).code, 2);
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_is_right() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", EMPTY);
    let serve =
        |arguments: &[&'static str]| vmcp(&[&["serve", "-c", &file][..], arguments].concat());
    for (ended, says) in [
        (vmcp(&[]), "Usage: vmcp"),
        (vmcp(&["serv"]), "serve"),
        (vmcp(&["serve"]), "--config <FILE>"),
        (vmcp(&["validate", "-c", &file, "-o", "xml"]), "possible values: text, json"),
        (serve(&["--session-ttl", "0"]), "must be more than 0"),
        (serve(&["--session-ttl", "0s"]), "must be more than 0"),
        (serve(&["--session-ttl", "-5m"]), "must be more than 0"),
        (serve(&["--session-ttl", "soon"]), "such as 500ms, 30s"),
        (serve(&["--max-sessions", "0"]), "must be a whole number of at least 1"),
        (serve(&["--allow-host", "https://tools.example.com"]), "such as tools.example.com"),
        (serve(&["--allow-origin", "app.example.com"]), "such as https://app.example.com"),
        (serve(&["--threads", "0"]), "must be a number from 1 to 1024"),
        (serve(&["--threads", "1025"]), "must be a number from 1 to 1024"),
        (serve(&["--seal-key", "/nowhere"]), "cannot read /nowhere"),
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
fn the_configuration_file_may_be_named_by_the_environment() {
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
fn a_port_in_use_is_said_with_what_to_do() {
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
fn the_limit_of_open_files_is_raised_and_one_that_is_too_low_is_said() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", EMPTY);
    let server =
        Running::limited("ulimit -Sn 256; ulimit -Hn 512", &["serve", "-c", &file, "--port", "0"]);
    let warning = server.logs("too few files");
    assert!(warning.contains("512") && warning.contains("4096"), "{warning}");
    server.logs("listening on http://");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("512"), "{line}");
}

#[test]
fn serve_ends_with_0_when_it_is_told_to_stop() {
    let folder = Folder::new();
    let (server, _) = Running::serve(&folder.write("vmcp.yaml", EMPTY), &["--drain", "1s"]);
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
}
