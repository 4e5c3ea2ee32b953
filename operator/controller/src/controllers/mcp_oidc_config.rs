//! Controller of MCPOIDCConfig: an OpenID provider whose tokens servers accept.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;
use vmcp_api::condition::ConditionReason;
use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::{
    DeletionBlocked, KeyRefsValidated, MCPOIDCConfig, MCPOIDCConfigStatus, OidcConfigValid,
};

use super::referrers::Referrers;
use super::shared_config::{SharedConfig, StatusFields};

impl SharedConfig for MCPOIDCConfig {
    type Status = MCPOIDCConfigStatus;

    const TYPES: &'static [&'static str] =
        &[DeletionBlocked::TYPE, OidcConfigValid::TYPE, KeyRefsValidated::TYPE];

    fn spec(&self) -> Value {
        serde_json::to_value(&self.spec).expect("a spec is JSON")
    }

    fn live(&self) -> (Self::Status, &[Condition]) {
        let status = self.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let rest = status.map(|status| Self::Status { conditions: Vec::new(), ..status.clone() });
        (rest.unwrap_or_default(), conditions)
    }

    fn status(fields: StatusFields, _: &Referrers, conditions: Vec<Condition>) -> Self::Status {
        let StatusFields { config_hash, observed_generation } = fields;
        MCPOIDCConfigStatus { config_hash: Some(config_hash), observed_generation, conditions }
    }

    fn valid(error: Option<String>) -> ConditionUpdate {
        match error {
            None => ConditionUpdate::new(OidcConfigValid::Valid, "the provider is valid"),
            Some(error) => ConditionUpdate::new(OidcConfigValid::Invalid, error),
        }
    }
}
