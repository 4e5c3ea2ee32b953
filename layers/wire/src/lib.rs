#![doc = include_str!("../README.md")]

pub mod sse;

mod duplicate_detector;
mod envelope;
mod error;
mod error_prefilter;
mod json_string;
mod lexer;
mod list_result;
mod members;
mod message_prefix;
mod params;
mod span;
mod splice;
mod unique_object;

pub use envelope::{Envelope, Outcome, scan, scan_params};
pub use error::{ScanError, ScanErrorKind};
pub use error_prefilter::may_contain_error;
pub use json_string::{parse_json_string, write_json_string};
pub use list_result::{Entry, ItemError, ItemRules, ListResult, MemberRule, MemberType};
pub use members::{
    Elements, Member, Members, RawStr, element_spans, elements, find, find_span, members, validate,
};
pub use message_prefix::{MessagePrefix, PrefixOutcome, scan_prefix};
pub use params::{Key, MetaKey, Params};
pub use span::{Span, StringSpan};
pub use splice::Splice;
pub use unique_object::{MemberSpan, UniqueObject, parse_unique_object};

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
