//! Attacks with claims, names, numbers and spellings.

use super::*;

const FORBID_LARGE: &str = "forbid(principal, action, resource) when { context has arg_amount && context.arg_amount > 100 };";

#[test]
fn claims_are_distinct_from_arguments_and_attributes() {
    let policies = [
        "permit(principal, action, resource) when { context has arg_ok };",
        "permit(principal, action, resource) when { principal has claimset_groups };",
        "permit(principal, action, resource) when { principal has name };",
    ];
    let cedar = cedar(&policies);
    let who =
        user("eve", json!({"arg_ok": true, "claimset_groups": ["eng"], "name": "root", "": 1}));
    assert_eq!(call(&cedar, &who, "x", r#"{"claim_arg_ok":1}"#), Decision::Deny);
}

#[test]
fn arguments_are_distinct_from_claims_and_attributes() {
    let cedar = cedar(&[
        r#"permit(principal, action, resource) when { context has claim_role && context.claim_role == "x" };"#,
        r#"permit(principal, action, resource) when { resource.name == "open" };"#,
    ]);
    let arguments = r#"{"claim_role":"x","name":"open","role":"x"}"#;
    assert_eq!(call(&cedar, &alice(), "closed", arguments), Decision::Hide);
}

#[test]
fn presence_overrides_argument_of_same_name() {
    let cedar = cedar(&[
        EVERYTHING,
        "forbid(principal, action, resource) when { context has arg_x_present && context.arg_x_present == true };",
    ]);
    let arguments = r#"{"x_present":false,"x":{"a":1}}"#;
    assert_eq!(call(&cedar, &alice(), "t", arguments), Decision::Deny);
    assert_eq!(call(&cedar, &alice(), "t", r#"{"x_present":false,"x":1}"#), Decision::Allow);
}

#[test]
fn rejects_ambiguous_referenced_arguments() {
    let cedar = cedar(&[EVERYTHING, FORBID_LARGE]);
    for arguments in [
        r#"{"amount":1,"amount":1000}"#,
        r#"{"amount":1,"\u0061mount":1000}"#,
        r#"{"amount":1,"Amount":1000}"#,
        r#"{"AMOUNT":1000}"#,
    ] {
        assert_eq!(call(&cedar, &alice(), "pay", arguments), Decision::Deny, "{arguments}");
    }
    let unread = r#"{"amount":1,"Note":1,"note":2}"#;
    assert_eq!(call(&cedar, &alice(), "pay", unread), Decision::Allow);
}

#[test]
fn rejects_unrepresentable_numbers() {
    let cedar = cedar(&[EVERYTHING, FORBID_LARGE]);
    for amount in ["9223372036854775808", "1e400", "100.00001", "100.00000000000000001", "100.5"] {
        let arguments = format!(r#"{{"amount":{amount}}}"#);
        assert_eq!(call(&cedar, &alice(), "pay", &arguments), Decision::Deny, "{amount}");
    }
    for amount in ["1", "1.0", "1e2"] {
        let arguments = format!(r#"{{"amount":{amount},"other":1e400}}"#);
        assert_eq!(call(&cedar, &alice(), "pay", &arguments), Decision::Allow, "{amount}");
    }
}

#[test]
fn hides_uris_with_dot_segments() {
    let cedar = cedar(&[
        r#"permit(principal, action, resource) when { resource has uri && resource.uri like "file:///public/*" };"#,
    ]);
    let permissions = permissions(&cedar, &alice());
    let decision = |uri| {
        let item = Item {
            kind: ItemKind::Resource,
            name: uri,
            annotations: ToolAnnotations::default(),
            backend: None,
        };
        (permissions.is_visible(&item), permissions.authorize(&item, None))
    };
    assert_eq!(decision("file:///public/a"), (true, Decision::Allow));
    for uri in
        ["file:///public/../secret", "file:///public/%2e%2e/secret", "file:///public/%252e./x"]
    {
        assert_eq!(decision(uri), (false, Decision::Hide), "{uri}");
    }
}

const FORBID_RM: &str = r#"forbid(principal, action, resource) when { context has arg_cmd && context.arg_cmd == "rm" };"#;

#[test]
fn denies_wrapped_arguments_that_policies_read() {
    let cedar = cedar(&[EVERYTHING, FORBID_RM]);
    for arguments in [
        r#"{"cmd":"rm"}"#,
        r#"{"cmd":["rm"]}"#,
        r#"{"cmd":{"0":"rm"}}"#,
        r#"{"cmd":{}}"#,
        r#"{"cmd":null}"#,
        r#"{"cmd\u0000":"rm"}"#,
        r#"{"cmd\u0000x":"rm"}"#,
        r#"{"CMD\u0000":"rm"}"#,
        r#"{"cmd":"ls","cmd\u0000":"rm"}"#,
        r#"{"cmd_present":true,"cmd":["rm"]}"#,
    ] {
        assert_eq!(call(&cedar, &alice(), "sh", arguments), Decision::Deny, "{arguments}");
    }
    for arguments in [r#"{"cmd":"ls"}"#, "{}", r#"{"other":["rm"],"other\u0000":null}"#] {
        assert_eq!(call(&cedar, &alice(), "sh", arguments), Decision::Allow, "{arguments}");
    }
}

#[test]
fn leaves_wrapped_arguments_to_policies_that_read_presence() {
    let both = r#"forbid(principal, action, resource)
        when { context has arg_cmd_present && context.arg_cmd_present && resource.name == "sh" }
        when { !(context has arg_cmd) || context.arg_cmd != "ls" };"#;
    let cedar = cedar(&[EVERYTHING, both]);
    assert_eq!(call(&cedar, &alice(), "sh", r#"{"cmd":["rm"]}"#), Decision::Deny);
    assert_eq!(call(&cedar, &alice(), "other", r#"{"cmd":["rm"]}"#), Decision::Allow);
    assert_eq!(call(&cedar, &alice(), "sh", r#"{"cmd":null}"#), Decision::Allow);
    // Another policy that compares it would still not match.
    let cedar = self::cedar(&[EVERYTHING, both, FORBID_RM]);
    assert_eq!(call(&cedar, &alice(), "other", r#"{"cmd":["rm"]}"#), Decision::Deny);
}

#[test]
fn denies_wrapped_arguments_by_policies_of_tool() {
    let of_sh = r#"forbid(principal, action, resource == Tool::"sh") when { context has arg_cmd && context.arg_cmd == "rm" };"#;
    let of_cp = r#"forbid(principal, action, resource == Tool::"cp") when { context has arg_to && context.arg_to == "/" };"#;
    let cedar = cedar(&[EVERYTHING, of_sh, of_cp]);
    assert_eq!(call(&cedar, &alice(), "sh", r#"{"cmd":["rm"]}"#), Decision::Deny);
    assert_eq!(call(&cedar, &alice(), "cp", r#"{"cmd":["rm"]}"#), Decision::Allow);
    assert_eq!(call(&cedar, &alice(), "cp", r#"{"to":["/"]}"#), Decision::Deny);
}

#[test]
fn denies_wrapped_arguments_read_of_the_resource() {
    let cedar = cedar(&[
        r#"permit(principal, action, resource) unless { resource has arg_cmd && resource.arg_cmd == "rm" };"#,
    ]);
    assert_eq!(call(&cedar, &alice(), "sh", r#"{"cmd":["rm"]}"#), Decision::Deny);
    assert_eq!(call(&cedar, &alice(), "sh", r#"{"cmd":"ls"}"#), Decision::Allow);
}

#[test]
fn too_many_referenced_groups_deny_everything() {
    let cedar = cedar(&[
        EVERYTHING,
        r#"forbid(principal in Group::"last", action, resource == Tool::"pay");"#,
    ]);
    let with = |most: usize| {
        let groups = (0..most).map(|n| if n + 1 == most { "last".into() } else { n.to_string() });
        user("eve", json!({"groups": groups.collect::<Vec<String>>()}))
    };
    assert_eq!(call(&cedar, &with(1024), "look", "{}"), Decision::Allow);
    assert_eq!(call(&cedar, &with(1024), "pay", "{}"), Decision::Hide);
    assert_eq!(call(&cedar, &with(1025), "look", "{}"), Decision::Hide);
}

#[test]
fn finds_referenced_argument_among_many() {
    let cedar = cedar(&[EVERYTHING, FORBID_LARGE]);
    let many: Vec<_> = (0..10_000).map(|n| format!(r#""a{n}":{n},"#)).collect();
    let many = many.concat();
    let arguments = format!(r#"{{{many}"amount":101}}"#);
    assert_eq!(call(&cedar, &alice(), "pay", &arguments), Decision::Deny);
    let arguments = format!(r#"{{{many}"amount":1}}"#);
    assert_eq!(call(&cedar, &alice(), "pay", &arguments), Decision::Allow);
}

#[test]
fn context_policy_rejects_too_many_arguments() {
    let cedar = cedar(&[
        "permit(principal, action, resource) when { context == {arg_a: 1, arg_b: true} };",
    ]);
    let who = Identity::anonymous();
    assert_eq!(call(&cedar, &who, "t", r#"{"b":true,"a":1}"#), Decision::Allow);
    assert_eq!(call(&cedar, &who, "t", r#"{"b":true,"a":1,"c":1}"#), Decision::Deny);
    let many: Vec<_> = (0..300).map(|n| format!(r#""a{n}":null,"#)).collect();
    let many = many.concat();
    let arguments = format!(r#"{{{many}"b":true,"a":1}}"#);
    assert_eq!(call(&cedar, &who, "t", &arguments), Decision::Deny);
}

#[test]
fn deeply_nested_arguments_have_presence_only() {
    let there = "forbid(principal, action, resource) when { context has arg_there_present };";
    let cedar = cedar(&[EVERYTHING, FORBID_LARGE, there]);
    let nested = format!("{}1{}", r#"{"a":"#.repeat(50), "}".repeat(50));
    for (name, decision) in
        [("other", Decision::Allow), ("there", Decision::Deny), ("amount", Decision::Deny)]
    {
        let arguments = format!(r#"{{"{name}":{nested}}}"#);
        assert_eq!(call(&cedar, &alice(), "pay", &arguments), decision, "{name}");
    }
}

#[test]
fn too_many_groups_deny_everything() {
    let cedar = cedar(&[EVERYTHING, r#"forbid(principal in Group::"banned", action, resource);"#]);
    let mut groups: Vec<_> = (0..2000).map(|n| format!("g{n}")).collect();
    groups.push("banned".to_owned());
    assert_eq!(call(&cedar, &user("eve", json!({"groups": groups})), "x", "{}"), Decision::Hide);
}

#[test]
fn names_are_never_parsed_as_policies() {
    let cedar = cedar(&[r#"permit(principal, action, resource == Tool::"a");"#]);
    for name in
        [r#"a"); permit(principal, action, resource);//"#, "a\0", "a\"", "", "A", "a\u{200b}"]
    {
        assert_eq!(call(&cedar, &alice(), name, "{}"), Decision::Hide, "{name:?}");
    }
}

#[test]
fn debug_output_omits_claims_and_arguments() {
    let cedar =
        cedar(&["permit(principal, action, resource) when { ip(context.arg_ip).isLoopback() };"]);
    let who = user("eve", json!({"email": "canary@example.com"}));
    let permissions = permissions(&cedar, &who);
    let decision = permissions.authorize(&tool("x"), Some(br#"{"ip":"canary"}"#));
    assert_eq!(decision, Decision::Deny);
    let errors = Cedar::new("s", &["nonsense"], "").unwrap_err();
    let printed = format!("{cedar:?} {permissions:?} {decision:?} {errors} {errors:?}");
    assert!(!printed.contains("canary"), "{printed}");
}

/// Returns conditions of policies with this nesting.
fn nested(depth: usize) -> Vec<String> {
    let when =
        |condition: String| format!("permit(principal, action, resource) when {{ {condition} }};");
    let around = |open: &str, inner: &str, close: &str| {
        open.repeat(depth / 4) + inner + &close.repeat(depth / 4)
    };
    vec![
        when("true && ".repeat(depth) + "true"),
        when("1 + ".repeat(depth) + "1 > 0"),
        when("if true then true else ".repeat(depth) + "true"),
        when(format!("principal has a || principal{} == 1", ".a".repeat(depth))),
        when("!".repeat(depth) + "true"),
        when(around("(", "true", ")")),
        when(format!("{} == 1", around("[", "1", "]"))),
    ]
}

#[test]
fn rejects_deeply_nested_policies() {
    for policy in nested(100_000) {
        let errors = Cedar::new("my-vmcp", &[policy], "").unwrap_err().to_string();
        assert!(errors.contains("at most 200 are allowed"), "{errors}");
    }
}

#[test]
fn deep_policies_fit_worker_stack() {
    let judged = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        for policy in nested(180) {
            let Ok(cedar) = Cedar::new("my-vmcp", &[&policy], "") else { continue };
            let permissions = permissions(&Arc::new(cedar), &alice());
            _ = permissions.authorize(&tool("t"), Some(b"{}"));
        }
        let allowed = cedar(&[&nested(150)[0]]);
        permissions(&allowed, &alice()).authorize(&tool("t"), Some(b"{}"))
    });
    assert_eq!(judged.unwrap().join().unwrap(), Decision::Allow);
}
