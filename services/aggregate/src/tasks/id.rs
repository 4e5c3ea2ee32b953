//! Task ids as clients know them. They are sealed, so any replica with the same keys can find the backend.

use vmcp_core::Identity;
use vmcp_seal::RandomError;

use crate::seal::{Purpose, Seal, principal};

/// Maximum length of a client's task id, in characters.
pub(super) const MAX_TASK_ID: usize = 1024;

/// Task of a backend.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct TaskId {
    pub(crate) backend: Box<str>,
    /// The backend's own name of the tool that created the task.
    pub(crate) tool: Box<str>,
    /// The backend's own id.
    pub(crate) id: Box<str>,
}

impl TaskId {
    /// Returns the sealed id for its owner; `None` if it is too long.
    pub(crate) fn seal(
        &self,
        seal: &Seal,
        owner: &Identity,
    ) -> Result<Option<String>, RandomError> {
        let Self { backend, tool, id } = self;
        let text = format!("{}:{backend}{}:{tool}{id}", backend.len(), tool.len());
        if text.len() > MAX_TASK_ID {
            return Ok(None);
        }
        let sealed = seal.seal_for_good(&text, purpose(owner))?;
        Ok((sealed.len() <= MAX_TASK_ID).then_some(sealed))
    }

    /// Opens an id that was sealed for this owner.
    pub(crate) fn open(text: &str, seal: &Seal, owner: &Identity) -> Option<Self> {
        if text.len() > MAX_TASK_ID {
            return None;
        }
        let text = seal.open(text, purpose(owner))?;
        let (backend, rest) = split_prefixed(&text)?;
        let (tool, id) = split_prefixed(rest)?;
        Some(Self { backend: backend.into(), tool: tool.into(), id: id.into() })
    }
}

/// Splits off a text that is preceded by its length.
pub(super) fn split_prefixed(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

/// Returns the purpose of task ids. No request has this method, so a task id cannot be opened as a request's state or vice
/// versa.
fn purpose(owner: &Identity) -> Purpose<'_> {
    let principal = principal(owner);
    Purpose { principal, backend: "", method: "task", target: b"", arguments: b"" }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vmcp_core::Clock;
    use vmcp_seal::{KeyRing, SealKey};

    use super::*;

    fn seal() -> Seal {
        let (clock, key) = (Clock::system(), SealKey::from_bytes([1; 32]));
        let ring = KeyRing::new("", &[key], clock.clone()).unwrap();
        Seal::new(ring, Duration::ZERO, clock)
    }

    fn task(backend: &str, tool: &str, id: &str) -> TaskId {
        TaskId { backend: backend.into(), tool: tool.into(), id: id.into() }
    }

    #[test]
    fn opens_id_of_owner_only() {
        let (ann, bob) = (Identity::new("https://i", "ann"), Identity::new("https://i", "bob"));
        let task = task("be", "slow", "786512e2-9e0d-44bd-8f29-789f320fe840");
        let sealed = task.seal(&seal(), &ann).unwrap().unwrap();
        assert!(!sealed.contains("786512e2"));
        assert_eq!(TaskId::open(&sealed, &seal(), &ann), Some(task.clone()));
        for other in [bob, Identity::anonymous(), Identity::new("https://other", "ann")] {
            assert_eq!(TaskId::open(&sealed, &seal(), &other), None);
        }
        let anonymous = task.seal(&seal(), &Identity::anonymous()).unwrap().unwrap();
        assert_eq!(TaskId::open(&anonymous, &seal(), &Identity::anonymous()), Some(task));
    }

    #[test]
    fn keeps_names_of_any_characters() {
        let owner = Identity::anonymous();
        for (backend, tool, id) in
            [("", "", "x"), ("3:a", "2:b:", "1:"), ("bäckend", "töol:7", "7:ü"), ("9", "9", "9")]
        {
            let task = task(backend, tool, id);
            let sealed = task.seal(&seal(), &owner).unwrap().unwrap();
            assert_eq!(TaskId::open(&sealed, &seal(), &owner), Some(task));
        }
    }

    #[test]
    fn bounds_length_of_ids() {
        let owner = Identity::anonymous();
        let sealed = |length: usize| task("be", "t", &"x".repeat(length)).seal(&seal(), &owner);
        let longest = (0..MAX_TASK_ID).rfind(|length| sealed(*length).unwrap().is_some()).unwrap();
        let text = sealed(longest).unwrap().unwrap();
        assert!(longest > 700 && text.len() <= MAX_TASK_ID, "{longest} {}", text.len());
        assert!(TaskId::open(&text, &seal(), &owner).is_some());
        assert_eq!(sealed(longest + 1), Ok(None));
        assert_eq!(sealed(100_000), Ok(None));
        let plain = format!("2:be1:t{}", "x".repeat(2000));
        let long = seal().seal_for_good(&plain, purpose(&owner)).unwrap();
        assert_eq!(TaskId::open(&long, &seal(), &owner), None);
    }

    #[test]
    fn rejects_request_state_as_task_id() {
        let owner = Identity::anonymous();
        let state = Purpose { method: "tools/call", target: b"\"t\"", ..purpose(&owner) };
        let sealed = task("be", "t", "x").seal(&seal(), &owner).unwrap().unwrap();
        assert_eq!(seal().open(&sealed, state), None);
        let sealed = seal().seal("2:be1:tx", state).unwrap();
        assert_eq!(TaskId::open(&sealed, &seal(), &owner), None);
        for garbage in ["", "v1.", "tasks-conformance-nonexistent-12345"] {
            assert_eq!(TaskId::open(garbage, &seal(), &owner), None);
        }
    }
}
