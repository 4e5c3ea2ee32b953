//! Conditions of a status: each type with its reasons, so that no reason can be reported under another type.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use schemars::{Schema, SchemaGenerator, json_schema};

/// Status of a condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The condition is not known.
    Unknown,
}

/// Reason of a condition, which determines the condition's type and status.
pub trait ConditionReason: Copy + 'static {
    /// Type of the condition. Conditions of one backend append `-` and its name.
    const TYPE: &'static str;

    /// All reasons of the type.
    const ALL: &'static [Self];

    /// Returns the reason as written.
    fn as_str(self) -> &'static str;

    /// Returns the status that the reason explains.
    fn status(self) -> ConditionStatus;

    /// Returns the condition for a status.
    fn condition(
        self,
        message: impl Into<String>,
        generation: Option<i64>,
        now: Timestamp,
    ) -> Condition {
        Condition {
            type_: Self::TYPE.to_owned(),
            status: self.status().as_str().to_owned(),
            reason: self.as_str().to_owned(),
            message: message.into(),
            observed_generation: generation,
            last_transition_time: Time(now),
        }
    }
}

/// Inserts `condition` into the list, sorted by type. The time of an equal status is kept.
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions.binary_search_by(|other| other.type_.cmp(&condition.type_)) {
        Ok(index) => {
            let present = &mut conditions[index];
            if present.status == condition.status {
                condition.last_transition_time = present.last_transition_time.clone();
            }
            *present = condition;
        }
        Err(index) => conditions.insert(index, condition),
    }
}

// === impl ConditionStatus ===

impl ConditionStatus {
    /// Returns the status as written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Returns the schema of a list of conditions.
pub(crate) fn conditions_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "description": "Conditions, one of each type.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": { "type": "string", "maxLength": 32768 },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
            },
        },
    })
}

/// Defines the type of a condition with its reasons.
macro_rules! conditions {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident: $type:literal {
            $( $reason:ident = $status:ident $word:literal, )+
        }
    )+) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, Eq, PartialEq)]
            pub enum $name {
                $( #[doc = concat!("`", $word, "`.")] $reason, )+
            }

            impl $crate::condition::ConditionReason for $name {
                const TYPE: &'static str = $type;
                const ALL: &'static [Self] = &[$( Self::$reason, )+];

                fn as_str(self) -> &'static str {
                    match self { $( Self::$reason => $word, )+ }
                }

                fn status(self) -> $crate::condition::ConditionStatus {
                    match self { $( Self::$reason => $crate::condition::ConditionStatus::$status, )+ }
                }
            }
        )+
    };
}

pub(crate) use conditions;
