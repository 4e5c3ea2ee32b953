//! Connections per event loop. A separate test binary, because the number of event loops is global
//! to the process.

#[cfg(test)]
#[expect(dead_code, reason = "this asks for a part of it")]
#[path = "sockets/support.rs"]
mod support;

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::runtime::{Builder, Handle};
    use vmcp_core::{set_worker_count, set_worker_index};
    use vmcp_egress::{Client, Egress, Settings};

    use super::support::{OK, Server, exchange};

    /// Starts a runtime on its own thread, which runs until the process ends.
    fn event_loop(lane: usize) -> Handle {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        thread::spawn(move || {
            set_worker_index(lane);
            runtime.block_on(std::future::pending::<()>());
        });
        handle
    }

    async fn twenty_by_turns(lanes: &[Handle], client: &Client) {
        for number in 0..20 {
            let client = client.clone();
            let exchanged = async move { exchange(&client, "x").await };
            assert_eq!(lanes[number % 2].spawn(exchanged).await.unwrap().unwrap(), "ok");
        }
    }

    #[tokio::test]
    async fn event_loops_share_the_connection_limit() {
        set_worker_count(2);
        let lanes = [event_loop(1), event_loop(2)];

        let server = Server::answering(OK).await;
        let egress = Egress::default();
        let client = server.client_of(&egress);
        twenty_by_turns(&lanes, &client).await;
        assert_eq!(server.connections(), 2);
        assert_eq!(egress.gauges().idle, 2);

        let strict = Settings { max_connections_per_origin: 1, ..Settings::default() };
        let (server, egress) = (Server::answering(OK).await, Egress::new(strict));
        let client = server.client_of(&egress);
        twenty_by_turns(&lanes, &client).await;
        assert_eq!(server.connections(), 20, "one had to go for each");
        assert_eq!(egress.gauges().open, 1);

        let sparing = Settings { max_idle_per_origin: 2, ..Settings::default() };
        let (server, egress) = (Server::answering(OK).await, Egress::new(sparing));
        let client = server.client_of(&egress);
        let four = (0..4).map(|_| client.send(super::support::post("x")));
        let four = futures_util::future::join_all(four).await;
        drop(four);
        assert!(egress.gauges().idle <= 1, "half of what may be kept is this loop's");
    }
}
