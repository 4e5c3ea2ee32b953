//! State of a [`ConformingServer`](super::Good) server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{broadcast, oneshot, watch};

use super::{BoxResponse, json_answer};
use crate::fixture::Generation;

/// Change queue capacity per stream.
const CHANGES: usize = 256;

/// Rejection of an unknown session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgetting {
    /// 404, as required by MCP 2025-11-25.
    NotFound,
    /// 400 with error -32000 and without an id, as sent by deployed servers.
    BadRequest,
}

/// Listed items, each as its JSON definition.
#[derive(Debug, Clone, Default)]
pub(super) struct Offer {
    pub(super) tools: Vec<String>,
    pub(super) prompts: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) templates: Vec<String>,
}

/// Settings of a server.
#[derive(Debug, Clone)]
pub(super) struct Manners {
    pub(super) name: String,
    pub(super) generation: Generation,
    pub(super) late: Duration,
    pub(super) breaking_off: bool,
    pub(super) page: usize,
    pub(super) instructions: Option<String>,
}

/// State shared by all requests of a server.
#[derive(Debug)]
pub(super) struct State {
    pub(super) manners: Manners,
    pub(super) offer: Mutex<Offer>,
    pub(super) changes: broadcast::Sender<&'static str>,
    pub(super) counts: Mutex<HashMap<String, u64>>,
    pub(super) ended: Mutex<Vec<String>>,
    pub(super) last_call: Mutex<Bytes>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    forgetting: Mutex<Forgetting>,
    serial: AtomicU64,
}

/// One session of a stateful client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    /// True after the session has ended.
    pub(super) over: watch::Sender<bool>,
    /// Sender that completes the session's server request. Every server request has the id 1.
    pub(super) question: Mutex<Option<oneshot::Sender<Value>>>,
}

impl State {
    pub(super) fn new(manners: Manners, offer: Offer) -> Self {
        Self {
            manners,
            offer: Mutex::new(offer),
            changes: broadcast::Sender::new(CHANGES),
            counts: Mutex::default(),
            ended: Mutex::default(),
            last_call: Mutex::default(),
            sessions: Mutex::default(),
            forgetting: Mutex::new(Forgetting::NotFound),
            serial: AtomicU64::new(0),
        }
    }

    pub(super) fn count(&self, what: &str) {
        *lock(&self.counts).entry(what.to_owned()).or_default() += 1;
    }

    pub(super) fn open(&self) -> Arc<Session> {
        let number = self.serial.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-session-{number}", self.manners.name);
        let session =
            Session { id: id.clone(), over: watch::Sender::new(false), question: Mutex::default() };
        let session = Arc::new(session);
        lock(&self.sessions).insert(id, Arc::clone(&session));
        session
    }

    pub(super) fn session(&self, id: &str) -> Option<Arc<Session>> {
        lock(&self.sessions).get(id).cloned()
    }

    pub(super) fn sessions(&self) -> usize {
        lock(&self.sessions).len()
    }

    /// Ends a session at the client's request.
    pub(super) fn end(&self, id: &str) -> bool {
        let ended = lock(&self.sessions).remove(id);
        if let Some(session) = &ended {
            session.over.send_replace(true);
            lock(&self.ended).push(id.to_owned());
        }
        ended.is_some()
    }

    /// Forgets every session, as after a restart, and rejects unknown sessions in this way.
    pub(super) fn forget(&self, how: Forgetting) {
        *lock(&self.forgetting) = how;
        for (_, session) in lock(&self.sessions).drain() {
            session.over.send_replace(true);
        }
    }

    /// Returns the rejection of an unknown session.
    pub(super) fn unknown_session(&self) -> BoxResponse {
        let (status, code) = match *lock(&self.forgetting) {
            Forgetting::NotFound => (StatusCode::NOT_FOUND, -32001),
            Forgetting::BadRequest => (StatusCode::BAD_REQUEST, -32000),
        };
        let error = json!({ "code": code, "message": "no such session" });
        json_answer(status, &json!({ "jsonrpc": "2.0", "error": error, "id": null }))
    }
}

/// A panic elsewhere leaves these tables consistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
