//! Registration endpoint (RFC 7591).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::{Map, Value};
use vmcp_auth_store::{ApplicationType, Client, ClientAuth, ClientId, Digest, Store, Timestamp};
use vmcp_core::Clock;

use crate::client_name::is_displayable;
use crate::error::{ErrorCode, OAuthError};
use crate::event::{Event, EventKind};
use crate::event_reporter::{EventReporter, RequestEvents};
use crate::extract::{BodyError, OVERLOADED, peer_address, read_body};
use crate::random_tokens::{nonce, uuid};
use crate::rate_limits::{EndpointClass, RateLimiters};
use crate::redirect_uri::{RedirectKind, RedirectUri};
use crate::response::json;
use crate::scope::Scopes;
use crate::settings::Settings;

/// Maximum number of redirect URIs of a client.
pub const MAX_REDIRECT_URIS: usize = 10;

/// Response to a registration (RFC 7591 section 3.2.1).
#[derive(Serialize)]
struct RegistrationResponse<'a> {
    client_id: &'a str,
    client_id_issued_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<&'a str>,
    /// 0 means that the secret does not expire; present with a secret only.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret_expires_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_name: Option<&'a str>,
    redirect_uris: &'a [String],
    token_endpoint_auth_method: &'static str,
    grant_types: &'static [&'static str],
    response_types: [&'static str; 1],
    scope: String,
    application_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    software_id: Option<&'a str>,
}

/// State of the registration endpoint.
pub(crate) struct RegistrationEndpoint {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) limiters: Arc<RateLimiters>,
    pub(crate) events: EventReporter,
}

/// Handles `POST` of the registration endpoint.
pub(crate) async fn register(
    State(endpoint): State<Arc<RegistrationEndpoint>>,
    request: Request,
) -> Response {
    let events = endpoint.events.for_request(&request);
    endpoint.respond(request, &events).await.unwrap_or_else(|error| {
        tracing::info!(
            error = error.code.name(),
            reason = error.description,
            "client registration rejected"
        );
        events.report(Event::new(
            None,
            EventKind::RegistrationRejected { rejection: (&error).into() },
        ));
        error.to_response()
    })
}

impl RegistrationEndpoint {
    async fn respond(
        &self,
        request: Request,
        events: &RequestEvents,
    ) -> Result<Response, OAuthError> {
        self.limiters.admit(EndpointClass::Registration, peer_address(&request))?;
        let text = read_body(request, "application/json").await.map_err(|error| match error {
            BodyError::ContentType => {
                invalid_metadata("Content-Type is not supported: use application/json")
            }
            BodyError::TooLarge => invalid_metadata("the body is too large: send at most 64 KiB"),
            BodyError::Incomplete => {
                invalid_metadata("failed to read body: it is incomplete or took longer than 10 s")
            }
            BodyError::Overloaded => OVERLOADED,
        })?;
        let document = vmcp_jwt::parse_claims(&text);
        let document = document
            .map_err(|_| invalid_metadata("the body is not a JSON object with unique members"))?;
        let secret = secret(&document)?;
        let client = self.validate_metadata(&document, secret.as_ref())?;
        self.store.register(&client).await?;
        tracing::info!(client = %client.id, "client registered");
        let (name, redirect_uris) = (client.name.as_deref(), &*client.redirect_uris);
        let kind = EventKind::ClientRegistered { name, redirect_uris };
        events.report(Event::new(Some(client.id.as_str()), kind));
        Ok(registration_response(&client, secret.as_ref().map(|(_, secret)| secret)))
    }

    fn validate_metadata(
        &self,
        document: &Map<String, Value>,
        secret: Option<&(SecretMethod, SecretString)>,
    ) -> Result<Client, OAuthError> {
        let redirect_uris = redirect_uris(document)?;
        let grants = optional_list(document, "grant_types", &["authorization_code"])?;
        // Other grant types are not supported, and the response omits them (RFC 7591 section 3.2.1).
        if !grants.contains(&"authorization_code") {
            return Err(invalid_metadata(
                "grant_types is not supported: include authorization_code",
            ));
        }
        if !optional_list(document, "response_types", &["code"])?.contains(&"code") {
            return Err(invalid_metadata("response_types is not supported: include code"));
        }
        let name = optional_text(document, "client_name")?.filter(|name| !name.trim().is_empty());
        if name.is_some_and(|name| !is_displayable(name)) {
            let words = "client_name is invalid: use at most 256 characters without control or direction characters";
            return Err(invalid_metadata(words));
        }
        let software = optional_text(document, "software_id")?;
        let printable = |text: &str| {
            text.len() <= 256 && text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        };
        if software.is_some_and(|id| !printable(id)) {
            return Err(invalid_metadata(
                "software_id is invalid: use at most 256 characters of printable ASCII",
            ));
        }
        let now = Timestamp::from(self.clock.now());
        Ok(Client {
            id: ClientId::new(uuid()?).map_err(|_| OAuthError::server_error())?,
            name: name.map(str::to_owned),
            application_type: application_type(document, &redirect_uris)?,
            redirect_uris: redirect_uris.iter().map(|uri| uri.as_str().to_owned()).collect(),
            auth: match secret {
                None => ClientAuth::None,
                Some((SecretMethod::Basic, secret)) => {
                    ClientAuth::ClientSecretBasic(Digest::of(secret.expose_secret()))
                }
                Some((SecretMethod::Post, secret)) => {
                    ClientAuth::ClientSecretPost(Digest::of(secret.expose_secret()))
                }
            },
            refresh: grants.contains(&"refresh_token"),
            scopes: self.scopes(document)?.to_vec(),
            software_id: software.map(str::to_owned),
            created: now,
        })
    }

    /// Returns the scopes of the client: those it names, or all; the baseline is always added.
    fn scopes(&self, document: &Map<String, Value>) -> Result<Scopes, OAuthError> {
        let malformed = |_| {
            invalid_metadata(
                "scope is malformed: use space-separated scopes of at most 256 characters",
            )
        };
        let asked = match document.get("scope") {
            None | Some(Value::Null) => self.settings.scopes.clone(),
            Some(Value::String(text)) if text.trim().is_empty() => self.settings.scopes.clone(),
            Some(Value::String(text)) => Scopes::parse(text).map_err(malformed)?,
            Some(_) => Scopes::new(optional_list(document, "scope", &[])?).map_err(malformed)?,
        };
        if !asked.is_subset(&self.settings.scopes) {
            return Err(invalid_metadata("scope is not supported: use scopes of scopes_supported"));
        }
        Ok(asked.union(&self.settings.baseline_scopes))
    }
}

/// Authentication method of a client with a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretMethod {
    Basic,
    Post,
}

/// Generates the secret if the client's authentication method needs one.
fn secret(
    document: &Map<String, Value>,
) -> Result<Option<(SecretMethod, SecretString)>, OAuthError> {
    let method = match optional_text(document, "token_endpoint_auth_method")? {
        None | Some("none") => return Ok(None),
        Some("client_secret_basic") => SecretMethod::Basic,
        Some("client_secret_post") => SecretMethod::Post,
        Some(_) => {
            let words = "token_endpoint_auth_method is not supported: use none, client_secret_basic or \
             client_secret_post";
            return Err(invalid_metadata(words));
        }
    };
    Ok(Some((method, nonce()?.into())))
}

fn redirect_uris(document: &Map<String, Value>) -> Result<Vec<RedirectUri>, OAuthError> {
    let error = |words| OAuthError::new(ErrorCode::InvalidRedirectUri, words);
    let list = document.get("redirect_uris").and_then(Value::as_array);
    let list = list.filter(|list| (1..=MAX_REDIRECT_URIS).contains(&list.len()));
    let list = list.ok_or(error("redirect_uris is invalid: use a list of 1 to 10 URIs"))?;
    let read = |value: &Value| {
        let text = value.as_str().ok_or(error("redirect_uris is invalid: use strings"))?;
        RedirectUri::parse(text).map_err(|reason| {
            tracing::info!(%reason, "redirect URI rejected");
            let words = "a redirect URI is invalid: use https, http on loopback, or a private-use scheme, with at \
             most 2048 characters and without fragment or user name";
            error(words)
        })
    };
    list.iter().map(read).collect()
}

/// Returns the application type: as registered (OpenID Connect Dynamic Client Registration 1.0 section 2), or else derived
/// from the redirect URIs.
fn application_type(
    document: &Map<String, Value>,
    uris: &[RedirectUri],
) -> Result<ApplicationType, OAuthError> {
    let web = uris.iter().all(|uri| uri.kind() == RedirectKind::Web);
    match optional_text(document, "application_type")? {
        Some("native") => Ok(ApplicationType::Native),
        // Some native programs register as `web` for lack of a better value; nothing depends on it.
        Some("web") => Ok(ApplicationType::Web),
        Some(_) => Err(invalid_metadata("application_type is not supported: use native or web")),
        None => Ok(if web { ApplicationType::Web } else { ApplicationType::Native }),
    }
}

fn registration_response(client: &Client, secret: Option<&SecretString>) -> Response {
    let registered = RegistrationResponse {
        client_id: client.id.as_str(),
        client_id_issued_at: client.created.unix(),
        client_secret: secret.map(ExposeSecret::expose_secret),
        client_secret_expires_at: secret.map(|_| 0),
        client_name: client.name.as_deref(),
        redirect_uris: &client.redirect_uris,
        token_endpoint_auth_method: match client.auth {
            ClientAuth::None => "none",
            ClientAuth::ClientSecretBasic(_) => "client_secret_basic",
            ClientAuth::ClientSecretPost(_) => "client_secret_post",
        },
        grant_types: if client.refresh {
            &["authorization_code", "refresh_token"]
        } else {
            &["authorization_code"]
        },
        response_types: ["code"],
        scope: client.scopes.join(" "),
        application_type: match client.application_type {
            ApplicationType::Native => "native",
            ApplicationType::Web => "web",
        },
        software_id: client.software_id.as_deref(),
    };
    json(StatusCode::CREATED, &registered)
}

fn optional_text<'a>(
    document: &'a Map<String, Value>,
    member: &str,
) -> Result<Option<&'a str>, OAuthError> {
    match document.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid_metadata("a metadata member has the wrong type: use a string")),
    }
}

fn optional_list<'a>(
    document: &'a Map<String, Value>,
    member: &str,
    unless: &[&'a str],
) -> Result<Vec<&'a str>, OAuthError> {
    let malformed =
        invalid_metadata("a metadata member has the wrong type: use a list of at most 64 strings");
    match document.get(member) {
        None | Some(Value::Null) => Ok(unless.to_vec()),
        Some(Value::Array(list)) if list.len() <= 64 => {
            list.iter().map(|one| one.as_str().ok_or(malformed.clone())).collect()
        }
        Some(_) => Err(malformed),
    }
}

fn invalid_metadata(words: &'static str) -> OAuthError {
    OAuthError::new(ErrorCode::InvalidClientMetadata, words)
}
