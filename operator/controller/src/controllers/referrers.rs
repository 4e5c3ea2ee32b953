//! Resources that refer to a shared one.

use kube::api::{Api, ListParams};
use vmcp_api::{
    MCPRemoteProxy, MCPServer, MCPServerEntry, VirtualMCPServer, WorkloadKind, WorkloadReference,
};

use super::Context;
use crate::apply::{ApplyError, within};
use crate::dependencies::Topic;
use crate::key::{Kind, ObjectKey};
use crate::lookup::Lookup;
use crate::references::Referrer;
use crate::stores::WatchedWhole;

/// Maximum number of referrers in a status.
const MAX_LISTED: usize = 1_000;

/// Maximum number of referrers in a message.
const MAX_NAMED: usize = 10;

/// Objects of one page of a list.
const PAGE: u32 = 100;

/// Resources that refer to a shared one.
#[derive(Debug, Default)]
pub(super) struct Referrers {
    /// Invariant: sorted by the name of the kind, then by name.
    list: Vec<(Kind, String)>,
    has_member: bool,
}

// === impl Referrers ===

impl Referrers {
    /// Returns the referrers of the object of a lookup, as the stores have them. The object depends on them.
    pub(super) fn of(lookup: &mut Lookup<'_>) -> Self {
        let target = lookup.target().clone();
        lookup.depend(Topic::Referrers(target.clone()));
        let mut found = Self::default();
        found.add_stored::<VirtualMCPServer>(lookup, &target);
        found.add_stored::<MCPServer>(lookup, &target);
        found.add_stored::<MCPRemoteProxy>(lookup, &target);
        found.add_stored::<MCPServerEntry>(lookup, &target);
        found.sorted()
    }

    /// Returns the referrers of an object, as the API server has them now.
    pub(super) async fn live(context: &Context, target: &ObjectKey) -> Result<Self, ApplyError> {
        let mut found = Self::default();
        found.add_live::<VirtualMCPServer>(context, target).await?;
        found.add_live::<MCPServer>(context, target).await?;
        found.add_live::<MCPRemoteProxy>(context, target).await?;
        if target.kind == Kind::MCPExternalAuthConfig {
            found.add_live::<MCPServerEntry>(context, target).await?;
        }
        Ok(found.sorted())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether a resource of a kind is among them.
    pub(super) fn include(&self, kind: Kind) -> bool {
        self.list.iter().any(|(found, _)| *found == kind)
    }

    /// Returns whether a member of a group is among them.
    pub(super) fn include_member(&self) -> bool {
        self.has_member
    }

    /// Returns the workloads, sorted by kind and name, without MCPServerEntries: they are no workloads.
    pub(super) fn workloads(&self) -> Vec<WorkloadReference> {
        let workloads = self.list.iter().filter_map(|(kind, name)| {
            let kind = match kind {
                Kind::MCPRemoteProxy => WorkloadKind::MCPRemoteProxy,
                Kind::MCPServer => WorkloadKind::MCPServer,
                Kind::VirtualMCPServer => WorkloadKind::VirtualMCPServer,
                _ => return None,
            };
            Some(WorkloadReference { kind, name: name.clone() })
        });
        workloads.take(MAX_LISTED).collect()
    }

    /// Returns the names of the VirtualMCPServers, sorted.
    pub(super) fn servers(&self) -> Vec<String> {
        let servers = self.list.iter().filter(|(kind, _)| *kind == Kind::VirtualMCPServer);
        servers.take(MAX_LISTED).map(|(_, name)| name.clone()).collect()
    }

    /// Returns kinds and names for a message.
    pub(super) fn describe(&self) -> String {
        let named = self.list.iter().take(MAX_NAMED);
        let named: Vec<_> = named.map(|(kind, name)| format!("{}/{name}", kind.as_str())).collect();
        let named = named.join(", ");
        match self.list.len().saturating_sub(MAX_NAMED) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }

    fn add_stored<R>(&mut self, lookup: &Lookup<'_>, target: &ObjectKey)
    where
        R: WatchedWhole<Kept = R> + Referrer + Member,
    {
        for referrer in lookup.list::<R>(|object| object.refers_to(target)) {
            self.add(&*referrer);
        }
    }

    async fn add_live<R>(&mut self, context: &Context, target: &ObjectKey) -> Result<(), ApplyError>
    where
        R: WatchedWhole<Kept = R> + Referrer + Member,
    {
        let api: Api<R> = Api::namespaced(context.client.clone(), &target.key.namespace);
        let mut parameters = ListParams::default().limit(PAGE);
        loop {
            let page = within(R::KIND.as_str(), &target.key, api.list(&parameters)).await?;
            for object in page.items.iter().filter(|object| object.refers_to(target)) {
                self.add(object);
            }
            parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if parameters.continue_token.is_none() {
                return Ok(());
            }
        }
    }

    fn add<R: WatchedWhole + Member>(&mut self, referrer: &R) {
        self.list.push((R::KIND, referrer.meta().name.clone().unwrap_or_default()));
        self.has_member |= referrer.is_member();
    }

    fn sorted(mut self) -> Self {
        self.list.sort_by(|(a, one), (b, other)| (a.as_str(), one).cmp(&(b.as_str(), other)));
        self
    }
}

/// Resource that may be a member of a group.
trait Member {
    fn is_member(&self) -> bool;
}

impl Member for VirtualMCPServer {
    fn is_member(&self) -> bool {
        false
    }
}

impl Member for MCPServer {
    fn is_member(&self) -> bool {
        self.spec.group_ref.is_some()
    }
}

impl Member for MCPRemoteProxy {
    fn is_member(&self) -> bool {
        self.spec.group_ref.is_some()
    }
}

impl Member for MCPServerEntry {
    fn is_member(&self) -> bool {
        true
    }
}
