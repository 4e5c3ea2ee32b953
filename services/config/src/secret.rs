//! Locations of secrets.

use crate::{
    config_value::{ConfigValue, Constraint, section},
    string_types::FilePath,
};

/// Location of a secret: [`SecretRef`] in a resource, [`SecretFile`] in a file.
pub trait SecretLocation:
    ConfigValue + Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static
{
}

section! {
    /// A key of a Kubernetes Secret in the same namespace.
    pub struct SecretRef {
        /// Name of the Secret.
        pub name: String, [Constraint::NotEmpty];
        /// Key within the Secret.
        pub key: String, [Constraint::NotEmpty];
    }
}

section! {
    /// A file that holds the secret.
    pub struct SecretFile {
        /// Path of the file.
        pub file: FilePath;
    }
}

impl SecretLocation for SecretRef {}
impl SecretLocation for SecretFile {}
