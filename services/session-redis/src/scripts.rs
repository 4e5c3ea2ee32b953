//! Lua scripts of the steps, which Redis runs atomically.

use vmcp_redis::Script;

const COMMON: &str = include_str!("scripts/common.lua");
const RECORD: &str = include_str!("scripts/record.lua");
const TOMBSTONE: &str = include_str!("scripts/tombstone.lua");

/// Defines the scripts, each named after its file.
macro_rules! scripts {
    ($($name:ident = $file:literal $(with $($part:ident)+)?;)*) => {
        /// All scripts.
        #[derive(Debug)]
        pub(crate) struct Scripts {
            $(pub(crate) $name: Script,)*
        }

        impl Scripts {
            pub(crate) fn new() -> Self {
                Self {
                    $($name: Script::new(
                        [
                            COMMON,
                            $($($part,)+)?
                            include_str!(concat!("scripts/", $file, ".lua")),
                        ]
                        .concat(),
                    ),)*
                }
            }
        }
    };
}

scripts! {
    check = "check" with RECORD;
    create = "create" with RECORD;
    end = "end" with RECORD TOMBSTONE;
    end_again = "end_again" with TOMBSTONE;
    ended_since = "ended_since";
    held_streams = "held_streams";
    hold_stream = "hold_stream" with RECORD;
    leave = "leave" with RECORD;
    merge = "merge" with RECORD;
    probe = "probe";
    replace_backend_session = "replace_backend_session" with RECORD;
    restore = "restore" with RECORD;
    set_level = "set_level" with RECORD;
    subscribe = "subscribe" with RECORD;
    touch = "touch";
    write = "write";
}
