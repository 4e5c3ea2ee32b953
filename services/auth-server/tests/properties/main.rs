//! Properties that hold for any external input; the fuzz targets check the same.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod redirect_uri;

use proptest::prelude::*;

const LOOPBACK: &str = "https?://(localhost|LOCALHOST|127\\.0\\.0\\.1|\\[::1\\]|a\\.example)(:[0-9]{0,5})?(/[a-z%./]{0,6})?(\\?[a-z=&]{0,4})?";

proptest! {
    #[test]
    fn matching_redirect_uris_share_destination(one in LOOPBACK, two in LOOPBACK) {
        redirect_uri::check(&one, &two);
    }

    #[test]
    fn parses_or_rejects_any_two_texts(one in "\\PC{0,60}", two in "\\PC{0,60}") {
        redirect_uri::check(&one, &two);
    }
}
