//! Connections per event loop. A separate test binary, because the number of event loops is global
//! to the process.

#[cfg(test)]
mod tests {
    use std::thread;

    use bytes::Bytes;
    use http::Request;
    use http_body_util::{BodyExt, Full};
    use tokio::runtime::{Builder, Handle};
    use url::Url;
    use vmcp_core::{set_worker_count, set_worker_index};
    use vmcp_egress::{Client, ClientSettings, Egress, Settings};
    use vmcp_test_support::ScriptedServer;

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    fn post() -> Request<Full<Bytes>> {
        Request::post("/mcp").body(Full::from("x")).unwrap()
    }

    fn client_of(egress: &Egress, server: &ScriptedServer) -> Client {
        let url = Url::parse(server.url()).unwrap();
        egress.client(&url, ClientSettings::allowing_private_addresses()).unwrap()
    }

    /// Starts a runtime on its own thread, which runs until the process ends.
    fn event_loop(worker: usize) -> Handle {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        thread::spawn(move || {
            set_worker_index(worker);
            runtime.block_on(std::future::pending::<()>());
        });
        handle
    }

    async fn twenty_by_turns(workers: &[Handle], client: &Client) {
        for number in 0..20 {
            let client = client.clone();
            let response = async move {
                let response = client.send(post()).await.unwrap();
                response.into_body().collect().await.unwrap().to_bytes()
            };
            assert_eq!(workers[number % 2].spawn(response).await.unwrap(), "ok");
        }
    }

    #[tokio::test]
    async fn event_loops_share_the_connection_limit() {
        set_worker_count(2);
        let workers = [event_loop(1), event_loop(2)];

        let server = ScriptedServer::responding(OK).await;
        let egress = Egress::default();
        let client = client_of(&egress, &server);
        twenty_by_turns(&workers, &client).await;
        assert_eq!(server.connections(), 2);
        assert_eq!(egress.gauges().idle, 2);

        let strict = Settings { max_connections_per_origin: 1, ..Settings::default() };
        let (server, egress) = (ScriptedServer::responding(OK).await, Egress::new(strict));
        let client = client_of(&egress, &server);
        twenty_by_turns(&workers, &client).await;
        assert_eq!(server.connections(), 20, "one had to go for each");
        assert_eq!(egress.gauges().open, 1);

        let sparing = Settings { max_idle_per_origin: 2, ..Settings::default() };
        let (server, egress) = (ScriptedServer::responding(OK).await, Egress::new(sparing));
        let client = client_of(&egress, &server);
        let four = (0..4).map(|_| client.send(post()));
        let four = futures_util::future::join_all(four).await;
        drop(four);
        assert!(egress.gauges().idle <= 1, "half of what may be kept is this loop's");
    }
}
