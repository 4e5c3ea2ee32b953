use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use vmcp_test_support::McpBackend;

use crate::http::get;
use crate::login::{Client, Provider, sections, signing_key};
use crate::mcp::Stateless;
use crate::program::{Folder, ServerProcess};

fn configuration(names: &[&str], backend: &McpBackend) -> String {
    let mut text = String::from("name: x\nincomingAuth: {type: anonymous}\nbackends:\n");
    for name in names {
        let url = backend.url();
        let backend = format!("- {{name: {name}, url: \"{url}\", transport: streamable-http}}\n");
        text.push_str(&backend);
    }
    text
}

fn outcome(port: u16) -> Value {
    get(port, "/status")["configuration"].clone()
}

#[test]
fn applies_changed_file_within_two_seconds() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let file = folder.write("vmcp.yaml", &configuration(&["a"], &backend));
    let (server, port) = ServerProcess::serve(&file, &[]);
    assert_eq!(Stateless(port).tools(), ["a_x"]);
    let changed = SystemTime::now();
    folder.write("vmcp.yaml", &configuration(&["a", "bee"], &backend));
    server.logs("configuration reloaded");
    assert!(changed.elapsed().unwrap() < Duration::from_secs(2));
    assert_eq!(Stateless(port).tools(), ["a_x", "bee_x"]);
    assert_eq!(outcome(port)["reloads"], 1);
}

#[test]
fn status_shows_reload_error_until_fixed() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let file = folder.write("vmcp.yaml", &configuration(&["a"], &backend));
    let (server, port) = ServerProcess::serve(&file, &[]);
    folder.write("vmcp.yaml", "name: x\nbackend: []\n");
    server.logs("failed to reload the configuration");
    // The log is written first.
    let mut status = outcome(port);
    while status["refused_reloads"] != 1 {
        status = outcome(port);
    }
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains("line 2: backend: found an unknown key"), "{error}");
    assert_eq!(Stateless(port).tools(), ["a_x"]);
    folder.write("vmcp.yaml", &configuration(&["a"], &backend));
    server.logs("configuration reloaded");
    while outcome(port)["last_error"] != Value::Null {}
}

#[test]
fn sighup_reloads_before_next_poll() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let file = folder.write("vmcp.yaml", &configuration(&["a"], &backend));
    let (server, port) = ServerProcess::serve(&file, &[]);
    server.signal("HUP");
    server.logs("configuration reloaded");
    while outcome(port)["reloads"] != 1 {}
}

#[test]
fn retries_reload_after_transient_failure() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let file = folder.write("vmcp.yaml", &configuration(&["a"], &backend));
    let (server, port) = ServerProcess::serve(&file, &[]);
    let log = folder.path("later/audit.jsonl");
    let audit = format!("audit: {{enabled: true, logFile: \"{log}\"}}\n");
    folder.write("vmcp.yaml", &(configuration(&["a", "bee"], &backend) + &audit));
    server.logs("failed to reload the configuration");
    assert_eq!(Stateless(port).tools(), ["a_x"]);
    // The file stays as it is.
    std::fs::create_dir(folder.path("later")).unwrap();
    server.logs("configuration reloaded");
    assert_eq!(Stateless(port).tools(), ["a_x", "bee_x"]);
    assert_eq!(outcome(port)["refused_reloads"], 1, "a retry is no further refusal");
}

/// A configuration with an authorization server whose tokens are signed with the key at a path.
fn signed_with(corp: &Provider, key: &str) -> String {
    let secrets = format!("  signingKeySecretRefs: [{{file: \"{key}\"}}]\n");
    format!("name: x\n{}", sections(&[corp], &secrets))
}

#[test]
fn rejects_other_provider_under_known_name() {
    let [corp, elsewhere] = [(); 2].map(|()| Provider::start("corp", 3600));
    let folder = Folder::new();
    let key = folder.write("key.pem", &signing_key());
    let path = folder.write("vmcp.yaml", &signed_with(&corp, &key));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let mut client = Client::logged_in(port);
    folder.write("vmcp.yaml", &signed_with(&elsewhere, &key));
    server.logs("failed to use upstream provider corp");
    let mut status = outcome(port);
    while status["refused_reloads"] != 1 {
        status = outcome(port);
    }
    let error = status["last_error"].as_str().unwrap();
    for part in ["authServer.upstreamProviders: ", &elsewhere.token_url(), "another name"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    // The last valid configuration runs on.
    assert_eq!(client.refreshes(), 200);
    folder.write("vmcp.yaml", &signed_with(&corp, &key));
    server.logs("configuration reloaded");
    assert!(elsewhere.forms().is_empty(), "{:?}", elsewhere.forms());
}

fn kid(port: u16) -> String {
    get(port, "/.well-known/jwks.json")["keys"][0]["kid"].as_str().unwrap().to_owned()
}

#[test]
fn applies_secret_changed_in_place_without_signal() {
    let (folder, corp) = (Folder::new(), Provider::start("corp", 3600));
    let key = folder.write("key.pem", &signing_key());
    let path = folder.write("vmcp.yaml", &signed_with(&corp, &key));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let first = kid(port);
    folder.write("key.pem", &signing_key());
    server.logs("configuration reloaded");
    let second = kid(port);
    assert_ne!(first, second);
    // An invalid key is rejected, and the current one stays in use.
    folder.write("key.pem", "no key");
    server.logs("authServer.signingKeySecretRefs[0].file");
    assert_eq!(kid(port), second);
    std::fs::remove_file(&key).unwrap();
    server.logs("authServer.signingKeySecretRefs[0].file");
    folder.write("key.pem", &signing_key());
    server.logs("configuration reloaded");
    assert_ne!(kid(port), second);
}

#[test]
fn applies_mounted_secret_after_link_swap() {
    let (folder, corp) = (Folder::new(), Provider::start("corp", 3600));
    let at = |name: &str| std::path::PathBuf::from(folder.path(name));
    for version in ["..1", "..2"] {
        std::fs::create_dir(at(version)).unwrap();
        folder.write(&format!("{version}/key.pem"), &signing_key());
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/key.pem", at("key.pem")).unwrap();
    let key = folder.path("key.pem");
    let path = folder.write("vmcp.yaml", &signed_with(&corp, &key));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let first = kid(port);
    symlink("..2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    server.logs("configuration reloaded");
    assert_ne!(kid(port), first);
}
