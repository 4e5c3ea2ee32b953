//! What the tests of vmcp share: an MCP server to stand behind the gateway, and the installed counterparts around it.

pub mod fixture;
