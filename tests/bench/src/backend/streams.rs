//! Open notification streams.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::channel::{Channel, Sender};

/// Event queue capacity per stream. A reader that falls further behind is disconnected.
const WAITING: usize = 16;

const METHOD: &str = "notifications/tools/list_changed";

#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<Vec<Stream>>);

#[derive(Debug)]
struct Stream {
    sender: Sender<Bytes>,
    /// Event of a list change.
    event: Bytes,
}

impl Streams {
    /// Opens a stream for a session, or for the `subscriptions/listen` request with this id.
    pub(super) fn open(&self, subscription: Option<&str>) -> Channel<Bytes> {
        let (mut sender, body) = Channel::new(WAITING);
        // An initial event makes the server send the response head at once.
        let (first, message) = match subscription {
            Some(id) => {
                let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
                let first = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{"toolsListChanged":true}},{meta}}}}}"#
                );
                let change =
                    format!(r#"{{"jsonrpc":"2.0","method":"{METHOD}","params":{{{meta}}}}}"#);
                (event(&first), change)
            }
            None => (
                Bytes::from_static(b": open\n\n"),
                format!(r#"{{"jsonrpc":"2.0","method":"{METHOD}"}}"#),
            ),
        };
        if sender.try_send(Frame::data(first)).is_ok() {
            let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            streams.push(Stream { sender, event: event(&message) });
        }
        body
    }

    /// Notifies every open stream that the list has changed.
    pub(super) fn announce(&self) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        streams
            .retain_mut(|stream| stream.sender.try_send(Frame::data(stream.event.clone())).is_ok());
    }
}

fn event(message: &str) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn notifies_open_streams_and_drops_closed_streams() {
        let streams = Streams::default();
        let mut session = streams.open(None);
        drop(streams.open(Some("7")));
        let mut subscription = streams.open(Some("\"a\""));
        streams.announce();
        assert_eq!(streams.0.lock().unwrap().len(), 2);
        let read = async |body: &mut Channel<Bytes>| {
            let frame = body.frame().await.unwrap().unwrap();
            String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
        };
        assert!(read(&mut session).await.starts_with(':'));
        assert!(read(&mut session).await.contains(METHOD));
        assert!(read(&mut subscription).await.contains("acknowledged"));
        assert!(read(&mut subscription).await.contains(r#"/subscriptionId":"a""#));
    }
}
