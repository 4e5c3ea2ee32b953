//! Surroundings of gateways with their own authorization servers: two independent identity providers, a backend, and the
//! secrets that replicas share.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use vmcp_tests::counterparts::{Certificates, Fixture, Gateway, UpstreamProvider};
use vmcp_tests::fixture::Generation;

/// Surroundings of gateways; dropping this removes the files.
pub(super) struct TestEnv {
    pub(super) first: UpstreamProvider,
    /// Provider that rotates its refresh tokens; the backend receives its token.
    pub(super) second: UpstreamProvider,
    pub(super) fixture: Fixture,
    secrets: PathBuf,
}

impl TestEnv {
    /// Configures both providers by their endpoints.
    pub(super) async fn plain() -> Self {
        Self::around(UpstreamProvider::start(false).await.unwrap()).await
    }

    /// Configures the first provider over TLS by its issuer alone.
    pub(super) async fn secured() -> Self {
        Self::around(UpstreamProvider::start_secured(false).await.unwrap()).await
    }

    async fn around(first: UpstreamProvider) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("vmcp-issuing-{}-{number}", std::process::id());
        let secrets = std::env::temp_dir().join(name);
        fs::create_dir_all(&secrets).unwrap();
        let signing = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        for (name, text) in [
            ("client", "basic: s3cr3t+/%\n"),
            ("token", "1nitial\n"),
            ("password", "canary\n"),
            ("user", "issuer\n"),
            ("hmac", "a secret of 32 bytes, or of more"),
            ("signing", &signing.serialize_pem()),
        ] {
            fs::write(secrets.join(name), text).unwrap();
        }
        let second = UpstreamProvider::start(true).await.unwrap();
        let fixture = Fixture::start(Generation::Both).await.unwrap();
        Self { first, second, fixture, secrets }
    }

    /// Returns a reference to one of the secrets.
    pub(super) fn secret(&self, name: &str) -> String {
        format!("{{file: \"{}\"}}", self.secrets.join(name).display())
    }

    /// Replaces one of the secrets.
    pub(super) fn rotates(&self, name: &str, text: &str) {
        fs::write(self.secrets.join(name), text).unwrap();
    }

    /// Starts a single gateway that trusts the providers' certificates.
    pub(super) async fn gateway(&self, storage: &str) -> Gateway {
        self.trusting(Certificates::shared().unwrap(), storage).await
    }

    /// Starts a single gateway that trusts these certificates.
    pub(super) async fn trusting(&self, certificates: &Certificates, storage: &str) -> Gateway {
        let yaml = |url: &str| self.config(url.trim_end_matches("/mcp"), storage);
        let variables = [("SSL_CERT_FILE", &*certificates.ca())];
        Gateway::start_knowing_among(yaml, &variables).await.unwrap()
    }

    /// Starts a gateway with this public origin behind another address.
    pub(super) async fn replica(&self, origin: &str, storage: &str) -> Gateway {
        Gateway::start(&self.config(origin, storage)).await.unwrap()
    }

    /// Returns `authServer.storage` with this Redis and its password.
    pub(super) fn redis(&self, place: &str) -> String {
        let password = self.secret("password");
        format!(
            "  storage: {{type: redis, redis: {{{place}, dialTimeout: 1s, \
             aclUserConfig: {{passwordSecretRef: {password}}}}}}}\n"
        )
    }

    pub(super) fn config(&self, origin: &str, storage: &str) -> String {
        let backend = self.fixture.url();
        let (hmac, signing) = (self.secret("hmac"), self.secret("signing"));
        format!(
            "name: tests\n\
             incomingAuth:\n  \
               type: oidc\n  \
               oidc: {{issuer: \"{origin}\", clientId: gateway, audience: \"{origin}/mcp\", insecureAllowHttp: true, \
                 protectedResourceAllowPrivateIp: true, scopes: [tools]}}\n\
             authServer:\n  issuer: \"{origin}\"\n  hmacSecretRefs: [{hmac}]\n  \
             signingKeySecretRefs: [{signing}]\n{storage}  upstreamProviders:\n{}{}\
             outgoingAuth: {{source: inline, default: {{type: upstream_inject, \
               upstreamInject: {{providerName: second}}}}}}\n\
             backends:\n\
             - {{name: fixture, url: \"{backend}\", transport: streamable-http}}\n\
             aggregation:\n  \
               conflictResolution: priority\n  \
               conflictResolutionConfig: {{priorityOrder: [fixture]}}\n",
            self.first(origin),
            self.second(origin)
        )
    }

    /// Returns the provider with a preregistered client.
    fn first(&self, origin: &str) -> String {
        let at = self.first.issuer();
        let client =
            format!("clientId: basic\n      clientSecretRef: {}\n      ", self.secret("client"));
        let common = common(origin);
        if at.starts_with("https") {
            return format!(
                "  - name: first\n    type: oidc\n    oidcConfig:\n      issuerUrl: \"{at}\"\n      {client}{common}"
            );
        }
        oauth2("first", &at, &(client + &common))
    }

    /// Returns the provider with dynamic registration.
    fn second(&self, origin: &str) -> String {
        let (at, token) = (self.second.issuer(), self.secret("token"));
        let client = format!(
            "dcrConfig: {{registrationEndpoint: \"{at}/reg\", initialAccessTokenRef: {token}}}\n      "
        );
        oauth2("second", &at, &(client + &common(origin)))
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.secrets);
    }
}

fn common(origin: &str) -> String {
    format!(
        "redirectUri: \"{origin}/oauth/callback\"\n      \
         scopes: [openid, profile, email, offline_access]\n      \
         additionalAuthorizationParams: {{prompt: consent}}\n"
    )
}

fn oauth2(name: &str, at: &str, rest: &str) -> String {
    format!(
        "  - name: {name}\n    type: oauth2\n    oauth2Config:\n      authorizationEndpoint: \"{at}/auth\"\n      \
         tokenEndpoint: \"{at}/token\"\n      userInfo: {{endpointUrl: \"{at}/me\"}}\n      {rest}"
    )
}
