//! Tool search instead of tool lists (`optimizer`).

use url::Url;

use crate::{
    EnvName,
    config_value::{Constraint, section_with_default},
    decimal::Decimal,
    duration::Duration,
};

section_with_default! {
    /// Shows clients `find_tool` and `call_tool` instead of all backend tools.
    pub struct Optimizer {
        /// Base URL of the embedding service: a text-embeddings-inference server, or one with OpenAI's API if the path ends in
        /// `/v1`. Absent searches by keywords only.
        pub embedding_service: Option<Url>;
        /// Environment variable with the API key of the embedding service, sent as a bearer token.
        pub embedding_service_api_key_env: Option<EnvName>;
        /// Model of a service with OpenAI's API. Absent uses the only one that the service lists.
        pub embedding_service_model: Option<String>, [Constraint::NotEmpty];
        /// Timeout of the embedding service.
        pub embedding_service_timeout: Duration = Duration::from_secs(30), [Constraint::Positive];
        /// Weight of semantic against keyword search: "0.0" is keywords only, "1.0" is semantic only.
        pub hybrid_search_semantic_ratio: Decimal = Decimal::hundredths(0, 50), [Constraint::AtMost(1.0)];
        /// Maximum number of tools that a search returns, 1 to 50. 0 is the default.
        pub max_tools_to_return: u32 = DEFAULT_TOOLS, [Constraint::Range(0, 50)];
        /// Maximum distance of semantic results: "0" is identical, "2" is unrelated.
        pub semantic_distance_threshold: Decimal = Decimal::hundredths(1, 0), [Constraint::AtMost(2.0)];
    }
}

const DEFAULT_TOOLS: u32 = 8;

impl Optimizer {
    /// Returns the maximum number of tools that a search returns.
    #[must_use]
    pub fn tools(&self) -> u32 {
        if self.max_tools_to_return == 0 { DEFAULT_TOOLS } else { self.max_tools_to_return }
    }
}
