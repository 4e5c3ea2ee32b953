//! `authServer`.

use vmcp_config::{
    AuthServer, File, Format, SecretFile, SecretRef,
    auth_server::{Client, DcrEndpoint, HttpMethod, Storage, UpstreamKind},
    redis::{RedisAddress, SentinelNodes},
};

use crate::support::{FULL, document_errors};

const OKTA: &str = "{name: okta, type: oidc, oidcConfig: {issuerUrl: 'https://okta', clientId: c}}";

fn document(fields: &str, upstreams: &str) -> String {
    format!(
        "name: x\nincomingAuth: {{type: oidc, oidc: {{issuer: 'https://me', clientId: c, audience: a}}}}\nauthServer: {{issuer: 'https://me', {fields}upstreamProviders: [{upstreams}]}}\n"
    )
}

fn accepted(fields: &str, upstreams: &str) -> AuthServer<SecretFile> {
    let text = document(fields, upstreams);
    let file = File::parse(&text, Format::Yaml).unwrap_or_else(|errors| panic!("{errors}"));
    file.auth_server.unwrap()
}

fn refused(fields: &str, upstreams: &str, path: &str, words: &str) {
    let list = document_errors(&document(fields, upstreams));
    assert_eq!(list.len(), 1, "{list:#?}");
    assert!(
        list[0].contains(&format!(": authServer{path}: ")) && list[0].contains(words),
        "{list:#?}"
    );
}

fn redis(fields: &str) -> String {
    format!(
        "storage: {{type: redis, redis: {{aclUserConfig: {{passwordSecretRef: {{file: /p}}}}{fields}}}}}, "
    )
}

fn oauth2(fields: &str) -> String {
    format!(
        "{{name: hub, type: oauth2, oauth2Config: {{authorizationEndpoint: 'https://a', tokenEndpoint: 'https://t'{fields}}}}}"
    )
}

#[test]
fn defaults_match_reference() {
    let server = accepted("", OKTA);
    let lifespans = server.token_lifespans;
    assert_eq!(lifespans.access_token_lifespan.to_string(), "1h0m0s");
    assert_eq!(lifespans.auth_code_lifespan.to_string(), "10m0s");
    assert_eq!(lifespans.refresh_token_lifespan.to_string(), "168h0m0s");
    assert_eq!(server.storage, Storage::Memory);
    let UpstreamKind::Oidc(oidc) = &server.upstream_providers[0].kind else { panic!("oidc") };
    assert_eq!(oidc.scopes, ["openid", "offline_access"]);
}

#[test]
fn upstream_is_required_and_has_unique_name() {
    refused("", "", ".upstreamProviders", "at least 1");
    refused("", &format!("{OKTA}, {OKTA}"), ".upstreamProviders[1].name", "the duplicate value");
    refused(
        "",
        "{name: Okta, type: oidc, oidcConfig: {issuerUrl: 'https://o', clientId: c}}",
        ".upstreamProviders[0].name",
        "lowercase",
    );
}

#[test]
fn upstream_type_selects_configuration() {
    let path = ".upstreamProviders[0]";
    refused("", "{name: a, type: oidc}", &format!("{path}.oidcConfig"), "required with");
    refused("", "{name: a, type: oauth2}", &format!("{path}.oauth2Config"), "required with");
    let both = "{name: a, type: oauth2, oidcConfig: {issuerUrl: 'https://o', clientId: c}, oauth2Config: {authorizationEndpoint: 'https://a', tokenEndpoint: 'https://t', clientId: c}}";
    refused("", both, &format!("{path}.oidcConfig"), "only with type: oidc");
    refused(
        "",
        "{name: a, type: oidc, oidcConfig: {issuerUrl: 'http://o', clientId: c}}",
        &format!("{path}.oidcConfig.issuerUrl"),
        "https://",
    );
}

#[test]
fn issuer_is_secure_and_matches_incoming_auth() {
    let text = document("", OKTA)
        .replace("authServer: {issuer: 'https://me'", "authServer: {issuer: 'https://me/'");
    let list = document_errors(&text);
    assert!(
        list.iter().any(|line| line.contains("authServer.issuer: found \"https://me/\"")),
        "{list:#?}"
    );
    let text = document("", OKTA)
        .replace("authServer: {issuer: 'https://me'", "authServer: {issuer: 'https://you'");
    assert!(
        document_errors(&text)[0]
            .contains("incomingAuth.oidc.issuer: found \"https://me\"; allowed: authServer.issuer")
    );
    let text = format!(
        "name: x\nincomingAuth: {{type: anonymous}}\nauthServer: {{issuer: 'https://me', upstreamProviders: [{OKTA}]}}\n"
    );
    assert!(
        document_errors(&text)[0]
            .contains("incomingAuth.type: found type: anonymous with authServer")
    );
}

#[test]
fn authorization_endpoint_has_issuer_format() {
    accepted("authorizationEndpointBaseUrl: 'https://login', ", OKTA);
    refused(
        "authorizationEndpointBaseUrl: 'https://login/', ",
        OKTA,
        ".authorizationEndpointBaseUrl",
        "trailing slash",
    );
}

#[test]
fn lists_are_bounded() {
    refused(
        "baselineClientScopes: [a, b, c, d, e, f, g, h, i, j, k], ",
        OKTA,
        ".baselineClientScopes",
        "at most 10",
    );
    let keys = ["{file: /k}"; 6].join(", ");
    refused(
        &format!("signingKeySecretRefs: [{keys}], "),
        OKTA,
        ".signingKeySecretRefs",
        "at most 5",
    );
}

#[test]
fn redis_is_standalone_cluster_or_sentinel() {
    for (fields, expected) in [(", addr: 'r:1'", false), (", addr: 'r:1', clusterMode: true", true)]
    {
        let Storage::Redis(redis) = accepted(&redis(fields), OKTA).storage else { panic!("redis") };
        assert_eq!(matches!(redis.connection.address, RedisAddress::Cluster(_)), expected);
        assert_eq!(
            (redis.connection.dial_timeout.to_string(), redis.connection.read_timeout.to_string()),
            ("5s".into(), "3s".into())
        );
    }
    let fields = ", sentinelConfig: {masterName: m, sentinelService: {name: s}}";
    let Storage::Redis(sentinel) = accepted(&redis(fields), OKTA).storage else { panic!("redis") };
    let RedisAddress::Sentinel { config, tls: None } = sentinel.connection.address else {
        panic!("sentinel")
    };
    let SentinelNodes::Service(service) = config.nodes else { panic!("a service") };
    assert_eq!((service.port, config.db), (26379, 0));
}

#[test]
fn redis_addresses_exclude_each_other() {
    let path = ".storage.redis";
    let sentinel = "sentinelConfig: {masterName: m, sentinelAddrs: ['s:1']}";
    refused(&redis(""), OKTA, path, "neither addr nor sentinelConfig");
    refused(
        &redis(&format!(", addr: 'r:1', {sentinel}")),
        OKTA,
        &format!("{path}.sentinelConfig"),
        "together",
    );
    refused(
        &redis(&format!(", {sentinel}, clusterMode: true")),
        OKTA,
        &format!("{path}.clusterMode"),
        "without addr",
    );
    refused(
        &redis(", addr: 'r:1', sentinelTls: {}"),
        OKTA,
        &format!("{path}.sentinelTls"),
        "sentinelTls without sentinelConfig",
    );
    refused(&redis(", addr: r"), OKTA, &format!("{path}.addr"), "host:port");
    let both =
        ", sentinelConfig: {masterName: m, sentinelAddrs: ['s:1'], sentinelService: {name: s}}";
    refused(&redis(both), OKTA, &format!("{path}.sentinelConfig.sentinelService"), "together");
}

#[test]
fn redis_block_belongs_to_redis_storage() {
    refused("storage: {type: redis}, ", OKTA, ".storage.redis", "required with");
    let memory = redis(", addr: 'r:1'").replace("type: redis", "type: memory");
    refused(&memory, OKTA, ".storage.redis", "only with type: redis");
}

#[test]
fn oauth2_client_is_static_or_registered_dynamically() {
    let path = ".upstreamProviders[0].oauth2Config";
    let UpstreamKind::Oauth2(known) =
        &accepted("", &oauth2(", clientId: c")).upstream_providers[0].kind
    else {
        panic!("oauth2")
    };
    assert!(matches!(known.client, Client::Static { secret: None, .. }));
    let server = accepted("", &oauth2(", dcrConfig: {registrationEndpoint: 'https://r'}"));
    let UpstreamKind::Oauth2(dynamic) = &server.upstream_providers[0].kind else {
        panic!("oauth2")
    };
    let Client::Dynamic(dcr) = &dynamic.client else { panic!("dynamic") };
    assert!(matches!(dcr.endpoint, DcrEndpoint::Registration(_)));
    refused("", &oauth2(""), path, "neither clientId nor dcrConfig");
    let dcr = ", dcrConfig: {registrationEndpoint: 'https://r'}";
    refused("", &oauth2(&format!(", clientId: c{dcr}")), &format!("{path}.dcrConfig"), "together");
    refused(
        "",
        &oauth2(&format!(", clientSecretRef: {{file: /s}}{dcr}")),
        &format!("{path}.dcrConfig"),
        "together",
    );
    refused(
        "",
        &oauth2(", dcrConfig: {}"),
        &format!("{path}.dcrConfig"),
        "neither discoveryUrl nor registrationEndpoint",
    );
    refused(
        "",
        &oauth2(", dcrConfig: {discoveryUrl: 'https://d/'}"),
        &format!("{path}.dcrConfig.discoveryUrl"),
        "trailing slash",
    );
}

#[test]
fn rejects_reserved_authorization_parameters() {
    for name in [
        "response_type",
        "client_id",
        "redirect_uri",
        "scope",
        "state",
        "code_challenge",
        "code_challenge_method",
        "nonce",
    ] {
        let upstream =
            oauth2(&format!(", clientId: c, additionalAuthorizationParams: {{{name}: x}}"));
        refused(
            "",
            &upstream,
            &format!(".upstreamProviders[0].oauth2Config.additionalAuthorizationParams.{name}"),
            "that the authorization request sets",
        );
    }
    let oidc =
        OKTA.replace("clientId: c", "clientId: c, additionalAuthorizationParams: {nonce: x}");
    refused(
        "",
        &oidc,
        ".upstreamProviders[0].oidcConfig.additionalAuthorizationParams.nonce",
        "that the authorization request sets",
    );
}

#[test]
fn userinfo_and_token_mappings_have_defaults() {
    let upstream = oauth2(
        ", clientId: c, tokenResponseMapping: {accessTokenPath: a.b}, userInfo: {endpointUrl: 'https://u'}",
    );
    let server = accepted("", &upstream);
    let UpstreamKind::Oauth2(oauth2) = &server.upstream_providers[0].kind else { panic!("oauth2") };
    let mapping = oauth2.token_response_mapping.as_ref().unwrap();
    assert_eq!(
        (mapping.expires_in_path.as_str(), mapping.refresh_token_path.as_str()),
        ("expires_in", "refresh_token")
    );
    assert_eq!(mapping.scope_path, "scope");
    let info = oauth2.user_info.as_ref().unwrap();
    assert_eq!(info.http_method, HttpMethod::Get);
    assert_eq!(info.field_mapping.subject_fields, ["sub"]);
    assert_eq!(
        (&*info.field_mapping.name_fields, &*info.field_mapping.email_fields),
        (&["name".to_owned()][..], &["email".to_owned()][..])
    );
}

#[test]
fn rejects_zero_lifespans() {
    refused(
        "tokenLifespans: {authCodeLifespan: 0s}, ",
        OKTA,
        ".tokenLifespans.authCodeLifespan",
        "a duration of more than 0s",
    );
}

#[test]
fn secrets_are_in_files_or_kubernetes_secrets() {
    refused(
        "hmacSecretRefs: [{file: relative}], ",
        OKTA,
        ".hmacSecretRefs[0].file",
        "an absolute path",
    );
    let json = serde_json::json!({
        "issuer": "https://me",
        "hmacSecretRefs": [{"name": "s", "key": "k"}],
        "upstreamProviders": [{"name": "o", "type": "oidc", "oidcConfig": {"issuerUrl": "https://o", "clientId": "c"}}],
    });
    let server: AuthServer<SecretRef> = serde_json::from_value(json).unwrap();
    assert_eq!(server.hmac_secret_refs[0].key, "k");
}

#[test]
fn suggests_name_for_misspelled_provider() {
    let text = FULL.replace("primaryUpstreamProvider: okta", "primaryUpstreamProvider: otka");
    assert!(
        document_errors(&text)[0]
            .contains("an upstream provider of authServer: hub or okta (did you mean okta?)")
    );
}

#[test]
fn file_references_have_path_and_setting() {
    let text = format!(
        "{}telemetry: {{endpoint: 'https://o', caCertPath: /o.crt}}\nbackends: [{{name: a, type: entry, \
         url: 'https://a', transport: sse, caBundlePath: /a.crt}}]\n",
        document(&format!("{}hmacSecretRefs: [{{file: /one}}, {{file: /two}}], ", redis("")), OKTA)
    );
    let named = |text: &str| {
        let files = File::file_references(text, Format::Yaml);
        let mut files: Vec<_> = files
            .into_iter()
            .map(|file| format!("{} {}", file.setting, file.path.display()))
            .collect();
        files.sort();
        files
    };
    let expected = [
        "authServer.hmacSecretRefs[0].file /one",
        "authServer.hmacSecretRefs[1].file /two",
        "authServer.storage.redis.aclUserConfig.passwordSecretRef.file /p",
        "backends[0].caBundlePath /a.crt",
        "telemetry.caCertPath /o.crt",
    ];
    assert_eq!(named(&text), expected);
    // Also of one that is refused: it may be the file that has to be mended.
    assert_eq!(named(&text.replace("transport: sse", "transport: carrier")), expected);
    assert!(named("name: [").is_empty());
}
