//! HTTP/1.1 by hand, so that nothing between the test and the wire is ours.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Time limit for reads in tests.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// An answer whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<TcpStream>,
}

/// Sends a request and reads the head of the answer.
pub(crate) fn request(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
    write!(head, "Connection: close\r\nContent-Length: {}\r\n", body.len()).unwrap();
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    let mut body = BufReader::new(stream);
    let mut line = String::new();
    body.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).expect("a status line").parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        body.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => return Answer { status, headers, body },
        }
    }
}

/// The JSON document at a path.
pub(crate) fn get(port: u16, path: &str) -> Value {
    let answer = request(port, "GET", path, &[], "");
    assert_eq!(answer.status, 200, "{path}");
    answer.message()
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The next message of a stream. The server sends each event as one chunk.
    pub(crate) fn event(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.body.read_line(&mut line).unwrap(), 0, "the stream has ended");
            match line.strip_prefix("data: ").map(str::trim) {
                None | Some("") => {}
                Some(data) => return serde_json::from_str(data).unwrap(),
            }
        }
    }

    /// The whole body.
    pub(crate) fn read(mut self, text: &mut String) {
        self.body.read_to_string(text).unwrap();
    }

    /// The JSON-RPC answer: the body, or of a stream the message that has an outcome.
    pub(crate) fn message(mut self) -> Value {
        if self.header("content-type") == Some("text/event-stream") {
            loop {
                let event = self.event();
                if event.get("result").is_some() || event.get("error").is_some() {
                    return event;
                }
            }
        }
        let mut text = String::new();
        self.body.read_to_string(&mut text).unwrap();
        if self.header("transfer-encoding") == Some("chunked") {
            text = joined(&text);
        }
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

fn joined(chunks: &str) -> String {
    let mut rest = chunks;
    let mut out = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        out += &after[..size];
        rest = &after[size + 2..];
    }
    out
}
