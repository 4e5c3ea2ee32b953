//! The last value on this side of each limit, and the first one beyond.

use serde_json::{Map, Value, json};
use vmcp_config::{AuthServer, File, Format, SecretRef};

use crate::support::FULL;

/// The document with every key, with `value` at `pointer`.
fn with(pointer: &str, value: &Value) -> Value {
    let mut document: Value = serde_saphyr::from_str(FULL).unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"));
    match parent {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
        _ => parent[key] = value.clone(),
    }
    document
}

fn check(pointer: &str, good: &Value, bad: &Value) {
    let read = |value| File::parse(&with(pointer, value).to_string(), Format::Json);
    if let Err(errors) = read(good) {
        panic!("{pointer}: {errors}");
    }
    let errors = read(bad).expect_err(pointer);
    let path = errors.as_slice()[0].path.replace(['.', '['], "/").replace(']', "");
    assert!(
        path.starts_with(&pointer[1..]) || pointer[1..].starts_with(&path),
        "{pointer}: {errors}"
    );
    assert_eq!(errors.count(), 1, "{errors}");
    assert!(!path.is_empty(), "{pointer}: {errors}");
}

fn many(count: usize) -> Value {
    Value::Object((0..count).map(|n| (format!("k{n}"), json!("v"))).collect::<Map<_, _>>())
}

fn list(count: usize, item: &Value) -> Value {
    Value::Array(vec![item.clone(); count])
}

#[test]
fn limits_numbers_as_in_reference() {
    for (pointer, good, bad) in [
        ("/sessionStorage/db", 0_i64, -1_i64),
        ("/sessionStorage/db", 2_147_483_647, 2_147_483_648),
        ("/audit/maxDataSize", 1, 0),
        ("/audit/maxDataSize", 1_048_576, 1_048_577),
        ("/optimizer/maxToolsToReturn", 0, -1),
        ("/optimizer/maxToolsToReturn", 50, 51),
        ("/operational/failureHandling/unhealthyThreshold", 1, 0),
        ("/operational/failureHandling/circuitBreaker/failureThreshold", 1, 0),
        ("/outgoingAuth/backends/aws/awsSts/sessionDuration", 900, 899),
        ("/outgoingAuth/backends/aws/awsSts/sessionDuration", 43_200, 43_201),
        ("/outgoingAuth/backends/aws/awsSts/roleMappings/0/priority", 0, -1),
        ("/outgoingAuth/backends/aws/awsSts/roleMappings/0/priority", 2_147_483_647, 2_147_483_648),
        ("/compositeTools/0/steps/0/onError/retryCount", 1, 0),
        ("/compositeTools/0/steps/0/onError/retryCount", 10, 11),
        ("/compositeTools/0/steps/2/maxIterations", 1, 0),
        ("/compositeTools/0/steps/2/maxIterations", 1000, 1001),
        ("/compositeTools/0/steps/2/maxParallel", 1, 0),
        ("/compositeTools/0/steps/2/maxParallel", 50, 51),
        ("/authServer/storage/redis/sentinelConfig/db", 0, -1),
        ("/authServer/storage/redis/sentinelConfig/db", 2_147_483_647, 2_147_483_648),
    ] {
        check(pointer, &json!(good), &json!(bad));
    }
}

#[test]
fn messages_name_the_range_of_the_field() {
    for (pointer, allowed) in [
        ("/audit/maxDataSize", "from 1 to 1048576"),
        ("/optimizer/maxToolsToReturn", "from 0 to 50"),
        ("/outgoingAuth/backends/aws/awsSts/sessionDuration", "from 900 to 43200"),
        ("/compositeTools/0/steps/2/maxParallel", "from 1 to 50"),
    ] {
        for bad in [json!(-1), json!("x"), json!(1.5), json!(1e12), json!(4_294_967_296_i64)] {
            let document = with(pointer, &bad).to_string();
            let errors = File::parse(&document, Format::Json).unwrap_err();
            assert_eq!(errors.count(), 1, "{errors}");
            assert!(errors.to_string().contains(allowed), "{pointer} = {bad}: {errors}");
        }
    }
}

#[test]
fn limits_service_port_to_valid_range() {
    for (good, bad) in [(1, 0), (65_535, 65_536)] {
        let service =
            |port: i64| json!({"masterName": "m", "sentinelService": {"name": "s", "port": port}});
        check("/authServer/storage/redis/sentinelConfig", &service(good), &service(bad));
    }
}

#[test]
fn required_text_is_not_empty() {
    for pointer in [
        "/name",
        "/backends/0/name",
        "/aggregation/tools/0/workload",
        "/incomingAuth/oidc/audience",
        "/incomingAuth/authz/policies/0",
        "/outgoingAuth/backends/literal/headerInjection/headerValue",
        "/outgoingAuth/backends/aws/awsSts/roleMappings/0/claim",
        "/outgoingAuth/backends/aws/awsSts/roleMappings/1/matcher",
        "/compositeTools/0/name",
        "/compositeTools/0/steps/0/tool",
        "/compositeTools/0/steps/2/step/tool",
        "/compositeTools/0/steps/1/message",
        "/compositeTools/0/steps/2/collection",
        "/compositeTools/0/output/properties/title/value",
        "/sessionStorage/address",
        "/authServer/storage/redis/sentinelConfig/masterName",
        "/authServer/upstreamProviders/0/oidcConfig/clientId",
        "/authServer/upstreamProviders/1/oauth2Config/tokenResponseMapping/accessTokenPath",
    ] {
        check(pointer, &json!("x"), &json!(""));
    }
    let service = |name: &str| json!({"masterName": "m", "sentinelService": {"name": name}});
    check("/authServer/storage/redis/sentinelConfig", &service("s"), &service(""));
    let secret = |fields: Value| {
        let upstream = json!({"name": "o", "type": "oidc", "oidcConfig": {"issuerUrl": "https://o", "clientId": "c"}});
        let server = json!({"issuer": "https://me", "hmacSecretRefs": [fields], "upstreamProviders": [upstream]});
        serde_json::from_value::<AuthServer<SecretRef>>(server).map_err(|error| error.to_string())
    };
    assert!(secret(json!({"name": "n", "key": "k"})).is_ok());
    assert!(
        secret(json!({"name": "", "key": "k"})).unwrap_err().contains("hmacSecretRefs[0].name")
    );
    assert!(secret(json!({"name": "n", "key": ""})).unwrap_err().contains("hmacSecretRefs[0].key"));
}

#[test]
fn limits_lists_and_maps_as_in_reference() {
    let key = json!({"file": "/k"});
    let params = "additionalAuthorizationParams";
    let upstreams = "/authServer/upstreamProviders";
    check("/incomingAuth/authz/policies", &list(1, &json!("p")), &json!([]));
    check("/authServer/baselineClientScopes", &list(10, &json!("a")), &list(11, &json!("a")));
    check("/authServer/signingKeySecretRefs", &list(5, &key), &list(6, &key));
    check(&format!("{upstreams}/0/oidcConfig/{params}"), &many(16), &many(17));
    check(&format!("{upstreams}/1/oauth2Config/{params}"), &many(16), &many(17));
    let mapping = format!("{upstreams}/0/oidcConfig/userInfoOverride/fieldMapping/subjectFields");
    check(&mapping, &json!(["a"]), &json!([]));
    let property = json!({"type": "string", "value": "x"});
    check(
        "/compositeTools/0/output",
        &json!({"properties": {"a": property}}),
        &json!({"properties": {}}),
    );
    check("/authServer/storage/redis/sentinelConfig/sentinelAddrs", &json!(["a:1"]), &json!([]));
}

#[test]
fn limits_text_length_as_in_reference() {
    let dcr = "/authServer/upstreamProviders/1/oauth2Config/dcrConfig";
    let url = |length: usize| json!(format!("https://a/{}", "x".repeat(length - 10)));
    check(&format!("{dcr}/softwareId"), &json!("x".repeat(255)), &json!("x".repeat(256)));
    check(
        &format!("{dcr}/softwareStatement"),
        &json!("x".repeat(16_384)),
        &json!("x".repeat(16_385)),
    );
    check(&format!("{dcr}/discoveryUrl"), &url(2048), &url(2049));
    let registration = |length| json!({"registrationEndpoint": url(length)});
    check(dcr, &registration(2048), &registration(2049));
    check("/authServer/upstreamProviders/1/name", &json!("x".repeat(63)), &json!("x".repeat(64)));
}

#[test]
fn rejects_zero_timeouts_and_lifetimes() {
    for pointer in [
        "/operational/timeouts/default",
        "/operational/timeouts/perWorkload/github",
        "/operational/failureHandling/healthCheckTimeout",
        "/operational/failureHandling/statusReportingInterval",
        "/optimizer/embeddingServiceTimeout",
        "/compositeTools/0/timeout",
        "/compositeTools/0/steps/0/timeout",
        "/authServer/tokenLifespans/accessTokenLifespan",
        "/authServer/tokenLifespans/authCodeLifespan",
        "/authServer/tokenLifespans/refreshTokenLifespan",
        "/authServer/upstreamCheckInterval",
        "/sessionStorage/dialTimeout",
        "/sessionStorage/readTimeout",
        "/sessionStorage/writeTimeout",
        "/authServer/storage/redis/dialTimeout",
        "/authServer/storage/redis/readTimeout",
        "/authServer/storage/redis/writeTimeout",
    ] {
        check(pointer, &json!("1ns"), &json!("0s"));
    }
    check("/operational/failureHandling/circuitBreaker/timeout", &json!("1s"), &json!("999ms"));
}

#[test]
fn limits_decimals_as_in_reference() {
    check("/optimizer/hybridSearchSemanticRatio", &json!("1.000"), &json!("1.001"));
    check("/optimizer/semanticDistanceThreshold", &json!("2.000"), &json!("2.001"));
    check("/telemetry/samplingRate", &json!("1.000"), &json!("1.001"));
}

#[test]
fn scopes_are_single_words_everywhere() {
    for pointer in [
        "/incomingAuth/oidc/scopes/0",
        "/outgoingAuth/backends/jira/tokenExchange/scopes/1",
        "/authServer/baselineClientScopes/0",
        "/authServer/upstreamProviders/0/oidcConfig/scopes/1",
        "/authServer/upstreamProviders/1/oauth2Config/scopes/0",
    ] {
        check(pointer, &json!("read:all"), &json!("read all"));
    }
}
