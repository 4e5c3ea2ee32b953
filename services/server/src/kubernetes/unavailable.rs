//! Stands for the cluster in a program without the feature `kubernetes`. No value of these types exists.

use std::path::Path;
use std::sync::Arc;

use crate::parts::DiscoveredBackends;
use crate::reloads::DiscoveryStatus;
use crate::virtual_server::{ClusterError, NoKubernetesError, ReportProgress, VirtualServer};

/// Access to the cluster.
#[derive(Debug)]
pub(crate) enum Cluster {}

/// Reporter of the health of backends.
#[derive(Debug)]
pub(crate) enum Reporter {}

/// Discovery of backends.
#[derive(Debug)]
pub(crate) enum Discovery {}

impl Cluster {
    #[expect(clippy::unused_async, reason = "the signature is that of the other module")]
    pub(crate) async fn connect(_: &VirtualServer, _: Option<&Path>) -> Result<Self, ClusterError> {
        Err(NoKubernetesError.into())
    }

    pub(crate) fn discover(&self) -> Discovery {
        match *self {}
    }

    pub(crate) fn report<S>(&self, _: &Arc<S>) -> Option<Reporter> {
        match *self {}
    }

    pub(crate) fn report_progress(&self) -> Option<ReportProgress> {
        match *self {}
    }
}

impl Reporter {
    #[expect(clippy::unused_async, reason = "the signature is that of the other module")]
    pub(crate) async fn stop(self) {
        match self {}
    }
}

impl Discovery {
    #[expect(clippy::unused_async, reason = "the signature is that of the other module")]
    pub(crate) async fn changed(&mut self) {
        match *self {}
    }

    pub(crate) fn take(&mut self) -> (Option<DiscoveredBackends>, DiscoveryStatus) {
        match *self {}
    }
}
