//! Consent page, which asks a user whether a client may act for them.

use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};
use vmcp_core::escape_invisible;

use crate::page::Pages;
use crate::path;
use crate::redirect_uri::{RedirectKind, RedirectUri};
use crate::scope::Scopes;

/// Content of the consent page.
pub(crate) struct ConsentPage<'a> {
    /// Name that the client gave.
    pub(crate) client: &'a str,
    /// Host of the client's metadata document; `None` for a client that registered itself.
    pub(crate) metadata_host: Option<&'a str>,
    pub(crate) redirect: &'a RedirectUri,
    pub(crate) scopes: &'a Scopes,
    /// Audience of the tokens.
    pub(crate) resource: &'a str,
    /// Providers at which the user logs in, in order.
    pub(crate) providers: &'a [&'a str],
    /// Identifier of the login.
    pub(crate) id: &'a str,
    pub(crate) csrf: &'a str,
    /// Path that the form is sent to.
    pub(crate) base: &'a str,
}

impl Pages {
    /// Renders the consent page.
    pub(crate) fn consent(&self, ask: &ConsentPage<'_>) -> Response {
        let ConsentPage {
            client,
            metadata_host,
            redirect,
            scopes,
            resource,
            providers,
            id,
            csrf,
            base,
        } = ask;
        let (client, resource) = (&*escape_invisible(client), &*escape_invisible(resource));
        let place = redirect.destination();
        let content = html! {
            h1 { "Allow " bdi { (client) } " to use " (self.name) " on your behalf?" }
            dl {
                dt { "Application" }
                dd {
                    strong { bdi { (client) } } ". "
                    @if let Some(host) = metadata_host {
                        "The application is described by " strong { bdi { (host) } } "."
                    } @else {
                        "The application registered itself. Its name is not verified."
                    }
                }
                dt { "You return to" }
                dd { (destination(redirect.kind())) strong { bdi { (place) } } }
                dt { "Resource" }
                dd { bdi { (resource) } }
            }
            @if redirect.kind() == RedirectKind::Loopback {
                p.note role="note" {
                    "Allow this only if you have just started a login in a program on this computer: any program on \
                     this computer can send this request."
                }
            }
            h2 { "Requested permissions" }
            (permissions(scopes))
            h2 { "Next steps" }
            p {
                "You log in at "
                @for (at, provider) in providers.iter().enumerate() {
                    @if at > 0 { ", then at " }
                    strong { bdi { (provider) } }
                }
                ". Your password and the tokens of " @if providers.len() == 1 { "this provider" } @else { "these providers" }
                " are not given to " bdi { (client) } "."
            }
            form method="post" action={ (base) (path::CONSENT) } {
                input type="hidden" name="id" value=(id);
                input type="hidden" name="csrf" value=(csrf);
                div.buttons {
                    button.main type="submit" name="decision" value="allow" { "Allow" }
                    button type="submit" name="decision" value="deny" { "Deny" }
                }
            }
        };
        self.page(StatusCode::OK, "Allow access?", None, &content)
    }
}

fn permissions(scopes: &Scopes) -> Markup {
    html! {
        ul {
            @for scope in scopes.iter() {
                li {
                    @match explain(scope) {
                        Some(words) => { (words) " (" code { (scope) } ")" }
                        None => { "use the permission " code { (scope) } " of this server" }
                    }
                }
            }
            @if scopes.is_empty() { li { "use this server on your behalf" } }
        }
    }
}

fn destination(kind: RedirectKind) -> &'static str {
    match kind {
        RedirectKind::Web => "The site ",
        RedirectKind::Loopback => "A program on this computer: ",
        RedirectKind::App => "The application on this device that handles ",
    }
}

/// Describes a scope for the user; `None` for one that the operator defined.
fn explain(scope: &str) -> Option<&'static str> {
    match scope {
        "openid" => Some("identify you"),
        "profile" => Some("see your name"),
        "email" => Some("see your email address"),
        "offline_access" | "offline" => Some("keep access while you are offline"),
        _ => None,
    }
}
