//! Key of the limit per owner.

use std::net::IpAddr;
use std::sync::Arc;

use vmcp_core::Identity;

/// Key of the limit per owner: issuer and subject, or the network of anonymous callers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Account {
    User(Arc<(Box<str>, Box<str>)>),
    Network(Option<IpAddr>),
}

impl Account {
    pub(crate) fn new(owner: &Identity, address: Option<IpAddr>) -> Self {
        if let (Some(issuer), Some(subject)) = (owner.issuer(), owner.subject()) {
            return Self::User(Arc::new((issuer.into(), subject.into())));
        }
        Self::Network(address.map(vmcp_core::network))
    }
}
