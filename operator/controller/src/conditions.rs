//! Conditions of a status: changes of them, and which of the changes are transitions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use vmcp_api::conversion::ConditionUpdate;

/// Maximum length of a message, as the schema says.
const MAX_MESSAGE: usize = 32_768;

/// Conditions that one manager writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// Invariant: sorted by type, one of each.
    list: Vec<Condition>,
}

/// Change of a condition's status or reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transition {
    pub(crate) condition: Condition,
    /// Status before. Absent for a new condition.
    pub(crate) previous: Option<String>,
}

// === impl Conditions ===

impl Conditions {
    /// Takes the conditions of a status that match.
    pub(crate) fn of(status: &[Condition], is_own: impl Fn(&str) -> bool) -> Self {
        let mut list: Vec<_> =
            status.iter().filter(|condition| is_own(&condition.type_)).cloned().collect();
        list.sort_by(|a, b| a.type_.cmp(&b.type_));
        Self { list }
    }

    pub(crate) fn get(&self, type_: &str) -> Option<&Condition> {
        let index = self.list.binary_search_by(|one| one.type_.as_str().cmp(type_)).ok()?;
        Some(&self.list[index])
    }

    pub(crate) fn list(&self) -> &[Condition] {
        &self.list
    }

    /// Returns the conditions after some updates. Conditions that are not updated go if `is_complete`. The transition time of
    /// an equal status stays.
    pub(crate) fn updated(
        &self,
        updates: Vec<ConditionUpdate>,
        is_complete: bool,
        generation: Option<i64>,
        now: Timestamp,
    ) -> Self {
        let mut list = if is_complete { Vec::new() } else { self.list.clone() };
        for update in updates {
            let mut condition = update.into_condition(generation, now);
            truncate(&mut condition.message);
            if let Some(present) = self.get(&condition.type_)
                && present.status == condition.status
            {
                condition.last_transition_time = present.last_transition_time.clone();
            }
            match list.binary_search_by(|one: &Condition| one.type_.cmp(&condition.type_)) {
                Ok(index) => list[index] = condition,
                Err(index) => list.insert(index, condition),
            }
        }
        Self { list }
    }

    /// Returns the conditions of `self` whose status or reason differs from those before.
    pub(crate) fn transitions(&self, before: &Self) -> Vec<Transition> {
        let changed = self.list.iter().filter_map(|condition| {
            let previous = before.get(&condition.type_);
            let is_same = previous.is_some_and(|previous| {
                previous.status == condition.status && previous.reason == condition.reason
            });
            let previous = previous.map(|previous| previous.status.clone());
            (!is_same).then(|| Transition { condition: condition.clone(), previous })
        });
        changed.collect()
    }
}

/// Cuts a message to the length that the schema permits.
fn truncate(message: &mut String) {
    if message.chars().count() > MAX_MESSAGE {
        *message = message.chars().take(MAX_MESSAGE - 1).chain(['…']).collect();
    }
}

/// Joins updates of one type: messages follow each other, and the status is that of the first.
pub(crate) fn joined(updates: impl IntoIterator<Item = ConditionUpdate>) -> Vec<ConditionUpdate> {
    let mut list: Vec<ConditionUpdate> = Vec::new();
    for update in updates {
        match list.iter_mut().find(|one| one.type_ == update.type_) {
            Some(present) => {
                present.message.push_str("; ");
                present.message.push_str(&update.message);
            }
            None => list.push(update),
        }
    }
    list
}

/// Returns whether two conditions are equal but for the time at which they were written.
pub(crate) fn is_same(a: &Condition, b: &Condition) -> bool {
    let Condition { type_, status, reason, message, observed_generation, last_transition_time } = a;
    let Time(time) = last_transition_time;
    // The API server keeps whole seconds.
    (type_, status, reason, message, observed_generation, time.as_second())
        == (
            &b.type_,
            &b.status,
            &b.reason,
            &b.message,
            &b.observed_generation,
            b.last_transition_time.0.as_second(),
        )
}

#[cfg(test)]
mod tests {
    use vmcp_api::condition::ConditionReason;
    use vmcp_api::virtual_mcp_server::{GroupRefValidated, ServerValid};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn update<R: ConditionReason>(reason: R) -> ConditionUpdate {
        ConditionUpdate::new(reason, "m")
    }

    #[test]
    fn equal_status_keeps_its_time() {
        let old = Conditions::default().updated(
            vec![update(GroupRefValidated::NotFound), update(ServerValid::Valid)],
            true,
            Some(1),
            at(1),
        );
        let new = old.updated(vec![update(GroupRefValidated::NotReady)], false, Some(2), at(2));
        let group = new.get("GroupRefValidated").unwrap();
        assert_eq!(group.last_transition_time.0, at(1));
        assert_eq!(
            (group.reason.as_str(), group.observed_generation),
            ("GroupRefNotReady", Some(2))
        );
        assert_eq!(new.list().len(), 2);
        let transitions = new.transitions(&old);
        assert_eq!(transitions.len(), 1);
        assert_eq!(transitions[0].previous.as_deref(), Some("False"));
        let healed = new.updated(vec![update(GroupRefValidated::Valid)], true, Some(2), at(3));
        assert_eq!(healed.list().len(), 1);
        assert_eq!(healed.list()[0].last_transition_time.0, at(3));
    }

    #[test]
    fn updates_of_one_type_join() {
        let mut second = update(ServerValid::Invalid);
        second.message = "n".to_owned();
        let joined = joined([update(ServerValid::Invalid), second]);
        assert_eq!(joined.len(), 1);
        assert_eq!(joined[0].message, "m; n");
    }
}
