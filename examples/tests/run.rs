//! Runs each example and performs the session that its module comment shows.
//!
//! The commands are parsed from the comment: `cargo run … --example NAME -- ARGUMENTS`, then `curl` with `-i`, `-H` and
//! `-d`. The lines after a command are the expected output; `…` matches anything, and `$name` captures a value for later
//! commands. After `-i` come the status line and some headers. Output of the example itself may appear between the other
//! commands; lines such as `name=value` before it listens capture `$name`. An example without `curl` commands has to exit
//! by itself.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{ChildStdout, Command};
use tokio::time::timeout;
use vmcp_tests::counterparts::Process;
use vmcp_tests::fixture::{self, Generation};

/// Addresses in the comments of the example and of the server behind it.
const EXAMPLE: &str = "127.0.0.1:8080";
const BEHIND: &str = "127.0.0.1:8001";

/// Deadline of each wait; exceeding it fails the test.
const PATIENCE: Duration = Duration::from_secs(20);

/// A command in the comment of an example, and its expected output.
struct Step {
    words: Vec<String>,
    printed: Vec<String>,
}

#[tokio::test]
async fn axum_server_example_runs() {
    run("server_in_axum").await;
}

#[tokio::test]
async fn layers_in_a_foreign_proxy_match_output() {
    run("layers_in_a_foreign_proxy").await;
}

#[tokio::test]
async fn rmcp_behind_layers_example_runs() {
    run("rmcp_behind_our_layers").await;
}

#[tokio::test]
async fn default_plus_one_matches_output() {
    run("default_plus_one").await;
}

#[tokio::test]
async fn axum_behind_authn_authz_audit_matches_output() {
    run("axum_behind_authn_authz_audit").await;
}

#[tokio::test]
async fn token_exchange_in_a_proxy_matches_output() {
    run("token_exchange_in_a_proxy").await;
}

#[tokio::test]
async fn custom_policy_and_exchange_match_output() {
    run("policy_and_exchange_of_your_own").await;
}

#[tokio::test]
async fn aws_signing_client_example_runs() {
    run("aws_signing_client").await;
}

#[tokio::test]
async fn embedded_authorization_server_example_runs() {
    run("embedded_auth_server").await;
}

#[test]
fn every_example_is_run_and_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for entry in folder.join("examples").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(readme.contains(&format!("(examples/{name}.rs)")), "README.md lacks {name}");
        assert!(include_str!("run.rs").contains(&format!("run(\"{name}\")")), "{name} is not run");
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 150, "{name} has {lines} lines: an example is read at one go");
    }
}

async fn run(name: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{name}.rs"));
    let steps = steps(&std::fs::read_to_string(source).unwrap());
    let ([start], curls) = steps.split_at(1) else { panic!("{name} shows nothing") };
    assert!(start.printed.len() + curls.len() >= 2, "{name} shows too little");

    let behind = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind_address = behind.local_addr().unwrap().to_string();
    let fixture = tokio::spawn(fixture::serve(behind, Generation::Both));
    assert_eq!(start.words[..6], ["cargo", "run", "-p", "vmcp-examples", "--example", name]);
    let arguments = start.words.iter().skip_while(|word| *word != "--").skip(1);
    let mut command = Command::new(program(name));
    command.args(arguments.map(|word| match word.as_str() {
        EXAMPLE => "127.0.0.1:0".to_owned(),
        other => other.replace(BEHIND, &behind_address),
    }));
    let mut process = Process::start(name, command, true).unwrap();
    let (mut out, _input) = process.lines().unwrap();
    let mut said = Vec::new();

    if curls.is_empty() {
        while let Some(line) = next_line(&mut out).await {
            said.push(line);
        }
        let end = timeout(PATIENCE, process.end()).await.unwrap().unwrap();
        assert!(end.success(), "{end}: {}", process.log());
    } else {
        let mut names = HashMap::new();
        let address = loop {
            let line = next_line(&mut out).await.unwrap_or_else(|| panic!("{}", process.log()));
            let address = line.strip_prefix("listening on ").map(str::to_owned);
            if let Some((name, value)) = line.split_once('=') {
                names.insert(format!("${name}"), value.to_owned());
            }
            said.push(line.replace(address.as_deref().unwrap_or(EXAMPLE), EXAMPLE));
            if let Some(address) = address {
                break address;
            }
        };
        for step in curls {
            let shown = timeout(PATIENCE, curl(&step.words, &address, &names)).await.unwrap();
            check(step, &shown.replace(&address, EXAMPLE), &mut names);
        }
        while said.len() < start.printed.len() {
            said.push(next_line(&mut out).await.unwrap());
        }
        process.kill().await.unwrap();
    }
    fixture.abort();
    if !start.printed.is_empty() {
        assert_is(&said.join("\n"), &start.printed.join("\n"), name, &mut HashMap::new());
    }
}

async fn next_line(out: &mut Lines<BufReader<ChildStdout>>) -> Option<String> {
    timeout(PATIENCE, out.next_line()).await.unwrap().unwrap()
}

/// Returns the path of the example's program, which `cargo test` builds before this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "not built: run `cargo test -p vmcp-examples` as a whole");
    program
}

/// Parses the steps in the first code block of a file's module comment.
fn steps(source: &str) -> Vec<Step> {
    let head = source.lines().map_while(|line| line.strip_prefix("//!"));
    let mut lines = head.skip_while(|line| line.trim() != "```text").skip(1).map(str::trim);
    let mut steps = Vec::new();
    while let Some(line) = lines.next().filter(|line| *line != "```") {
        let Some(command) = line.strip_prefix("$ ") else { continue };
        let mut command = command.to_owned();
        while command.ends_with('\\') || command.matches('\'').count() % 2 == 1 {
            let continued = command.strip_suffix('\\').unwrap_or(&command).to_owned();
            command = format!("{continued} {}", lines.next().unwrap());
        }
        let printed = lines.by_ref().take_while(|line| !line.is_empty() && *line != "```");
        steps.push(Step { words: words(&command), printed: printed.map(str::to_owned).collect() });
    }
    steps
}

/// Splits a command into words as a shell would, with quotes around whole words only. Variables are not expanded.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut rest) = (Vec::new(), command.trim_start());
    while let Some(first) = rest.chars().next() {
        let (quoted, end) = match first {
            '\'' | '"' => (&rest[1..], first),
            _ => (rest, ' '),
        };
        let (word, after) = quoted.split_once(end).unwrap_or((quoted, ""));
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

/// Performs a `curl` command and returns its output, with the head for `-i`.
async fn curl(words: &[String], address: &str, names: &HashMap<String, String>) -> String {
    let put = |text: &str| {
        let text =
            names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
        text.replace(EXAMPLE, address)
    };
    let mut words = words.iter().map(String::as_str);
    assert_eq!(words.next(), Some("curl"));
    let mut request = Request::new(Full::<Bytes>::default());
    while let Some(word) = words.next() {
        match word {
            "-i" => {}
            "-H" => {
                let (name, value) = words.next().unwrap().split_once(": ").unwrap();
                let name: header::HeaderName = name.parse().unwrap();
                request.headers_mut().insert(name, put(value).parse().unwrap());
            }
            "-d" => {
                *request.method_mut() = Method::POST;
                *request.body_mut() = Full::from(put(words.next().unwrap()));
                let form = header::HeaderValue::from_static("application/x-www-form-urlencoded");
                request.headers_mut().entry(header::CONTENT_TYPE).or_insert(form);
            }
            url => *request.uri_mut() = put(url).parse().unwrap(),
        }
    }
    let uri = request.uri().clone();
    let host = uri.authority().unwrap().as_str().parse().unwrap();
    let headers = request.headers_mut();
    headers.entry(header::HOST).or_insert(host);
    headers.entry(header::ACCEPT).or_insert(header::HeaderValue::from_static("*/*"));
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = Uri::try_from(path).unwrap();
    let stream = TcpStream::connect(uri.authority().unwrap().as_str()).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    driver.abort();
    let mut shown = vec![format!("{:?} {}", parts.version, parts.status)];
    let pairs = parts.headers.iter();
    shown.extend(pairs.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())));
    format!("{}\n\n{}", shown.join("\n"), String::from_utf8_lossy(&body))
}

fn check(step: &Step, shown: &str, names: &mut HashMap<String, String>) {
    let Step { words, printed } = step;
    let (head, body) = shown.split_once("\n\n").unwrap();
    let place = format!("{words:?} printed\n{shown}");
    assert!(!printed.is_empty(), "the comment does not say what is printed: {words:?}");
    if words.iter().any(|word| word == "-i") {
        for line in printed {
            if line.contains(['…', '$']) {
                // The text after the head is body.
                assert_is(shown, &format!("…{line}…"), &place, names);
            } else {
                assert!(head.lines().any(|have| have == line), "no {line:?}: {place}");
            }
        }
        return;
    }
    assert_is(body.trim(), &printed.join("\n"), &place, names);
}

/// Asserts that the output matches: `…` matches anything, and `$name` matches its captured value or captures text without
/// quotes and spaces up to the next literal.
fn assert_is(shown: &str, wanted: &str, place: &str, names: &mut HashMap<String, String>) {
    let mut rest = shown;
    for piece in wanted.split('…').map(str::trim).filter(|piece| !piece.is_empty()) {
        let mut parts = piece.split('$');
        let first = parts.next().unwrap_or_default();
        let at = rest.find(first).unwrap_or_else(|| panic!("no {first:?} in {rest:?}: {place}"));
        rest = &rest[at + first.len()..];
        for part in parts {
            let end = part.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(part.len());
            let (name, after) = part.split_at(end);
            let end = if after.is_empty() { Some(rest.len()) } else { rest.find(after) };
            let end = end.unwrap_or_else(|| panic!("no {after:?} after ${name}: {place}"));
            let value = &rest[..end];
            assert!(
                !value.is_empty() && !value.contains(['"', ' ']),
                "${name} is {value:?}: {place}"
            );
            names.insert(format!("${name}"), value.to_owned());
            rest = &rest[end + after.len()..];
        }
    }
    let whole = !wanted.contains(['…', '$']);
    assert!(!whole || shown == wanted, "not all of it: {shown:?}: {place}");
}
