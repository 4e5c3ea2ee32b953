//! A simulated user with a browser.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::http::exchange;
use super::{Reply, TestError};

/// Maximum number of pages and redirects in a login.
const STEPS: usize = 20;

/// A user with a browser and its cookies.
#[derive(Debug, Clone)]
pub struct Person {
    name: String,
    cookies: BTreeMap<String, String>,
    /// Scopes requested at the provider, one text per login.
    asked: Vec<String>,
}

impl Person {
    /// Creates a user without cookies.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), cookies: BTreeMap::new(), asked: Vec::new() }
    }

    /// Switches to this account: drops the cookies of providers, whose names begin with an underscore.
    pub fn changes_account(&mut self, name: &str) {
        name.clone_into(&mut self.name);
        self.cookies.retain(|cookie, _| !cookie.starts_with('_'));
    }

    /// Returns the scopes requested at the provider, one text per login.
    #[must_use]
    pub fn asked(&self) -> &[String] {
        &self.asked
    }

    /// Opens the page and completes every login and consent, at any number of providers. Returns the URL that the client
    /// then sent the browser to.
    ///
    /// # Errors
    /// Returns an error if the pages do not lead there.
    pub async fn logs_in(&mut self, page: &str) -> Result<String, TestError> {
        self.asked.push(parameter(page, "scope").unwrap_or_default());
        let back = parameter(page, "redirect_uri").ok_or("nowhere to come back to")?;
        self.walks(page, &back).await
    }

    /// Opens the page and completes every login and consent until a redirect to a URL with this prefix. Returns that URL
    /// without opening it.
    ///
    /// # Errors
    /// Returns an error if the pages do not lead there.
    pub async fn walks(&mut self, page: &str, goal: &str) -> Result<String, TestError> {
        let mut here = page.to_owned();
        let mut next = self.opens(page).await?;
        for _ in 0..STEPS {
            if let Some(place) = leads_to(&next) {
                if place.starts_with(goal) {
                    return Ok(place);
                }
                here = absolute(&here, &place);
                next = self.opens(&here).await?;
                continue;
            }
            let (there, form) = self.fills_in(&here, &next)?;
            here = there;
            next = self.sends(&here, &form).await?;
        }
        Err(format!("still not logged in after {STEPS} pages").into())
    }

    /// Opens a page.
    ///
    /// # Errors
    /// Returns an error if no complete response arrives in time.
    pub async fn opens(&mut self, page: &str) -> Result<Reply, TestError> {
        self.visit(Method::GET, page, "").await
    }

    /// Submits a form.
    ///
    /// # Errors
    /// Returns an error if no complete response arrives in time.
    pub async fn sends(&mut self, place: &str, form: &str) -> Result<Reply, TestError> {
        self.visit(Method::POST, place, form).await
    }

    /// Returns the target of the form on a page at `here`, and this user's input: the name for a provider, consent for an
    /// authorization server.
    ///
    /// # Errors
    /// Returns an error with the page if it has no such form.
    pub fn fills_in(&self, here: &str, page: &Reply) -> Result<(String, String), TestError> {
        let html = String::from_utf8_lossy(&page.body);
        let action = between(&html, "action=\"", "\"").filter(|_| page.status == StatusCode::OK);
        let (Some(action), Some(form)) = (action, self.answers(&html)) else {
            return Err(format!("a page without a form: {}: {html}", page.status).into());
        };
        Ok((absolute(here, &action.replace("&amp;", "&")), form))
    }

    fn answers(&self, html: &str) -> Option<String> {
        if let Some(prompt) = between(html, "name=\"prompt\" value=\"", "\"") {
            return Some(format!("prompt={prompt}&login={}&password=x", self.name));
        }
        let id = between(html, "name=\"id\" value=\"", "\"")?;
        let csrf = between(html, "name=\"csrf\" value=\"", "\"")?;
        Some(format!("id={id}&csrf={csrf}&decision=allow"))
    }

    async fn visit(&mut self, method: Method, url: &str, form: &str) -> Result<Reply, TestError> {
        let mut headers = HeaderMap::new();
        let cookies: Vec<_> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        headers.insert(header::COOKIE, HeaderValue::try_from(cookies.join("; "))?);
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        );
        let reply = exchange(method, url, &headers, form.to_owned().into()).await?;
        for cookie in reply.headers.get_all(header::SET_COOKIE) {
            let pair = cookie.to_str()?.split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').ok_or("a cookie without a value")?;
            // Cookie paths are ignored: the provider accepts superfluous cookies.
            if value.is_empty() {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(reply)
    }
}

/// Returns the target of a page's redirect, by header or by meta refresh.
#[must_use]
pub fn leads_to(page: &Reply) -> Option<String> {
    if let Some(place) = page.headers.get(header::LOCATION) {
        return place.to_str().ok().map(str::to_owned);
    }
    let html = String::from_utf8_lossy(&page.body);
    between(&html, "content=\"0;url=", "\"").map(|place| place.replace("&amp;", "&"))
}

/// Returns a decoded parameter of a URL, as far as scopes and URLs need decoding.
pub(crate) fn parameter(url: &str, name: &str) -> Option<String> {
    let (_, query) = url.split_once('?')?;
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.replace('+', " ").replace("%20", " ").replace("%3A", ":").replace("%2F", "/"))
}

/// Resolves a URL relative to the page at `here`.
fn absolute(here: &str, place: &str) -> String {
    if !place.starts_with('/') {
        return place.to_owned();
    }
    let origin = here.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    format!("{origin}{place}")
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(start)?.1.split_once(end)?.0)
}
