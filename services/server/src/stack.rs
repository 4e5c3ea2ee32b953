//! The default stack, one function each way. The order is the point of this file: each layer stands
//! where it stands for the reason beside it, and each reason has a test in `tests/stack_order.rs`.

use std::sync::Arc;

use tower::{ServiceBuilder, ServiceExt};
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::BackendService;
use vmcp_core::Body;
use vmcp_decode::{Decode, DecodeLayer};
use vmcp_egress::{Client, RedirectLayer};
use vmcp_timeout::TimeoutLayer;

use crate::guard::{CatchPanic, CatchPanicLayer, Crowd, CrowdLayer, Hosts, HostsLayer};
use crate::old_clients::{Clients, OldClients};

/// What answers a request to the MCP endpoint.
pub type McpService = CatchPanic<Crowd<Hosts<Decode<Gateway>>>>;

/// What answers clients of the deprecated HTTP+SSE transport.
pub type OldService = CatchPanic<Crowd<Hosts<OldClients<McpService>>>>;

/// The layers around the aggregating service.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// How many requests may be under way.
    pub crowd: CrowdLayer,
    /// Which hosts and origins are served.
    pub hosts: HostsLayer,
    /// How messages are read.
    pub decode: DecodeLayer,
}

impl Incoming {
    /// The incoming stack, outermost first.
    #[must_use]
    pub fn stack(self, gateway: Gateway) -> McpService {
        let Self { crowd, hosts, decode } = self;
        ServiceBuilder::new()
            // Outermost: a bug anywhere below is one failed request, not a dead connection.
            .layer(CatchPanicLayer)
            // Before anything is read or computed: what is too much is refused at the least cost.
            .layer(crowd)
            // Before the body is read: a page of a foreign origin gets nothing parsed, and a
            // preflight, which carries no body, is answered here.
            .layer(hosts)
            // Innermost: everything further in routes by what the message says.
            .layer(decode)
            .service(gateway)
    }

    /// The stack for old clients, outermost first. What they post goes through `mcp` as a whole.
    pub(crate) fn old(self, clients: Arc<Clients>, mcp: McpService) -> OldService {
        let Self { crowd, hosts, decode: _ } = self;
        ServiceBuilder::new()
            // All three for the reasons that they have above: these paths read bodies too.
            .layer(CatchPanicLayer)
            .layer(crowd)
            .layer(hosts)
            .service(OldClients::new(mcp, clients))
    }
}

/// The outgoing stack of one backend, outermost first.
#[must_use]
pub fn outgoing(timeouts: TimeoutLayer, client: Client) -> BackendService {
    let origin = client.origin().clone();
    let stack = ServiceBuilder::new()
        // Outside the connection and the redirects: the time is that of the backend's next frame,
        // however it is reached.
        .layer(timeouts)
        // Same origin, 307 and 308 only: the body is sent again as it is.
        .layer(RedirectLayer::new(origin))
        .service(client);
    BackendService::new(stack.map_response(|response| response.map(Body::wrap)))
}
