//! Fifty policies of a fictitious company with teams, tenants and rules for risky tools.

use super::dimensions::{BACKENDS, TENANTS, USERS};

/// Returns the policies in an order natural to their author. With `arguments`, one of them inspects a tool's arguments,
/// so that no decision can be reused for the next call.
///
/// Every caller sees all tools of the backends except their blobs.
pub(super) fn policies(arguments: bool) -> Vec<String> {
    let mut all = vec![STAFF.to_owned()];
    all.extend((1..=BACKENDS).map(|backend| tool("staff", &format!("be{backend}_echo"))));
    all.extend((0..USERS).map(team));
    all.extend((0..TENANTS).map(tenant));
    all.extend((1..=3).map(|backend| {
        format!(
            r#"permit(principal in Group::"writers", action == Action::"get_prompt", resource == Prompt::"be{backend}_draft");"#
        )
    }));
    all.extend(["handbook", "runbooks", "minutes"].map(|shelf| {
        format!(
            r#"permit(principal in Group::"staff", action == Action::"read_resource", resource)
               when {{ resource.uri like "docs://{shelf}/*" }};"#
        )
    }));
    all.extend((1..=BACKENDS).map(|backend| tool("ops", &format!("be{backend}_restart"))));
    all.extend((1..=3).map(|backend| {
        format!(r#"@scopes("tools:admin") {}"#, tool("ops", &format!("be{backend}_delete")))
    }));
    all.extend(FORBIDS.map(str::to_owned));
    let last = if arguments { LOOKS_AT_ARGUMENTS } else { LEFT };
    all.push(last.to_owned());
    all
}

fn tool(group: &str, tool: &str) -> String {
    format!(
        r#"permit(principal in Group::"{group}", action == Action::"call_tool", resource == Tool::"{tool}");"#
    )
}

fn team(team: usize) -> String {
    let backend = team % BACKENDS + 1;
    format!(
        r#"permit(principal in Group::"team-{team}", action == Action::"call_tool", resource in MCP::"bench")
           when {{ resource.name like "be{backend}_tool_00{team:02}*" }};"#
    )
}

fn tenant(tenant: usize) -> String {
    let backend = tenant % BACKENDS + 1;
    format!(
        r#"permit(principal, action == Action::"call_tool", resource in MCP::"bench")
           when {{ principal has claim_tenant && principal.claim_tenant == "tenant-{tenant}"
                  && resource.name like "be{backend}_report_*" }};"#
    )
}

const STAFF: &str = r#"permit(principal in Group::"staff", action == Action::"call_tool", resource in MCP::"bench")
       when { resource has readOnlyHint && resource.readOnlyHint };"#;

const FORBIDS: [&str; 5] = [
    r#"forbid(principal, action, resource) when { resource has destructiveHint && resource.destructiveHint }
       unless { principal in Group::"ops" };"#,
    "forbid(principal, action, resource) when { principal has claim_suspended && principal.claim_suspended };",
    r#"forbid(principal, action, resource in MCP::"bench")
       when { principal has claim_email_verified && !principal.claim_email_verified };"#,
    r#"forbid(principal, action == Action::"call_tool", resource) when { resource.name like "*_delete" }
       unless { principal has claim_amr && principal.claim_amr.contains("mfa") };"#,
    r#"forbid(principal in Group::"contractors", action, resource)
       when { resource has openWorldHint && resource.openWorldHint };"#,
];

const LEFT: &str = r#"forbid(principal == Client::"user-404", action, resource);"#;

const LOOKS_AT_ARGUMENTS: &str = r#"forbid(principal, action == Action::"call_tool", resource)
       when { context has arg_text && context.arg_text like "*confidential*" };"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defines_fifty_policies_with_one_on_arguments() {
        for arguments in [false, true] {
            let policies = policies(arguments);
            assert_eq!(policies.len(), 50);
            let looking = policies.iter().filter(|policy| policy.contains("arg_")).count();
            assert_eq!(looking, usize::from(arguments));
        }
    }
}
