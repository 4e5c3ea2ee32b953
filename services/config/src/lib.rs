#![doc = include_str!("../README.md")]

pub mod aggregation;
pub mod audit;
pub mod auth_server;
pub mod backend;
pub mod composite;
mod config_value;
mod context;
mod contradictions;
mod decimal;
mod duration;
mod error;
mod file;
pub mod incoming_auth;
pub mod operational;
mod optimizer;
pub mod outgoing_auth;
mod patterns;
pub mod redis;
mod reference;
mod schema;
mod secret;
mod session_storage;
mod string_types;
mod suggest;
mod telemetry;
mod template;
mod tree;
mod warnings;

pub use self::{
    aggregation::{
        Aggregation, ConflictResolution, PrefixFormat, ToolAnnotations, ToolOverride, WorkloadTools,
    },
    audit::{Audit, EventType},
    auth_server::{AuthServer, SecretFile, SecretRef},
    backend::{
        Backend, BackendDocument, BackendKind, BackendUrl, BackendUrlError, FileDocument,
        HeaderTemplate, Headers, ResourceDocument, Transport,
    },
    composite::CompositeTool,
    config_value::from_json,
    context::FileReference,
    decimal::{Decimal, DecimalError},
    duration::{Duration, DurationError},
    error::{ConfigError, ConfigErrors, Warning},
    file::{Config, File, Format, WriteError},
    incoming_auth::{Authz, Cedar, IncomingAuth, IncomingMethod, Oidc},
    operational::{
        CircuitBreaker, FailureHandling, LogLevel, Operational, PartialFailureMode, Timeouts,
    },
    optimizer::Optimizer,
    outgoing_auth::{
        AwsSts, ClientSecret, HeaderInjection, HeaderValue, OutgoingAuth, RoleMapping, RoleMatch,
        Source, Strategy, TokenExchange, TokenType, UpstreamInject,
    },
    reference::{Never, Reference, ResourceRef},
    schema::{config_schema, schema},
    session_storage::{SessionRedis, SessionStorage},
    string_types::{
        EnvName, ExactHttpsUrl, ExactUrl, FilePath, HeaderName, HostPort, Issuer, ProviderName,
        Region, RoleArn, Secret,
    },
    suggest::nearest,
    telemetry::Telemetry,
    template::{MissingVariable, Template, TemplateError},
};
