//! Identities that two servers share.

use vmcp_api::VirtualMCPServer;
use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::virtual_mcp_server::{AudienceUnique, IssuerUnique, ServiceNameUnique};

use crate::identities::Identities;
use crate::key::Key;
use crate::lookup::Lookup;
use crate::stores::Stores;

/// Returns the conditions about the identities of a server, naming the servers that have the same.
pub(crate) fn conditions(
    stores: &Stores,
    lookup: &mut Lookup<'_>,
    server: &VirtualMCPServer,
) -> Vec<ConditionUpdate> {
    let own = Identities::of(server);
    for topic in own.topics() {
        lookup.depend(topic);
    }
    let others = stores.servers.list(None);
    let others = others
        .iter()
        .filter(|(key, other)| key != lookup.key() && other.metadata.deletion_timestamp.is_none());
    let others: Vec<_> = others.map(|(key, other)| (key, Identities::of(other))).collect();
    let sharing = |is_equal: &dyn Fn(&Identities) -> bool| -> Option<String> {
        let names = others.iter().filter(|(_, other)| is_equal(other)).map(|(key, _)| *key);
        let names: Vec<_> = names.map(Key::to_string).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let Identities { audience, issuer, service_name } = &own;
    let mut updates = Vec::new();
    if let Some(audience) = audience {
        let shared = sharing(&|other| other.audience == own.audience);
        updates.push(match shared {
            Some(names) => ConditionUpdate::new(
                AudienceUnique::Shared,
                format!("spec.incomingAuth.oidcConfigRef.audience {audience:?} is also that of {names}: a token for one is accepted by the other"),
            ),
            None => ConditionUpdate::new(AudienceUnique::Unique, "no other server has the audience"),
        });
    }
    if let Some(issuer) = issuer {
        let shared = sharing(&|other| other.issuer == own.issuer);
        updates.push(match shared {
            Some(names) => ConditionUpdate::new(
                IssuerUnique::Shared,
                format!("spec.authServerConfig.issuer {issuer:?} is also that of {names}: clients reach one of them"),
            ),
            None => ConditionUpdate::new(IssuerUnique::Unique, "no other server has the issuer"),
        });
    }
    if let Some(service_name) = service_name {
        let shared = sharing(&|other| other.service_name == own.service_name);
        updates.push(match shared {
            Some(names) => ConditionUpdate::new(
                ServiceNameUnique::Shared,
                format!("spec.telemetryConfigRef.serviceName {:?} is also that of {names}: their traces and metrics mix", &*service_name.name),
            ),
            None => ConditionUpdate::new(ServiceNameUnique::Unique, "no other server has the service name"),
        });
    }
    updates
}
