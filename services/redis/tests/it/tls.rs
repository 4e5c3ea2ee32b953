use std::env;
use std::process::Command;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use vmcp_redis::{Address, Node, Redis, Settings, Tls};

use crate::fake::{FakeServer, Reply};
use crate::settings;

/// Variable that replaces the root certificates of the system.
const ROOTS: &str = "SSL_CERT_FILE";

const MISSING: &str = "/missing/roots.pem";

#[tokio::test]
async fn own_ca_needs_no_system_roots() {
    if env::var_os(ROOTS).is_none_or(|file| file != MISSING) {
        let test = ["--exact", "tls::own_ca_needs_no_system_roots"];
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(test).env(ROOTS, MISSING).env_remove("SSL_CERT_DIR");
        assert!(child.status().unwrap().success());
        return;
    }
    assert!(Tls::system().is_err());
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = Arc::new(server).into();
    let server = FakeServer::start_tls(acceptor, |_| Reply::Text("+PONG\r\n".into())).await;
    let address = Address::Standalone(Node::new("localhost", server.port()));
    let tls = Some(Tls::with_ca(certified.cert.pem().as_bytes()).unwrap());
    Redis::connect(Settings { tls, ..settings(address) }).await.unwrap();
}
