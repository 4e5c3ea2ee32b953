//! Lua scripts of the steps, which Redis runs atomically.

use vmcp_redis::Script;

const COMMON: &str = include_str!("scripts/common.lua");
const LOGIN: &str = include_str!("scripts/login.lua");
const UPSTREAM_TOKENS: &str = include_str!("scripts/upstream_tokens.lua");

/// Defines the scripts, each named after its file.
macro_rules! scripts {
    ($($name:ident $(with $part:ident)?;)*) => {
        /// All scripts.
        #[derive(Debug)]
        pub(crate) struct Scripts {
            $(pub(crate) $name: Script,)*
        }

        impl Scripts {
            pub(crate) fn new() -> Self {
                Self {
                    $($name: script(
                        [$($part)?].first().copied().unwrap_or_default(),
                        include_str!(concat!("scripts/", stringify!($name), ".lua")),
                    ),)*
                }
            }
        }
    };
}

scripts! {
    browser;
    invalidate_code;
    counts;
    remove_registration;
    remove_upstream_token with UPSTREAM_TOKENS;
    end_session;
    remove_browser;
    remove_consents;
    grant;
    extend_session;
    latest_upstream_token with UPSTREAM_TOKENS;
    lock_upstream_token with UPSTREAM_TOKENS;
    conflicting_issuers;
    probe;
    put_code;
    put_login with LOGIN;
    put_registration;
    put_upstream_token with UPSTREAM_TOKENS;
    register;
    put_browser;
    replace_upstream_token with UPSTREAM_TOKENS;
    revoke;
    rotate;
    sessions_of;
    start_grant;
    redeem_code;
    take_login with LOGIN;
    unlock_upstream_token;
    upsert_user;
}

fn script(part: &str, body: &str) -> Script {
    Script::new([COMMON, part, body].concat())
}
