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
mod freshness;
mod http_client;
mod identity;
mod identity_cache;
mod invisible;
mod mcp;
mod mcp_operation;
mod media;
mod notification_stream;
mod per_worker;
mod rate;
mod rejection;
mod request_context;
mod retry_policy;
mod seen_filter;
mod session_revocation;
mod single_flight;
mod upstream;

pub use self::{
    backend::Backend,
    body::{Body, BodyError, read},
    body_buffer::BodyBuffer,
    byte_budget::{
        BudgetAccount, BudgetCounts, BudgetOwner, ByteBudget, DrainPermit, Grow, MAX_BUDGET_WAIT,
        OverBudget, Reservation, TransferRate,
    },
    cache::Cache,
    caller_permissions::{
        AlreadyFiltered, Authorizer, CallerPermissions, Decision, Item, ItemBackend, ItemKind,
        ToolAnnotations,
    },
    claims::{Claim, Claims, ClaimsFault, MAX_CLAIMS},
    clock::Clock,
    credential::{CredentialError, CredentialFault},
    error::{BoxError, NotSent, cause_ref},
    fingerprint::Fingerprint,
    freshness::freshness,
    http_client::{HttpClient, HttpFuture},
    identity::{Caller, Identity, IdentityBuilder},
    identity_cache::IdentityCacheKey,
    invisible::{escape_invisible, is_invisible},
    mcp::{Generation, LATEST_STATEFUL, McpRequest, STATEFUL, STATELESS, code},
    mcp_operation::McpOperation,
    media::Media,
    notification_stream::NotificationStream,
    per_worker::{PerWorker, set_worker_count, set_worker_index},
    rate::{Rate, RateLimiter, network},
    rejection::{Challenge, Rejection},
    request_context::RequestContext,
    retry_policy::{NoRetry, RetryOnUnauthorized, RetryPolicy},
    seen_filter::SeenFilter,
    session_revocation::{RevocationFuture, SessionRevocation},
    single_flight::SingleFlight,
    upstream::{
        LinksFuture, UpstreamError, UpstreamFuture, UpstreamKind, UpstreamToken, UpstreamTokens,
    },
};
