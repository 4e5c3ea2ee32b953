//! Notifications of changed lists to the clients of both generations.

use std::sync::Arc;

use vmcp_core::Identity;

use super::listeners::Listeners;
use crate::catalog::{ByGeneration, Kind};
use crate::session::store::SessionStore;

/// Handle that notifies clients of changed lists.
#[derive(Clone, Debug)]
pub(crate) struct ClientNotifier {
    pub(crate) sessions: Arc<SessionStore>,
    pub(crate) listeners: Arc<Listeners>,
}

impl ClientNotifier {
    /// Notifies one caller.
    pub(crate) fn notify_caller(&self, caller: &Identity, changes: &ByGeneration<Vec<Kind>>) {
        let ByGeneration { stateful, stateless } = changes;
        if !stateful.is_empty() {
            self.sessions.for_each(|session| {
                if session.caller().identity() == caller {
                    session.lists_changed(stateful);
                }
            });
        }
        self.listeners.lists_changed(stateless, Some(caller));
    }

    /// Notifies the clients of each generation.
    pub(crate) fn notify_clients(&self, changes: &ByGeneration<Vec<Kind>>) {
        let ByGeneration { stateful, stateless } = changes;
        if !stateful.is_empty() {
            self.sessions.for_each(|session| session.lists_changed(stateful));
        }
        self.listeners.lists_changed(stateless, None);
    }
}
