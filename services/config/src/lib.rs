#![doc = include_str!("../README.md")]

pub mod aggregation;
pub mod audit;
pub mod auth_server;
pub mod backend;
pub mod composite;
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
mod reference;
mod schema;
mod session_storage;
mod shape;
mod suggest;
mod telemetry;
mod template;
mod text;
mod tree;
mod warnings;

pub use self::{
    aggregation::{
        Aggregation, ConflictResolution, PrefixFormat, ToolAnnotations, ToolOverride, WorkloadTools,
    },
    audit::{Audit, EventType},
    auth_server::{AuthServer, SecretFile, SecretRef},
    backend::{
        Backend, BackendDocument, BackendKind, BackendUrl, BackendUrlError, HeaderTemplate,
        Headers, InFile, InResource, Transport,
    },
    composite::CompositeTool,
    context::NamedFile,
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
    reference::{NoRef, Reference, ResourceRef},
    schema::{config_schema, schema},
    session_storage::{SessionRedis, SessionStorage},
    telemetry::Telemetry,
    template::{MissingVariable, Template, TemplateError},
    text::{
        EnvName, ExactHttpsUrl, ExactUrl, FilePath, HeaderName, HostPort, Issuer, ProviderName,
        Region, RoleArn, Secret,
    },
};
