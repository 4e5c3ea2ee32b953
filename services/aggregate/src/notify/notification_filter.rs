//! Filter of notifications on long-lived streams. It is evaluated per message because policies and permissions may
//! change while a stream is open.

use std::sync::Arc;

use bytes::Bytes;
use vmcp_core::{
    CallerPermissions, Decision, Generation, Identity, Item, ItemBackend, ItemKind, ToolAnnotations,
};
use vmcp_wire::{Envelope, Key, scan};

use crate::authorizer::{AuthorizerSlot, CallerAccess};
use crate::backend::BackendHandle;
use crate::catalog::Kind;
use crate::catalog_store::CatalogStore;

/// Filter of notifications by the current authorization, if any, and by the owners of resources.
#[derive(Debug)]
pub(crate) struct NotificationFilter {
    authorizer: Arc<AuthorizerSlot>,
    catalogs: Arc<CatalogStore>,
}

impl NotificationFilter {
    pub(crate) fn new(authorizer: Arc<AuthorizerSlot>, catalogs: Arc<CatalogStore>) -> Self {
        Self { authorizer, catalogs }
    }

    /// Returns the current permissions of a caller, if they are available.
    pub(crate) fn permissions(&self, caller: &Identity) -> Option<CallerPermissions> {
        match self.authorizer.access(caller)? {
            CallerAccess::Restricted(permissions) => Some(permissions),
            CallerAccess::Unrestricted | CallerAccess::Pending(_) | CallerAccess::Rejected(_) => {
                None
            }
        }
    }

    /// Returns `true` if a caller may receive notifications about tasks of a backend's tool. `tool` is its advertised name.
    pub(crate) fn may_follow(
        &self,
        caller: &Identity,
        backend: &BackendHandle,
        tool: &str,
    ) -> bool {
        let Some(permissions) = self.permissions(caller) else { return true };
        let snapshot = self.catalogs.snapshot();
        let generation = Generation::Stateless;
        let annotations = snapshot.load_catalogs().of(generation).annotations(Kind::Tools, tool);
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
        let owner = self.catalogs.snapshot().catalog(generation).resource(&name);
        if owner.is_some_and(|owner| owner.name() != backend.name()) {
            return false;
        }
        let Some(permissions) = self.permissions(caller) else { return true };
        let backend = Some(ItemBackend { name: backend.name(), generation });
        let item = Item { kind, name: &name, annotations: ToolAnnotations::default(), backend };
        permissions.authorize(&item, None) == Decision::Allow
    }
}
