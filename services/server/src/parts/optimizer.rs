//! `optimizer`: search in place of the list of tools.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use secrecy::ExposeSecret;
use url::Url;
use vmcp_aggregate::settings::{EmbeddingSettings, OptimizerSettings};
use vmcp_config::{CompositeTool, ConfigError, EnvName, Optimizer};
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher};
use vmcp_optimize::{CALL_TOOL, EmbeddingService, FIND_TOOL, SearchOptions};

use super::PartsBuilder;
use super::environment::Environment;

/// Maximum size of a request to the embedding service and of its response, in bytes.
const MAX_BODY: usize = 8 << 20;

/// Path of the embedding service in the configuration.
const EMBEDDING_SERVICE: &str = "optimizer.embeddingService";

/// Path of the variable with its API key.
const API_KEY: &str = "optimizer.embeddingServiceApiKeyEnv";

/// Path of its model.
const MODEL: &str = "optimizer.embeddingServiceModel";

/// Converts the section. `None` lists all tools.
pub(super) fn convert(
    optimizer: Option<Optimizer>,
    composite_tools: &[CompositeTool],
    builder: PartsBuilder<'_>,
    errors: &mut Vec<ConfigError>,
) -> Option<OptimizerSettings> {
    let PartsBuilder { egress, environment, telemetry: _, is_replica: _ } = builder;
    let optimizer = optimizer?;
    for (index, tool) in composite_tools.iter().enumerate() {
        if [FIND_TOOL, CALL_TOOL].contains(&&*tool.name) {
            let (path, found) =
                (format!("compositeTools[{index}].name"), format!("\"{}\"", tool.name));
            errors.push(ConfigError::new(
                path,
                found,
                "another name: with optimizer, it is a tool of the gateway",
            ));
        }
    }
    let max_tools = usize::try_from(optimizer.tools()).unwrap_or(usize::MAX);
    let Optimizer {
        embedding_service,
        embedding_service_api_key_env,
        embedding_service_model,
        embedding_service_timeout,
        hybrid_search_semantic_ratio,
        max_tools_to_return: _,
        semantic_distance_threshold,
    } = optimizer;
    #[expect(clippy::cast_possible_truncation, reason = "decimals of two digits")]
    let options = SearchOptions {
        semantic_ratio: hybrid_search_semantic_ratio.get() as f32,
        max_tools,
        max_distance: semantic_distance_threshold.get() as f32,
    };
    let service = ServiceSection {
        url: embedding_service,
        timeout: embedding_service_timeout.into(),
        api_key: embedding_service_api_key_env,
        model: embedding_service_model,
    };
    let embedding =
        service.convert(egress, environment).map_err(|error| errors.push(error)).ok().flatten();
    Some(OptimizerSettings { options, embedding })
}

/// Settings of the embedding service in the section.
struct ServiceSection {
    url: Option<Url>,
    timeout: Duration,
    api_key: Option<EnvName>,
    model: Option<String>,
}

impl ServiceSection {
    /// Converts the settings. `None` without a service.
    fn convert(
        self,
        egress: &Egress,
        environment: &Environment,
    ) -> Result<Option<EmbeddingSettings>, ConfigError> {
        let Self { url, timeout, api_key, model } = self;
        let unused = |path: &str, found: String| {
            Err(ConfigError::new(path, found, "nothing, because there is no embeddingService"))
        };
        let Some(url) = url else {
            return match (api_key, model) {
                (Some(name), _) => unused(API_KEY, name.to_string()),
                (None, Some(model)) => unused(MODEL, format!("\"{model}\"")),
                (None, None) => Ok(None),
            };
        };
        let reject = |allowed| ConfigError::new(EMBEDDING_SERVICE, format!("\"{url}\""), allowed);
        let fetcher = Fetcher::new(egress.clone(), policy(timeout));
        let fetcher = fetcher.map_err(|error| reject(error.to_string()))?;
        let service = EmbeddingService::new(&url, fetcher);
        let mut service = service.map_err(|error| reject(error.to_string()))?.timeout(timeout);
        let mut digest = DefaultHasher::new();
        (url.as_str(), timeout, &model).hash(&mut digest);
        if let Some(model) = model {
            let found = format!("\"{model}\"");
            let named = service.model(model);
            service = named.map_err(|error| ConfigError::new(MODEL, found, error.to_string()))?;
        }
        if let Some(name) = api_key {
            let key = environment.secret(API_KEY, &name)?;
            key.expose_secret().hash(&mut digest);
            service = service.api_key(&key).map_err(|_| {
                let found = format!("{name}, whose value has control characters");
                ConfigError::new(API_KEY, found, "a variable with a value that fits into a header")
            })?;
        }
        Ok(Some(EmbeddingSettings { service, fingerprint: digest.finish() }))
    }
}

/// Returns the policy for a service that the operator configured, which may be in the cluster.
fn policy(deadline: Duration) -> FetchPolicy {
    FetchPolicy {
        addresses: FetchAddresses::Any,
        http: true,
        deadline,
        max_body: MAX_BODY,
        redirects: false,
        ..FetchPolicy::supplied()
    }
}

#[cfg(test)]
mod tests {
    use vmcp_config::{File, Format};

    use super::super::Parts;
    use super::*;

    #[tokio::test]
    async fn model_and_key_need_service_that_takes_them() {
        let reject = |section: &str| {
            let text =
                format!("name: x\nincomingAuth: {{type: anonymous}}\noptimizer: {section}\n");
            let optimizer = File::parse(&text, Format::Yaml).unwrap().optimizer;
            let mut errors = Vec::new();
            convert(optimizer, &[], Parts::builder(&Egress::default()), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        for (section, expected) in [
            ("{embeddingServiceModel: m}", "optimizer.embeddingServiceModel: found \"m\""),
            (
                "{embeddingServiceApiKeyEnv: NO_KEY}",
                "optimizer.embeddingServiceApiKeyEnv: found NO_KEY",
            ),
            ("{embeddingService: 'http://e', embeddingServiceModel: m}", "ends in /v1"),
            (
                "{embeddingService: 'http://e/v1', embeddingServiceApiKeyEnv: NO_KEY}",
                "which is not set",
            ),
            ("{embeddingService: 'http://e/v1#m'}", "fragment"),
        ] {
            let found = reject(section);
            assert!(found.contains(expected), "{section}: {found}");
        }
        assert_eq!(reject("{embeddingService: 'http://e/v1', embeddingServiceModel: m}"), "");
    }

    #[test]
    fn composite_tool_cannot_be_named_find_tool() {
        let text = "name: x\nincomingAuth: {type: anonymous}\noptimizer: {}\n\
                    compositeTools: [{name: find_tool, steps: [{id: a, tool: b}]}]\n";
        let File { optimizer, composite_tools, .. } = File::parse(text, Format::Yaml).unwrap();
        let mut errors = Vec::new();
        convert(optimizer, &composite_tools, Parts::builder(&Egress::default()), &mut errors);
        assert!(errors[0].to_string().starts_with("compositeTools[0].name: found"), "{errors:?}");
    }
}
