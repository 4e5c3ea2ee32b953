//! Lua scripts of the steps, which Redis runs atomically.

use vmcp_redis::Script;

const COMMON: &str = include_str!("scripts/common.lua");
const RECORD: &str = include_str!("scripts/record.lua");
const ROOM: &str = include_str!("scripts/room.lua");
const WRITTEN: &str = include_str!("scripts/written.lua");

/// Flags of a script: a full Redis, or one that cannot store, rejects it as a whole before its first command.
const WRITES: &str = "#!lua\n";
/// Flags of a script that needs little memory or frees some: a full Redis runs it.
const FREES: &str = "#!lua flags=allow-oom\n";
/// Flags of a script that does not write.
const READS: &str = "#!lua flags=no-writes\n";

/// Defines the scripts, each named after its file.
macro_rules! scripts {
    ($($name:ident: $flags:ident $($part:ident)*;)*) => {
        /// All scripts.
        #[derive(Debug)]
        pub(crate) struct Scripts {
            $(pub(crate) $name: Script,)*
        }

        impl Scripts {
            pub(crate) fn new() -> Self {
                Self {
                    $($name: Script::new([
                        $flags,
                        COMMON,
                        $($part,)*
                        include_str!(concat!("scripts/", stringify!($name), ".lua")),
                    ].concat()),)*
                }
            }
        }
    };
}

scripts! {
    acquire: WRITES RECORD;
    commit: WRITES ROOM WRITTEN;
    counts: FREES;
    create: WRITES ROOM;
    finish: FREES WRITTEN;
    list: READS;
    probe: WRITES;
    progress: READS;
    read: READS RECORD;
    release: FREES WRITTEN;
    renew: FREES WRITTEN;
}
