//! Authorization of notifications on long-lived streams. It is evaluated per message because policies and permissions may
//! change while a stream is open.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use vmcp_core::{
    CallerPermissions, Decision, Generation, Identity, Item, ItemBackend, ItemKind, ToolAnnotations,
};
use vmcp_wire::{Envelope, Key, scan};

use crate::backend::BackendHandle;
use crate::catalog::{ByGeneration, Kind};
use crate::gateway_state::GatewayState;

/// Current permissions of callers, for applications whose policies can change while streams are open.
///
/// Wraps a closure from an identity to its permissions. If it returns `None` because they are not available immediately, the
/// permissions from when the stream was opened apply.
#[derive(Clone)]
pub struct NotificationAuthorizer(Arc<Ask>);

type Ask = dyn Fn(&Identity) -> Option<CallerPermissions> + Send + Sync;

/// The current authorization closure, if any.
#[derive(Debug, Default)]
pub(crate) struct NotificationFilter(ArcSwapOption<NotificationAuthorizer>);

impl NotificationAuthorizer {
    /// Creates the authorization from a closure.
    #[must_use]
    pub fn new(
        ask: impl Fn(&Identity) -> Option<CallerPermissions> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(ask))
    }
}

impl GatewayState {
    /// Replaces the authorization. All clients are notified because their lists may have changed.
    pub(crate) fn set_notification_authorizer(&self, admissions: Option<NotificationAuthorizer>) {
        self.notification_filter.0.store(admissions.map(Arc::new));
        self.notify_clients(&ByGeneration::both(Kind::ALL.to_vec()));
    }

    /// Returns `true` if a caller may receive notifications about tasks of a backend's tool. `tool` is its advertised name.
    pub(crate) fn may_follow(
        &self,
        caller: &Identity,
        backend: &BackendHandle,
        tool: &str,
    ) -> bool {
        let asked = self.notification_filter.0.load();
        let Some(permissions) = asked.as_ref().and_then(|asked| (asked.0)(caller)) else {
            return true;
        };
        let snapshot = self.snapshot();
        let generation = Generation::Stateless;
        let annotations = snapshot.look().of(generation).annotations(Kind::Tools, tool);
        let backend = Some(ItemBackend { name: backend.name(), generation });
        permissions.is_visible(&Item { kind: ItemKind::Tool, name: tool, annotations, backend })
    }

    /// Returns `true` if a caller may receive a `notifications/resources/updated` that a backend sent in this generation.
    pub(crate) fn may_receive(
        &self,
        caller: &Identity,
        backend: &BackendHandle,
        generation: Generation,
        update: &Bytes,
    ) -> bool {
        let Ok(Envelope::Notification { params, .. }) = scan(update) else { return false };
        let Some(uri) = params.text(update, Key::Uri) else { return false };
        let (kind, name) = (ItemKind::Resource, uri.read(update));
        // A backend cannot notify of resources that another backend serves.
        let owner = self.snapshot().catalog(generation).resource(&name);
        if owner.is_some_and(|owner| owner.name() != backend.name()) {
            return false;
        }
        let asked = self.notification_filter.0.load();
        let Some(permissions) = asked.as_ref().and_then(|asked| (asked.0)(caller)) else {
            return true;
        };
        let backend = Some(ItemBackend { name: backend.name(), generation });
        let item = Item { kind, name: &name, annotations: ToolAnnotations::default(), backend };
        permissions.authorize(&item, None) == Decision::Allow
    }
}

impl fmt::Debug for NotificationAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admissions")
    }
}
