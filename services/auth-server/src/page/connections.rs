//! Page with the linked accounts of a user.

use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};
use vmcp_core::escape_invisible;

use crate::page::Pages;
use crate::path;

/// Linked accounts of a user.
pub(crate) struct ConnectionsPage<'a> {
    /// Display name of the user.
    pub(crate) display_name: Option<String>,
    pub(crate) connections: &'a [Connection],
    pub(crate) csrf: &'a str,
    /// Path that the forms are sent to.
    pub(crate) base: &'a str,
}

/// Login of a client.
pub(crate) struct Connection {
    /// Identifier of the session.
    pub(crate) session: String,
    /// Name that the client gave.
    pub(crate) client: String,
    pub(crate) since: String,
    pub(crate) linked: Vec<ProviderConnection>,
}

/// Provider of a login.
pub(crate) struct ProviderConnection {
    pub(crate) provider: String,
    /// State of the link; `None` if the provider is not linked.
    pub(crate) link: Option<Link>,
}

/// State of a link.
pub(crate) struct Link {
    pub(crate) scopes: String,
    pub(crate) until: String,
}

/// Account at a provider that differs from the linked one.
pub(crate) struct AccountChangePage<'a> {
    pub(crate) provider: &'a str,
    /// Display name of the account's owner, if the provider sends it.
    pub(crate) display_name: Option<&'a str>,
    /// Identifier of the session.
    pub(crate) session: &'a str,
    pub(crate) csrf: &'a str,
    /// Path that the forms are sent to.
    pub(crate) base: &'a str,
}

impl Pages {
    /// Renders the page that asks for confirmation before another account is linked.
    pub(crate) fn account_change(&self, other: &AccountChangePage<'_>) -> Response {
        let AccountChangePage { provider, display_name, session, csrf, base } = other;
        let content = html! {
            h1 { "This is another account" }
            p {
                "You logged in at " bdi { (provider) }
                @if let Some(display_name) = display_name { " as " strong { bdi { (display_name) } } }
                ". Another account is linked at the moment. Nothing was changed."
            }
            p { a href={ (base) (path::CONNECTIONS) } { "Keep the linked account" } }
            form method="post" action={ (base) (path::CONNECTIONS) } {
                input type="hidden" name="csrf" value=(csrf);
                input type="hidden" name="session" value=(session);
                input type="hidden" name="provider" value=(provider);
                input type="hidden" name="other" value="yes";
                p { "To link this account, log in there once more." }
                button type="submit" name="action" value="link" { "Link this account instead" }
            }
        };
        self.page(StatusCode::OK, "This is another account", None, &content)
    }

    /// Renders the page with the linked accounts.
    pub(crate) fn connections(&self, overview: &ConnectionsPage<'_>) -> Response {
        let content = html! {
            h1 { "Your connections" }
            @if let Some(display_name) = &overview.display_name { p { "Logged in as " strong { bdi { (escape_invisible(display_name)) } } "." } }
            @if overview.connections.is_empty() {
                p { "No connections. Log in from an application to see it here." }
            }
            @for connection in overview.connections {
                section aria-label=(connection.client) {
                    h2 { bdi { (escape_invisible(&connection.client)) } }
                    p { "Logged in since " (connection.since) }
                    @for linked in &connection.linked { (provider(overview, connection, linked)) }
                    div.buttons { (button(overview, connection, None, "end", "Log out")) }
                }
            }
            h2 { "This browser" }
            form method="post" action={ (overview.base) (path::CONNECTIONS) } {
                input type="hidden" name="csrf" value=(overview.csrf);
                button type="submit" name="action" value="forget" { "Forget me in this browser" }
            }
        };
        self.page(StatusCode::OK, "Your connections", None, &content)
    }
}

fn provider(
    overview: &ConnectionsPage<'_>,
    connection: &Connection,
    linked: &ProviderConnection,
) -> Markup {
    let button =
        |action, label| button(overview, connection, Some(&linked.provider), action, label);
    html! {
        h3 { bdi { (linked.provider) } }
        @if let Some(link) = &linked.link {
            dl {
                dt { "Scopes" }
                dd { @if link.scopes.is_empty() { "none" } @else { (link.scopes) } }
                dt { "Until" }
                dd { (link.until) }
            }
            div.buttons { (button("link", "Link again")) (button("unlink", "Unlink")) }
        } @else {
            p { "Not linked." }
            div.buttons { (button("link", "Link")) }
        }
    }
}

/// Renders a form with one button.
fn button(
    overview: &ConnectionsPage<'_>,
    connection: &Connection,
    provider: Option<&str>,
    action: &str,
    label: &str,
) -> Markup {
    html! {
        form method="post" action={ (overview.base) (path::CONNECTIONS) } {
            input type="hidden" name="csrf" value=(overview.csrf);
            input type="hidden" name="session" value=(connection.session);
            @if let Some(provider) = provider { input type="hidden" name="provider" value=(provider); }
            button type="submit" name="action" value=(action)
                aria-label={ (label) @if let Some(provider) = provider { " " (provider) } ", " (connection.client) } { (label) }
        }
    }
}
