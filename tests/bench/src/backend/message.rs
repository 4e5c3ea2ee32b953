//! Parsed members of a message that the backend needs.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A request or a notification.
#[derive(Debug, Deserialize)]
pub(super) struct Incoming<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) method: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) params: Option<Params<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Params<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) arguments: Option<Arguments<'a>>,
    #[serde(borrow)]
    pub(super) protocol_version: Option<Cow<'a, str>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Arguments<'a> {
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    pub(super) bytes: Option<usize>,
}
