//! Conversion of resources to the configuration of a server.
//!
//! A conversion reads [`Inputs`] alone, and never the value of a Secret.

mod inputs;
mod output;
mod secret_entry;

pub use self::{
    inputs::{ClusterDefaults, DefaultRedis, Inputs, Member, MemberKind},
    output::{
        Backends, ConditionUpdate, Conversion, ConversionError, EnvironmentVariable, LeftOut,
        LeftOutReason, Warning, WarningReason,
    },
    secret_entry::{Available, SECRETS_PATH, SecretEntry, SecretSource, SourceKind},
};
