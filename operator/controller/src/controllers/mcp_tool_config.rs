//! Controller of MCPToolConfig: a selection of tools with overrides.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use vmcp_api::condition::ConditionReason;
use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::{DeletionBlocked, MCPToolConfig, MCPToolConfigStatus, ToolConfigValid};

use super::referrers::Referrers;
use super::shared_config::{ConfigStatus, SharedConfig, StatusFields};

impl SharedConfig for MCPToolConfig {
    const TYPES: &'static [&'static str] = &[DeletionBlocked::TYPE, ToolConfigValid::TYPE];

    fn new_status(fields: StatusFields, _: &Referrers) -> Self::Status {
        let StatusFields { config_hash, observed_generation } = fields;
        let config_hash = Some(config_hash);
        MCPToolConfigStatus { config_hash, observed_generation, conditions: Vec::new() }
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

impl ConfigStatus for MCPToolConfigStatus {
    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}
