//! Checks of responses.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::BoxError;

#[derive(Deserialize)]
struct ResponseMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Welcome<'a> {
    #[serde(borrow)]
    protocol_version: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    #[serde(borrow)]
    content: [Content<'a>; 1],
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<Tool<'a>>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Tool<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Parses the result in `message`, which has to be the response to `id`.
fn result<'a, T: Deserialize<'a>>(message: &'a [u8], id: u64) -> Result<T, BoxError> {
    let answer: ResponseMessage<'a> = serde_json::from_slice(message)?;
    if let Some(error) = answer.error {
        return Err(format!("error {error}").into());
    }
    if answer.id.and_then(|found| found.get().parse().ok()) != Some(id) {
        return Err("the answer to another request".into());
    }
    let result = answer.result.ok_or("an answer without a result")?;
    Ok(serde_json::from_str(result.get())?)
}

/// Checks that `message` is an `initialize` result with this `revision`.
pub(super) fn welcome(message: &[u8], id: u64, revision: &str) -> Result<(), BoxError> {
    let Welcome { protocol_version } = result(message, id)?;
    if protocol_version == revision {
        Ok(())
    } else {
        Err(format!("initialize was answered with {protocol_version}").into())
    }
}

/// Returns the text of a successful call, as JSON.
pub(super) fn text(message: &[u8], id: u64) -> Result<&RawValue, BoxError> {
    let CallResult { content: [Content { text }], is_error } = result(message, id)?;
    if is_error { Err(format!("the tool failed: {text}").into()) } else { Ok(text) }
}

/// Adds the names of a page and returns the cursor of the next one.
pub(super) fn page(
    message: &[u8],
    id: u64,
    names: &mut BTreeSet<String>,
) -> Result<Option<String>, BoxError> {
    let Page { tools, next_cursor } = result(message, id)?;
    for Tool { name } in tools {
        if !names.insert(name.clone().into_owned()) {
            return Err(format!("{name} is listed twice").into());
        }
    }
    Ok(next_cursor)
}

/// Returns the message in an event stream that responds to `id`.
pub(super) fn in_stream(stream: &Bytes, id: u64) -> Result<Bytes, BoxError> {
    let answers = |message: &[u8]| {
        serde_json::from_slice::<ResponseMessage<'_>>(message).is_ok_and(|message| {
            message.method.is_none()
                && message.id.and_then(|found| found.get().parse().ok()) == Some(id)
        })
    };
    stream
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_prefix(b"data:"))
        .map(<[u8]>::trim_ascii)
        .find(|data| answers(data))
        .map(|data| stream.slice_ref(data))
        .ok_or_else(|| "no event answers the request".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_response_to_own_request() {
        let ours = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"a"}]}}"#;
        assert_eq!(text(ours, 7).unwrap().get(), "\"a\"");
        assert!(text(ours, 8).is_err());
        assert!(text(br#"{"id":7,"error":{"code":-1,"message":"no"}}"#, 7).is_err());
        assert!(text(br#"{"id":7}"#, 7).is_err());
        let failed = br#"{"id":7,"result":{"isError":true,"content":[{"text":"a"}]}}"#;
        assert!(text(failed, 7).unwrap_err().to_string().contains("failed"));
    }

    #[test]
    fn collects_names_over_pages_and_rejects_duplicates() {
        let mut names = BTreeSet::new();
        let first = br#"{"id":1,"result":{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"x"}}"#;
        assert_eq!(page(first, 1, &mut names).unwrap().as_deref(), Some("x"));
        assert_eq!(page(br#"{"id":2,"result":{"tools":[]}}"#, 2, &mut names).unwrap(), None);
        assert_eq!(names.len(), 2);
        assert!(page(br#"{"id":3,"result":{"tools":[{"name":"a"}]}}"#, 3, &mut names).is_err());
    }

    #[test]
    fn finds_response_between_other_events() {
        let stream = Bytes::from_static(
            b": open\n\ndata: {\"method\":\"notifications/progress\"}\n\n\
              event: message\r\ndata: {\"id\":4,\"result\":{}}\r\n\r\n\
              data:{\"id\":3,\"method\":\"ping\"}\n\ndata:{\"id\":3,\"result\":{}}\n\n",
        );
        assert_eq!(in_stream(&stream, 3).unwrap(), "{\"id\":3,\"result\":{}}");
        assert!(in_stream(&stream, 5).is_err());
    }
}
