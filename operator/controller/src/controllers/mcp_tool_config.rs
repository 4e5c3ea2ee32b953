//! Controller of MCPToolConfig: a selection of tools with overrides.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;
use vmcp_api::condition::ConditionReason;
use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::{DeletionBlocked, MCPToolConfig, MCPToolConfigStatus, ToolConfigValid};

use super::referrers::Referrers;
use super::shared_config::{SharedConfig, StatusFields};

impl SharedConfig for MCPToolConfig {
    type Status = MCPToolConfigStatus;

    const TYPES: &'static [&'static str] = &[DeletionBlocked::TYPE, ToolConfigValid::TYPE];

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
        MCPToolConfigStatus { config_hash: Some(config_hash), observed_generation, conditions }
    }

    fn valid(error: Option<String>) -> ConditionUpdate {
        match error {
            None => ConditionUpdate::new(
                ToolConfigValid::Valid,
                "the selection and the overrides are valid",
            ),
            Some(error) => ConditionUpdate::new(ToolConfigValid::Invalid, error),
        }
    }
}
