//! Errors of connecting and their messages.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::Instant,
};
use url::Url;
use vmcp_egress::{ClientSettings, ConfigError, ConnectCause, Egress, Error};

use vmcp_test_support::ScriptedServer;

use crate::support::{OK, ServerExt, exchange};

async fn failure(url: &str, settings: ClientSettings) -> Error {
    let client = Egress::default().client(&Url::parse(url).unwrap(), settings).unwrap();
    let error = exchange(&client, "a").await.unwrap_err();
    assert!(error.is_connect() && !error.sent());
    assert!(!error.to_string().contains("secret"), "{error}");
    error
}

#[tokio::test]
async fn reports_refused_connection() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = format!("http://{unused}/secret?secret");
    let error = failure(&url, ClientSettings::allowing_private_addresses()).await;
    assert!(matches!(error, Error::Connect { cause: ConnectCause::Refused, .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!("failed to connect to http://{unused}: connection refused")
    );
}

#[tokio::test]
async fn reports_unknown_name() {
    let error =
        failure("http://unknown.invalid/", ClientSettings::allowing_private_addresses()).await;
    assert!(matches!(error, Error::Connect { cause: ConnectCause::Dns, .. }), "{error:?}");
    assert_eq!(error.kind(), "connect");
}

#[tokio::test]
async fn connects_by_name() {
    let server = ScriptedServer::responding(OK).await;
    let url = server.parsed_url().as_str().replace("127.0.0.1", "localhost");
    let egress = Egress::default();
    let url = Url::parse(&url).unwrap();
    let client = egress.client(&url, ClientSettings::allowing_private_addresses()).unwrap();
    assert_eq!(exchange(&client, "a").await.unwrap(), "ok");
}

#[tokio::test]
async fn public_only_rejects_private_addresses_in_any_notation() {
    let server = ScriptedServer::responding(OK).await;
    let port = server.parsed_url().port().unwrap();
    for host in [
        "127.0.0.1",
        "localhost",
        "0x7f000001",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "0.0.0.0",
        "169.254.169.254",
    ] {
        let error = failure(&format!("http://{host}:{port}/"), ClientSettings::public_only()).await;
        assert_eq!(error.kind(), "address_refused", "{host}");
    }
    assert_eq!(server.connections(), 0);
}

/// Returns an address whose listener has a full queue, so that further connections get no response.
async fn black_hole() -> (Vec<TcpStream>, TcpListener, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await
    {
        queued.push(stream);
    }
    (queued, listener, address)
}

#[tokio::test(start_paused = true)]
async fn connecting_times_out() {
    let (_queued, _listener, address) = black_hole().await;
    let begun = Instant::now();
    let error =
        failure(&format!("http://{address}/"), ClientSettings::allowing_private_addresses()).await;
    assert_eq!(error.kind(), "connect_timeout");
    assert!((10..11).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn tls_handshake_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let begun = Instant::now();
    let error =
        failure(&format!("https://{address}/"), ClientSettings::allowing_private_addresses()).await;
    assert_eq!(error.kind(), "connect_timeout", "{error:?}");
    assert!((10..11).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn reports_a_peer_without_tls() {
    let server = ScriptedServer::start(|mut peer| async move {
        peer.stirred().await;
        peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let url = server.parsed_url().as_str().replace("http:", "https:");
    let error = failure(&url, ClientSettings::allowing_private_addresses()).await;
    assert_eq!(error.kind(), "tls");
}

#[tokio::test]
async fn rejects_unsupported_urls() {
    for (url, expected) in [
        ("ftp://host/", "the URL has the scheme \"ftp\"; it must be http or https"),
        ("data:text/plain,secret", "the URL has the scheme \"data\"; it must be http or https"),
        (
            "http://user:secret@host/",
            "the URL contains user info, which is not sent; configure a credential instead",
        ),
    ] {
        let url = Url::parse(url).unwrap();
        let error = Egress::default().client(&url, ClientSettings::public_only()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn rejects_invalid_ca_bundles() {
    let directory = std::env::temp_dir().join(format!("vmcp-egress-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let url = Url::parse("http://host/").unwrap();
    let refusal = |name: &str, content: Option<&[u8]>| {
        let path = directory.join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let settings = ClientSettings::allowing_private_addresses().with_ca_bundle(&path);
        let error = Egress::default().client(&url, settings).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        error
    };
    assert!(matches!(refusal("missing.crt", None), ConfigError::CaBundleUnreadable { .. }));
    assert!(matches!(refusal("empty.crt", Some(b"")), ConfigError::CaBundleEmpty { .. }));
    assert!(matches!(refusal("text.crt", Some(b"no PEM")), ConfigError::CaBundleEmpty { .. }));
    for (name, content) in [
        ("cut.crt", "-----BEGIN CERTIFICATE-----\nMIIB\n"),
        ("base64.crt", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"),
        ("der.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    ] {
        let error = refusal(name, Some(content.as_bytes()));
        assert!(matches!(error, ConfigError::CaBundleInvalid { .. }), "{error:?}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}
