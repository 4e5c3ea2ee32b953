//! Reporter of events to the server's observer.

use std::sync::Arc;

use http::Request;
use vmcp_auth_store::Login;

use crate::error::OAuthError;
use crate::error_page::ErrorPage;
use crate::event::{Event, EventContext, EventKind, Observer};
use crate::upstream_provider::UpstreamProviders;

/// Sender of events to the observer, if there is one.
#[derive(Clone)]
pub(crate) struct EventReporter {
    observer: Option<Arc<dyn Observer>>,
    providers: UpstreamProviders,
}

/// Sender of the events that one request causes.
pub(crate) struct RequestEvents {
    reporter: EventReporter,
    context: Option<EventContext>,
}

impl EventReporter {
    pub(crate) fn new(observer: Option<Arc<dyn Observer>>, providers: UpstreamProviders) -> Self {
        Self { observer, providers }
    }

    /// Returns `true` if there is an observer.
    pub(crate) fn is_enabled(&self) -> bool {
        self.observer.is_some()
    }

    /// Returns the sender of the events that `request` causes.
    pub(crate) fn for_request<B>(&self, request: &Request<B>) -> RequestEvents {
        let context = request.extensions().get::<EventContext>().cloned();
        RequestEvents { reporter: self.clone(), context }
    }

    /// Reports an event that no request causes.
    pub(crate) fn report_background(&self, event: Event<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(&event);
        }
    }
}

impl RequestEvents {
    pub(crate) fn report(&self, event: Event<'_>) {
        self.reporter.report_background(Event { context: self.context.as_ref(), ..event });
    }

    /// Reports a login that ended with an error page, and returns the page.
    pub(crate) fn report_error_page(&self, login: Option<&Login>, page: ErrorPage) -> ErrorPage {
        let kind = EventKind::LoginFailed { provider: None, rejection: page.into() };
        self.report(login.map_or(Event::new(None, kind), |login| Event::of_login(login, kind)));
        page
    }

    /// Reports a login that ended with an error for the client.
    pub(crate) fn report_login_failure(&self, login: &Login, error: &OAuthError) {
        self.report(Event::of_login(login, self.login_failure(error)));
    }

    /// Returns the event of a login that ended with an error for the client.
    pub(crate) fn login_failure<'a>(&'a self, error: &OAuthError) -> EventKind<'a> {
        let upstream = error.upstream.and_then(|index| self.reporter.providers.get(index));
        let provider = upstream.map(|upstream| upstream.name.as_str());
        EventKind::LoginFailed { provider, rejection: error.into() }
    }
}
