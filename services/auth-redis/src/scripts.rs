//! The steps, in Lua: a server runs each of them as a whole.

use vmcp_redis::Script;

const COMMON: &str = include_str!("scripts/common.lua");
const LOGIN: &str = include_str!("scripts/login.lua");
const ROWS: &str = include_str!("scripts/rows.lua");

/// Names the scripts, each of them after its file.
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
    burn_code;
    counts;
    drop_registration;
    drop_row with ROWS;
    drop_session;
    forget_browser;
    forget_consents;
    grant;
    keep_session;
    last_row with ROWS;
    lock_row with ROWS;
    other_issuers;
    probe;
    put_code;
    put_login with LOGIN;
    put_registration;
    put_row with ROWS;
    register;
    remember;
    replace_row with ROWS;
    revoke;
    rotate;
    sessions_of;
    start_grant;
    take_code;
    take_login with LOGIN;
    unlock_row;
    user;
}

fn script(part: &str, body: &str) -> Script {
    Script::new([COMMON, part, body].concat())
}
