//! Files of the Secret that the operator owns and mounts whole: copies of the keys that a server refers to.

use std::collections::BTreeSet;

use crate::names::digest;

/// Directory at which the operator's Secret is mounted.
pub const SECRETS_PATH: &str = "/etc/vmcp/secrets";

/// Maximum length of a file's name without its digest. Kubernetes permits 253 characters.
const MAX_READABLE: usize = 200;

/// One file of the Secret that is mounted at [`SECRETS_PATH`].
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SecretEntry {
    /// Name of the file, and key of the operator's Secret. It is also the name of a variable in the configuration's `*Env`
    /// fields.
    pub file: String,
    /// Source of the content.
    pub source: SecretSource,
    /// Path in the resources that refers to the source.
    pub path: String,
}

/// A key of a Secret or ConfigMap in the namespace of the server.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SecretSource {
    /// Kind of the object.
    pub kind: SourceKind,
    /// Name of the object.
    pub name: String,
    /// Key within the object.
    pub key: String,
}

/// Kind of an object with keys.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum SourceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// Keys of Secrets and ConfigMaps that exist, by the file names of their copies. Never holds a value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Available(BTreeSet<String>);

// === impl SecretSource ===

impl SecretSource {
    /// Creates a source.
    #[must_use]
    pub fn new(kind: SourceKind, name: impl Into<String>, key: impl Into<String>) -> Self {
        Self { kind, name: name.into(), key: key.into() }
    }

    /// Returns the name of the file with a copy of the key: kind, name and key in letters that a variable's name may have, and a
    /// digest that tells apart sources which are equal in these letters.
    #[must_use]
    pub fn file(&self) -> String {
        let Self { kind, name, key } = self;
        let kind = match kind {
            SourceKind::ConfigMap => "configmap",
            SourceKind::Secret => "secret",
        };
        let readable: String = format!("{kind}_{name}_{key}")
            .chars()
            .take(MAX_READABLE)
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        // Neither names nor keys contain a slash.
        let digest = digest(&format!("{kind}/{name}/{key}"));
        format!("{readable}_{digest}")
    }
}

// === impl SourceKind ===

impl SourceKind {
    /// Returns the kind as in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

// === impl Available ===

impl Available {
    /// Takes the names of files in a mounted directory.
    #[must_use]
    pub fn from_files(files: impl IntoIterator<Item = String>) -> Self {
        Self(files.into_iter().collect())
    }

    /// Adds a source that exists.
    pub fn insert(&mut self, source: &SecretSource) {
        self.0.insert(source.file());
    }

    /// Returns `true` if the source exists.
    #[must_use]
    pub fn contains(&self, source: &SecretSource) -> bool {
        self.0.contains(&source.file())
    }
}

impl FromIterator<SecretSource> for Available {
    fn from_iter<I: IntoIterator<Item = SecretSource>>(sources: I) -> Self {
        Self(sources.into_iter().map(|source| source.file()).collect())
    }
}
