//! Paths of the endpoints, relative to the issuer's address.

pub(crate) const AUTHORIZE: &str = "/oauth/authorize";
pub(crate) const CONSENT: &str = "/oauth/consent";
pub(crate) const CONNECTIONS: &str = "/oauth/connections";
/// Prefix for the path of a callback at another origin.
pub(crate) const RETURN: &str = "/oauth/return";
pub(crate) const TOKEN: &str = "/oauth/token";
pub(crate) const REGISTER: &str = "/oauth/register";
pub(crate) const REVOKE: &str = "/oauth/revoke";
pub(crate) const INTROSPECT: &str = "/oauth/introspect";
pub(crate) const USERINFO: &str = "/oauth/userinfo";
pub(crate) const JWKS: &str = "/.well-known/jwks.json";
pub(crate) const OAUTH: &str = "/.well-known/oauth-authorization-server";
pub(crate) const OPENID: &str = "/.well-known/openid-configuration";
