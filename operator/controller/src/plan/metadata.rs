//! Names, labels and owners of generated objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::Resource as _;
use vmcp_api::{VirtualMCPServer, names::instance_label};

use crate::{names::FIELD_MANAGER, stores::MANAGED_BY};

/// Value of the label `app.kubernetes.io/name`.
const APPLICATION: &str = "virtualmcpserver";

/// Labels of strings.
pub(super) type Labels = BTreeMap<String, String>;

/// The server for which objects are generated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    pub(super) server: &'a VirtualMCPServer,
}

// === impl Owner ===

impl<'a> Owner<'a> {
    pub(super) fn name(self) -> &'a str {
        self.server.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(self) -> &'a str {
        self.server.metadata.namespace.as_deref().unwrap_or("default")
    }

    /// Returns the existing ServiceAccount that the spec names.
    pub(super) fn existing_account(self) -> Option<&'a str> {
        self.server.spec.service_account.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns the labels that select the pods of the server. They never change: a Deployment's selector cannot.
    pub(super) fn pod_labels(self) -> Labels {
        Labels::from([
            ("app.kubernetes.io/name".to_owned(), APPLICATION.to_owned()),
            ("app.kubernetes.io/instance".to_owned(), instance_label(self.name())),
        ])
    }

    /// Returns the labels of an object.
    pub(super) fn labels(self) -> Labels {
        let mut labels = self.pod_labels();
        labels.insert(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned());
        labels
    }

    pub(super) fn selector(self) -> LabelSelector {
        LabelSelector { match_labels: Some(self.pod_labels()), ..LabelSelector::default() }
    }

    /// Returns the metadata of an object that is deleted with the server. A server that is not in a cluster owns nothing.
    pub(super) fn metadata(self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace().to_owned()),
            labels: Some(self.labels()),
            owner_references: self.server.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        }
    }
}
