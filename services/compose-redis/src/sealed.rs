//! Records as Redis stores them: sealed for their run and owner.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use vmcp_compose::{
    Change, RunId, RunOwner, RunRecord, RunResult, RunStatus, RunSummary, StoreError, Timestamp,
};
use vmcp_seal::{KeyRing, SealPurpose};

use crate::reply::StoredRecord;

/// Sealed part of a run. Its version is associated data, so that no part can take the place of another one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// Record at a version.
    Snapshot(u64),
    /// Writes after a version.
    Changes(u64),
    /// Result of a run that ended.
    Result(u64),
    /// Summary for a list.
    Summary,
}

/// Writes in the order in which they were made, each with its changes.
#[derive(Debug, Deserialize)]
struct Writes {
    /// Time of the last write.
    at: Timestamp,
    writes: Vec<Vec<Change>>,
}

/// Summary of a run without what is stored in clear.
#[derive(Debug, Serialize, Deserialize)]
struct Summary {
    workflow: Arc<str>,
    started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
}

/// Seals and opens the parts of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSeal<'a> {
    pub(crate) ring: &'a KeyRing,
    pub(crate) run: &'a RunId,
    pub(crate) owner: &'a RunOwner,
}

impl RunSeal<'_> {
    /// Seals a record. The output of a run that ended is a part of its own, which a store drops when it is full.
    pub(crate) fn snapshot(&self, record: &RunRecord) -> Result<Vec<u8>, StoreError> {
        let part = Part::Snapshot(record.version);
        match record.result {
            Some(RunResult::Completed(_)) => {
                let stored = RunRecord { result: Some(RunResult::NotKept), ..record.clone() };
                self.seal(part, &json(&stored)?)
            }
            _ => self.seal(part, &json(record)?),
        }
    }

    /// Seals writes that were made after `version`. Each text is the JSON of one write's changes.
    pub(crate) fn writes(
        &self,
        version: u64,
        at: Timestamp,
        writes: &[String],
    ) -> Result<Vec<u8>, StoreError> {
        let text = format!(r#"{{"at":{},"writes":[{}]}}"#, at.0, writes.join(","));
        self.seal(Part::Changes(version), text.as_bytes())
    }

    /// Seals the output of a run that ended, if it is kept.
    pub(crate) fn result(&self, record: &RunRecord) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(RunResult::Completed(output)) = &record.result else { return Ok(None) };
        self.seal(Part::Result(record.version), &json(output)?).map(Some)
    }

    pub(crate) fn summary(&self, record: &RunRecord) -> Result<Vec<u8>, StoreError> {
        let RunRecord { workflow, started_at, ended_at, .. } = record;
        let (workflow, started_at, ended_at) = (Arc::clone(workflow), *started_at, *ended_at);
        self.seal(Part::Summary, &json(&Summary { workflow, started_at, ended_at })?)
    }

    /// Opens a record and applies its changes.
    pub(crate) fn open_record(&self, stored: &StoredRecord) -> Result<RunRecord, StoreError> {
        let mut record: RunRecord =
            self.open(Part::Snapshot(stored.snapshot_version), &stored.snapshot)?;
        for changes in &stored.changes {
            let Writes { at, writes } = self.open(Part::Changes(record.version), changes)?;
            for changes in writes {
                record.apply(changes);
            }
            record.updated_at = at;
        }
        if let Some(result) = &stored.result {
            let output: Arc<Value> = self.open(Part::Result(record.version), result)?;
            record.result = Some(RunResult::Completed(output));
        }
        let is_whole = record.version == stored.version;
        if !is_whole || record.id != *self.run || record.owner != *self.owner {
            return Err(StoreError::Corrupt);
        }
        Ok(record)
    }

    pub(crate) fn open_summary(
        &self,
        sealed: &[u8],
        status: RunStatus,
    ) -> Result<RunSummary, StoreError> {
        let Summary { workflow, started_at, ended_at } = self.open(Part::Summary, sealed)?;
        Ok(RunSummary { id: self.run.clone(), workflow, status, started_at, ended_at })
    }

    fn seal(&self, part: Part, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let sealed = self.ring.seal(SealPurpose::WorkflowRecord, value, &self.associated(part));
        sealed.map_err(|_| StoreError::Unavailable)
    }

    fn open<T: DeserializeOwned>(&self, part: Part, sealed: &[u8]) -> Result<T, StoreError> {
        let associated = self.associated(part);
        let opened = self.ring.open(SealPurpose::WorkflowRecord, sealed, &associated);
        serde_json::from_slice(&opened.ok_or(StoreError::Corrupt)?).map_err(|_| StoreError::Corrupt)
    }

    fn associated(&self, part: Part) -> Vec<u8> {
        let (part, version) = match part {
            Part::Snapshot(version) => ("snapshot", version),
            Part::Changes(version) => ("changes", version),
            Part::Result(version) => ("result", version),
            Part::Summary => ("summary", 0),
        };
        let (run, owner) = (self.run.as_str(), self.owner.as_str());
        format!("{part}\n{version}\n{}\n{run}\n{owner}", run.len()).into_bytes()
    }
}

/// Serializes the changes of a write.
pub(crate) fn json(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|_| StoreError::Corrupt)
}

/// Returns the name of an owner in keys: 128 bits of a digest, in base64url.
pub(crate) fn owner_digest(owner: &RunOwner) -> String {
    let digest = Sha256::digest(owner.as_str().as_bytes());
    URL_SAFE_NO_PAD.encode(&digest[..16])
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::json;
    use vmcp_compose::DefinitionHash;
    use vmcp_core::Clock;
    use vmcp_seal::SealKey;

    use super::*;

    fn ring(keys: &[u8]) -> KeyRing {
        let keys: Vec<_> = keys.iter().map(|byte| SealKey::from_bytes([*byte; 32])).collect();
        KeyRing::new("server", &keys, Clock::manual(SystemTime::UNIX_EPOCH)).unwrap()
    }

    fn record(run: &str, owner: &str) -> RunRecord {
        let arguments = json!({"city": "Oslo"}).as_object().cloned().unwrap();
        let (id, owner) = (RunId::new(run), RunOwner::new(owner));
        let definition = DefinitionHash::new([7; 32]);
        RunRecord::new(id, owner, "workflow".into(), definition, arguments, Timestamp(5))
    }

    fn started(step: usize) -> Vec<Change> {
        vec![Change::StepStarted { step, at: Timestamp(6), question: None }]
    }

    fn stored(seal: &RunSeal<'_>, record: &RunRecord) -> StoredRecord {
        let writes = |step| vec![String::from_utf8(json(&started(step)).unwrap()).unwrap()];
        StoredRecord {
            status: RunStatus::Running,
            epoch: 1,
            snapshot_version: record.version,
            version: record.version + 2,
            size: 0,
            snapshot: seal.snapshot(record).unwrap(),
            result: None,
            changes: vec![
                seal.writes(record.version, Timestamp(7), &writes(0)).unwrap(),
                seal.writes(record.version + 1, Timestamp(8), &writes(1)).unwrap(),
            ],
        }
    }

    #[test]
    fn opens_snapshot_with_its_changes_in_order() {
        let (ring, mut record) = (ring(&[1]), record("a", "alice"));
        let (run, owner) = (record.id.clone(), record.owner.clone());
        let seal = RunSeal { ring: &ring, run: &run, owner: &owner };
        let mut sealed = stored(&seal, &record);
        let opened = seal.open_record(&sealed).unwrap();
        record.apply(started(0));
        record.apply(started(1));
        record.updated_at = Timestamp(8);
        assert_eq!(opened, record);
        sealed.changes.swap(0, 1);
        assert_eq!(seal.open_record(&sealed), Err(StoreError::Corrupt));
        sealed.changes.swap(0, 1);
        sealed.changes.pop();
        assert_eq!(seal.open_record(&sealed), Err(StoreError::Corrupt));
    }

    #[test]
    fn opens_for_its_run_and_owner_only() {
        let (ring, record) = (ring(&[1]), record("a", "alice"));
        let (run, owner) = (record.id.clone(), record.owner.clone());
        let sealed = stored(&RunSeal { ring: &ring, run: &run, owner: &owner }, &record);
        for (run, owner) in [("b", "alice"), ("a", "bob")] {
            let (run, owner) = (RunId::new(run), RunOwner::new(owner));
            let other = RunSeal { ring: &ring, run: &run, owner: &owner };
            assert_eq!(other.open_record(&sealed), Err(StoreError::Corrupt));
        }
    }

    #[test]
    fn opens_under_older_key_of_ring() {
        let record = record("a", "alice");
        let (run, owner) = (record.id.clone(), record.owner.clone());
        let (old, both, new) = (ring(&[1]), ring(&[2, 1]), ring(&[2]));
        let seal = |ring| RunSeal { ring, run: &run, owner: &owner };
        let sealed = stored(&seal(&old), &record);
        assert!(seal(&both).open_record(&sealed).is_ok());
        assert_eq!(seal(&new).open_record(&sealed), Err(StoreError::Corrupt));
    }

    #[test]
    fn names_of_owners_are_digests() {
        let name = owner_digest(&RunOwner::new("alice"));
        assert_eq!(name, "K9gGyX8OAK8aH8Myj6djqQ");
    }
}
