//! Measures decisions: a list of 1,000 tools under 50 policies for a new caller, and a call with a
//! cached decision.
//!
//! `cargo run --release -p vmcp-cedar --example policy_cost`

use std::hint::black_box;
use std::sync::Arc;

use serde_json::json;
use vmcp_authz::{PermissionsFuture, Policy};
use vmcp_cedar::Cedar;
use vmcp_core::{CallerPermissions, Identity, Item, ItemKind, ToolAnnotations};

const TOOLS: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names: Vec<_> = (0..TOOLS).map(|n| format!("backend{}_tool_{n}", n % 20)).collect();
    let (mixed, general) = (mixed(&names), general());
    for (name, policies) in [
        ("50 policies, 40 of them on one tool each", mixed),
        ("50 policies, each on all tools", general),
    ] {
        let cedar = Arc::new(Cedar::new("vmcp", &policies, "")?);
        let whole =
            time(20, |n| permissions(&cedar, n, 0), |permissions| show(permissions, &names));
        println!("{name}");
        println!("  cold view of {TOOLS} tools      {:>9.2} ms", whole / 1e6);
        let known = permissions(&cedar, 1, 0);
        show(&known, &names);
        let view = time(200, |_| (), |()| show(&known, &names));
        println!("  warm view of {TOOLS} tools      {:>9.2} ms", view / 1e6);
        let call =
            time(100_000, |_| (), |()| known.authorize(&item("backend3_tool_3"), Some(b"{}")));
        println!("  warm decision                {call:>9.0} ns");
        let identity = identity(1, 0);
        let request = time(100_000, |_| (), |()| of(&cedar, &identity));
        println!("  permissions, token known     {request:>9.0} ns");
        let request = time(50_000, |n| self::identity(1, n), |identity| of(&cedar, identity));
        println!("  permissions, token new       {request:>9.0} ns");
    }
    let guarded = [r"permit(principal, action, resource) when { context.arg_amount <= 100 };"];
    let cedar = Arc::new(Cedar::new("vmcp", &guarded, "")?);
    let known = permissions(&cedar, 1, 0);
    let amount = Some(&br#"{"amount":50,"note":"two words"}"#[..]);
    let call = time(10_000, |_| (), |()| known.authorize(&item("pay"), amount));
    println!("a policy on an argument, alone {call:>9.0} ns");
    let mut policies = self::mixed(&names);
    policies.push(ON_AN_ARGUMENT.to_owned());
    let cedar = Arc::new(Cedar::new("vmcp", &policies, "")?);
    let known = permissions(&cedar, 1, 0);
    let text = Some(&br#"{"text":"0123456789abcdef","note":"two words"}"#[..]);
    let call = time(10_000, |_| (), |()| known.authorize(&item("backend3_tool_3"), text));
    println!("the same beside 50 others      {call:>9.0} ns");
    Ok(())
}

const ON_AN_ARGUMENT: &str = r#"forbid(principal, action == Action::"call_tool", resource)
    when { context has arg_text && context.arg_text like "*confidential*" };"#;

/// Returns the average processor time of `run` in nanoseconds, over the values of `make`.
fn time<T, R>(times: usize, make: impl Fn(usize) -> T, run: impl Fn(&T) -> R) -> f64 {
    let subjects: Vec<_> = (0..times).map(|n| make(n + 2)).collect();
    let start = processor_time();
    for subject in &subjects {
        black_box(run(subject));
    }
    (processor_time() - start) / f64::from(u32::try_from(times).unwrap_or(u32::MAX))
}

/// Returns the processor time of this thread (Linux, `proc_pid_schedstat`), so that other load does
/// not count.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|used| used.parse().ok()).unwrap_or_default()
}

fn show(permissions: &CallerPermissions, names: &[String]) -> usize {
    names.iter().filter(|name| permissions.is_visible(&item(name))).count()
}

fn item(name: &str) -> Item<'_> {
    let annotations = ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() };
    Item { kind: ItemKind::Tool, name, annotations, backend: None }
}

fn permissions(cedar: &Arc<Cedar>, user: usize, token: usize) -> CallerPermissions {
    of(cedar, &identity(user, token))
}

fn of(cedar: &Arc<Cedar>, identity: &Identity) -> CallerPermissions {
    match cedar.permissions(identity, 1) {
        PermissionsFuture::Ready(permissions) => permissions,
        // Without a provider the future is ready.
        PermissionsFuture::Pending(_) => std::process::abort(),
    }
}

fn identity(user: usize, token: usize) -> Identity {
    let claims = json!({
        "iss": "https://id.example.com", "aud": "vmcp", "iat": token, "exp": token + 3600,
        "jti": format!("{token}"), "email": format!("user{user}@example.com"),
        "groups": ["eng", "ops"], "scope": "mcp:read mcp:write", "level": 3,
    });
    let claims = claims.as_object().cloned().unwrap_or_default();
    Identity::builder("https://id.example.com", &format!("user{user}")).claims(claims).build()
}

fn mixed(names: &[String]) -> Vec<String> {
    let one = |name: &String| {
        format!(
            r#"permit(principal in Group::"ops", action == Action::"call_tool", resource == Tool::"{name}")
               when {{ principal.claim_level >= 2 }};"#
        )
    };
    let mut policies: Vec<_> = names.iter().step_by(25).map(one).collect();
    policies.extend(common());
    policies
}

fn general() -> Vec<String> {
    let one = |n| {
        format!(
            r#"permit(principal, action == Action::"call_tool", resource)
               when {{ resource.name like "backend{n}_*" && principal.claim_level >= 2 }};"#
        )
    };
    let mut policies: Vec<_> = (0..40).map(one).collect();
    policies.extend(common());
    policies
}

/// Returns five policies that apply to this caller's tools, and five that do not.
fn common() -> Vec<String> {
    [
        r#"forbid(principal, action, resource) unless { principal has claim_email && principal.claim_email like "*@example.com" };"#,
        r#"permit(principal in Group::"eng", action == Action::"call_tool", resource in MCP::"vmcp") when { resource has readOnlyHint && resource.readOnlyHint };"#,
        r#"forbid(principal, action == Action::"call_tool", resource) when { resource has destructiveHint && resource.destructiveHint };"#,
        r#"permit(principal, action == Action::"call_tool", resource) when { resource.name like "*_public" };"#,
        r#"forbid(principal, action, resource) when { resource.name like "*_secret" && principal.claim_level < 5 };"#,
        r#"permit(principal in Group::"finance", action, resource);"#,
        r#"permit(principal == Client::"root", action, resource);"#,
        r#"permit(principal, action == Action::"get_prompt", resource);"#,
        r#"permit(principal, action == Action::"read_resource", resource);"#,
        r#"permit(principal in Group::"sales", action == Action::"call_tool", resource is Tool);"#,
    ]
    .map(str::to_owned)
    .to_vec()
}
