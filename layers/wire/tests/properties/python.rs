//! The scanner against Python's reader, which many MCP servers are written with.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use vmcp_wire::{Envelope, Key, scan};

use crate::text;

/// Reads one hexadecimal message per line; writes the method and `params.name` as JSON.
const READER: &str = "
import json, sys
for line in sys.stdin:
    message = json.loads(bytes.fromhex(line))
    name = message.get('params', {}).get('name')
    print(json.dumps([message['method'], name if isinstance(name, str) else None]))
";

const MESSAGES: usize = 500;

#[test]
fn names_the_same_tool_as_python() {
    let python = Command::new("python3")
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        println!("skipped: python3 does not start");
        return;
    };
    let (mut input, mut expected) = (String::new(), Vec::new());
    let mut runner = TestRunner::deterministic();
    let messages = text::message();
    let mut tries = 0;
    while expected.len() < MESSAGES && tries < MESSAGES * 50 {
        tries += 1;
        let message = messages.new_tree(&mut runner).unwrap().current();
        let bytes = message.as_bytes();
        let Ok(
            Envelope::Request { method, params, .. } | Envelope::Notification { method, params },
        ) = scan(bytes)
        else {
            continue;
        };
        let name = params.text(bytes, Key::Name).map(|name| name.read(bytes).into_owned());
        expected.push((method.read(bytes).into_owned(), name));
        for byte in bytes {
            write!(input, "{byte:02x}").unwrap();
        }
        input.push('\n');
    }
    assert!(
        expected.len() > MESSAGES / 2,
        "too few generated messages are valid: {}",
        expected.len()
    );
    let mut stdin = python.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = python.wait_with_output().unwrap();
    writer.join().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let theirs: Vec<(String, Option<String>)> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(theirs, expected);
}
