//! Limit of open files. Connections are open files, and the usual limit of 1,024 is below `--max-connections`.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use vmcp_server::serve::RESERVED_CONNECTIONS;

/// Raises the limit of open files to the hard limit, which the administrator sets; the soft limit is low for programs
/// that use `select`. Logs a warning if even the hard limit is too low for `connections`, each of which may need another
/// connection to a backend.
pub(crate) fn raise_limit(connections: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let limit = if raised { maximum } else { current };
    let all = connections.saturating_add(RESERVED_CONNECTIONS);
    let wanted = u64::try_from(all).unwrap_or(u64::MAX).saturating_mul(2);
    if let Some(limit) = limit.filter(|limit| *limit < wanted) {
        tracing::warn!(
            limit,
            connections,
            "the process may open too few files for so many connections: raise it (ulimit -n, LimitNOFILE) or lower \
             --max-connections"
        );
    }
}
