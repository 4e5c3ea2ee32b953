//! Fake stateful backend that counts its sessions and can stop, hang and reject requests.

use std::collections::HashSet;
use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use crate::backend::read;

/// Fake stateful backend; serves until the test ends.
#[derive(Debug, Clone)]
pub(crate) struct StatefulBackend {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    behavior: Mutex<Behavior>,
    changed: Condvar,
    dead: AtomicBool,
    sessions: Mutex<HashSet<String>>,
    opened: AtomicUsize,
    pings: AtomicUsize,
    connections: Mutex<Vec<TcpStream>>,
}

/// Response behavior of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// Requests get a normal response.
    Normal,
    /// Responses wait until the behavior changes.
    Hung,
    /// Requests get 401.
    Unauthorized,
}

impl StatefulBackend {
    pub(crate) fn start() -> Self {
        let state = Arc::new(State {
            behavior: Mutex::new(Behavior::Normal),
            changed: Condvar::new(),
            dead: AtomicBool::new(false),
            sessions: Mutex::default(),
            opened: AtomicUsize::new(0),
            pings: AtomicUsize::new(0),
            connections: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let keeper = Self { port: listener.local_addr().unwrap().port(), state };
        keeper.serve(listener);
        keeper
    }

    fn serve(&self, listener: TcpListener) {
        let state = Arc::clone(&self.state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if state.dead.load(Ordering::Acquire) {
                    return;
                }
                state.connections.lock().unwrap().push(stream.try_clone().unwrap());
                let state = Arc::clone(&state);
                std::thread::spawn(move || state.connection(stream));
            }
        });
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    pub(crate) fn set_behavior(&self, behavior: Behavior) {
        *self.state.behavior.lock().unwrap() = behavior;
        self.state.changed.notify_all();
    }

    /// Closes the listener and all connections.
    pub(crate) fn die(&self) {
        self.state.dead.store(true, Ordering::Release);
        // A connection wakes the accept loop, which then ends.
        _ = TcpStream::connect(("127.0.0.1", self.port));
        for stream in self.state.connections.lock().unwrap().drain(..) {
            _ = stream.shutdown(Shutdown::Both);
        }
        self.state.sessions.lock().unwrap().clear();
    }

    /// Listens again where it listened before.
    pub(crate) fn rise(&self) {
        self.state.dead.store(false, Ordering::Release);
        self.serve(TcpListener::bind(("127.0.0.1", self.port)).unwrap());
    }

    /// Returns the number of open sessions, and of all sessions so far.
    pub(crate) fn sessions(&self) -> (usize, usize) {
        let open = self.state.sessions.lock().unwrap().len();
        (open, self.state.opened.load(Ordering::Relaxed))
    }

    pub(crate) fn pings(&self) -> usize {
        self.state.pings.load(Ordering::Relaxed)
    }

    /// Returns the number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.lock().unwrap().len()
    }
}

impl State {
    fn connection(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some((head, message)) = read(&mut reader) {
            let mut behavior = self.behavior.lock().unwrap();
            while *behavior == Behavior::Hung {
                behavior = self.changed.wait(behavior).unwrap();
            }
            let refusing = *behavior == Behavior::Unauthorized;
            drop(behavior);
            let (status, session, answer) =
                if refusing { ("401 No", None, None) } else { self.answer(&head, &message) };
            let body = answer.map(|answer| answer.to_string()).unwrap_or_default();
            let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{session}content-length: {}\r\n\r\n",
                body.len()
            );
            if stream.write_all((head + &body).as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, head: &str, message: &Value) -> (&'static str, Option<String>, Option<Value>) {
        let session =
            head.split_once("mcp-session-id: ").and_then(|(_, rest)| rest.split_once('\r'));
        let mut sessions = self.sessions.lock().unwrap();
        let known = session.is_some_and(|(id, _)| sessions.contains(id));
        if head.starts_with("delete ") {
            session.map(|(id, _)| sessions.remove(id));
            return ("200 OK", None, None);
        }
        if head.starts_with("get ") {
            return ("405 No", None, None);
        }
        let said =
            |result: Value| Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        match message["method"].as_str() {
            Some("initialize") => {
                let id = format!("s{}", self.opened.fetch_add(1, Ordering::Relaxed));
                sessions.insert(id.clone());
                let welcome = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                     "serverInfo": {"name": "keeper", "version": "1"}});
                ("200 OK", Some(id), said(welcome))
            }
            Some("ping" | "tools/list") if !known => ("404 Gone", None, None),
            Some("ping") => {
                self.pings.fetch_add(1, Ordering::Relaxed);
                ("200 OK", None, said(json!({})))
            }
            Some("tools/list") => {
                let tool = json!({"name": "x", "inputSchema": {"type": "object"}});
                ("200 OK", None, said(json!({"tools": [tool]})))
            }
            Some(method) if method.starts_with("notifications/") => ("202 Yes", None, None),
            _ => ("400 No", None, None),
        }
    }
}
