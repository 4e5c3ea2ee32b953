mod any;

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

fn matcher(source: &str) -> Result<Roles<String>, RolesError> {
    let mapping = mapping(RoleMatch::Matcher(source.into()), "hit", None);
    Roles::new(Some(arn("fallback")), vec![mapping], "groups")
}

fn hits(source: &str, given: Value) -> bool {
    let roles = matcher(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    roles.choose(&claims(given)).unwrap() == &arn("hit")
}

fn problem(source: &str) -> MatcherError {
    match matcher(source) {
        Err(RolesError::Mappings(mut errors)) => errors.remove(0).problem,
        other => panic!("{source}: {other:?}"),
    }
}

fn claim(value: &str) -> RoleMatch {
    RoleMatch::Claim(value.into())
}

#[test]
fn neither_a_mapping_nor_a_fallback_is_refused() {
    assert!(matches!(Roles::<String>::new(None, Vec::new(), "groups"), Err(RolesError::NoRoles)));
}

#[test]
fn the_lowest_priority_wins_and_an_absent_one_comes_last_in_order() {
    let roles = Roles::new(
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
    let choose = |groups: Value| roles.choose(&claims(json!({ "groups": groups }))).cloned();
    assert_eq!(choose(json!(["a", "b", "c"])), Ok(arn("zero")));
    assert_eq!(choose(json!(["a", "b"])), Ok(arn("nine-1")));
    assert_eq!(choose(json!(["a"])), Ok(arn("last-1")));
    assert_eq!(choose(json!(["a", "d"])), Ok(arn("most")));
    assert_eq!(choose(json!([])), Err(NoRole::Unmapped));
}

#[test]
fn a_text_claim_is_a_list_of_one() {
    let roles = Roles::new(None, vec![mapping(claim("admins"), "x", None)], "role").unwrap();
    assert!(roles.choose(&claims(json!({"role": "admins"}))).is_ok());
    assert!(roles.choose(&claims(json!({"role": "admins,users"}))).is_err());
    assert!(roles.choose(&claims(json!({"role": {"admins": true}}))).is_err());
    assert!(roles.choose(&claims(json!({"groups": ["admins"]}))).is_err());
}

#[test]
fn a_mapped_value_is_never_evaluated() {
    for nasty in ["x\" in claims || true || \"", "'] || true || ['", "\\", "true", "claims"] {
        let roles =
            Roles::new(Some(arn("fallback")), vec![mapping(claim(nasty), "hit", None)], nasty)
                .unwrap();
        assert_eq!(roles.choose(&claims(json!({"groups": ["x"]}))), Ok(&arn("fallback")));
        assert_eq!(roles.choose(&claims(json!({ nasty: [nasty] }))), Ok(&arn("hit")));
    }
}

#[test]
fn what_a_claim_says_is_never_evaluated() {
    let nasty = "a\"' || true || claims.groups == ['";
    assert!(!hits("\"admins\" in claims.groups", json!({"groups": [nasty]})));
    assert!(!hits("claims.sub == 'admin'", json!({"sub": nasty})));
}

#[test]
fn expressions_read_claims_as_cel_has_it() {
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
        assert!(hits(yes, given.clone()), "{yes}");
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
        assert!(!hits(no, given.clone()), "{no}");
    }
}

#[test]
fn all_wrong_mappings_are_told_at_once() {
    let wrong = vec![
        mapping(RoleMatch::Matcher("claims.a ==".into()), "a", None),
        mapping(claim("fine"), "b", None),
        mapping(RoleMatch::Matcher("groups == 1".into()), "c", Some(1)),
    ];
    let Err(RolesError::Mappings(errors)) = Roles::new(None, wrong, "groups") else {
        panic!("refused")
    };
    assert_eq!(errors.iter().map(|error| error.index).collect::<Vec<_>>(), [0, 2]);
    assert!(matches!(errors[0].problem, MatcherError::Syntax(_)));
    assert!(matches!(errors[1].problem, MatcherError::UnknownName(_)));
}

#[test]
fn what_could_explode_is_refused_when_it_is_made() {
    use MatcherError as E;
    let long = format!("claims.sub == '{}'", "x".repeat(2048));
    assert_eq!(problem(&long), E::TooLong);
    assert_eq!(problem("claims.a.map(x, claims) == []"), E::MapMacro);
    assert_eq!(problem("claims.a.map(x, true, claims) == []"), E::MapMacro);
    let sums = vec!["claims.a"; 20].join(" + ");
    assert_eq!(problem(&format!("{sums} == ''")), E::TooManySums);
    let deep = "claims.a.all(a, claims.a.all(b, claims.a.all(c, true)))";
    assert_eq!(problem(deep), E::TooManyLoops);
    let many = ["claims.a.all(a, a)"; 9].join(" && ");
    assert_eq!(problem(&many), E::TooManyLoops);
    for unknown in ["claims.a.replace('a', 'b')", "f(claims)", "optional.of(1)", "claims.a.join()"]
    {
        assert!(matches!(problem(unknown), E::UnknownFunction(_) | E::UnknownName(_)), "{unknown}");
    }
    for pattern in [
        "claims.a.matches(claims.b)",
        "claims.a.matches('(')",
        "claims.a.matches('((a{100}){100}){100}')",
        "claims.a.matches(1)",
        "matches('a')",
    ] {
        assert!(matches!(problem(pattern), E::Pattern(_)), "{pattern}");
    }
}

#[test]
fn expressions_without_a_truth_value_are_refused() {
    for source in [
        "'admins'",
        "1 + 1",
        "claims",
        "size(claims.groups)",
        "[true]",
        "string(claims.a)",
        "claims.a.filter(x, true)",
    ] {
        let Err(RolesError::Mappings(errors)) = matcher(source) else { panic!("{source}") };
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
fn nesting_is_refused_before_it_meets_the_stack() {
    for (open, close) in
        [("(", ")"), ("[", "]"), ("{1:", "}"), ("!", ""), ("-", ""), ("claims.a?", ""), ("!(", ")")]
    {
        for times in [10, 17, 90, 600, 2000] {
            let source = format!("{}claims{}", open.repeat(times), close.repeat(times));
            // Refused or not, it comes back.
            _ = matcher(&source).map(|roles| roles.choose(&claims(json!({ "a": [] }))).cloned());
        }
    }
    for chain in
        [".a", "[0]", " - 1", " == 1", " && claims", " || claims", "? true : claims", ".size()"]
    {
        for times in [10, 60, 100, 200, 600] {
            let roles = matcher(&format!("claims{}", chain.repeat(times)));
            _ = roles.map(|roles| roles.choose(&claims(json!({ "a": [] }))).cloned());
        }
    }
    // Within the bounds for brackets, and each bracket a dozen of the parser's calls.
    for unfinished in [
        "??size((z[.filter(z, :[.filter(z, size(.a(.filter(z, .filter(z, size(1.all(y, ?.filter(z, ",
        "1.exists(x, .exists(x, .exists(x, size(y[!.all(y, size(!.all(y, ]1.a && !.exists(x, .all(y, .all(y, !",
        &"claims.a.filter(x, ".repeat(16),
        &"size([".repeat(8),
        &format!("{}true{}", "claims.a.all(x, [".repeat(8), "])".repeat(8)),
    ] {
        assert!(matcher(unfinished).is_err(), "{unfinished}");
    }
    assert!(matches!(problem(&"(".repeat(1000)), MatcherError::TooDeep));
    assert!(matches!(problem(&format!("claims{}", ".a".repeat(100))), MatcherError::TooDeep));
}

#[test]
fn a_choice_that_costs_too_much_is_refused_and_not_answered_with_the_fallback() {
    let many: Vec<_> = (0..6000).map(|number| number.to_string()).collect();
    let given = claims(json!({ "a": many }));
    let roles = matcher("claims.a.all(x, claims.a.exists(y, x == y))").unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(roles.choose(&given), Err(NoRole::TooCostly));
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    // Errors and short circuits inside of the expression don't hide it.
    let roles = matcher("true || claims.a.all(x, claims.a.exists(y, x == y))").unwrap();
    assert_eq!(roles.choose(&given), Ok(&arn("hit")));
    let roles = matcher("claims.a.all(x, claims.a.exists(y, x == y)) || true").unwrap();
    assert_eq!(roles.choose(&given), Err(NoRole::TooCostly));
}

#[test]
fn a_flat_loop_over_thousands_of_groups_is_no_problem() {
    let groups: Vec<_> = (0..2000).map(|number| format!("group-{number:030}")).collect();
    let last = groups.last().unwrap().clone();
    let given = json!({ "groups": groups });
    assert!(hits(&format!("claims.groups.exists(g, g == '{last}')"), given.clone()));
    assert!(hits(
        "claims.groups.all(g, g.startsWith('group-') && g.matches('^group-[0-9]+$'))",
        given
    ));
}

#[test]
fn a_loop_in_a_loop_over_usual_claims_is_no_problem() {
    let list = |name: &str, many: u32| -> Vec<_> {
        (0..many).map(|number| format!("{name}-{number:020}")).collect()
    };
    let mut groups = list("group", 200);
    groups.push("allowed-00000000000000000019".to_owned());
    let given = json!({ "groups": groups, "allowed": list("allowed", 20) });
    assert!(hits("claims.groups.exists(g, claims.allowed.exists(a, a == g))", given.clone()));
    assert!(hits("claims.groups.exists(g, g in claims.allowed)", given));
}

#[test]
fn claims_that_are_too_large_or_too_deep_are_refused() {
    let roles = matcher("claims.sub == 'ada'").unwrap();
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(roles.choose(&claims(json!({ "a": deep }))), Err(NoRole::TooCostly));
    assert_eq!(roles.choose(&claims(json!({ "a": "x".repeat(1 << 20) }))), Err(NoRole::TooCostly));
    let many: Vec<_> = (0..20_000).collect();
    assert_eq!(roles.choose(&claims(json!({ "a": many }))), Err(NoRole::TooCostly));
    // Nobody looks at them where no expression is asked.
    let plain = Roles::new(Some(arn("fallback")), vec![mapping(claim("a"), "a", None)], "groups");
    assert!(plain.unwrap().choose(&claims(json!({ "a": "x".repeat(1 << 20) }))).is_ok());
}

#[test]
fn the_dearest_expressions_end_soon() {
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
        let chosen = roles.choose(&given).cloned();
        let took = began.elapsed();
        println!("{took:>12?} {chosen:?} {}", source.chars().take(80).collect::<String>());
        // Without optimisation, and on a busy machine.
        assert!(took.as_secs() < 20, "{source}: {took:?}");
    }
}

proptest! {
    #[test]
    fn text_is_read_or_refused_but_never_more(source in "\\PC{0,80}") {
        any::check(&source);
    }

    #[test]
    fn pieces_of_expressions_end_in_time(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            "claims", ".a", ".exists(x, ", ".all(y, ", ".filter(z, ", "x", "y", "z", ")", "(", " == ", " in ",
            " && ", " || ", "'t'", "1", "[", "]", ", ", "has(", "!", ".matches('a+')", " + ", "?", ":", "size(",
        ]), 1..30),
    ) {
        any::check(&pieces.concat());
    }
}
