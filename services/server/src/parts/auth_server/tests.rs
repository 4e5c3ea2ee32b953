use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use vmcp_config::{File, Format};
use vmcp_redis::Address;

use super::*;

/// A folder with a secret in it; it is removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("vmcp-issuer-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("secret"), "hunter2-hunter2-hunter2-hunter2-\n").unwrap();
        Self(path)
    }

    fn secret(&self) -> String {
        format!("{{file: \"{}\"}}", self.0.join("secret").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn converted(section: &str) -> Conversion {
    let text = format!(
        "name: tools\nincomingAuth: {{type: oidc, oidc: {{issuer: \"https://a.test\", clientId: c, \
         audience: \"https://a.test/mcp\", scopes: [tools]}}}}\n\
         authServer:\n  issuer: \"https://a.test\"\n{section}"
    );
    let file = File::parse(&text, Format::Yaml).unwrap_or_else(|error| panic!("{error}\n{text}"));
    convert("tools", file.auth_server.unwrap(), &file.incoming_auth, &Egress::default())
}

fn issuing_of(section: &str) -> AuthServerParts {
    let converted = converted(section);
    converted.auth_server.unwrap_or_else(|| panic!("{:?}", converted.errors))
}

const PLAIN: &str = "  upstreamProviders: [{name: o, type: oidc, \
                     oidcConfig: {issuerUrl: \"https://o.test\", clientId: us}}]\n";

fn audiences_of(oidc: &str) -> (Vec<String>, Vec<String>) {
    let text = format!(
        "name: tools\nincomingAuth: {{type: oidc, oidc: {{issuer: \"https://a.test\", {oidc}}}}}\n\
         authServer:\n  issuer: \"https://a.test\"\n{PLAIN}"
    );
    let file = File::parse(&text, Format::Yaml).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let (section, incoming) = (file.auth_server.unwrap(), &file.incoming_auth);
    let Conversion { auth_server, errors, warnings } =
        convert("tools", section, incoming, &Egress::default());
    let settings = auth_server.unwrap_or_else(|| panic!("{errors:?}")).settings;
    let audiences = settings.audiences.iter().map(|one| one.as_str().to_owned()).collect();
    let warnings = warnings.into_iter().map(|warning| warning.path);
    (audiences, warnings.filter(|path| path.starts_with("incomingAuth")).collect())
}

#[test]
fn issues_tokens_for_resource_and_audience() {
    let (resource, audience) = ("https://a.test/mcp", "https://a.test/tools");
    let found = audiences_of(&format!("audience: \"{audience}\", resource: \"{resource}\""));
    assert_eq!(found, (vec![resource.to_owned(), audience.to_owned()], Vec::new()));
    let found = audiences_of(&format!("audience: \"{resource}\""));
    assert_eq!(found, (vec![resource.to_owned()], Vec::new()));
    // Clients cannot request a resource that is not a URI.
    let found = audiences_of(&format!("audience: tools, resource: \"{resource}\""));
    let warnings = vec!["incomingAuth.oidc.audience".to_owned()];
    assert_eq!(found, (vec![resource.to_owned()], warnings));
}

#[test]
fn converts_section_to_settings() {
    let secret = Folder::new();
    let auth_server = issuing_of(&format!(
        "  authorizationEndpointBaseUrl: \"https://a.test/pages\"\n  baselineClientScopes: [openid]\n  \
         hmacSecretRefs: [{}]\n  tokenLifespans: {{accessTokenLifespan: 2m, authCodeLifespan: 1m, \
         refreshTokenLifespan: 2h}}\n  upstreamCheckInterval: 5m\n{PLAIN}",
        secret.secret()
    ));
    let Settings { issuer, authorization_base, audiences, scopes, baseline_scopes, .. } =
        &auth_server.settings;
    assert_eq!(issuer.as_str(), "https://a.test");
    assert_eq!(authorization_base.as_ref().unwrap().as_str(), "https://a.test/pages");
    assert!(audiences.contains("https://a.test/mcp"));
    assert_eq!(scopes.to_string(), "openid profile email offline_access tools");
    assert_eq!(baseline_scopes.to_string(), "openid");
    let Settings { lifespans, keys, hmac, display_name, .. } = &auth_server.settings;
    assert_eq!(lifespans.access(), Duration::from_mins(2));
    assert_eq!(lifespans.code(), Duration::from_mins(1));
    assert_eq!(lifespans.refresh(), Duration::from_hours(2));
    assert_eq!(auth_server.settings.upstream_check_interval, Duration::from_mins(5));
    assert!(keys.is_ephemeral() && !hmac.is_ephemeral());
    assert_eq!(display_name, "tools");
    assert!(matches!(auth_server.storage, Storage::Memory));
}

#[test]
fn converts_openid_provider_to_settings() {
    let secret = Folder::new();
    let auth_server = issuing_of(&format!(
        "  upstreamProviders:\n  - name: o\n    type: oidc\n    oidcConfig:\n      \
         issuerUrl: \"https://o.test/t/\"\n      clientId: us\n      clientSecretRef: {}\n      \
         redirectUri: \"https://a.test/back\"\n      scopes: [openid, mail]\n      \
         additionalAuthorizationParams: {{access_type: offline}}\n      userInfoOverride:\n        \
         endpointUrl: \"https://o.test/who\"\n        httpMethod: POST\n        \
         additionalHeaders: {{x-tenant: t1}}\n        fieldMapping: {{subjectFields: [login], \
         nameFields: [called], emailFields: [post]}}\n",
        secret.secret()
    ));
    let [settings] = &*auth_server.upstreams else { panic!("{auth_server:?}") };
    assert_eq!((&*settings.name, &*settings.client_name), ("o", "tools"));
    assert_eq!(settings.redirect_uri.uri(), "https://a.test/back");
    assert_eq!(settings.scopes.iter().collect::<Vec<_>>(), ["openid", "mail"]);
    let vmcp_upstream::Kind::Oidc(oidc) = &settings.kind else { panic!("{settings:?}") };
    assert_eq!(oidc.issuer.as_str(), "https://o.test/t/");
    let info = oidc.user_info.as_ref().unwrap();
    assert_eq!(info.endpoint.uri(), "https://o.test/who");
    assert_eq!(info.method, vmcp_upstream::Method::Post);
    let fields = vmcp_upstream::FieldMapping::new(["login"], ["called"], ["post"]).unwrap();
    assert_eq!(info.fields, fields);
    let shown = format!("{settings:?}");
    for part in ["access_type", "x-tenant", "id: \"us\", public: false"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn converts_oauth_provider_to_settings() {
    let secret = Folder::new();
    let oauth2 = |client: &str| {
        format!(
            "  upstreamProviders:\n  - name: g\n    type: oauth2\n    oauth2Config:\n      \
             authorizationEndpoint: \"https://g.test/a\"\n      tokenEndpoint: \"https://g.test/t\"\n      \
             {client}\n      scopes: [repo]\n      additionalAuthorizationParams: {{prompt: select}}\n      \
             tokenResponseMapping: {{accessTokenPath: a.b, expiresInPath: a.c, refreshTokenPath: a.d, \
             scopePath: a.e}}\n      userInfo: {{endpointUrl: \"https://g.test/me\", \
             additionalHeaders: {{x-tenant: t1}}, fieldMapping: {{subjectFields: [id]}}}}\n"
        )
    };
    let of = |client: &str| {
        let mut auth_server = issuing_of(&oauth2(client));
        let settings = auth_server.upstreams.remove(0);
        let vmcp_upstream::Kind::Oauth2(kind) = settings.kind.clone() else { panic!() };
        (settings, kind)
    };
    let (settings, kind) = of(&format!("clientId: us\n      clientSecretRef: {}", secret.secret()));
    assert_eq!(settings.redirect_uri.uri(), "https://a.test/mcp/oauth/callback");
    assert_eq!(settings.scopes.iter().collect::<Vec<_>>(), ["repo"]);
    assert_eq!(kind.authorization_endpoint.uri(), "https://g.test/a");
    assert_eq!(kind.token_endpoint.uri(), "https://g.test/t");
    let path = |text| vmcp_upstream::Path::new(text).unwrap();
    let mapping = kind.token_mapping.unwrap();
    assert_eq!((mapping.access_token, mapping.expires_in), (path("a.b"), path("a.c")));
    assert_eq!((mapping.refresh_token, mapping.scope), (path("a.d"), path("a.e")));
    assert_eq!(kind.user_info.unwrap().endpoint.uri(), "https://g.test/me");
    assert!(format!("{:?}", kind.client).contains("id: \"us\", public: false"));

    for (location, shown) in [
        ("registrationEndpoint: \"https://g.test/r\"", "Endpoint(Endpoint(https://g.test/r))"),
        (
            "discoveryUrl: \"https://g.test/.well-known/openid-configuration\"",
            "Discovery(Endpoint(https://g.test/.well-known/openid-configuration))",
        ),
    ] {
        let (_, kind) = of(&format!(
            "dcrConfig: {{{location}, initialAccessTokenRef: {}, softwareId: s1, softwareStatement: a.b.c}}",
            secret.secret()
        ));
        let client = format!("{:?}", kind.client);
        assert!(client.contains(shown) && client.contains("s1"), "{client}");
    }
}

fn redis(fields: &str) -> (Box<vmcp_redis::Settings>, String) {
    let secret = Folder::new();
    let secret = secret.secret();
    let auth_server = issuing_of(&format!(
        "  storage:\n    type: redis\n    redis:\n      aclUserConfig: {{passwordSecretRef: {secret}, \
         usernameSecretRef: {secret}}}\n{fields}{PLAIN}"
    ));
    let Storage::Redis(settings, namespace) = auth_server.storage else { panic!() };
    (settings, format!("{namespace:?}"))
}

#[test]
fn converts_each_redis_mode_to_settings() {
    use secrecy::ExposeSecret;
    let (settings, namespace) = redis(
        "      addr: \"r.test:7000\"\n      dialTimeout: 1s\n      readTimeout: 2s\n      \
         writeTimeout: 4s\n      tls: {insecureSkipVerify: true}\n",
    );
    assert!(namespace.contains("https://a.test"), "{namespace}");
    let timeouts = &settings.timeouts;
    let seconds = [timeouts.dial, timeouts.read, timeouts.write].map(|time| time.as_secs());
    assert_eq!(seconds, [1, 2, 4]);
    assert!(settings.tls.is_some());
    let password = settings.credentials.password.as_ref().unwrap().expose_secret();
    assert_eq!(password, "hunter2-hunter2-hunter2-hunter2-", "without the end of the line");
    assert!(settings.credentials.user.is_some());
    assert!(matches!(&settings.address, Address::Standalone(node) if node.port() == 7000));

    let (settings, _) = redis("      addr: \"[::1]:7001\"\n      clusterMode: true\n");
    assert!(matches!(&settings.address, Address::Cluster(nodes) if nodes[0].host() == "::1"));
    assert!(settings.tls.is_none());

    let (settings, _) = redis(
        "      sentinelConfig: {masterName: m, db: 3, sentinelAddrs: [\"s1.test:1\", \"s2.test:2\"]}\n      \
         sentinelTls: {insecureSkipVerify: true}\n",
    );
    let Address::Sentinel(sentinel) = &settings.address else { panic!() };
    assert_eq!((&*sentinel.master, sentinel.database, sentinel.nodes.len()), ("m", 3, 2));
    assert!(sentinel.tls.is_some());

    for (service, host, port) in
        [("{name: s}", "s", 26379), ("{name: s, namespace: n, port: 9}", "s.n.svc", 9)]
    {
        let fields =
            format!("      sentinelConfig: {{masterName: m, sentinelService: {service}}}\n");
        let (settings, _) = redis(&fields);
        let Address::Sentinel(sentinel) = &settings.address else { panic!() };
        assert_eq!((sentinel.nodes[0].host(), sentinel.nodes[0].port()), (host, port));
    }
}

#[test]
fn reports_invalid_certificate_with_path() {
    let secret = Folder::new();
    for key in ["tls", "sentinelTls"] {
        let secret = secret.secret();
        let converted = converted(&format!(
            "  storage:\n    type: redis\n    redis:\n      aclUserConfig: {{passwordSecretRef: {secret}}}\n      \
             sentinelConfig: {{masterName: m, sentinelAddrs: [\"s.test:1\"]}}\n      \
             {key}: {{caCertSecretRef: {secret}}}\n{PLAIN}"
        ));
        assert!(converted.auth_server.is_none());
        let at = format!("authServer.storage.redis.{key}.caCertSecretRef");
        assert!(converted.errors.iter().any(|error| error.path == at), "{converted:?}");
    }
}

#[test]
fn fingerprint_changes_only_with_changed_input() {
    let secret = Folder::new();
    let section = format!("  hmacSecretRefs: [{}]\n{PLAIN}", secret.secret());
    let (one, same) = (issuing_of(&section), issuing_of(&section));
    assert_eq!((one.digest, one.storage_digest), (same.digest, same.storage_digest));
    std::fs::write(secret.0.join("secret"), "another secret of thirty-two bytes").unwrap();
    let rotated = issuing_of(&section);
    assert_ne!(one.digest, rotated.digest);
    assert_eq!(one.storage_digest, rotated.storage_digest);
}

#[test]
fn distinguishes_changed_password_from_changed_address() {
    let secret = Folder::new();
    let at = |address: &str| {
        let redis = format!(
            "{{addr: \"{address}\", aclUserConfig: {{passwordSecretRef: {}}}}}",
            secret.secret()
        );
        issuing_of(&format!("  storage: {{type: redis, redis: {redis}}}\n{PLAIN}"))
    };
    let (one, reject_foreign_endpoints) = (at("127.0.0.1:1"), at("127.0.0.1:2"));
    assert_ne!(one.storage_address_digest, reject_foreign_endpoints.storage_address_digest);
    std::fs::write(secret.0.join("secret"), "another\n").unwrap();
    let rotated = at("127.0.0.1:1");
    assert_eq!(one.storage_address_digest, rotated.storage_address_digest);
    assert_ne!(one.storage_digest, rotated.storage_digest);
}

#[test]
fn warns_of_weak_secrets_and_readable_files() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new();
    let path = folder.0.join("secret");
    let section = format!("  hmacSecretRefs: [{}]\n{PLAIN}", folder.secret());
    let warnings = |secret: &[u8], mode: u32| {
        std::fs::write(&path, secret).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let found = converted(&section).warnings.into_iter();
        let of_secret = found.filter(|it| it.path == "authServer.hmacSecretRefs[0].file");
        of_secret.map(|it| it.message).collect::<Vec<_>>()
    };
    let mut random = [0; 32];
    getrandom::fill(&mut random).unwrap();
    assert!(warnings(&random, 0o640).is_empty());
    let exposed = warnings(&random, 0o644);
    assert!(exposed.len() == 1 && exposed[0].contains("every user of this machine"), "{exposed:?}");
    let weak = warnings(b"change-me-change-me-change-me-12", 0o600);
    assert!(weak.len() == 1 && weak[0].contains("guessable"), "{weak:?}");
    assert!(!weak[0].contains("change-me"));
}
