#![doc = include_str!("../README.md")]

mod backend;
mod body;
mod body_buffer;
mod byte_budget;
mod cache;
mod caller_permissions;
mod claims;
mod clock;
mod credential;
mod dot_segments;
mod error;
mod fingerprint;
mod freshness_lifetime;
mod http_client;
mod identity;
mod identity_cache;
mod invisible;
mod mcp;
mod mcp_operation;
mod media_type;
mod notification_stream;
mod per_worker;
mod rate;
mod rejection;
mod request_context;
mod retry_policy;
mod seen_filter;
mod session_revocation;
mod single_flight;
mod sync;
mod upstream;

pub use self::{
    backend::Backend,
    body::{Body, BodyError, collect_limited},
    body_buffer::BodyBuffer,
    byte_budget::{
        BudgetAccount, BudgetCounts, BudgetExceededError, BudgetOwner, ByteBudget, DrainPermit,
        GrowFuture, MAX_BUDGET_WAIT, Reservation, TransferRate,
    },
    cache::Cache,
    caller_permissions::{
        AlreadyFiltered, Authorizer, CallerPermissions, Decision, Item, ItemBackend, ItemKind,
        ToolAnnotations,
    },
    claims::{Claim, Claims, ClaimsError, MAX_CLAIMS},
    clock::Clock,
    credential::{CredentialError, CredentialErrorKind},
    error::{BoxError, NotSentError, cause_ref},
    fingerprint::Fingerprint,
    freshness_lifetime::freshness_lifetime,
    http_client::{HttpClient, HttpFuture},
    identity::{Caller, Identity, IdentityBuilder},
    identity_cache::IdentityCacheKey,
    invisible::{escape_invisible, is_invisible},
    mcp::{Generation, LATEST_STATEFUL, McpRequest, STATEFUL, STATELESS, code},
    mcp_operation::McpOperation,
    media_type::MediaType,
    notification_stream::NotificationStream,
    per_worker::{PerWorker, set_worker_count, set_worker_index},
    rate::{Rate, RateLimiter, network},
    rejection::{Challenge, Rejection},
    request_context::RequestContext,
    retry_policy::{NoRetry, RetryOnUnauthorized, RetryPolicy},
    seen_filter::SeenFilter,
    session_revocation::{RevocationFuture, SessionRevocation},
    single_flight::SingleFlight,
    sync::{lock, read_lock, write_lock},
    upstream::{
        LinksFuture, UpstreamError, UpstreamFuture, UpstreamKind, UpstreamToken, UpstreamTokens,
    },
};
