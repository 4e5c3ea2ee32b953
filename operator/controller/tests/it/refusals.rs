//! Refusals of the server that need no network: the operator reports each of them before a pod is started with it.
//!
//! Each case is the same mistake twice: in a configuration, which the real server refuses at a path, and in resources, which the
//! operator refuses at the counterpart of that path.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use vmcp_operator::Settings;
use vmcp_operator::manifests::Manifests;

use super::start::program;

/// A mistake.
struct Refusal {
    /// Sections of the configuration.
    configuration: String,
    /// Path at which the server refuses it.
    server: &'static str,
    /// Resources.
    manifests: String,
    /// End of the place at which the operator refuses it: object, and path or message.
    operator: &'static str,
}

const ANONYMOUS: &str = "incomingAuth: {type: anonymous}\n";
const CALLERS: &str = "incomingAuth: {type: oidc, oidc: {issuer: 'https://i.example.com', audience: a, clientId: c, resource: 'https://m.example.com/mcp'}}\n";
const BACKEND: &str =
    "backends: [{name: b, url: 'https://b.example.com/mcp', transport: streamable-http}]\n";

/// Returns the resources of a server: its fields, and other objects.
fn resources(fields: &str, others: &[(&str, &str)]) -> String {
    let mut text = format!(
        "apiVersion: vmcp.dev/v1beta1\nkind: VirtualMCPServer\nmetadata: {{name: a}}\nspec:\n  groupRef: {{name: g}}\n{fields}---\napiVersion: vmcp.dev/v1beta1\nkind: MCPGroup\nmetadata: {{name: g}}\nspec: {{}}\n"
    );
    for (kind, spec) in others {
        let head = "---\napiVersion: vmcp.dev/v1beta1\nkind: ";
        text.extend([head, kind, "\nmetadata: {name: b}\nspec: ", spec, "\n"]);
    }
    text
}

/// A mistake in credentials of a backend.
fn credentials(
    kind: &str,
    key: &str,
    server: &str,
    resource: &str,
    path: (&'static str, &'static str),
) -> Refusal {
    const FIELDS: &str = "  incomingAuth: {type: oidc, oidcConfigRef: {name: b, audience: a, resourceUrl: 'https://m.example.com/mcp'}}\n  outgoingAuth: {source: inline, backends: {b: {type: externalAuthConfigRef, externalAuthConfigRef: {name: b}}}}\n";
    let config = format!("{{type: {key}, {key}: {{{resource}}}}}");
    Refusal {
        configuration: format!(
            "{CALLERS}{BACKEND}outgoingAuth: {{source: inline, backends: {{b: {{type: {kind}, {key}: {{{server}}}}}}}}}\n"
        ),
        server: path.0,
        manifests: resources(
            FIELDS,
            &[
                ("MCPOIDCConfig", "{type: inline, inline: {issuer: 'https://i.example.com'}}"),
                ("MCPServerEntry", ENTRY),
                ("MCPExternalAuthConfig", &config),
            ],
        ),
        operator: path.1,
    }
}

const ENTRY: &str =
    "{groupRef: {name: g}, remoteUrl: 'https://b.example.com/mcp', transport: streamable-http}";

/// A mistake in the settings of the issuer.
fn issuer(server: &str, resource: &str, path: (&'static str, &'static str)) -> Refusal {
    Refusal {
        configuration: format!(
            "incomingAuth: {{type: oidc, oidc: {{issuer: 'https://i.example.com', audience: a, clientId: c, resource: 'https://m.example.com/mcp', {server}}}}}\noutgoingAuth: {{source: inline}}\n"
        ),
        server: path.0,
        manifests: resources(
            "  incomingAuth: {type: oidc, oidcConfigRef: {name: b, audience: a, resourceUrl: 'https://m.example.com/mcp'}}\n",
            &[(
                "MCPOIDCConfig",
                &format!(
                    "{{type: inline, inline: {{issuer: 'https://i.example.com', {resource}}}}}"
                ),
            )],
        ),
        operator: path.1,
    }
}

/// A mistake in the settings of the authorization server, which are the same in both.
fn auth_server(
    provider: &str,
    rest: &str,
    oidc: &str,
    path: (&'static str, &'static str),
) -> Refusal {
    let section = format!("issuer: 'https://m.example.com', upstreamProviders: [{provider}]{rest}");
    Refusal {
        configuration: format!(
            "incomingAuth: {{type: oidc, oidc: {{issuer: 'https://m.example.com', audience: 'https://m.example.com/mcp', resource: 'https://m.example.com/mcp', scopes: [openid]{oidc}}}}}\noutgoingAuth: {{source: inline}}\nauthServer: {{{section}}}\n"
        ),
        server: path.0,
        manifests: resources(
            &format!(
                "  incomingAuth: {{type: oidc, oidcConfigRef: {{name: b, audience: 'https://m.example.com/mcp', resourceUrl: 'https://m.example.com/mcp', scopes: [openid]}}}}\n  authServerConfig: {{{section}}}\n"
            ),
            &[(
                "MCPOIDCConfig",
                &format!("{{type: inline, inline: {{issuer: 'https://m.example.com'{oidc}}}}}"),
            )],
        ),
        operator: path.1,
    }
}

/// A mistake in a section that `spec.config` has too.
fn section(text: &str, path: (&'static str, &'static str)) -> Refusal {
    Refusal {
        configuration: format!("{ANONYMOUS}outgoingAuth: {{source: inline}}\n{text}\n"),
        server: path.0,
        manifests: resources(
            &format!("  incomingAuth: {{type: anonymous}}\n  config: {{{text}}}\n"),
            &[],
        ),
        operator: path.1,
    }
}

fn of_credentials() -> Vec<Refusal> {
    const EXCHANGE: &str = "tokenUrl: 'https://t.example.com/token'";
    let exchange = |text: &str, path| {
        let text = format!("{text}, audience: x");
        credentials("token_exchange", "tokenExchange", &text, &text, path)
    };
    let aws = |text: &str, path| {
        let role = "fallbackRoleArn: 'arn:aws:iam::123456789012:role/a'";
        let text = format!("{role}, {text}");
        credentials("aws_sts", "awsSts", &text, &text, path)
    };
    vec![
        exchange(
            "tokenUrl: 'http://t.example.com/token'",
            ("outgoingAuth.backends.b.tokenExchange.tokenUrl", "tokenExchange.tokenUrl"),
        ),
        exchange(
            &format!("{EXCHANGE}, scopes: ['a b']"),
            ("outgoingAuth.backends.b.tokenExchange.scopes[0]", "tokenExchange.scopes[0]"),
        ),
        exchange(
            &format!("{EXCHANGE}, externalTokenHeaderName: Host"),
            (
                "outgoingAuth.backends.b.tokenExchange.externalTokenHeaderName",
                "tokenExchange.externalTokenHeaderName",
            ),
        ),
        exchange(
            &format!("{EXCHANGE}, clientId: \"a\\tb\""),
            ("outgoingAuth.backends.b.tokenExchange.clientId", "tokenExchange.clientId"),
        ),
        credentials(
            "header_injection",
            "headerInjection",
            "headerName: Host, headerValue: x",
            "headerName: Host, valueSecretRef: {name: s, key: k}",
            ("outgoingAuth.backends.b.headerInjection.headerName", "headerInjection.headerName"),
        ),
        aws("region: 'eu central'", ("outgoingAuth.backends.b.awsSts.region", "awsSts.region")),
        aws(
            "region: eu-central-1, service: 'a/b'",
            ("outgoingAuth.backends.b.awsSts.service", "awsSts.service"),
        ),
        aws(
            "region: eu-central-1, sessionDuration: 1",
            ("outgoingAuth.backends.b.awsSts.sessionDuration", "awsSts.sessionDuration"),
        ),
    ]
}

fn of_issuers() -> Vec<Refusal> {
    let both = |text: &str, path| issuer(text, text, path);
    vec![
        both(
            "jwksUrl: 'http://k.example.com/keys'",
            ("incomingAuth.oidc.jwksUrl", "inline.jwksUrl"),
        ),
        both(
            "jwksUrl: 'https://k.example.com/keys#x'",
            ("incomingAuth.oidc.jwksUrl", "inline.jwksUrl"),
        ),
        issuer(
            "introspectionUrl: 'http://k.example.com/keys'",
            "introspectionUrl: 'http://k.example.com/keys', clientId: c",
            ("incomingAuth.oidc.introspectionUrl", "inline.introspectionUrl"),
        ),
        issuer(
            "jwksUrl: 'http://k.example.com/keys', insecureAllowHttp: true, jwksAuthTokenPath: /etc/hostname",
            "jwksUrl: 'http://k.example.com/keys', insecureAllowHTTP: true, jwksAuthTokenPath: /etc/hostname",
            ("incomingAuth.oidc.jwksAuthTokenPath", "inline.jwksAuthTokenPath"),
        ),
    ]
}

/// The callback of a provider at an address of the cluster, which has no TLS.
fn callback_in_cluster() -> Refusal {
    let section = format!("issuer: 'https://m.example.com', upstreamProviders: [{}]", oauth2(""));
    let resource = "http://vmcp-a.ns.svc.cluster.local:4483/mcp";
    Refusal {
        configuration: format!(
            "incomingAuth: {{type: oidc, oidc: {{issuer: 'https://m.example.com', audience: '{resource}', resource: '{resource}'}}}}\noutgoingAuth: {{source: inline}}\nauthServer: {{{section}}}\n"
        ),
        server: "authServer.upstreamProviders[0].oauth2Config.redirectUri",
        manifests: resources(
            &format!(
                "  incomingAuth: {{type: oidc, oidcConfigRef: {{name: b, audience: '{resource}'}}}}\n  authServerConfig: {{{section}}}\n"
            ),
            &[("MCPOIDCConfig", "{type: inline, inline: {issuer: 'https://m.example.com'}}")],
        ),
        operator: "spec.authServerConfig.upstreamProviders[0].oauth2Config.redirectUri",
    }
}

/// Returns a provider with further settings.
fn oauth2(text: &str) -> String {
    format!(
        "{{name: h, type: oauth2, oauth2Config: {{authorizationEndpoint: 'https://h.example.com/a', tokenEndpoint: 'https://h.example.com/t', clientId: g, userInfo: {{endpointUrl: 'https://h.example.com/me'}}{text}}}}}"
    )
}

fn of_auth_servers() -> Vec<Refusal> {
    let oidc = "{name: h, type: oidc, oidcConfig: {issuerUrl: 'https://h.example.com', clientId: g, scopes: [email]}}";
    vec![
        callback_in_cluster(),
        auth_server(
            oidc,
            "",
            "",
            (
                "authServer.upstreamProviders[0].oidcConfig.scopes",
                "spec.authServerConfig.upstreamProviders[0].oidcConfig.scopes",
            ),
        ),
        auth_server(
            &oauth2(", redirectUri: 'https://other.example.com/callback'"),
            "",
            "",
            (
                "authServer.upstreamProviders[0].oauth2Config.redirectUri",
                "spec.authServerConfig.upstreamProviders[0].oauth2Config.redirectUri",
            ),
        ),
        auth_server(
            &oauth2(", scopes: ['a b']"),
            "",
            "",
            (
                "authServer.upstreamProviders[0].oauth2Config.scopes[0]",
                "spec.authServerConfig.upstreamProviders[0].oauth2Config.scopes[0]",
            ),
        ),
        auth_server(
            &oauth2(", additionalAuthorizationParams: {state: x}"),
            "",
            "",
            (
                "authServer.upstreamProviders[0].oauth2Config.additionalAuthorizationParams.state",
                // A rule of the schema, whose path is that of the object.
                "spec.authServerConfig.upstreamProviders[0].oauth2Config: Invalid value: additionalAuthorizationParams",
            ),
        ),
    ]
}

fn of_auth_server_and_issuer() -> Vec<Refusal> {
    vec![
        auth_server(
            &oauth2(""),
            "",
            ", jwksUrl: 'https://x.example.com/keys'",
            ("incomingAuth.oidc.jwksUrl", "inline.jwksUrl"),
        ),
        auth_server(
            &oauth2(""),
            "",
            ", clientId: c, introspectionUrl: 'https://x.example.com/introspect'",
            ("incomingAuth.oidc.introspectionUrl", "inline.introspectionUrl"),
        ),
        auth_server(
            &oauth2(""),
            ", authorizationEndpointBaseUrl: 'https://m.example.com/x?y'",
            "",
            (
                "authServer.authorizationEndpointBaseUrl",
                "spec.authServerConfig.authorizationEndpointBaseUrl",
            ),
        ),
    ]
}

fn of_sections() -> Vec<Refusal> {
    vec![
        section(
            "operational: {failureHandling: {unhealthyThreshold: 0}}",
            (
                "operational.failureHandling.unhealthyThreshold",
                "spec.config.operational.failureHandling.unhealthyThreshold",
            ),
        ),
        section(
            "operational: {failureHandling: {circuitBreaker: {enabled: true, failureThreshold: 0}}}",
            (
                "operational.failureHandling.circuitBreaker.failureThreshold",
                "spec.config.operational.failureHandling.circuitBreaker.failureThreshold",
            ),
        ),
        section(
            "optimizer: {embeddingService: 'ftp://e'}",
            ("optimizer.embeddingService", "spec.config.optimizer.embeddingService"),
        ),
        section(
            "sessionStorage: {provider: redis, address: 'redis:99999'}",
            ("sessionStorage.address", "spec.config.sessionStorage.address"),
        ),
        section(
            "telemetry: {endpoint: 'ftp://o.example.com:1', tracingEnabled: true}",
            ("telemetry.endpoint", "spec.config.telemetry.endpoint"),
        ),
        section(
            "telemetry: {endpoint: 'http://o.example.com:1', tracingEnabled: true}",
            ("telemetry.endpoint", "spec.config.telemetry.endpoint"),
        ),
        section(
            "telemetry: {endpoint: 'https://o.example.com:1', insecure: true, tracingEnabled: true}",
            ("telemetry.endpoint", "spec.config.telemetry.endpoint"),
        ),
        section(
            "telemetry: {endpoint: 'https://user@o.example.com:1', tracingEnabled: true}",
            ("telemetry.endpoint", "spec.config.telemetry.endpoint"),
        ),
        section(
            "audit: {enabled: true, logFile: /absent/audit.log}",
            ("audit.logFile", "spec.config.audit.logFile"),
        ),
        section(
            "compositeTools: [{name: t, steps: [{id: a, tool: b.c, condition: '{{'}]}]",
            (
                "compositeTools[0].steps[0].condition",
                "spec.config.compositeTools[0].steps[0].condition",
            ),
        ),
    ]
}

fn of_entries_and_policies() -> Vec<Refusal> {
    vec![
        Refusal {
            configuration: format!(
                "{ANONYMOUS}outgoingAuth: {{source: inline}}\nbackends: [{{name: b, url: 'https://b.example.com/mcp', transport: streamable-http, headers: {{Host: a}}}}]\n"
            ),
            server: "backends[0].headers.Host",
            manifests: resources(
                "  incomingAuth: {type: anonymous}\n  outgoingAuth: {source: inline}\n",
                &[(
                    "MCPServerEntry",
                    "{groupRef: {name: g}, remoteUrl: 'https://b.example.com/mcp', transport: streamable-http, headerForward: {addPlaintextHeaders: {Host: a}}}",
                )],
            ),
            operator: "Host",
        },
        Refusal {
            configuration: "incomingAuth: {type: anonymous, authz: {type: cedar, policies: ['permit(']}}\noutgoingAuth: {source: inline}\n".to_owned(),
            server: "incomingAuth.authz.policies[0]",
            manifests: resources(
                "  incomingAuth: {type: anonymous, authzConfig: {type: inline, inline: {policies: ['permit(']}}}\n",
                &[],
            ),
            operator: "spec.incomingAuth.authzConfig.inline.policies[0]",
        },
    ]
}

/// Returns the paths at which the real server refuses a configuration.
fn refused_by_server(configuration: &str, index: usize) -> Vec<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("refusals");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{index}.yaml"));
    std::fs::write(&file, format!("name: a\ngroupRef: g\n{configuration}")).unwrap();
    let output = Command::new(program())
        .args(["validate", "--format=json", "--config"])
        .arg(&file)
        .env_clear()
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let mistakes = result["mistakes"].as_array().into_iter().flatten();
    mistakes.map(|one| one["path"].as_str().unwrap().to_owned()).collect()
}

/// Returns the findings of the operator.
fn refused_by_operator(manifests: &str) -> Vec<String> {
    let documents = serde_saphyr::from_multiple(manifests).unwrap();
    let manifests = Manifests::read(documents, Settings::new("example.com/vmcp:1"));
    let line = |one: vmcp_operator::manifests::Finding| {
        format!("{} {}: {}", one.object, one.path, one.message)
    };
    manifests.check().into_iter().map(line).collect()
}

#[test]
fn operator_reports_each_refusal_of_server() {
    let all = [
        of_credentials(),
        of_issuers(),
        of_auth_servers(),
        of_auth_server_and_issuer(),
        of_sections(),
        of_entries_and_policies(),
    ];
    let mut failures = Vec::new();
    for (index, refusal) in all.into_iter().flatten().enumerate() {
        let Refusal { configuration, server, manifests, operator } = refusal;
        let by_server = refused_by_server(&configuration, index);
        if by_server.len() != 1 || by_server[0] != server {
            failures.push(format!("server at {server}: {by_server:?}"));
        }
        let by_operator = refused_by_operator(&manifests);
        if !by_operator.iter().any(|line| line.contains(operator)) {
            failures.push(format!("operator at {operator}: {by_operator:?}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
