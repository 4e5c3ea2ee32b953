//! Task ids of runs of composite tools.

use std::sync::Arc;

use vmcp_compose::{RunId, RunOwner};
use vmcp_core::Identity;
use vmcp_seal::RandomError;

use super::id::{MAX_TASK_ID, split_prefixed};
use crate::seal::{Purpose, Seal, principal};
use crate::workflow_runs::run_owner;

/// Run of a composite tool that a client knows as a task. Sealed like the id of a backend's task, for another purpose: neither
/// can be opened as the other.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct RunTaskId {
    pub(crate) run: RunId,
    pub(crate) owner: RunOwner,
    /// Name of the composite tool.
    pub(crate) tool: Box<str>,
    /// `true` if the client that began the run supports elicitation.
    pub(crate) may_ask: bool,
    /// Sealed handle of the replica that has the run in its memory.
    pub(crate) replica: Option<Arc<str>>,
}

impl RunTaskId {
    /// Returns the sealed id for its owner; `None` if it is too long.
    pub(crate) fn seal(
        &self,
        seal: &Seal,
        caller: &Identity,
    ) -> Result<Option<String>, RandomError> {
        let Self { run, owner, tool, may_ask, replica } = self;
        // The owner of an identified caller's run follows from the identity. The address of an anonymous caller may change.
        let owner = if caller.is_anonymous() { owner.as_str() } else { "" };
        let run = run.as_str();
        // Ids without a replica have no place for one.
        let form = u8::from(*may_ask) + if replica.is_some() { 2 } else { 0 };
        let replica = replica.as_ref().map(|replica| format!("{}:{replica}", replica.len()));
        let replica = replica.unwrap_or_default();
        let text = format!("{form}{replica}{}:{run}{}:{tool}{owner}", run.len(), tool.len());
        let sealed = seal.seal_for_good(&text, purpose(caller))?;
        Ok((sealed.len() <= MAX_TASK_ID).then_some(sealed))
    }

    /// Opens an id that was sealed for this caller.
    pub(crate) fn open(text: &str, seal: &Seal, caller: &Identity) -> Option<Self> {
        if text.len() > MAX_TASK_ID {
            return None;
        }
        let text = seal.open(text, purpose(caller))?;
        let (form, rest) = text.split_at_checked(1)?;
        let (may_ask, has_replica) = match form {
            "0" => (false, false),
            "1" => (true, false),
            "2" => (false, true),
            "3" => (true, true),
            _ => return None,
        };
        let (replica, rest) = if has_replica {
            split_prefixed(rest).map(|(replica, rest)| (Some(replica.into()), rest))?
        } else {
            (None, rest)
        };
        let (run, rest) = split_prefixed(rest)?;
        let (tool, owner) = split_prefixed(rest)?;
        let owner =
            if caller.is_anonymous() { RunOwner::new(owner) } else { run_owner(caller, None) };
        Some(Self { run: RunId::new(run), owner, tool: tool.into(), may_ask, replica })
    }
}

/// Returns the purpose of task ids of runs. No request has this method.
fn purpose(owner: &Identity) -> Purpose<'_> {
    let principal = principal(owner);
    Purpose { principal, backend: "", method: "run task", target: b"", arguments: b"" }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vmcp_core::Clock;
    use vmcp_seal::{KeyRing, SealKey};

    use super::*;
    use crate::tasks::TaskId;

    fn seal() -> Seal {
        let (clock, key) = (Clock::system(), SealKey::from_bytes([1; 32]));
        let ring = KeyRing::new("", &[key], clock.clone()).unwrap();
        Seal::new(ring, Duration::ZERO, clock)
    }

    fn task(caller: &Identity, tool: &str) -> RunTaskId {
        let owner = run_owner(caller, "10.0.0.1".parse().ok());
        let replica = (!caller.is_anonymous()).then(|| "replica".into());
        RunTaskId { run: RunId::random(), owner, tool: tool.into(), may_ask: true, replica }
    }

    #[test]
    fn opens_id_of_owner_only() {
        let (ann, bob) = (Identity::new("https://i", "ann"), Identity::new("https://i", "bob"));
        for caller in [ann.clone(), Identity::anonymous()] {
            let task = task(&caller, "7:tool");
            let sealed = task.seal(&seal(), &caller).unwrap().unwrap();
            assert_eq!(RunTaskId::open(&sealed, &seal(), &caller), Some(task));
            assert_eq!(RunTaskId::open(&sealed, &seal(), &bob), None);
        }
        assert_eq!(task(&ann, &"t".repeat(1000)).seal(&seal(), &ann), Ok(None));
    }

    #[test]
    fn differs_from_task_of_backend() {
        let ann = Identity::new("https://i", "ann");
        let sealed = task(&ann, "tool").seal(&seal(), &ann).unwrap().unwrap();
        assert!(TaskId::open(&sealed, &seal(), &ann).is_none());
        let backend = TaskId { backend: "be".into(), tool: "t".into(), id: "x".into() };
        let sealed = backend.seal(&seal(), &ann).unwrap().unwrap();
        assert_eq!(RunTaskId::open(&sealed, &seal(), &ann), None);
    }
}
