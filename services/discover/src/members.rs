//! Members of a group, bounded in number.

use vmcp_api::conversion::{Member, MemberKind};

/// Maximum number of members of one group.
pub(crate) const MAX_MEMBERS: usize = 1024;

/// Keeps the first `max` members in the order of their names and kinds, and returns the others.
pub(crate) fn limit(members: &mut Vec<Member>, max: usize) -> Vec<(String, MemberKind)> {
    let key = |member: &Member| (member.name().to_owned(), member.kind());
    if members.len() <= max {
        return Vec::new();
    }
    members.sort_by_cached_key(key);
    members.split_off(max).iter().map(key).collect()
}

/// Returns whether a member is one of the group.
pub(crate) fn is_in_group(member: &Member, group: &str) -> bool {
    match member {
        Member::Server(server) => {
            server.spec.group_ref.as_ref().is_some_and(|reference| reference.name == group)
        }
        Member::Proxy(proxy) => {
            proxy.spec.group_ref.as_ref().is_some_and(|reference| reference.name == group)
        }
        Member::Entry(entry) => entry.spec.group_ref.name == group,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn entry(name: &str) -> Member {
        let entry = serde_json::json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPServerEntry", "metadata": {"name": name},
            "spec": {
                "remoteUrl": "https://a.example.com/mcp", "transport": "sse", "groupRef": {"name": "g"},
            },
        });
        Member::Entry(Arc::new(serde_json::from_value(entry).unwrap()))
    }

    #[test]
    fn members_beyond_limit_are_surplus() {
        let mut members = vec![entry("c"), entry("a"), entry("b")];
        assert!(limit(&mut members, 3).is_empty());
        assert_eq!(limit(&mut members, 2), [("c".to_owned(), MemberKind::Entry)]);
        let names: Vec<_> = members.iter().map(Member::name).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
