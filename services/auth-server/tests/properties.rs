//! Properties that hold for any external input; the fuzz targets check the same.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "properties/redirect.rs"]
mod redirect;

use proptest::prelude::*;

const LOOPBACK: &str = "https?://(localhost|LOCALHOST|127\\.0\\.0\\.1|\\[::1\\]|a\\.example)(:[0-9]{0,5})?(/[a-z%./]{0,6})?(\\?[a-z=&]{0,4})?";

proptest! {
    #[test]
    fn what_a_redirect_uri_covers_leads_to_the_same_place(one in LOOPBACK, two in LOOPBACK) {
        redirect::check(&one, &two);
    }

    #[test]
    fn any_two_texts_are_read_or_refused(one in "\\PC{0,60}", two in "\\PC{0,60}") {
        redirect::check(&one, &two);
    }
}
