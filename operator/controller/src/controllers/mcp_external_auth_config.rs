//! Controller of MCPExternalAuthConfig: credentials for backends, or the authorization server of a workload.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use vmcp_api::condition::ConditionReason;
use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::{
    DeletionBlocked, ExternalAuthIdentitySynthesized, ExternalAuthType, ExternalAuthValid,
    KeyRefsValidated, MCPExternalAuthConfig, MCPExternalAuthConfigStatus,
};

use super::referrers::Referrers;
use super::shared_config::{ConfigStatus, SharedConfig, StatusFields};
use crate::key::Kind;

impl SharedConfig for MCPExternalAuthConfig {
    const TYPES: &'static [&'static str] = &[
        DeletionBlocked::TYPE,
        ExternalAuthValid::TYPE,
        ExternalAuthIdentitySynthesized::TYPE,
        KeyRefsValidated::TYPE,
    ];

    const WARNINGS: &'static [&'static str] =
        &[DeletionBlocked::TYPE, ExternalAuthIdentitySynthesized::TYPE];

    fn new_status(fields: StatusFields, referrers: &Referrers) -> Self::Status {
        let StatusFields { config_hash, observed_generation } = fields;
        MCPExternalAuthConfigStatus {
            config_hash: Some(config_hash),
            observed_generation,
            conditions: Vec::new(),
            referencing_workloads: referrers.workloads(),
        }
    }

    fn valid(error: Option<String>) -> ConditionUpdate {
        match error {
            None => ConditionUpdate::new(ExternalAuthValid::Valid, "the credentials are valid"),
            Some(error) => ConditionUpdate::new(ExternalAuthValid::Invalid, error),
        }
    }

    fn advice(&self) -> Option<ConditionUpdate> {
        self.identities()
    }

    /// A server reports the keys of its own references and of those of its members. The keys of an authorization server are those
    /// of workloads.
    fn has_reporter(&self, referrers: &Referrers) -> bool {
        self.spec.kind != ExternalAuthType::EmbeddedAuthServer
            && (referrers.include(Kind::VirtualMCPServer) || referrers.include_member())
    }
}

impl ConfigStatus for MCPExternalAuthConfigStatus {
    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}
