//! The configuration from the outside: documents in, values or mistakes out.

mod aggregation;
mod auth_server;
mod backends;
mod composite;
mod document;
mod incoming_auth;
// mod leaves;
mod operational;
mod outgoing_auth;
mod roundtrip;
mod schema;
mod sections;
mod smoke;
mod support;
mod warnings;
