//! Properties of the byte layer, held against readers that share no code with it.
//!
//! The modules `envelope`, `listing`, `sse` and `splice` each have one `check` over bytes. Here generated input drives it;
//! the fuzz targets of the same names drive the same functions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a panic"
)]

mod envelope;
mod listing;
mod python;
mod reference;
mod splice;
mod sse;
mod text;

use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_reference_parser(message in text::message()) {
        envelope::check(message.as_bytes());
    }

    #[test]
    fn agrees_with_reference_parser_on_damaged_messages(message in text::damaged(text::message())) {
        envelope::check(&message);
    }

    #[test]
    fn accepts_the_json_texts_that_serde_accepts(value in text::damaged(text::value())) {
        envelope::check(&value);
    }

    #[test]
    fn survives_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        envelope::check(&bytes);
        listing::check(&bytes);
        splice::check(&bytes);
        sse::check(&bytes);
    }

    #[test]
    fn accepts_call_with_any_arguments(arguments in text::value(), name in ".{0,20}") {
        envelope::check_call(&name, &arguments);
    }

    #[test]
    fn list_reader_agrees_with_members(
        before in text::damaged(text::listing()),
        after in text::damaged(text::listing()),
    ) {
        listing::check(&[&before, &[listing::BETWEEN][..], &after].concat());
    }

    #[test]
    fn splice_changes_only_edited_members(
        script in vec(any::<u8>(), 16),
        object in text::object(text::value()),
    ) {
        splice::check(&[&script, object.as_bytes()].concat());
    }

    #[test]
    fn reads_event_streams_in_any_chunks(
        limit in any::<u8>(),
        cuts in any::<[u8; 3]>(),
        stream in text::event_stream(),
    ) {
        sse::check(&[&[limit], &cuts[..], stream.as_bytes()].concat());
    }

    #[test]
    fn reads_back_the_events_that_it_frames(
        id in proptest::option::of(".{0,9}"),
        event in proptest::option::of("[a-z\r\n]{0,9}"),
        data in "[a-z{}\r\n :]{0,40}",
    ) {
        sse::check_frame(id.as_deref(), event.as_deref(), &data);
    }
}
