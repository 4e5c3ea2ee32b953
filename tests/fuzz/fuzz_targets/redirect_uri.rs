//! Any two lines as redirect URIs: an accepted URI redirects to its own address, and matches no other URI.
#![no_main]

#[path = "../../../services/auth-server/tests/properties/redirect_uri.rs"]
mod redirect_uri;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (one, two) = text.split_once('\n').unwrap_or((text, text));
    redirect_uri::check(one, two);
});
