//! The person in front of the browser.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::http::exchange;
use super::{Fault, Reply};

/// How many pages and redirects a login may have.
const STEPS: usize = 20;

/// Somebody with a browser, whose cookies stay.
#[derive(Debug, Clone)]
pub struct Person {
    name: String,
    cookies: BTreeMap<String, String>,
    /// The scopes that the provider was asked for, one text for each login.
    asked: Vec<String>,
}

impl Person {
    /// Somebody who has not logged in anywhere yet.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), cookies: BTreeMap::new(), asked: Vec::new() }
    }

    /// Logs in under this name from now on: providers, whose cookies begin with an underscore, have forgotten the other
    /// one.
    pub fn changes_account(&mut self, name: &str) {
        name.clone_into(&mut self.name);
        self.cookies.retain(|cookie, _| !cookie.starts_with('_'));
    }

    /// The scopes that the provider was asked for, one text for each login.
    #[must_use]
    pub fn asked(&self) -> &[String] {
        &self.asked
    }

    /// Opens the page, logs in and consents to whatever is asked, at however many providers that leads through. Where
    /// the client then sent the browser to.
    ///
    /// # Errors
    /// When the pages lead nowhere.
    pub async fn logs_in(&mut self, page: &str) -> Result<String, Fault> {
        self.asked.push(parameter(page, "scope").unwrap_or_default());
        let back = parameter(page, "redirect_uri").ok_or("nowhere to come back to")?;
        self.walks(page, &back).await
    }

    /// Opens the page, logs in and consents to whatever is asked, until the browser is sent to a place that begins so.
    /// That place, which is not opened.
    ///
    /// # Errors
    /// When the pages lead nowhere.
    pub async fn walks(&mut self, page: &str, goal: &str) -> Result<String, Fault> {
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
    /// When there is no whole answer in time.
    pub async fn opens(&mut self, page: &str) -> Result<Reply, Fault> {
        self.visit(Method::GET, page, "").await
    }

    /// Sends a form.
    ///
    /// # Errors
    /// When there is no whole answer in time.
    pub async fn sends(&mut self, place: &str, form: &str) -> Result<Reply, Fault> {
        self.visit(Method::POST, place, form).await
    }

    /// Where the form of a page at `here` goes, and what this person sends with it: who they are to a provider, that
    /// they agree to an authorization server.
    ///
    /// # Errors
    /// When the page has no such form; the message has the page.
    pub fn fills_in(&self, here: &str, page: &Reply) -> Result<(String, String), Fault> {
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

    async fn visit(&mut self, method: Method, url: &str, form: &str) -> Result<Reply, Fault> {
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
            // Whichever path it is for: the provider takes no harm from too many.
            if value.is_empty() {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(reply)
    }
}

/// Where a page sends the browser, by a redirect or by itself.
#[must_use]
pub fn leads_to(page: &Reply) -> Option<String> {
    if let Some(place) = page.headers.get(header::LOCATION) {
        return place.to_str().ok().map(str::to_owned);
    }
    let html = String::from_utf8_lossy(&page.body);
    between(&html, "content=\"0;url=", "\"").map(|place| place.replace("&amp;", "&"))
}

/// A parameter of a URL, decoded as far as scopes and URLs need it.
pub(crate) fn parameter(url: &str, name: &str) -> Option<String> {
    let (_, query) = url.split_once('?')?;
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.replace('+', " ").replace("%20", " ").replace("%3A", ":").replace("%2F", "/"))
}

/// A place as a page at `here` names it.
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
