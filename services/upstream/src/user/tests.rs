use serde_json::json;

use super::*;
use crate::testing::object;

fn of(answer: Value) -> Result<User, ProviderError> {
    User::from_claims(&object(answer), &FieldMapping::default())
}

fn shown_of(answer: Value) -> (Option<Box<str>>, Option<Box<str>>) {
    let user = of(answer).map_err(|error| error.to_string()).ok().unwrap();
    (user.name, user.email)
}

#[test]
fn rejects_long_or_control_character_subjects() {
    for subject in [json!(""), json!(null), json!("a\nb"), json!("a\u{0}"), json!("a".repeat(256))]
    {
        let error = of(json!({"sub": subject})).map(|_| ()).unwrap_err();
        assert_eq!(error, IdentityError::MissingSubject.into());
    }
    assert_eq!(&*of(json!({"sub": "a".repeat(255)})).ok().unwrap().subject, "a".repeat(255));
}

#[test]
fn different_subjects_stay_distinct() {
    let all =
        [json!(1), json!("1"), json!("#1"), json!("##1"), json!(" 1"), json!("1 "), json!(-1)];
    let subject = |sub: &Value| of(json!({"sub": sub})).ok().unwrap().subject;
    let subjects: std::collections::HashSet<_> = all.iter().map(subject).collect();
    assert_eq!(subjects.len(), all.len(), "{subjects:?}");
    assert!(of(json!({"sub": " "})).is_err());
    // The userinfo response has to match exactly.
    let standard = FieldMapping::default();
    for (id, info, is_same) in [
        (json!("1"), json!(1), false),
        (json!(" 1"), json!("1"), false),
        (json!("#1"), json!("#1"), true),
    ] {
        let user = of(json!({"sub": id})).ok().unwrap();
        let completed = user.with_user_info(&object(json!({"sub": info})), &standard);
        assert_eq!(completed.is_ok(), is_same, "{id} {info}");
    }
}

#[test]
fn drops_unverified_email() {
    let email = |verified: Value| {
        shown_of(json!({"sub": "a", "email": "a@example.com", "email_verified": verified})).1
    };
    for (verified, is_there) in [
        (json!(true), true),
        (json!("true"), true),
        (json!(null), true),
        (json!(false), false),
        (json!("False"), false),
    ] {
        assert_eq!(email(verified.clone()).is_some(), is_there, "{verified}");
    }
}

#[test]
fn verification_belongs_to_its_email() {
    let standard = FieldMapping::default();
    let own = |said: Value| {
        let base = json!({"sub": "a", "email": "a@example.com"});
        of(crate::testing::over(base, &said)).ok().unwrap()
    };
    for (said, verified) in [
        (json!({"email_verified": true}), Some(true)),
        (json!({"email_verified": "TRUE"}), Some(true)),
        (json!({"email_verified": false}), Some(false)),
        (json!({"email_verified": 1}), None),
        (json!({}), None),
    ] {
        assert_eq!(own(said.clone()).email_verified, verified, "{said}");
    }
    let both = |id: Value, info: Value| {
        let info = crate::testing::over(json!({"sub": "a"}), &info);
        let user = own(id).with_user_info(&object(info), &standard).ok().unwrap();
        (user.email.as_deref().map(str::to_owned), user.email_verified)
    };
    let address = |email: &str| Some(email.to_owned());
    let (no, yes) = (json!({"email_verified": false}), json!({"email_verified": true}));
    // The ID token's rejection is final, whatever address the other response has.
    for info in [json!({}), yes.clone(), json!({"email": "b@example.com", "email_verified": true})]
    {
        assert_eq!(both(no.clone(), info.clone()), (None, Some(false)), "{info}");
    }
    assert_eq!(both(yes.clone(), no), (None, Some(false)));
    assert_eq!(both(yes.clone(), json!({})), (address("a@example.com"), Some(true)));
    // The verification of one address does not apply to another.
    let other = json!({"email": "b@example.com"});
    assert_eq!(both(yes, other.clone()), (address("b@example.com"), None));
    let same = json!({"email": "a@example.com", "email_verified": true});
    assert_eq!(both(json!({}), same), (address("a@example.com"), Some(true)));
    assert_eq!(both(json!({}), other), (address("b@example.com"), None));
}

#[test]
fn names_lose_control_characters() {
    assert_eq!(shown_of(json!({"sub": "a", "name": " A\u{1b}[1m\n "})).0.as_deref(), Some("A[1m"));
    assert_eq!(shown_of(json!({"sub": "a", "name": "\u{7}"})).0, None);
    assert_eq!(shown_of(json!({"sub": "a", "name": "a".repeat(257)})).0, None);
}

#[test]
fn synthetic_subject_depends_on_the_token() {
    let one = User::is_synthetic(&"at-1".into());
    // echo -n at-1 | sha256sum | head -c 32
    assert_eq!(&*one.subject, "tk-47c3d868841d71811d91273d4de1b289");
    assert_ne!(one.subject, User::is_synthetic(&"at-2".into()).subject);
    assert_eq!((one.name, one.email), (None, None));
}

#[test]
fn user_info_must_match_the_id_token() {
    let user = || of(json!({"sub": "alice", "name": "Al"})).ok().unwrap();
    let standard = FieldMapping::default();
    let renamed = FieldMapping::new(vec!["oid"], vec!["nick"], vec!["mail"]).unwrap();
    let completed =
        |answer: Value, fields: &FieldMapping| user().with_user_info(&object(answer), fields);
    let same =
        completed(json!({"sub": "alice", "email": "a@example.com"}), &standard).ok().unwrap();
    assert_eq!((same.name.as_deref(), same.email.as_deref()), (Some("Al"), Some("a@example.com")));
    let with_email = of(json!({"sub": "alice", "email": "a@example.com"})).ok().unwrap();
    let unverified = object(json!({"sub": "alice", "email_verified": false}));
    assert_eq!(with_email.with_user_info(&unverified, &standard).ok().unwrap().email, None);
    for (answer, fields) in [
        (json!({"sub": "mallory"}), &standard),
        (json!({"name": "Al"}), &standard),
        (json!({"sub": "mallory", "oid": "7"}), &renamed),
    ] {
        let error = completed(answer, fields).map(|_| ()).unwrap_err();
        assert_eq!(error, IdentityError::OtherUser.into());
    }
    for answer in [json!({"oid": "7"}), json!({"sub": "alice", "oid": "7"})] {
        assert_eq!(&*completed(answer, &renamed).ok().unwrap().subject, "7");
    }
}
