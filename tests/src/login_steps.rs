//! A client of the gateway's own authorization server with its user's browser. Each step is one exchange with the gateway
//! and can be retried after a missing response.

use aws_lc_rs::digest;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::counterparts::{Person, Reply, TestError, leads_to, parameter, post, post_form};

const VERIFIER: &str = "verifier-verifier-verifier-verifier-verifie";
const BACK: &str = "http://127.0.0.1:9/callback";

/// Step of a login at a gateway with two upstream providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The client registers (RFC 7591).
    Register,
    /// The browser opens the authorization endpoint.
    Authorize,
    /// The user consents.
    Consent,
    /// The browser returns from the first provider.
    First,
    /// The browser returns from the second provider.
    Second,
    /// The client redeems its code.
    Token,
    /// The client refreshes its tokens.
    Refresh,
}

/// Result of a step.
#[derive(Debug)]
pub enum StepOutcome {
    /// The login can proceed.
    Done,
    /// No response, or a temporary error: the step can be retried.
    Unanswered(String),
    /// The step was rejected; the text is the response, or the redirect with the error.
    Refused(String),
}

/// A client in the middle of a login.
#[derive(Debug)]
pub struct Login {
    origin: String,
    person: Person,
    client: String,
    /// Consent page and its URL.
    page: Option<(String, Reply)>,
    /// Next URL of the browser.
    next: String,
    /// Redirect URL after a provider's login.
    callback: Option<String>,
    /// The access token.
    pub access: String,
    /// The refresh token.
    pub refresh: String,
}

/// Classified response of an exchange.
enum StepResponse {
    Page(Reply),
    None(StepOutcome),
}

impl Step {
    /// All steps in order.
    pub const ALL: [Self; 7] = [
        Self::Register,
        Self::Authorize,
        Self::Consent,
        Self::First,
        Self::Second,
        Self::Token,
        Self::Refresh,
    ];
}

impl Login {
    /// Creates a client and its user at the gateway of this origin.
    #[must_use]
    pub fn new(origin: &str, person: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            person: Person::named(person),
            client: String::new(),
            page: None,
            next: String::new(),
            callback: None,
            access: String::new(),
            refresh: String::new(),
        }
    }

    /// Takes all steps up to this one.
    ///
    /// # Errors
    /// Returns an error if one of them gets no response, or a rejection.
    pub async fn goes(&mut self, last: Step) -> Result<(), TestError> {
        for step in Step::ALL {
            match self.takes(step).await? {
                StepOutcome::Done if step == last => break,
                StepOutcome::Done => {}
                other => return Err(format!("{step:?}: {other:?}").into()),
            }
        }
        Ok(())
    }

    /// Takes one step, after all previous ones.
    ///
    /// # Errors
    /// Returns an error if a provider returns no redirect, or a response is invalid.
    pub async fn takes(&mut self, step: Step) -> Result<StepOutcome, TestError> {
        match step {
            Step::Register => self.registers().await,
            Step::Authorize => self.authorizes().await,
            Step::Consent => self.agrees().await,
            Step::First | Step::Second => self.returns().await,
            Step::Token => {
                let code = parameter(&self.next, "code").ok_or("no code")?;
                let form = format!(
                    "grant_type=authorization_code&code={code}&code_verifier={VERIFIER}&redirect_uri={BACK}"
                );
                self.renews(&form).await
            }
            Step::Refresh => {
                let form = format!("grant_type=refresh_token&refresh_token={}", self.refresh);
                self.renews(&form).await
            }
        }
    }

    /// Revokes its tokens (RFC 7009).
    ///
    /// # Errors
    /// Returns an error if the server rejects the request.
    pub async fn revokes(&self) -> Result<(), TestError> {
        let form = format!("token={}&client_id={}", self.refresh, self.client);
        let reply = post_form(&format!("{}/oauth/revoke", self.origin), &form).await?;
        if reply.status == StatusCode::OK { Ok(()) } else { Err(format!("{reply:?}").into()) }
    }

    /// Creates a client with the URL of its metadata document as id, which does not register.
    #[must_use]
    pub fn of_document(origin: &str, person: &str, url: &str) -> Self {
        Self { client: url.to_owned(), ..Self::new(origin, person) }
    }

    /// Unlinks a provider on the connections page of this origin.
    ///
    /// # Errors
    /// Returns an error if the server rejects the request.
    pub async fn unlinks(&mut self, origin: &str, provider: &str) -> Result<(), TestError> {
        let page = connections(origin);
        let shown = self.person.opens(&page).await?;
        let form = link_form(&shown, &format!("provider={provider}&action=unlink"))?;
        let reply = self.person.sends(&page, &form).await?;
        if reply.status == StatusCode::OK { Ok(()) } else { Err(format!("{reply:?}").into()) }
    }

    /// Uses this account for subsequent provider logins, in the same browser.
    pub fn changes_account(&mut self, name: &str) {
        self.person.changes_account(name);
    }

    /// Starts relinking a provider on the connections page, and logs in at the provider.
    ///
    /// # Errors
    /// Returns an error if the page or the provider returns no redirect.
    pub async fn starts_link(&mut self, provider: &str) -> Result<(), TestError> {
        let shown = self.person.opens(&connections(&self.origin)).await?;
        self.submits_link(&shown, &format!("provider={provider}&action=link")).await
    }

    /// Confirms the link of another account, and logs in at the provider once more.
    ///
    /// # Errors
    /// Returns an error if the page or the provider returns no redirect.
    pub async fn confirms_link(&mut self, page: &Reply, provider: &str) -> Result<(), TestError> {
        self.submits_link(page, &format!("provider={provider}&other=yes&action=link")).await
    }

    async fn submits_link(&mut self, page: &Reply, fields: &str) -> Result<(), TestError> {
        let (place, form) = (connections(&self.origin), link_form(page, fields)?);
        let reply = self.person.sends(&place, &form).await?;
        let to = leads_to(&reply).ok_or_else(|| format!("leads nowhere: {reply:?}"))?;
        let goal = format!("{}/", self.origin);
        self.callback = Some(self.person.walks(&to, &goal).await?);
        Ok(())
    }

    /// Returns from the provider that is linked again.
    ///
    /// # Errors
    /// Returns an error if no response arrives in time.
    pub async fn ends_link(&mut self) -> Result<Reply, TestError> {
        let callback = self.callback.take().ok_or("no link was begun")?;
        self.person.opens(&callback).await
    }

    async fn registers(&mut self) -> Result<StepOutcome, TestError> {
        let document = json!({ "client_name": "Tests", "redirect_uris": [BACK],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"] });
        let url = format!("{}/oauth/register", self.origin);
        let reply = match answered(post(&url, &HeaderMap::new(), &document).await) {
            StepResponse::Page(reply) => reply,
            StepResponse::None(taken) => return Ok(taken),
        };
        let registered: Value = serde_json::from_slice(&reply.body)?;
        let id = registered["client_id"].as_str();
        id.ok_or_else(|| format!("no client: {registered}"))?.clone_into(&mut self.client);
        Ok(StepOutcome::Done)
    }

    async fn authorizes(&mut self) -> Result<StepOutcome, TestError> {
        let challenge = digest::digest(&digest::SHA256, VERIFIER.as_bytes());
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(challenge);
        let url = format!(
            "{origin}/oauth/authorize?response_type=code&client_id={client}&redirect_uri={BACK}\
             &state=the-state&code_challenge={challenge}&code_challenge_method=S256\
             &scope=tools+offline_access&resource={origin}/mcp",
            origin = self.origin,
            client = self.client
        );
        self.callback = None;
        match answered(self.person.opens(&url).await) {
            StepResponse::Page(reply) => self.page = Some((url, reply)),
            StepResponse::None(taken) => return Ok(taken),
        }
        Ok(StepOutcome::Done)
    }

    async fn agrees(&mut self) -> Result<StepOutcome, TestError> {
        let (here, page) = self.page.as_ref().ok_or("no page")?;
        if let Some(place) = leads_to(page) {
            // A user who consented before sees no consent page.
            self.next = place;
            return Ok(StepOutcome::Done);
        }
        let (place, form) = self.person.fills_in(here, page)?;
        match answered(self.person.sends(&place, &form).await) {
            StepResponse::Page(reply) => self.is_sent(&reply),
            StepResponse::None(taken) => Ok(taken),
        }
    }

    async fn returns(&mut self) -> Result<StepOutcome, TestError> {
        if self.callback.is_none() {
            let goal = format!("{}/", self.origin);
            self.callback = Some(self.person.walks(&self.next, &goal).await?);
        }
        let callback = self.callback.clone().unwrap_or_default();
        match answered(self.person.opens(&callback).await) {
            StepResponse::Page(reply) => {
                let taken = self.is_sent(&reply);
                self.callback = None;
                taken
            }
            StepResponse::None(taken) => Ok(taken),
        }
    }

    fn is_sent(&mut self, reply: &Reply) -> Result<StepOutcome, TestError> {
        let place = leads_to(reply).ok_or_else(|| format!("leads nowhere: {reply:?}"))?;
        if place.starts_with(BACK) && parameter(&place, "error").is_some() {
            return Ok(StepOutcome::Refused(place));
        }
        self.next = place;
        Ok(StepOutcome::Done)
    }

    async fn renews(&mut self, form: &str) -> Result<StepOutcome, TestError> {
        let form = format!("{form}&client_id={}", self.client);
        let reply = match answered(post_form(&format!("{}/oauth/token", self.origin), &form).await)
        {
            StepResponse::Page(reply) => reply,
            StepResponse::None(taken) => return Ok(taken),
        };
        let tokens: Value = serde_json::from_slice(&reply.body)?;
        let text = |name: &str| tokens[name].as_str().map(str::to_owned);
        self.access = text("access_token").ok_or("no access token")?;
        self.refresh = text("refresh_token").ok_or("no refresh token")?;
        Ok(StepOutcome::Done)
    }
}

/// Returns the URL of the connections page.
fn connections(origin: &str) -> String {
    format!("{origin}/oauth/connections")
}

/// Returns a form with these fields and those that identify the first session on the page.
fn link_form(page: &Reply, fields: &str) -> Result<String, TestError> {
    let html = String::from_utf8_lossy(&page.body);
    let field = |name: &str| {
        let value = html.split_once(&format!("name=\"{name}\" value=\""))?.1;
        Some(value.split_once('"')?.0)
    };
    let (Some(csrf), Some(session)) = (field("csrf"), field("session")) else {
        return Err(format!("no connection: {}: {html}", page.status).into());
    };
    Ok(format!("csrf={csrf}&session={session}&{fields}"))
}

/// Classifies a response; transport errors and temporary errors count as unanswered.
fn answered(reply: Result<Reply, TestError>) -> StepResponse {
    let said =
        |reply: &Reply| format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body));
    StepResponse::None(match reply {
        Ok(reply) if reply.status.is_server_error() => StepOutcome::Unanswered(said(&reply)),
        Ok(reply) if reply.status.is_client_error() => StepOutcome::Refused(said(&reply)),
        Ok(reply) => return StepResponse::Page(reply),
        Err(fault) => StepOutcome::Unanswered(fault.to_string()),
    })
}
