//! Events of transitions.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use vmcp_api::condition::ConditionStatus;

use super::Context;
use crate::conditions::Transition;
use crate::events::Notice;

/// Returns the event of a transition: a warning if the condition became bad, a normal event if it recovered. The conditions of
/// `warnings` are bad if they are True, all others if they are False.
pub(super) fn notice(transition: &Transition, warnings: &[&str]) -> Option<Notice> {
    let Transition { condition, previous } = transition;
    let is_warning = warnings.contains(&condition.type_.as_str());
    let bad = if is_warning { ConditionStatus::True } else { ConditionStatus::False }.as_str();
    if condition.status == bad {
        return Some(Notice::warning(&condition.reason, &condition.message));
    }
    let is_recovery = previous.as_deref() == Some(bad);
    is_recovery.then(|| Notice::normal(&condition.reason, &condition.message))
}

/// Writes events about an object.
pub(super) async fn publish<K>(context: &Context, object: &K, notices: Vec<Notice>)
where
    K: Resource<DynamicType = ()>,
{
    let reference = ObjectReference { resource_version: None, ..object.object_ref(&()) };
    for notice in notices {
        context.recorder.publish(&reference, notice).await;
    }
}
