//! Check that a server without authentication listens on loopback, unless the operator allows anonymous network access.

use std::net::SocketAddr;

use vmcp_config::{ConfigError, IncomingMethod};

use crate::parts::IncomingAuth;

/// Listener address, and permission for anonymous network access.
#[derive(Clone, Copy, Debug)]
pub struct Exposure {
    /// Address of the listener.
    pub address: SocketAddr,
    /// `true` if anonymous callers on other machines are accepted.
    pub allow_anonymous: bool,
}

/// Error for a configuration that must not listen on a network address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExposureError {
    /// Callers of other machines would be the local user.
    #[error(
        "incomingAuth.type: failed to listen on {0}: with type local, other machines would act as the user of this one: \
         listen on a loopback address, such as --host 127.0.0.1, or use type oidc"
    )]
    Local(SocketAddr),
    /// Callers of other machines would use the credentials of the backends without any of their own.
    #[error(
        "incomingAuth.type: failed to listen on {0}: with type anonymous, every machine that reaches it could use all \
         backends: listen on a loopback address, such as --host 127.0.0.1, use type oidc, or confirm it with \
         --allow-anonymous-network"
    )]
    Anonymous(SocketAddr),
}

impl ExposureError {
    /// Returns the error as one of the configuration.
    #[must_use]
    pub fn to_config_error(self) -> ConfigError {
        let (found, allowed) = match self {
            Self::Local(address) => (
                format!("local on {address}, where other machines would act as this one's user"),
                "oidc, or a loopback address",
            ),
            Self::Anonymous(address) => (
                format!("anonymous on {address}, where every machine could use all backends"),
                "oidc, a loopback address, or --allow-anonymous-network",
            ),
        };
        ConfigError::new("incomingAuth.type", found, allowed)
    }
}

impl Exposure {
    /// Checks that a server with this authentication may listen on the address.
    ///
    /// # Errors
    /// Returns an error if other machines could call without authentication.
    pub fn check(&self, incoming_auth: &IncomingAuth) -> Result<(), ExposureError> {
        self.check_method(incoming_auth.method())
    }

    /// Checks that a server with this method of authentication may listen on the address.
    ///
    /// # Errors
    /// Returns an error if other machines could call without authentication.
    pub fn check_method(&self, method: &IncomingMethod) -> Result<(), ExposureError> {
        let Self { address, allow_anonymous } = *self;
        if address.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        match method {
            IncomingMethod::Oidc(_) => Ok(()),
            IncomingMethod::Local => Err(ExposureError::Local(address)),
            IncomingMethod::Anonymous if allow_anonymous => Ok(()),
            IncomingMethod::Anonymous => Err(ExposureError::Anonymous(address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        address: &str,
        allow_anonymous: bool,
        method: &IncomingMethod,
    ) -> Result<(), ExposureError> {
        let address = format!("{address}:0").parse().unwrap();
        Exposure { address, allow_anonymous }.check_method(method)
    }

    #[test]
    fn local_mode_requires_loopback_address() {
        for loopback in ["127.0.0.1", "127.8.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
            assert_eq!(check(loopback, false, &IncomingMethod::Local), Ok(()), "{loopback}");
        }
        for network in ["0.0.0.0", "[::]", "10.0.0.7", "[fd00::7]"] {
            let refused = check(network, true, &IncomingMethod::Local);
            assert!(matches!(refused, Err(ExposureError::Local(_))), "{network}");
        }
    }

    #[test]
    fn anonymous_network_bind_requires_confirmation() {
        assert_eq!(check("127.0.0.1", false, &IncomingMethod::Anonymous), Ok(()));
        let refused = check("0.0.0.0", false, &IncomingMethod::Anonymous);
        assert!(matches!(refused, Err(ExposureError::Anonymous(_))));
        assert_eq!(check("0.0.0.0", true, &IncomingMethod::Anonymous), Ok(()));
    }
}
