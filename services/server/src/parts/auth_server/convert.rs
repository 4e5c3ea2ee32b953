//! Conversion of the section: issuer, signing keys and lifetimes.

use std::hash::{Hash, Hasher};

use secrecy::{ExposeSecret, SecretSlice};
use vmcp_auth_server::{
    Audience, Audiences, HmacKeyRing, IssuerUrl, LifespanError, Lifespans, Scopes, Settings,
    SigningKeys, StartError,
};
use vmcp_config::auth_server::{TokenLifespans, Upstream, UpstreamKind};
use vmcp_config::{AuthServer as Section, ConfigError, Oidc, SecretFile, Warning};
use vmcp_egress::Egress;
use vmcp_upstream::SettingsError;

use super::weak_secret::is_weak;
use super::{AuthServerParts, Converter, Fetchers};
use crate::paths::is_own_path;

const AT: &str = "authServer";
const OIDC: &str = "incomingAuth.oidc";

/// Scopes that clients may request besides the required ones.
const STANDARD_SCOPES: [&str; 4] = ["openid", "profile", "email", "offline_access"];

impl Converter {
    pub(super) fn convert(
        &mut self,
        name: &str,
        section: Section<SecretFile>,
        oidc: &Oidc,
        egress: &Egress,
    ) -> Option<AuthServerParts> {
        let locations = locations(&section.upstream_providers);
        let whole = format!("{section:?}");
        let Section {
            issuer,
            authorization_endpoint_base_url,
            baseline_client_scopes,
            hmac_secret_refs,
            signing_key_secret_refs,
            storage,
            token_lifespans,
            upstream_check_interval,
            upstream_providers,
        } = section;
        format!("{storage:?}").hash(&mut self.files.digest);
        let storage_address_digest = self.files.digest.finish();
        let storage = self.storage(storage, issuer.as_str());
        let storage_digest = self.files.digest.finish();
        (name, &oidc.audience, &oidc.scopes, whole).hash(&mut self.files.digest);
        let issuer = self.issuer("issuer", issuer.as_str());
        let base = authorization_endpoint_base_url
            .map(|base| self.issuer("authorizationEndpointBaseUrl", base.as_str()));
        let audiences = self.audiences(oidc);
        let scopes = STANDARD_SCOPES.into_iter().chain(oidc.scopes.iter().map(String::as_str));
        let scopes = self.scopes(format!("{OIDC}.scopes"), scopes);
        let baseline = baseline_client_scopes.iter().map(String::as_str);
        let baseline = self.scopes(format!("{AT}.baselineClientScopes"), baseline);
        let keys = self.keys(&signing_key_secret_refs);
        let hmac = self.hmac(&hmac_secret_refs);
        let lifespans = self.lifespans(&token_lifespans);
        self.reject_foreign_endpoints(oidc);
        let mut upstreams = Vec::new();
        for ((_, at), upstream) in locations.iter().zip(upstream_providers) {
            upstreams.push(self.upstream(at, upstream, name, oidc.resource()));
        }
        let settings = Settings {
            authorization_base: base.map_or(Some(None), |base| base.map(Some))?,
            scopes: scopes?,
            baseline_scopes: baseline?,
            lifespans: lifespans?,
            upstream_check_interval: upstream_check_interval.into(),
            display_name: name.to_owned(),
            ..Settings::new(issuer?, audiences?, keys?, hmac?)
        };
        for (at, file) in std::mem::take(&mut self.files.exposed) {
            let message = format!(
                "every user of this machine may read \"{file}\": restrict it, such as with chmod 600"
            );
            self.warn(&at, &message);
        }
        let auth_server = AuthServerParts {
            settings,
            upstreams: upstreams.into_iter().collect::<Option<_>>()?,
            fetchers: Fetchers::new(egress),
            storage: storage?,
            storage_address_digest,
            storage_digest,
            digest: self.files.digest.finish(),
        };
        self.check_combinations(&auth_server, &locations);
        Some(auth_server)
    }

    fn issuer(&mut self, key: &str, text: &str) -> Option<IssuerUrl> {
        let issuer = IssuerUrl::parse(text);
        issuer
            .map_err(|error| {
                self.reject(format!("{AT}.{key}"), format!("\"{text}\""), error.to_string());
            })
            .ok()
    }

    /// Returns the resources that tokens are issued for: the resource, and the audience if clients can request it.
    fn audiences(&mut self, oidc: &Oidc) -> Option<Audiences> {
        let key = if oidc.resource.is_some() { "resource" } else { "audience" };
        let found = format!("\"{}\"", oidc.resource());
        let resource = Audience::parse(oidc.resource())
            .map_err(|error| self.reject(format!("{OIDC}.{key}"), found, error.to_string()))
            .ok()?;
        let mut audiences = vec![resource];
        if oidc.audience != oidc.resource() {
            if let Ok(audience) = Audience::parse(&oidc.audience) {
                audiences.push(audience);
            } else {
                let message = format!(
                    "no effect: clients of authServer cannot request it, and the audience of its tokens is the resource \"{}\"",
                    oidc.resource()
                );
                self.warn(&format!("{OIDC}.audience"), &message);
            }
        }
        Audiences::new(audiences)
    }

    fn scopes<'a>(&mut self, at: String, scopes: impl Iterator<Item = &'a str>) -> Option<Scopes> {
        let scopes = Scopes::new(scopes);
        scopes.map_err(|error| self.reject(at, "the scopes", error.to_string())).ok()
    }

    fn keys(&mut self, refs: &[SecretFile]) -> Option<SigningKeys> {
        let at = format!("{AT}.signingKeySecretRefs");
        if refs.is_empty() {
            self.warn(&at, "no key: a random key is generated, and all tokens become invalid when the process ends");
        }
        let pems = self.contents(&at, refs)?;
        let pems: Vec<_> = pems.iter().map(ExposeSecret::expose_secret).collect();
        let keys = SigningKeys::new(&pems).map_err(|(index, error)| {
            let found = file_name(refs, index);
            self.reject(format!("{at}[{index}].file"), found, format!("a signing key ({error})"));
        });
        keys.ok()
    }

    fn hmac(&mut self, refs: &[SecretFile]) -> Option<HmacKeyRing> {
        let at = format!("{AT}.hmacSecretRefs");
        if refs.is_empty() {
            let message = "no secret: a random one is generated, and all codes, refresh tokens and \
                           upstream tokens become invalid when the process ends";
            self.warn(&at, message);
        }
        let secrets = self.contents(&at, refs)?;
        for (index, _) in secrets.iter().enumerate().filter(|(_, secret)| is_weak(secret)) {
            let message = "the secret looks guessable, and codes, refresh tokens and the store's encryption rest on \
                           it: use random bytes, such as `openssl rand 32` prints";
            self.warn(&format!("{at}[{index}].file"), message);
        }
        let ring = HmacKeyRing::new(&secrets).map_err(|(index, error)| {
            let found = file_name(refs, index);
            self.reject(format!("{at}[{index}].file"), found, format!("a secret ({error})"));
        });
        ring.ok()
    }

    /// Reads the files that `at` names.
    fn contents(&mut self, at: &str, refs: &[SecretFile]) -> Option<Vec<SecretSlice<u8>>> {
        let files = refs.iter().enumerate();
        let read = files.map(|(index, file)| self.files.bytes(&format!("{at}[{index}]"), file));
        // Read all files before failing, so that every unreadable one is reported.
        read.collect::<Vec<_>>().into_iter().collect()
    }

    fn lifespans(&mut self, lifespans: &TokenLifespans) -> Option<Lifespans> {
        let TokenLifespans { access_token_lifespan, auth_code_lifespan, refresh_token_lifespan } =
            *lifespans;
        let (access, refresh) = (access_token_lifespan.into(), refresh_token_lifespan.into());
        let (code, defaults) = (auth_code_lifespan.into(), Lifespans::default());
        // Test each value together with valid ones, so that every invalid one is reported.
        for tried in [
            Lifespans::new(access, defaults.refresh(), defaults.code()),
            Lifespans::new(defaults.access(), refresh, defaults.code()),
            Lifespans::new(defaults.access(), defaults.refresh(), code),
        ] {
            let Err(error) = tried else { continue };
            let (key, found) = match error {
                LifespanError::Access => ("accessTokenLifespan", access_token_lifespan),
                LifespanError::Refresh => ("refreshTokenLifespan", refresh_token_lifespan),
                LifespanError::Code => ("authCodeLifespan", auth_code_lifespan),
            };
            let at = format!("{AT}.tokenLifespans.{key}");
            self.reject(at, found.to_string(), error.to_string());
        }
        Lifespans::new(access, refresh, code).ok()
    }

    /// Rejects settings that refer to another server for data of the embedded one.
    fn reject_foreign_endpoints(&mut self, oidc: &Oidc) {
        let keys = format!("{}/.well-known/jwks.json", oidc.issuer);
        if let Some(url) = oidc.jwks_url.as_ref().filter(|url| url.as_str() != keys) {
            let allowed = format!("\"{keys}\", or remove it: the keys of authServer are used");
            self.reject(format!("{OIDC}.jwksUrl"), format!("\"{url}\""), allowed);
        }
        if let Some(url) = &oidc.introspection_url {
            let allowed = "remove it: tokens of authServer are verified without introspection";
            self.reject(format!("{OIDC}.introspectionUrl"), format!("\"{url}\""), allowed);
        }
    }

    /// Reports settings that are invalid in combination.
    fn check_combinations(
        &mut self,
        auth_server: &AuthServerParts,
        locations: &[(String, String)],
    ) {
        for (settings, (_, at)) in auth_server.upstreams.iter().zip(locations) {
            match auth_server.provider_error(settings) {
                // Rejected with the scopes.
                None | Some(SettingsError::NoOpenid) => {}
                Some(error) => self.reject(at, "an unusable provider", error.to_string()),
            }
            let path = settings.redirect_uri.uri().path();
            if is_own_path(path) {
                let found = format!("the path {path}");
                self.reject(format!("{at}.redirectUri"), found, "a path that is not taken");
            }
        }
        for error in auth_server.start_errors() {
            self.reject_start_error(&error, auth_server, locations);
        }
    }

    fn reject_start_error(
        &mut self,
        error: &StartError,
        auth_server: &AuthServerParts,
        locations: &[(String, String)],
    ) {
        let redirect_uri = |provider: &str| {
            let at = locations.iter().find(|(name, _)| name == provider);
            at.map_or_else(|| AT.to_owned(), |(_, at)| format!("{at}.redirectUri"))
        };
        let providers = format!("{AT}.upstreamProviders");
        let (path, found, allowed) = match error {
            StartError::NoProvider => {
                (providers, "none".to_owned(), "at least one provider".to_owned())
            }
            StartError::DuplicateName(name) => (
                providers,
                format!("\"{name}\" twice"),
                "another name for each provider".to_owned(),
            ),
            StartError::InvalidName(name) => {
                (providers, format!("\"{name}\""), "a valid name of a provider".to_owned())
            }
            StartError::InvalidIssuer(name) => {
                let found = format!("a longer issuer or endpoint of {name}");
                (providers, found, "issuers and endpoints of at most 2000 characters".to_owned())
            }
            StartError::UnsupportedBaselineScope(scope) => {
                let allowed =
                    format!("scopes that clients can request: {}", auth_server.settings.scopes);
                (format!("{AT}.baselineClientScopes"), format!("\"{scope}\""), allowed)
            }
            StartError::ForeignRedirectUri { provider, callback, authorization_origin } => {
                let allowed = format!(
                    "a URL on {authorization_origin}, where logins start, or on the origin of the issuer or the resource"
                );
                (redirect_uri(provider), format!("one on {callback}"), allowed)
            }
            StartError::RedirectUriPathTaken { provider, path } => {
                let found = format!("the path {path} of another endpoint");
                (redirect_uri(provider), found, "a path that is not taken".to_owned())
            }
        };
        self.reject(path, found, allowed);
    }

    pub(super) fn reject(
        &mut self,
        path: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.errors.push(ConfigError::new(path, found, allowed));
    }

    pub(super) fn warn(&mut self, path: &str, message: &str) {
        let (path, message) = (path.to_owned(), message.to_owned());
        self.warnings.push(Warning { path, message, suggestion: None });
    }
}

fn locations(upstreams: &[Upstream<SecretFile>]) -> Vec<(String, String)> {
    upstreams.iter().enumerate().map(location).collect()
}

/// Returns a provider's name and the path of its settings.
fn location((index, upstream): (usize, &Upstream<SecretFile>)) -> (String, String) {
    let kind = match upstream.kind {
        UpstreamKind::Oidc(_) => "oidcConfig",
        UpstreamKind::Oauth2(_) => "oauth2Config",
    };
    let at = format!("{AT}.upstreamProviders[{index}].{kind}");
    (upstream.name.as_str().to_owned(), at)
}

fn file_name(refs: &[SecretFile], index: usize) -> String {
    let secret = refs.get(index).expect("the error has the index of a given file");
    format!("\"{}\"", secret.file.as_path().display())
}
