//! Parameters that request a new authentication.

/// Reauthentication parameters of an authorization request, in addition to the configured ones
/// (OpenID Connect Core 1.0 section 3.1.2.1). Providers that do not support them ignore them; check
/// [`Login::authenticated`].
///
/// [`Login::authenticated`]: crate::Login::authenticated
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReauthParams {
    /// Requires the user to authenticate again (`prompt=login`).
    pub login: bool,
    /// Requires the user to choose an account (`prompt=select_account`).
    pub select_account: bool,
    /// Maximum age of the authentication in seconds (`max_age`).
    pub max_age: Option<u32>,
}

impl ReauthParams {
    /// Returns the parameter `prompt`, merged with the `configured` one.
    pub(crate) fn prompt(self, configured: Option<&str>) -> Option<String> {
        let own = [(self.login, "login"), (self.select_account, "select_account")];
        let own = own.iter().filter(|(wanted, _)| *wanted).map(|(_, word)| *word);
        let mut words: Vec<&str> =
            configured.into_iter().flat_map(|text| text.split(' ')).collect();
        for word in own {
            // `none` must not be combined with other values.
            words.retain(|known| *known != "none" && *known != word);
            words.push(word);
        }
        (!words.is_empty()).then(|| words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_prompt_with_configuration() {
        let login = ReauthParams { login: true, ..ReauthParams::default() };
        let both = ReauthParams { select_account: true, ..login };
        for (wanted, configured, sent) in [
            (ReauthParams::default(), None, None),
            (ReauthParams::default(), Some("none"), Some("none")),
            (login, None, Some("login")),
            (login, Some("none"), Some("login")),
            (login, Some("login consent"), Some("consent login")),
            (both, Some("consent"), Some("consent login select_account")),
        ] {
            assert_eq!(wanted.prompt(configured).as_deref(), sent, "{wanted:?} {configured:?}");
        }
    }
}
