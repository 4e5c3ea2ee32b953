//! The hosts under which clients and browsers reach this server, as far as its configuration names them.

use url::{Host, Url};
use vmcp_config::{
    AuthServer, IncomingAuth as IncomingSection, IncomingMethod, Issuer, SecretFile,
};

/// Returns the hosts of the resource, the issuer and the authorization endpoint. Ports are left out, because a reverse
/// proxy may listen on another one. The issuer of `incomingAuth` alone is a different server.
pub(super) fn configured_hosts(
    incoming: &IncomingSection,
    section: Option<&AuthServer<SecretFile>>,
) -> Vec<String> {
    let resource = match &incoming.method {
        IncomingMethod::Oidc(oidc) => Some(oidc.resource()),
        IncomingMethod::Anonymous | IncomingMethod::Local => None,
    };
    let issuer = section.map(|section| section.issuer.as_str());
    let base = section.and_then(|section| section.authorization_endpoint_base_url.as_ref());
    let base = base.map(Issuer::as_str);
    let mut hosts: Vec<_> =
        [resource, issuer, base].into_iter().flatten().filter_map(host).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// Returns the host of a web address, or `None` if the resource identifier is not a web address.
fn host(address: &str) -> Option<String> {
    let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some(match url.host()? {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use vmcp_config::{File, Format};

    use super::*;

    #[test]
    fn collects_hosts_of_resource_issuer_and_authorization_endpoint() {
        let of = |more: &str| {
            let text = format!(
                "name: x\nincomingAuth: {{type: oidc, oidc: {{issuer: \"https://as.test/x\", clientId: c, \
                 audience: \"https://MCP.test:8443/mcp\"}}}}\n{more}"
            );
            let file = File::parse(&text, Format::Yaml).unwrap();
            configured_hosts(&file.incoming_auth, file.auth_server.as_ref())
        };
        assert_eq!(of(""), ["mcp.test"]);
        let section = "authServer:\n  issuer: \"https://as.test/x\"\n  \
                       authorizationEndpointBaseUrl: \"https://[::1]:9\"\n  upstreamProviders: [{name: a, type: oidc, \
                       oidcConfig: {issuerUrl: \"https://a.test\", clientId: c}}]\n";
        assert_eq!(of(section), ["::1", "as.test", "mcp.test"]);
    }
}
