use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::backend::Backend;
use crate::http::get;
use crate::mcp::Stateless;
use crate::program::{Folder, Running};

fn configuration(names: &[&str], backend: &Backend) -> String {
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
fn a_changed_file_is_taken_over_within_two_seconds() {
    let (folder, backend) = (Folder::new(), Backend::start(&["x"]));
    let file = folder.write("vmcp.yaml", &configuration(&["a"], &backend));
    let (server, port) = Running::serve(&file, &[]);
    assert_eq!(Stateless(port).tools(), ["a_x"]);
    let changed = SystemTime::now();
    folder.write("vmcp.yaml", &configuration(&["a", "bee"], &backend));
    server.logs("took over the changed configuration");
    assert!(changed.elapsed().unwrap() < Duration::from_secs(2));
    assert_eq!(Stateless(port).tools(), ["a_x", "bee_x"]);
    assert_eq!(outcome(port)["reloads"], 1);
}

#[test]
fn a_broken_file_is_refused_and_said_in_the_status_until_it_is_mended() {
    let (folder, backend) = (Folder::new(), Backend::start(&["x"]));
    let file = folder.write("vmcp.yaml", &configuration(&["a"], &backend));
    let (server, port) = Running::serve(&file, &[]);
    folder.write("vmcp.yaml", "name: x\nbackend: []\n");
    server.logs("the changed configuration is not used");
    // The log is written first.
    let mut status = outcome(port);
    while status["refused_reloads"] != 1 {
        status = outcome(port);
    }
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains("line 2: backend: found an unknown key"), "{error}");
    assert_eq!(Stateless(port).tools(), ["a_x"]);
    folder.write("vmcp.yaml", &configuration(&["a"], &backend));
    server.logs("took over the changed configuration");
    while outcome(port)["last_error"] != Value::Null {}
}

#[test]
fn sighup_reloads_without_waiting_for_the_next_look() {
    let (folder, backend) = (Folder::new(), Backend::start(&["x"]));
    let file = folder.write("vmcp.yaml", &configuration(&["a"], &backend));
    let (server, port) = Running::serve(&file, &[]);
    server.signal("HUP");
    server.logs("took over the changed configuration");
    while outcome(port)["reloads"] != 1 {}
}
