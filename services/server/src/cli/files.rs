//! Connections are open files, and the usual limit of 1,024 is below what the server is asked to hold.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::serve::RESERVE;

/// Raises the limit of open files as far as the process may: the hard limit is the administrator's, the
/// soft one is low for the sake of programs that use `select`. Says so when even that is too little for
/// `connections`, each of which may need one to a backend.
pub(crate) fn raise_limit(connections: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let limit = if raised { maximum } else { current };
    let all = connections.saturating_add(RESERVE);
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
