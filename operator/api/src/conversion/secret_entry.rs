//! Files of the Secret that the operator owns and mounts whole: copies of the keys that a server refers to.

use std::{collections::BTreeSet, fmt};

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
    /// Form of the copy.
    pub form: SecretForm,
}

/// Form of the copy of a key.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum SecretForm {
    /// The content itself.
    #[default]
    Verbatim,
    /// `Bearer`, a space, and the content without surrounding white space: the value of the header Authorization.
    Bearer,
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
    /// Creates a source of which the copy is verbatim.
    #[must_use]
    pub fn new(kind: SourceKind, name: impl Into<String>, key: impl Into<String>) -> Self {
        Self { kind, name: name.into(), key: key.into(), form: SecretForm::Verbatim }
    }

    /// Returns the source with another form of the copy.
    #[must_use]
    pub fn with_form(self, form: SecretForm) -> Self {
        Self { form, ..self }
    }

    /// Returns the name of the file with a copy of the key: kind, name and key in letters that a variable's name may have, and a
    /// digest that tells apart sources which are equal in these letters.
    #[must_use]
    pub fn file(&self) -> String {
        let Self { kind, name, key, form } = self;
        let kind = match (kind, form) {
            (SourceKind::ConfigMap, SecretForm::Verbatim) => "configmap",
            (SourceKind::ConfigMap, SecretForm::Bearer) => "configmap_bearer",
            (SourceKind::Secret, SecretForm::Verbatim) => "secret",
            (SourceKind::Secret, SecretForm::Bearer) => "bearer",
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

    /// Returns the content of the file for the value of the key.
    #[must_use]
    pub fn content(&self, value: &[u8]) -> Vec<u8> {
        match self.form {
            SecretForm::Verbatim => value.to_vec(),
            SecretForm::Bearer => [b"Bearer ", value.trim_ascii()].concat(),
        }
    }
}

impl fmt::Display for SecretSource {
    /// Writes kind, name and key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, key, form: _ } = self;
        write!(f, "key {key} of {} {name}", kind.as_str())
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

    /// Adds a key that exists, in all forms of its copy.
    pub fn insert(&mut self, source: &SecretSource) {
        for form in [SecretForm::Verbatim, SecretForm::Bearer] {
            self.0.insert(source.clone().with_form(form).file());
        }
    }

    /// Returns `true` if the source exists.
    #[must_use]
    pub fn contains(&self, source: &SecretSource) -> bool {
        self.0.contains(&source.file())
    }
}

impl FromIterator<SecretSource> for Available {
    fn from_iter<I: IntoIterator<Item = SecretSource>>(sources: I) -> Self {
        let mut available = Self::default();
        sources.into_iter().for_each(|source| available.insert(&source));
        available
    }
}
