//! Resource attributes of the process.

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::TelemetryResourceDetector;

use crate::Settings;

/// Lookup of environment variables.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the resource and its service name. The settings take precedence over
/// `OTEL_SERVICE_NAME`, that over `OTEL_RESOURCE_ATTRIBUTES`, and that over the defaults
/// (OpenTelemetry, SDK environment variables).
pub(crate) fn resource(settings: &Settings, environment: Environment<'_>) -> (Resource, String) {
    let listed = environment("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let listed: Vec<_> = parse_attributes(&listed).collect();
    let custom = &settings.custom_attributes;
    let named = |list: &[(String, String)]| {
        list.iter().rev().find(|(key, _)| key == "service.name").map(|(_, value)| value.clone())
    };
    let name = [
        settings.service_name.clone(),
        custom.get("service.name").cloned(),
        environment("OTEL_SERVICE_NAME"),
        named(&listed),
    ];
    let name = name.into_iter().flatten().find(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| settings.default_service_name.clone());
    let mut builder = Resource::builder_empty().with_detector(Box::new(TelemetryResourceDetector));
    // A later attribute replaces an earlier one.
    if !settings.service_version.is_empty() {
        let version = settings.service_version.clone();
        builder = builder.with_attribute(KeyValue::new("service.version", version));
    }
    let custom = custom.iter().map(|(key, value)| (key.clone(), value.clone()));
    let all = listed.into_iter().chain(custom);
    builder = builder.with_attributes(all.map(|(key, value)| KeyValue::new(key, value)));
    builder = builder.with_attribute(KeyValue::new("service.name", name.clone()));
    (builder.build(), name)
}

/// Returns `environment.*` attributes for the configured variables that are set.
pub(crate) fn environment_attributes(
    settings: &Settings,
    environment: Environment<'_>,
) -> Vec<KeyValue> {
    let variable = |name: &String| {
        let value = environment(name)?;
        Some(KeyValue::new(format!("environment.{name}"), value))
    };
    settings.environment_variables.iter().filter_map(variable).collect()
}

/// Parses comma-separated `key=value` pairs with percent-encoded values (W3C Baggage). Ignores
/// malformed pairs.
fn parse_attributes(list: &str) -> impl Iterator<Item = (String, String)> {
    list.split(',').filter_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let key = key.trim();
        (!key.is_empty()).then(|| (key.to_owned(), percent_decode(value.trim())))
    })
}

fn percent_decode(value: &str) -> String {
    percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use opentelemetry::Key;

    use super::*;

    fn name(settings: &Settings, variables: &[(&str, &str)]) -> String {
        let environment = |wanted: &str| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        };
        let (resource, name) = resource(settings, &environment);
        let said = resource.get(&Key::new("service.name")).unwrap();
        assert_eq!(said.as_str(), name);
        name
    }

    #[test]
    fn configured_name_precedes_environment() {
        let mut settings =
            Settings { default_service_name: "default".into(), ..Settings::default() };
        let listed = ("OTEL_RESOURCE_ATTRIBUTES", "a=b,service.name=list%20ed");
        assert_eq!(name(&settings, &[]), "default");
        assert_eq!(name(&settings, &[listed]), "list ed");
        assert_eq!(name(&settings, &[listed, ("OTEL_SERVICE_NAME", "variable")]), "variable");
        settings.service_name = Some("set".into());
        assert_eq!(name(&settings, &[listed, ("OTEL_SERVICE_NAME", "variable")]), "set");
    }

    #[test]
    fn configured_attributes_precede_environment() {
        let mut settings = Settings { service_version: "1".into(), ..Settings::default() };
        settings.custom_attributes.insert("team".into(), "set".into());
        let environment = |_: &str| Some("team=listed,zone=a%2Cb,,=x,broken".to_owned());
        let (resource, _) = resource(&settings, &environment);
        let get = |key: &'static str| resource.get(&Key::new(key)).map(|value| value.to_string());
        assert_eq!(get("team").as_deref(), Some("set"));
        assert_eq!(get("zone").as_deref(), Some("a,b"));
        assert_eq!(get("service.version").as_deref(), Some("1"));
    }

    #[test]
    fn decodes_percent_encoding() {
        for (text, expected) in [
            ("%2C", ","),
            ("%2c%25", ",%"),
            ("%+5", "%+5"),
            ("%-1", "%-1"),
            ("%2", "%2"),
            ("%", "%"),
            ("100%%20", "100% "),
            ("%g0", "%g0"),
        ] {
            assert_eq!(percent_decode(text), expected, "{text}");
        }
    }

    #[test]
    fn reads_named_variables_only() {
        let settings =
            Settings { environment_variables: vec!["A".into(), "C".into()], ..Settings::default() };
        let environment = |name: &str| (name != "C").then(|| format!("{name}!"));
        assert_eq!(
            environment_attributes(&settings, &environment),
            [KeyValue::new("environment.A", "A!")]
        );
    }
}
