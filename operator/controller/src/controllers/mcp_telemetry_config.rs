//! Controller of MCPTelemetryConfig: a destination of traces and metrics.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use vmcp_api::condition::ConditionReason;
use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::{
    DeletionBlocked, KeyRefsValidated, MCPTelemetryConfig, MCPTelemetryConfigStatus,
    TelemetryConfigValid,
};

use super::referrers::Referrers;
use super::shared_config::{ConfigStatus, SharedConfig, StatusFields};

impl SharedConfig for MCPTelemetryConfig {
    const TYPES: &'static [&'static str] =
        &[DeletionBlocked::TYPE, TelemetryConfigValid::TYPE, KeyRefsValidated::TYPE];

    fn new_status(fields: StatusFields, _: &Referrers) -> Self::Status {
        let StatusFields { config_hash, observed_generation } = fields;
        let config_hash = Some(config_hash);
        MCPTelemetryConfigStatus { config_hash, observed_generation, conditions: Vec::new() }
    }

    fn valid(error: Option<String>) -> ConditionUpdate {
        match error {
            None => ConditionUpdate::new(TelemetryConfigValid::Valid, "the destination is valid"),
            Some(error) => ConditionUpdate::new(TelemetryConfigValid::Invalid, error),
        }
    }
}

impl ConfigStatus for MCPTelemetryConfigStatus {
    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}
