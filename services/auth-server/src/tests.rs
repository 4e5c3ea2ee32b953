//! Tests of the whole server through its router.

mod authorize;
mod callback;
mod client_id_metadata;
mod connections;
mod debug_output;
mod discovery;
mod events;
pub(crate) mod failing_store;
mod login_state_machine;
mod mix_up;
mod provider_issuer;
mod reauthentication;
mod refresh;
mod registration;
mod secrets;
mod store_failures;
mod token;
mod upstream_tokens;
mod user_check;
