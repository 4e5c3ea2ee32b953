//! Tool search, and the embedding service that it uses.

use serde_json::Value;
use vmcp_config::{Optimizer, from_json};

use super::{
    ConditionUpdate, ConversionError, WarningReason,
    converter::{Converter, Rejected},
    strategy::filled,
};
use crate::{
    EmbeddingPhase, EmbeddingServer, NameRef,
    virtual_mcp_server::{EmbeddingServerReady, Phase, ServerValid},
};

const AT: &str = "spec.embeddingServerRef.name";

impl Converter<'_> {
    /// Converts the section of `spec.config`. A reference to an EmbeddingServer turns the optimizer on, and its URL comes first.
    pub(super) fn optimizer(
        &mut self,
        inline: Option<Optimizer>,
    ) -> Result<Option<Optimizer>, Rejected> {
        let Some(NameRef { name }) = self.inputs.server.spec.embedding_server_ref.as_ref() else {
            return self.manual_optimizer(inline);
        };
        let mut optimizer = inline.unwrap_or_default();
        if optimizer.embedding_service.is_some() {
            let message = format!(
                "spec.config.optimizer.embeddingService has no effect: EmbeddingServer {name} replaces it"
            );
            self.warn(WarningReason::EmbeddingServiceOverridden, message);
        }
        let url = self.embedding_url(name).ok_or(Rejected)?;
        match from_json(&Value::from(url)) {
            Ok(url) => optimizer.embedding_service = Some(url),
            Err(errors) => {
                let path = format!("EmbeddingServer/{name}: status.url");
                self.reject_part(&path, EmbeddingServerReady::NotReady, &errors);
                return Err(Rejected);
            }
        }
        self.report(EmbeddingServerReady::Ready, format!("EmbeddingServer {name} is ready"));
        Ok(Some(optimizer))
    }

    fn manual_optimizer(
        &mut self,
        inline: Option<Optimizer>,
    ) -> Result<Option<Optimizer>, Rejected> {
        let Some(optimizer) = inline else { return Ok(None) };
        if optimizer.embedding_service.is_none() {
            let message = "found optimizer without an embedding service; allowed: spec.embeddingServerRef or embeddingService";
            self.reject("spec.config.optimizer", ServerValid::Invalid, message);
            return Err(Rejected);
        }
        self.warn(
            WarningReason::EmbeddingServiceManual,
            "spec.config.optimizer.embeddingService is used without an EmbeddingServer; its health is not observed",
        );
        Ok(Some(optimizer))
    }

    /// Returns the URL of an EmbeddingServer that is ready.
    fn embedding_url(&mut self, name: &str) -> Option<String> {
        let Some(server) = self.inputs.embedding_server.clone() else {
            let message = format!("EmbeddingServer {name} does not exist");
            let event = "EmbeddingServerRefNotFound";
            self.reject_with_event(AT, EmbeddingServerReady::NotFound, message, event);
            return None;
        };
        let url = ready_url(&server);
        if url.is_none() {
            let phase = server.status.as_ref().map(|status| status.phase).unwrap_or_default();
            let message = format!("the phase of EmbeddingServer {name} is {phase:?}");
            self.errors.push(ConversionError {
                path: AT.to_owned(),
                condition: ConditionUpdate::new(EmbeddingServerReady::NotReady, message),
                phase: if phase == EmbeddingPhase::Failed { Phase::Failed } else { Phase::Pending },
                event: None,
            });
        }
        url
    }
}

fn ready_url(server: &EmbeddingServer) -> Option<String> {
    let status = server.status.as_ref()?;
    let is_ready = status.phase == EmbeddingPhase::Ready && status.ready_replicas > 0;
    filled(status.url.as_deref()).filter(|_| is_ready).map(str::to_owned)
}
