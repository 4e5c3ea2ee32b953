//! List filtering for a service that does not check permissions: hidden items are removed from the bytes of the
//! response, and everything else stays byte-identical.

use bytes::{BufMut, Bytes};
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use vmcp_core::{
    AlreadyFiltered, BoxError, CallerPermissions, Item, ItemKind, MediaType, Rejection,
    collect_limited,
};
use vmcp_wire::sse::{Reader, frame};
use vmcp_wire::{Envelope, Outcome, Splice, elements, find, members, parse_json_string, scan};

use crate::annotations::{AnnotationCache, parse_annotations};

/// Maximum size of a filtered response in bytes.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// List members of results, with the member that names an item.
const LISTS: [(&str, &str, ItemKind); 4] = [
    ("tools", "name", ItemKind::Tool),
    ("prompts", "name", ItemKind::Prompt),
    ("resources", "uri", ItemKind::Resource),
    ("resourceTemplates", "uriTemplate", ItemKind::ResourceTemplate),
];

/// Filter for the list response to one request.
#[derive(Debug)]
pub(crate) struct ListFilter<'a> {
    pub(crate) permissions: &'a CallerPermissions,
    pub(crate) annotations: &'a AnnotationCache,
    /// Raw JSON of the request id.
    pub(crate) id: &'a [u8],
}

/// Returns `true` if the response is marked as filtered or is a rejection.
pub(crate) fn is_filtered_or_rejected<R>(response: &Response<R>) -> bool {
    let extensions = response.extensions();
    extensions.get::<AlreadyFiltered>().is_some() || extensions.get::<Rejection>().is_some()
}

impl ListFilter<'_> {
    /// Removes hidden items from the response. A response that cannot be parsed unambiguously becomes an internal
    /// error.
    pub(crate) async fn filter<R>(&self, response: Response<R>) -> Response<R>
    where
        R: http_body::Body<Data = Bytes> + From<Bytes>,
        R::Error: Into<BoxError>,
    {
        if is_filtered_or_rejected(&response) || !response.status().is_success() {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        let filtered = match MediaType::of(&parts.headers) {
            // Compressed responses cannot be parsed.
            _ if parts.headers.contains_key(CONTENT_ENCODING) => None,
            MediaType::Json => match collect_limited(body, MAX_RESPONSE_BYTES).await {
                Ok(bytes) => self.message(&bytes),
                Err(_) => None,
            },
            MediaType::EventStream => self.events(body).await,
            MediaType::Other => None,
        };
        let Some(bytes) = filtered else {
            tracing::warn!("list rejected: the response is not valid JSON or a valid event stream");
            return Rejection::internal().into_response(Some(self.id));
        };
        parts.headers.remove(CONTENT_LENGTH);
        parts.extensions.insert(AlreadyFiltered);
        Response::from_parts(parts, bytes.into())
    }

    /// Filters events up to the response, which ends the stream.
    async fn events<R>(&self, body: R) -> Option<Bytes>
    where
        R: http_body::Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let mut body = std::pin::pin!(body);
        let (mut reader, mut remaining, mut out) =
            (Reader::new(MAX_RESPONSE_BYTES), MAX_RESPONSE_BYTES, Vec::new());
        while let Some(chunk) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            let Ok(chunk) = chunk.ok()?.into_data() else { continue };
            remaining = remaining.checked_sub(chunk.len())?;
            reader.push(chunk);
            for event in reader.by_ref() {
                let event = event.ok()?;
                let text = |field: &Option<Bytes>| -> Option<String> {
                    field.as_ref().and_then(|field| String::from_utf8(field.to_vec()).ok())
                };
                let is_response = matches!(scan(&event.data), Ok(Envelope::Response { .. }));
                // An event without data only carries an event id.
                let is_unrelated = event.data.is_empty() || is_unrelated_message(&event.data);
                let data = if is_unrelated { event.data } else { self.message(&event.data)? };
                if let Some(retry) = event.retry {
                    out.put_slice(format!("retry: {retry}\n").as_bytes());
                }
                let (id, name) = (text(&event.id), text(&event.event));
                frame(id.as_deref(), name.as_deref(), &data, &mut out);
                if is_response {
                    return Some(out.into());
                }
            }
        }
        reader.finish().then(|| out.into())
    }

    /// Removes hidden items from the response to the request; `None` for any other message.
    fn message(&self, bytes: &Bytes) -> Option<Bytes> {
        match scan(bytes).ok()? {
            Envelope::Response { id, outcome: Outcome::Result(result) }
                if id.is_some_and(|id| id.of(bytes) == self.id) =>
            {
                let mut splice = Splice::new(bytes);
                for member in members(result.of(bytes)) {
                    let list = LISTS.iter().find(|(list, ..)| member.key.is(list));
                    let Some((_, key, kind)) = list else { continue };
                    let start = member.value_offset + result.start as usize;
                    let end = start + member.value.len();
                    let (start, end) = (u32::try_from(start).ok()?, u32::try_from(end).ok()?);
                    let kept = self.list(member.value, key, *kind);
                    splice.replace(vmcp_wire::Span { start, end }, kept);
                }
                Some(splice.finish())
            }
            Envelope::Response { outcome: Outcome::Error(_), .. } => Some(bytes.clone()),
            _ => None,
        }
    }

    /// Returns the array with the visible elements, each byte-identical.
    fn list(&self, array: &[u8], key: &str, kind: ItemKind) -> Vec<u8> {
        let mut kept = vec![b'['];
        for element in elements(array).filter(|element| self.is_visible(element, key, kind)) {
            if kept.len() > 1 {
                kept.push(b',');
            }
            kept.extend_from_slice(element);
        }
        kept.push(b']');
        kept
    }

    fn is_visible(&self, element: &[u8], key: &str, kind: ItemKind) -> bool {
        // Reject duplicate names: another parser might pick the other one.
        let mut names = members(element).filter(|member| member.key.is(key));
        let (Some(name), None) = (names.next(), names.next()) else { return false };
        let Some(name) = parse_json_string(name.value) else { return false };
        let tool = kind == ItemKind::Tool;
        let annotations =
            if tool { parse_annotations(element) } else { vmcp_core::ToolAnnotations::default() };
        if tool {
            self.annotations.insert(&name, annotations);
        }
        self.permissions.is_visible(&Item { kind, name: &name, annotations, backend: None })
    }
}

/// Returns `true` for a request or notification, which contains no list.
fn is_unrelated_message(message: &[u8]) -> bool {
    matches!(scan(message), Ok(Envelope::Request { .. } | Envelope::Notification { .. }))
        && find(message, "result").is_none()
}
