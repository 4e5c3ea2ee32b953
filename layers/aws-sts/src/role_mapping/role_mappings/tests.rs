mod arbitrary;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn claims(value: Value) -> Claims {
    let Value::Object(map) = value else { panic!("claims are an object") };
    map.into()
}

fn arn(name: &str) -> String {
    format!("arn:aws:iam::123456789012:role/{name}")
}

fn mapping(matches: RoleMatch, name: &str, priority: Option<u32>) -> RoleMapping<String> {
    RoleMapping { role: arn(name), matches, priority }
}

fn matcher(source: &str) -> Result<RoleMappings<String>, RoleMappingsError> {
    let mapping = mapping(RoleMatch::Matcher(source.into()), "hit", None);
    RoleMappings::new(Some(arn("fallback")), vec![mapping], "groups")
}

fn matches(source: &str, given: Value) -> bool {
    let roles = matcher(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    roles.select(&claims(given)).unwrap() == &arn("hit")
}

fn error_of(source: &str) -> MatcherError {
    match matcher(source) {
        Err(RoleMappingsError::Mappings(mut errors)) => errors.remove(0).problem,
        other => panic!("{source}: {other:?}"),
    }
}

fn claim(value: &str) -> RoleMatch {
    RoleMatch::Claim(value.into())
}

#[test]
fn rejects_missing_mappings_and_fallback() {
    assert!(matches!(
        RoleMappings::<String>::new(None, Vec::new(), "groups"),
        Err(RoleMappingsError::NoRoles)
    ));
}

#[test]
fn selects_lowest_priority_then_order() {
    let roles = RoleMappings::new(
        None,
        vec![
            mapping(claim("a"), "last-1", None),
            mapping(claim("a"), "last-2", None),
            mapping(claim("b"), "nine-1", Some(9)),
            mapping(claim("b"), "nine-2", Some(9)),
            mapping(claim("c"), "zero", Some(0)),
            mapping(claim("d"), "most", Some(u32::MAX)),
        ],
        "groups",
    )
    .unwrap();
    let select = |groups: Value| roles.select(&claims(json!({ "groups": groups }))).cloned();
    assert_eq!(select(json!(["a", "b", "c"])), Ok(arn("zero")));
    assert_eq!(select(json!(["a", "b"])), Ok(arn("nine-1")));
    assert_eq!(select(json!(["a"])), Ok(arn("last-1")));
    assert_eq!(select(json!(["a", "d"])), Ok(arn("most")));
    assert_eq!(select(json!([])), Err(RoleError::Unmapped));
}

#[test]
fn text_claim_is_list_of_one() {
    let roles = RoleMappings::new(None, vec![mapping(claim("admins"), "x", None)], "role").unwrap();
    assert!(roles.select(&claims(json!({"role": "admins"}))).is_ok());
    assert!(roles.select(&claims(json!({"role": "admins,users"}))).is_err());
    assert!(roles.select(&claims(json!({"role": {"admins": true}}))).is_err());
    assert!(roles.select(&claims(json!({"groups": ["admins"]}))).is_err());
}

#[test]
fn mapped_values_are_never_evaluated() {
    for nasty in ["x\" in claims || true || \"", "'] || true || ['", "\\", "true", "claims"] {
        let roles = RoleMappings::new(
            Some(arn("fallback")),
            vec![mapping(claim(nasty), "hit", None)],
            nasty,
        )
        .unwrap();
        assert_eq!(roles.select(&claims(json!({"groups": ["x"]}))), Ok(&arn("fallback")));
        assert_eq!(roles.select(&claims(json!({ nasty: [nasty] }))), Ok(&arn("hit")));
    }
}

#[test]
fn claims_are_never_evaluated() {
    let nasty = "a\"' || true || claims.groups == ['";
    assert!(!matches("\"admins\" in claims.groups", json!({"groups": [nasty]})));
    assert!(!matches("claims.sub == 'admin'", json!({"sub": nasty})));
}

#[test]
fn expressions_follow_cel_semantics() {
    let given = json!({
        "sub": "ada", "groups": ["dev", "ops"], "level": 3, "score": 1.5, "verified": true,
        "realm": {"roles": [{"name": "reader"}]},
    });
    for yes in [
        "'ops' in claims.groups",
        "'ops' in claims[\"groups\"] && claims.verified",
        "has(claims.realm) && claims.realm.roles.exists(r, r.name == 'reader')",
        "!has(claims.email)",
        "claims.groups.all(g, g.size() == 3)",
        "claims.groups.exists_one(g, g.startsWith('d'))",
        "size(claims.groups.filter(g, g.contains('o'))) == 1",
        "claims.level >= 3 && claims.score < 2.0",
        "claims.sub.matches('^a.a$') && matches(claims.sub, 'd')",
        "'team-' + claims.sub == 'team-ada'",
        "claims.groups.exists(g, ['a', 'ops'].exists(o, o == g))",
        "type(claims.level) == int",
        "{'ada': 'yes'}[claims.sub] == 'yes'",
        "claims.level == 3 ? true : false",
        "'x' in claims.absent || claims.sub == 'ada'",
        "claims.groups.exists(claims, claims == 'dev')",
    ] {
        assert!(matches(yes, given.clone()), "{yes}");
    }
    for no in [
        "'admins' in claims.groups",
        "claims.absent == 'x'",
        "'x' in claims.absent",
        "claims.level == 'x'",
        "claims.sub",
        "claims.level / 0 == 1",
        "claims.groups[7] == 'x'",
        "claims.sub.matches('^b')",
        "'a' in claims.level",
    ] {
        assert!(!matches(no, given.clone()), "{no}");
    }
}

#[test]
fn reports_all_invalid_mappings() {
    let wrong = vec![
        mapping(RoleMatch::Matcher("claims.a ==".into()), "a", None),
        mapping(claim("fine"), "b", None),
        mapping(RoleMatch::Matcher("groups == 1".into()), "c", Some(1)),
    ];
    let Err(RoleMappingsError::Mappings(errors)) = RoleMappings::new(None, wrong, "groups") else {
        panic!("refused")
    };
    assert_eq!(errors.iter().map(|error| error.index).collect::<Vec<_>>(), [0, 2]);
    assert!(matches!(errors[0].problem, MatcherError::Syntax(_)));
    assert!(matches!(errors[1].problem, MatcherError::UnknownName(_)));
}

#[test]
fn rejects_expressions_with_unbounded_cost() {
    use MatcherError as E;
    let long = format!("claims.sub == '{}'", "x".repeat(2048));
    assert_eq!(error_of(&long), E::TooLong);
    assert_eq!(error_of("claims.a.map(x, claims) == []"), E::MapMacro);
    assert_eq!(error_of("claims.a.map(x, true, claims) == []"), E::MapMacro);
    let sums = vec!["claims.a"; 20].join(" + ");
    assert_eq!(error_of(&format!("{sums} == ''")), E::TooManySums);
    let deep = "claims.a.all(a, claims.a.all(b, claims.a.all(c, true)))";
    assert_eq!(error_of(deep), E::TooManyLoops);
    let many = ["claims.a.all(a, a)"; 9].join(" && ");
    assert_eq!(error_of(&many), E::TooManyLoops);
    for unknown in ["claims.a.replace('a', 'b')", "f(claims)", "optional.of(1)", "claims.a.join()"]
    {
        assert!(
            matches!(error_of(unknown), E::UnknownFunction(_) | E::UnknownName(_)),
            "{unknown}"
        );
    }
    for pattern in [
        "claims.a.matches(claims.b)",
        "claims.a.matches('(')",
        "claims.a.matches('((a{100}){100}){100}')",
        "claims.a.matches(1)",
        "matches('a')",
    ] {
        assert!(matches!(error_of(pattern), E::Pattern(_)), "{pattern}");
    }
}

#[test]
fn rejects_non_boolean_expressions() {
    for source in [
        "'admins'",
        "1 + 1",
        "claims",
        "size(claims.groups)",
        "[true]",
        "string(claims.a)",
        "claims.a.filter(x, true)",
    ] {
        let Err(RoleMappingsError::Mappings(errors)) = matcher(source) else { panic!("{source}") };
        assert_eq!(errors[0].problem, MatcherError::NotBoolean, "{source}");
    }
    for source in [
        "true",
        "claims.admin",
        "'a' in claims.groups",
        "has(claims.a)",
        "claims.a ? true : claims.b",
        "bool(claims.a)",
    ] {
        assert!(matcher(source).is_ok(), "{source}");
    }
}

#[test]
fn rejects_deep_nesting_before_stack_overflow() {
    for (open, close) in
        [("(", ")"), ("[", "]"), ("{1:", "}"), ("!", ""), ("-", ""), ("claims.a?", ""), ("!(", ")")]
    {
        for times in [10, 17, 90, 600, 2000] {
            let source = format!("{}claims{}", open.repeat(times), close.repeat(times));
            // Both a rejection and a result are fine, as long as the call returns.
            _ = matcher(&source).map(|roles| roles.select(&claims(json!({ "a": [] }))).cloned());
        }
    }
    for chain in
        [".a", "[0]", " - 1", " == 1", " && claims", " || claims", "? true : claims", ".size()"]
    {
        for times in [10, 60, 100, 200, 600] {
            let roles = matcher(&format!("claims{}", chain.repeat(times)));
            _ = roles.map(|roles| roles.select(&claims(json!({ "a": [] }))).cloned());
        }
    }
    // Bracket depth within the limit, with about a dozen nested parser calls per bracket.
    for unfinished in [
        "??size((z[.filter(z, :[.filter(z, size(.a(.filter(z, .filter(z, size(1.all(y, ?.filter(z, ",
        "1.exists(x, .exists(x, .exists(x, size(y[!.all(y, size(!.all(y, ]1.a && !.exists(x, .all(y, .all(y, !",
        &"claims.a.filter(x, ".repeat(16),
        &"size([".repeat(8),
        &format!("{}true{}", "claims.a.all(x, [".repeat(8), "])".repeat(8)),
    ] {
        assert!(matcher(unfinished).is_err(), "{unfinished}");
    }
    assert!(matches!(error_of(&"(".repeat(1000)), MatcherError::TooDeep));
    assert!(matches!(error_of(&format!("claims{}", ".a".repeat(100))), MatcherError::TooDeep));
}

#[test]
fn too_costly_selection_fails_without_fallback() {
    let many: Vec<_> = (0..6000).map(|number| number.to_string()).collect();
    let given = claims(json!({ "a": many }));
    let roles = matcher("claims.a.all(x, claims.a.exists(y, x == y))").unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(roles.select(&given), Err(RoleError::TooCostly));
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    // Evaluation errors and short circuits inside the expression do not hide an exhausted budget.
    let roles = matcher("true || claims.a.all(x, claims.a.exists(y, x == y))").unwrap();
    assert_eq!(roles.select(&given), Ok(&arn("hit")));
    let roles = matcher("claims.a.all(x, claims.a.exists(y, x == y)) || true").unwrap();
    assert_eq!(roles.select(&given), Err(RoleError::TooCostly));
}

#[test]
fn evaluates_loop_over_thousands_of_groups() {
    let groups: Vec<_> = (0..2000).map(|number| format!("group-{number:030}")).collect();
    let last = groups.last().unwrap().clone();
    let given = json!({ "groups": groups });
    assert!(matches(&format!("claims.groups.exists(g, g == '{last}')"), given.clone()));
    assert!(matches(
        "claims.groups.all(g, g.startsWith('group-') && g.matches('^group-[0-9]+$'))",
        given
    ));
}

#[test]
fn evaluates_nested_loops_over_usual_claims() {
    let list = |name: &str, many: u32| -> Vec<_> {
        (0..many).map(|number| format!("{name}-{number:020}")).collect()
    };
    let mut groups = list("group", 200);
    groups.push("allowed-00000000000000000019".to_owned());
    let given = json!({ "groups": groups, "allowed": list("allowed", 20) });
    assert!(matches("claims.groups.exists(g, claims.allowed.exists(a, a == g))", given.clone()));
    assert!(matches("claims.groups.exists(g, g in claims.allowed)", given));
}

#[test]
fn rejects_oversized_and_deep_claims() {
    let roles = matcher("claims.sub == 'ada'").unwrap();
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(roles.select(&claims(json!({ "a": deep }))), Err(RoleError::TooCostly));
    assert_eq!(
        roles.select(&claims(json!({ "a": "x".repeat(1 << 20) }))),
        Err(RoleError::TooCostly)
    );
    let many: Vec<_> = (0..20_000).collect();
    assert_eq!(roles.select(&claims(json!({ "a": many }))), Err(RoleError::TooCostly));
    // Claims are not converted if no mapping has an expression.
    let plain =
        RoleMappings::new(Some(arn("fallback")), vec![mapping(claim("a"), "a", None)], "groups");
    assert!(plain.unwrap().select(&claims(json!({ "a": "x".repeat(1 << 20) }))).is_ok());
}

#[test]
fn costliest_expressions_end_soon() {
    let list: Vec<_> = (0..3000).map(|_| "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").collect();
    let given = claims(json!({ "a": list, "s": "a".repeat(100_000) }));
    let equal = vec!["claims == claims"; 100].join(" && ");
    let dear = [
        "claims.a.all(x, x in claims.a)",
        "claims.a.all(x, claims == claims)",
        "claims.a.filter(x, true).all(x, claims.a.filter(y, true) == claims.a)",
        "claims.a.all(x, [claims, claims, claims, claims] == [claims, claims, claims, claims])",
        "claims.a.all(x, claims.s.contains(x + 'b'))",
        "claims.a.all(x, (claims.s + claims.s + claims.s).contains('b') == false)",
        "claims.s.matches('(a*)*(a|aa)*(aa|aaa)*b')",
        "claims.a.all(x, claims.s.matches('a*a*a*a*a*b'))",
        "[1,2,3,4,5,6,7,8,9].all(x, claims.a.all(y, claims.a[0] == y))",
        &equal,
    ];
    for source in dear {
        let roles = matcher(source).unwrap();
        let began = tokio::time::Instant::now();
        let chosen = roles.select(&given).cloned();
        let took = began.elapsed();
        println!("{took:>12?} {chosen:?} {}", source.chars().take(80).collect::<String>());
        // The limit allows for unoptimized builds on busy machines.
        assert!(took.as_secs() < 20, "{source}: {took:?}");
    }
}

proptest! {
    #[test]
    fn compiles_or_rejects_arbitrary_text(source in "\\PC{0,80}") {
        arbitrary::check(&source);
    }

    #[test]
    fn generated_expressions_end_in_time(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            "claims", ".a", ".exists(x, ", ".all(y, ", ".filter(z, ", "x", "y", "z", ")", "(", " == ", " in ",
            " && ", " || ", "'t'", "1", "[", "]", ", ", "has(", "!", ".matches('a+')", " + ", "?", ":", "size(",
        ]), 1..30),
    ) {
        arbitrary::check(&pieces.concat());
    }
}
