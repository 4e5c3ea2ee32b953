//! Generated objects of each feature, as committed. With `VMCP_WRITE_SNAPSHOTS=1` in its environment, the test writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use vmcp_api::conversion::{ClusterDefaults, DefaultRedis};

use super::*;

/// A feature, with the server, conversion and settings that show it.
type Feature = (&'static str, fn() -> (Value, Conversion, Settings));

const FEATURES: &[Feature] = &[
    ("minimal", || (json!({}), conversion(CONFIGURATION), settings())),
    ("discovered", || {
        let yaml = CONFIGURATION.replace("inline", "discovered");
        (json!({"outgoingAuth": {"source": "discovered"}}), conversion(&yaml), settings())
    }),
    ("oidc", || {
        let yaml = "name: tools\noutgoingAuth: {source: inline}\nincomingAuth:\n  type: oidc\n  oidc: \
                    {issuer: 'https://id.example.com', audience: tools, clientId: tools, resource: \
                    'https://tools.example.com/mcp'}\n";
        let hosts = vec!["tools.example.com".to_owned()];
        let reference = json!({"name": "corporate", "audience": "tools"});
        (
            json!({"incomingAuth": {"type": "oidc", "oidcConfigRef": reference}}),
            Conversion { hosts, ..conversion(yaml) },
            settings(),
        )
    }),
    ("service", || {
        let spec = json!({"replicas": 3, "serviceType": "LoadBalancer", "sessionAffinity": "None"});
        (spec, conversion(CONFIGURATION), settings())
    }),
    ("replicas-zero", || (json!({"replicas": 0}), conversion(CONFIGURATION), settings())),
    ("service-account", || {
        (json!({"serviceAccount": "existing"}), conversion(CONFIGURATION), settings())
    }),
    ("image-pull-secrets", || {
        let spec = json!({
            "imagePullSecrets": [{"name": "spec"}, {"name": ""}, {}, {"name": "both"}, {"name": "spec"}],
            "podTemplateSpec": {"spec": {"imagePullSecrets": [{"name": "template"}, {"name": "both"}]}},
        });
        let image_pull_secrets = vec!["both".to_owned(), "operator".to_owned()];
        (spec, conversion(CONFIGURATION), Settings { image_pull_secrets, ..settings() })
    }),
    ("openshift", || {
        (json!({}), conversion(CONFIGURATION), Settings { is_openshift: true, ..settings() })
    }),
    ("ipv6", || {
        let listen = "::".parse().unwrap();
        (json!({}), conversion(CONFIGURATION), Settings { listen, ..settings() })
    }),
    ("cluster-domain", || {
        let redis = Some(DefaultRedis { address: "redis:6379".to_owned(), password: None });
        let defaults = ClusterDefaults { domain: "example.org".to_owned(), redis };
        let settings = Settings { defaults, ..settings() };
        (json!({}), conversion(CONFIGURATION), settings)
    }),
    ("environment", || {
        let environment = vec![
            variable("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            variable("OTEL_RESOURCE_ATTRIBUTES", "team=a,text=$(HOME)"),
        ];
        (json!({}), Conversion { environment, ..conversion(CONFIGURATION) }, settings())
    }),
    ("optional-objects", || {
        (optional_objects::full(), conversion(optional_objects::WITH_METRICS), settings())
    }),
    ("pod-template", || {
        let spec = json!({"podTemplateSpec": {
            "metadata": {"annotations": {"example.com/team": "a"}, "labels": {"team": "a"}},
            "spec": {
                "nodeSelector": {"disk": "ssd"},
                "terminationGracePeriodSeconds": 120,
                "tolerations": [{"key": "dedicated", "operator": "Exists"}],
                "volumes": [{"name": "audit", "persistentVolumeClaim": {"claimName": "audit"}}],
                "containers": [
                    {"name": "proxy", "image": "proxy:1"},
                    {
                        "name": "vmcp",
                        "args": ["--trusted-proxies=1", "--allow-host=tools.example.com"],
                        "env": [{"name": "RUST_LOG", "value": "debug"}],
                        "resources": {"limits": {"cpu": 2}, "requests": {"cpu": 0.5}},
                        "volumeMounts": [{"name": "audit", "mountPath": "/var/log/vmcp"}],
                    },
                ],
            },
        }});
        let yaml =
            format!("{CONFIGURATION}audit: {{enabled: true, logFile: /var/log/vmcp/audit.log}}\n");
        (spec, conversion(&yaml), settings())
    }),
];

/// Compares files with those of a folder, which has no others.
pub(super) fn check_files(folder: &str, files: &BTreeMap<String, String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/plan").join(folder);
    for (file, current) in files {
        let path = folder.join(file);
        if env::var_os("VMCP_WRITE_SNAPSHOTS").is_some() {
            fs::write(&path, current).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == *current,
            "{file} differs; run: VMCP_WRITE_SNAPSHOTS=1 cargo test -p vmcp-operator snapshots"
        );
    }
    let present: BTreeSet<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(present, files.keys().cloned().collect());
}

/// Returns a value with its members in order of their names, whatever order other crates let serde_json keep.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().collect();
            members.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        scalar => scalar.clone(),
    }
}

/// Writes objects as YAML documents.
pub(super) fn to_yaml(objects: &[Value]) -> String {
    let documents = objects.iter().map(|object| serde_saphyr::to_string(&sorted(object)).unwrap());
    let separated = documents.flat_map(|document| ["---\n".to_owned(), document]);
    separated.collect()
}

#[test]
fn generated_objects_match_snapshots() {
    let of = |(spec, conversion, settings): (Value, Conversion, Settings)| {
        plan(&server("tools", spec), &conversion, &settings).unwrap().into_objects()
    };
    let minimal = of(FEATURES[0].1());
    let mut files = BTreeMap::new();
    for (name, feature) in FEATURES {
        let mut objects = of(feature());
        if *name != "minimal" {
            // The snapshot of the minimal server has the objects that a feature does not concern.
            objects.retain(|object| !minimal.contains(object));
        }
        files.insert(format!("{name}.yaml"), to_yaml(&objects));
    }
    check_files("snapshots", &files);
}
