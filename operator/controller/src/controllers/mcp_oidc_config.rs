//! Controller of MCPOIDCConfig: an OpenID provider whose tokens servers accept.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use vmcp_api::condition::ConditionReason;
use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::{
    DeletionBlocked, KeyRefsValidated, MCPOIDCConfig, MCPOIDCConfigStatus, OidcConfigValid,
};

use super::referrers::Referrers;
use super::shared_config::{ConfigStatus, SharedConfig, StatusFields};

impl SharedConfig for MCPOIDCConfig {
    const TYPES: &'static [&'static str] =
        &[DeletionBlocked::TYPE, OidcConfigValid::TYPE, KeyRefsValidated::TYPE];

    fn new_status(fields: StatusFields, _: &Referrers) -> Self::Status {
        let StatusFields { config_hash, observed_generation } = fields;
        let config_hash = Some(config_hash);
        MCPOIDCConfigStatus { config_hash, observed_generation, conditions: Vec::new() }
    }

    fn valid(error: Option<String>) -> ConditionUpdate {
        match error {
            None => ConditionUpdate::new(OidcConfigValid::Valid, "the provider is valid"),
            Some(error) => ConditionUpdate::new(OidcConfigValid::Invalid, error),
        }
    }
}

impl ConfigStatus for MCPOIDCConfigStatus {
    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}
