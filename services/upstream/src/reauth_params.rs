//! How anew users are to log in, as whoever sends them wants it.

/// What an authorization request asks for beside what the operator configured (OpenID Connect Core 1.0 section
/// 3.1.2.1). A provider that does not know these parameters ignores them: [`Login::authenticated`] says what it did.
///
/// [`Login::authenticated`]: crate::Login::authenticated
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReauthParams {
    /// The user proves anew who they are, even if the provider knows them (`prompt=login`).
    pub login: bool,
    /// The user chooses an account, even if the provider knows one (`prompt=select_account`).
    pub select_account: bool,
    /// How many seconds ago the user may have proved it at most (`max_age`).
    pub max_age: Option<u32>,
}

impl ReauthParams {
    /// The parameter `prompt`, with what is `configured` for it.
    pub(crate) fn prompt(self, configured: Option<&str>) -> Option<String> {
        let own = [(self.login, "login"), (self.select_account, "select_account")];
        let own = own.iter().filter(|(wanted, _)| *wanted).map(|(_, word)| *word);
        let mut words: Vec<&str> =
            configured.into_iter().flat_map(|text| text.split(' ')).collect();
        for word in own {
            // Who is not to be asked anything cannot be asked that.
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
