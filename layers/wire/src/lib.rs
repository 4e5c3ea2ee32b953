#![doc = include_str!("../README.md")]

pub mod sse;

mod distinct;
mod envelope;
mod failure;
mod fault;
mod head;
mod ledger;
mod lexer;
mod listing;
mod members;
mod params;
mod quote;
mod span;
mod splice;

pub use distinct::{Distinct, Place, distinct};
pub use envelope::{Envelope, Outcome, scan, scan_params};
pub use failure::may_fail;
pub use fault::{Fault, Refused};
pub use head::{Head, HeadOutcome, head};
pub use listing::{Entry, ItemFault, ItemRules, Listing, MemberRule, MemberType};
pub use members::{
    Elements, Member, Members, RawStr, elements, find, find_span, members, validate,
};
pub use params::{Key, Params, Said};
pub use quote::{quote, unquote};
pub use span::{Span, Text};
pub use splice::Splice;

/// The deepest nesting that is read: this many objects and arrays inside each other, the message itself included.
pub const MAX_DEPTH: usize = 128;

/// The most members that an object of the envelope may have: the message, `params`, `params._meta` and `params.ref`.
pub const MAX_MEMBERS: usize = 64;

/// The longest name of a member of those objects, in bytes of its literal without the quotes.
pub const MAX_NAME: usize = 256;

/// The longest `method`, in bytes of its value.
pub const MAX_METHOD: usize = 256;

/// The longest `id`, in bytes of its literal.
pub const MAX_ID: usize = 1024;
