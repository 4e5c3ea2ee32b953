#![doc = include_str!("../README.md")]

mod admission;
mod backend;
mod body;
mod body_buffer;
mod byte_budget;
mod cache;
mod claims;
mod clock;
mod credential;
mod digest;
mod dot_segments;
mod ending;
mod error;
mod flight;
mod freshness;
mod http_client;
mod identity;
mod invisible;
mod keeper;
mod lane;
mod mcp;
mod mcp_operation;
mod media;
mod rate;
mod rejection;
mod request_context;
mod resend;
mod seen;
mod standing;
mod upstream;

pub use self::{
    admission::{Admission, Admit, Filtered, Hints, Item, ItemBackend, ItemKind, Verdict, ViewKey},
    backend::Backend,
    body::{Body, BodyError, read},
    body_buffer::BodyBuffer,
    byte_budget::{
        BudgetAccount, BudgetCounts, BudgetOwner, ByteBudget, DrainPermit, Grow, MAX_BUDGET_WAIT,
        OverBudget, Reservation, TransferRate,
    },
    cache::Cache,
    claims::{Claim, Claims, ClaimsFault, MAX_CLAIMS},
    clock::Clock,
    credential::{CredentialError, CredentialFault},
    ending::{Ending, EndingFuture},
    error::{BoxError, NotSent, cause_ref},
    flight::Flights,
    freshness::freshness,
    http_client::{HttpClient, HttpFuture},
    identity::{Caller, Identity, IdentityBuilder},
    invisible::{escape_invisible, is_invisible},
    keeper::Keeper,
    lane::{PerLane, enter_lane, plan_lanes},
    mcp::{Generation, LATEST_STATEFUL, McpRequest, STATEFUL, STATELESS, code},
    mcp_operation::McpOperation,
    media::Media,
    rate::{Rate, RateLimiter, network},
    rejection::{Challenge, Rejection},
    request_context::RequestContext,
    resend::{Once, Resend, Twice},
    seen::Seen,
    standing::Standing,
    upstream::{
        LinksFuture, UpstreamError, UpstreamFuture, UpstreamKind, UpstreamToken, UpstreamTokens,
    },
};
