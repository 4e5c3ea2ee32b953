//! Lua scripts of the steps, which Redis runs atomically.

use vmcp_redis::Script;

const COMMON: &str = include_str!("scripts/common.lua");
const RECORD: &str = include_str!("scripts/record.lua");
const ROOM: &str = include_str!("scripts/room.lua");
const WRITTEN: &str = include_str!("scripts/written.lua");

/// Script of a step.
#[derive(Debug)]
pub(crate) struct StepScript {
    pub(crate) script: Script,
    /// `true` if a full Redis rejects it.
    pub(crate) takes_memory: bool,
}

/// First line of a script.
struct Flags {
    line: &'static str,
    takes_memory: bool,
}

/// Flags of a script that a full Redis, or one that cannot store, rejects as a whole before its first command.
const WRITES: Flags = Flags { line: "#!lua\n", takes_memory: true };
/// Flags of a script that needs little memory or frees some: a full Redis runs it.
const FREES: Flags = Flags { line: "#!lua flags=allow-oom\n", takes_memory: false };
/// Flags of a script that does not write.
const READS: Flags = Flags { line: "#!lua flags=no-writes\n", takes_memory: false };

/// Defines the scripts, each named after its file.
macro_rules! scripts {
    ($($name:ident: $flags:ident $($part:ident)*;)*) => {
        /// All scripts.
        #[derive(Debug)]
        pub(crate) struct Scripts {
            $(pub(crate) $name: StepScript,)*
        }

        impl Scripts {
            pub(crate) fn new() -> Self {
                Self {
                    $($name: StepScript {
                        script: Script::new([
                            $flags.line,
                            COMMON,
                            $($part,)*
                            include_str!(concat!("scripts/", stringify!($name), ".lua")),
                        ].concat()),
                        takes_memory: $flags.takes_memory,
                    },)*
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
