//! Sessions from the claims of their sealed ids.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use vmcp_core::Caller;
use vmcp_session::SessionClaims;
use vmcp_wire::{find, parse_json_string};

use super::shared::SharedSession;
use super::{Session, sealed_capabilities};

impl Session {
    /// Creates the session that the claims of a sealed id describe.
    pub(crate) fn restored(
        claims: &SessionClaims,
        caller: Caller,
        address: Option<IpAddr>,
        sealed: &[u8],
    ) -> Self {
        let SessionClaims { revision, capabilities, client_name, client_version } = claims;
        let capabilities = sealed_capabilities::from_bits(*capabilities);
        let client = serde_json::json!({ "name": client_name, "version": client_version });
        let session =
            Self::new(revision, caller, address, &capabilities, client.to_string().as_bytes());
        let may_have_missed = AtomicBool::new(true);
        Self { sealed: Some(sealed.into()), is_restored: true, may_have_missed, ..session }
    }

    /// Returns what another process needs to continue the session.
    pub(super) fn claims(&self) -> SessionClaims {
        let text = |name| find(&self.client, name).and_then(parse_json_string);
        SessionClaims {
            revision: self.revision,
            capabilities: sealed_capabilities::to_bits(&self.capabilities),
            client_name: text("name").map_or_else(String::new, Cow::into_owned),
            client_version: text("version").map_or_else(String::new, Cow::into_owned),
        }
    }

    /// Shares the session with other replicas.
    pub(super) fn with_record(self, shared: SharedSession) -> Self {
        Self { shared: Some(Arc::new(shared)), ..self }
    }

    /// Returns the record of the session, if replicas share it.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedSession>> {
        self.shared.as_ref()
    }
}
