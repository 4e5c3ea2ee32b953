//! `optimizer`: search in place of the list of tools.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use url::Url;
use vmcp_aggregate::settings::{EmbeddingSettings, OptimizerSettings};
use vmcp_config::{CompositeTool, ConfigError, Optimizer};
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher};
use vmcp_optimize::{CALL_TOOL, EmbeddingService, FIND_TOOL, SearchOptions};

/// Maximum size of a request to the embedding service and of its response, in bytes.
const MAX_BODY: usize = 8 << 20;

/// Path of the embedding service in the configuration.
const EMBEDDING_SERVICE: &str = "optimizer.embeddingService";

/// Converts the section. `None` lists all tools.
pub(super) fn convert(
    optimizer: Option<Optimizer>,
    composite_tools: &[CompositeTool],
    egress: &Egress,
    errors: &mut Vec<ConfigError>,
) -> Option<OptimizerSettings> {
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
    let embedding = embedding_service.and_then(|url| {
        let settings = embedding(&url, embedding_service_timeout.into(), egress);
        let reject = |allowed| ConfigError::new(EMBEDDING_SERVICE, format!("\"{url}\""), allowed);
        settings.map_err(|allowed| errors.push(reject(allowed))).ok()
    });
    Some(OptimizerSettings { options, embedding })
}

/// Returns the settings of the service at `url`, or what it has to be.
fn embedding(url: &Url, timeout: Duration, egress: &Egress) -> Result<EmbeddingSettings, String> {
    let fetcher = Fetcher::new(egress.clone(), policy(timeout)).map_err(|it| it.to_string())?;
    let service = EmbeddingService::new(url, fetcher).map_err(|it| it.to_string())?;
    let mut digest = DefaultHasher::new();
    (url.as_str(), timeout).hash(&mut digest);
    Ok(EmbeddingSettings { service: service.timeout(timeout), fingerprint: digest.finish() })
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

    use super::*;

    #[test]
    fn composite_tool_cannot_be_named_find_tool() {
        let text = "name: x\nincomingAuth: {type: anonymous}\noptimizer: {}\n\
                    compositeTools: [{name: find_tool, steps: [{id: a, tool: b}]}]\n";
        let File { optimizer, composite_tools, .. } = File::parse(text, Format::Yaml).unwrap();
        let mut errors = Vec::new();
        convert(optimizer, &composite_tools, &Egress::default(), &mut errors);
        assert!(errors[0].to_string().starts_with("compositeTools[0].name: found"), "{errors:?}");
    }
}
