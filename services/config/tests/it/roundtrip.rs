//! Documents survive writing and reading unchanged.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use vmcp_config::{Config, File, Format};

use crate::support::{FULL, config};

fn again(config: &Config) -> Config {
    let text = config.to_yaml().unwrap();
    Config::parse(&text, Format::Yaml).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

#[test]
fn full_document_survives_yaml_and_json() {
    let file = File::parse(FULL, Format::Yaml).unwrap();
    let yaml = file.to_yaml().unwrap();
    assert_eq!(File::parse(&yaml, Format::Yaml).unwrap(), file, "{yaml}");
    let json = serde_json::to_string(&file).unwrap();
    assert_eq!(File::parse(&json, Format::Json).unwrap(), file);
    assert_eq!(serde_json::from_str::<File>(&json).unwrap(), file);
}

#[test]
fn writes_keys_in_reference_order() {
    let yaml = config("name: x\n").to_yaml().unwrap();
    let keys: Vec<&str> = yaml
        .lines()
        .filter(|l| !l.starts_with([' ', '-']))
        .filter_map(|l| l.split(':').next())
        .collect();
    let expected = [
        "name",
        "metadata",
        "aggregation",
        "audit",
        "backends",
        "compositeToolRefs",
        "compositeTools",
        "operational",
        "sessionStorage",
    ];
    assert_eq!(keys, expected, "{yaml}");
}

#[test]
fn ambiguous_text_survives_round_trip() {
    for text in [
        "012",
        "1.10",
        "true",
        "yes",
        "null",
        "~",
        "",
        " ",
        "- x",
        "a: b",
        "#",
        "'",
        "\"",
        "\n",
        "a\nb\n",
        "\t",
        "é\u{feff}",
        "0x1",
        ".inf",
        "<<",
        "=",
        "*a",
        "&a",
        "!a",
        "|",
        ">",
        "%",
        "@",
        "`",
        "{{workload}}",
        "\u{0}",
        "\u{85}",
        "\u{2028}",
        "x \n y",
        "  lead",
        "trail  ",
        "\r\n",
    ] {
        let document = json!({"metadata": {"k": text, (format!("z{text}")): "v"}}).to_string();
        let config = Config::parse(&document, Format::Json).unwrap();
        assert_eq!(config.metadata["k"], text);
        assert_eq!(again(&config), config, "{text:?}");
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z][a-z0-9-]{0,12}", "[0-9.]{1,5}", "\\PC{1,12}", "(?s).{1,8}"]
}

fn duration() -> impl Strategy<Value = String> {
    (1..10_000_u32, prop::sample::select(vec!["ns", "us", "ms", "s", "m", "h"]))
        .prop_map(|(n, unit)| format!("{n}{unit}"))
}

fn backend() -> impl Strategy<Value = Value> {
    (
        text(),
        prop::sample::select(vec![
            "http://a",
            "https://b.example:8443/mcp?x=1",
            "http://[::1]:80/",
        ]),
        prop::sample::select(vec!["sse", "streamable-http"]),
        any::<Option<bool>>(),
        prop::collection::btree_map(text(), text(), 0..3),
    )
        .prop_map(|(name, url, transport, entry, metadata)| {
            let mut backend =
                json!({"name": name, "url": url, "transport": transport, "metadata": metadata});
            if let Some(bundle) = entry {
                backend["type"] = json!("entry");
                if bundle {
                    backend["caBundlePath"] = json!("/etc/ca.crt");
                }
            }
            backend
        })
}

fn aggregation() -> impl Strategy<Value = Value> {
    let annotations = prop::option::of(any::<bool>()).prop_map(|hint| match hint {
        Some(hint) => json!({"readOnlyHint": hint, "title": "t"}),
        None => json!({"openWorldHint": true}),
    });
    let entry = (
        text(),
        any::<bool>(),
        prop::collection::vec(text(), 0..3),
        prop::collection::btree_map(text(), (text(), annotations), 0..3),
    )
        .prop_map(|(workload, hidden, filter, overrides)| {
            let overrides: Map<String, Value> = overrides
                .into_iter()
                .map(|(tool, (name, annotations))| (tool, json!({"name": name, "annotations": annotations})))
                .collect();
            json!({"workload": workload, "excludeAll": hidden, "filter": filter, "overrides": overrides})
        });
    let resolution = prop_oneof![
        Just(json!({"conflictResolution": "manual"})),
        prop::collection::hash_set(text(), 1..4)
            .prop_map(|order| json!({"conflictResolution": "priority", "conflictResolutionConfig": {"priorityOrder": order}})),
        Just(json!({"conflictResolutionConfig": {"prefixFormat": "{workload}."}})),
    ];
    (resolution, prop::collection::vec(entry, 1..4)).prop_map(|(mut resolution, mut tools)| {
        tools.sort_by_key(|tool| tool["workload"].to_string());
        tools.dedup_by_key(|tool| tool["workload"].to_string());
        resolution["tools"] = Value::Array(tools);
        resolution
    })
}

fn any_config() -> impl Strategy<Value = Value> {
    (
        prop::option::of(text()),
        prop::collection::vec(backend(), 0..4),
        aggregation(),
        prop::collection::btree_map(text(), duration(), 0..3),
        any::<(bool, bool)>(),
        1..u32::MAX,
    )
        .prop_map(|(name, mut backends, aggregation, timeouts, (breaker, effort), number)| {
            backends.sort_by_key(|backend| backend["name"].to_string());
            backends.dedup_by_key(|backend| backend["name"].to_string());
            let mut config = json!({
                "backends": backends,
                "aggregation": aggregation,
                "operational": {
                    "timeouts": {"perWorkload": timeouts},
                    "failureHandling": {
                        "unhealthyThreshold": number,
                        "partialFailureMode": if effort { "best_effort" } else { "fail" },
                        "circuitBreaker": {"enabled": breaker, "failureThreshold": number},
                    },
                },
                "audit": {"enabled": breaker, "maxDataSize": number % (1 << 20) + 1},
                "optimizer": {"hybridSearchSemanticRatio": ".50"},
            });
            if let Some(name) = name {
                config["name"] = json!(name);
            }
            config
        })
}

proptest! {
    #[test]
    fn configuration_survives_round_trip(document in any_config()) {
        let config = Config::parse(&document.to_string(), Format::Json).map_err(|m| TestCaseError::fail(m.to_string()))?;
        prop_assert_eq!(&again(&config), &config);
        let json = serde_json::to_string(&config).unwrap();
        prop_assert_eq!(Config::parse(&json, Format::Json).unwrap(), config);
    }
}
