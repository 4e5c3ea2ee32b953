//! Locations of secrets.

use crate::{
    shape::{Limit, Shape, section},
    text::FilePath,
};

/// Location of a secret: [`SecretRef`] in a resource, [`SecretFile`] in a file.
pub trait SecretLocation:
    Shape + Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static
{
}

section! {
    /// A key of a Kubernetes Secret in the same namespace.
    pub struct SecretRef {
        /// Name of the Secret.
        pub name: String, [Limit::NotEmpty];
        /// Key within the Secret.
        pub key: String, [Limit::NotEmpty];
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
