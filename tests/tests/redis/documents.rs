//! Clients with a metadata document at two replicas of an authorization server on one Redis. The document
//! comes from a fake host: `vmcp` fetches it from public addresses only, which a test does not have.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use vmcp_auth_redis::{Namespace, RedisStore};
use vmcp_auth_server::{
    AccessTokenError, Audience, Audiences, AuthServer, HmacKeyRing, IssuerUrl, Scopes, Settings,
    SigningKeys,
};
use vmcp_auth_store::Limits;
use vmcp_core::{Body, BoxError, Clock};
use vmcp_egress::{Egress, FetchPolicy, Fetcher};
use vmcp_tests::authority::Authority;
use vmcp_tests::counterparts::{Redis, skipped};
use vmcp_tests::load_balancer::LoadBalancer;
use vmcp_tests::login_steps::{Login, Step, StepOutcome};
use vmcp_upstream::{
    Client, Endpoint, FieldMapping, Kind, MemoryRegistrations, Oauth2, Params, Provider,
    StaticClient, UserInfo,
};

use crate::fixtures::{clock, namespace, standalone};

const URL: &str = "https://app.example/client.json";

/// Longer than the default cache lifetime of a document.
const KEPT: Duration = Duration::from_secs(301);

/// Timeout for the propagation of a change to the other replica.
const SOON: Duration = Duration::from_secs(10);

/// Two replicas behind a load balancer, and the document's host.
struct TestEnv {
    clock: Clock,
    front: LoadBalancer,
    replicas: Vec<Replica>,
    redis: Redis,
    authority: Authority,
    keys: SigningKeys,
    namespace: Namespace,
    document: Arc<Mutex<(StatusCode, Value)>>,
}

struct Replica {
    server: AuthServer,
    port: u16,
    /// Stopped on drop.
    _tasks: JoinSet<()>,
}

fn document() -> Value {
    json!({ "client_id": URL, "client_name": "Editor", "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none" })
}

impl TestEnv {
    async fn start() -> Self {
        let signing = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let mut world = Self {
            clock: clock(),
            front: LoadBalancer::start().await.unwrap(),
            replicas: Vec::new(),
            redis: Redis::start(&[]).await.unwrap(),
            authority: Authority::start().unwrap(),
            keys: SigningKeys::new(&[signing.serialize_pem()]).unwrap(),
            namespace: namespace(),
            document: Arc::new(Mutex::new((StatusCode::OK, document()))),
        };
        for _ in 0..2 {
            world.replicas.push(world.replica().await);
        }
        world.sends_clients_to(0);
        world
    }

    async fn replica(&self) -> Replica {
        let redis = vmcp_redis::Redis::connect(standalone(self.redis.port)).await.unwrap();
        let started =
            RedisStore::start(redis, &self.namespace, Limits::default(), self.clock.clone());
        let store = Arc::new(started.await.unwrap());
        let provider = Arc::new(self.provider());
        let document = Arc::clone(&self.document);
        let host = tower::service_fn(move |request: Request<Body>| {
            assert_eq!(*request.uri(), URL);
            let (status, document) = document.lock().unwrap().clone();
            let response = Response::builder()
                .status(status)
                .header("content-type", "application/json")
                .body(Body::from(document.to_string()))
                .unwrap();
            async move { Ok::<_, BoxError>(response) }
        });
        let server = AuthServer::new(self.settings(), store, vec![provider], self.clock.clone());
        let server = server.unwrap().with_client_metadata(host);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = server.router().into_make_service_with_connect_info::<SocketAddr>();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.clone().watch_revocations());
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        server.wait_revocations_loaded().await;
        Replica { server, port, _tasks: tasks }
    }

    fn settings(&self) -> Settings {
        let audiences = Audiences::new(vec![Audience::parse(&self.audience()).unwrap()]).unwrap();
        let hmac = HmacKeyRing::new(&[vec![7; 32].into()]).unwrap();
        let issuer = IssuerUrl::parse(&self.front.origin()).unwrap();
        let settings = Settings::new(issuer, audiences, self.keys.clone(), hmac);
        Settings { scopes: Scopes::new(["tools", "offline_access"]).unwrap(), ..settings }
    }

    fn audience(&self) -> String {
        format!("{}/mcp", self.front.origin())
    }

    fn provider(&self) -> Provider {
        let at = |path: &str| {
            Endpoint::new(&format!("{}/corp/{path}", self.authority.issuer())).unwrap()
        };
        let fields = FieldMapping::new(vec!["sub"], vec!["name"], vec!["email"]).unwrap();
        let kind = Kind::Oauth2(Box::new(Oauth2 {
            authorization_endpoint: at("authorize"),
            token_endpoint: at("token/3600"),
            client: Client::Static(StaticClient::new("gateway", None).unwrap()),
            token_mapping: None,
            user_info: Some(UserInfo { fields, ..UserInfo::new(at("me")) }),
        }));
        let callback = format!("{}/oauth/callback", self.front.origin());
        let settings = vmcp_upstream::Settings {
            name: "corp".into(),
            kind,
            redirect_uri: Endpoint::new(&callback).unwrap(),
            scopes: vmcp_upstream::Scopes::new(["openid"]).unwrap(),
            params: Params::new([]).unwrap(),
            client_name: "vmcp".into(),
        };
        let fetcher = |policy| Fetcher::new(Egress::default(), policy).unwrap();
        let (ours, theirs) = (fetcher(FetchPolicy::configured()), fetcher(FetchPolicy::supplied()));
        let clock = self.clock.clone();
        Provider::new(settings, ours, theirs, Arc::new(MemoryRegistrations), clock).unwrap()
    }

    fn sends_clients_to(&self, replica: usize) {
        self.front.leads_to(self.replicas[replica].port);
    }

    /// Logs a user in at the first replica, and refreshes the tokens at both: each has the document.
    async fn logged_in(&self, person: &str) -> Login {
        let mut login = Login::of_document(&self.front.origin(), person, URL);
        self.sends_clients_to(0);
        for step in [Step::Authorize, Step::Consent, Step::First, Step::Token] {
            done(&mut login, step).await;
        }
        for replica in [1, 0] {
            self.sends_clients_to(replica);
            done(&mut login, Step::Refresh).await;
        }
        assert_eq!(self.verified(&login), [Ok(()), Ok(())]);
        login
    }

    /// Verifies the access token at each replica.
    fn verified(&self, login: &Login) -> [Result<(), AccessTokenError>; 2] {
        [0, 1].map(|replica| {
            let verifier = self.replicas[replica].server.verifier(&self.audience()).unwrap();
            verifier.verify(&login.access).map(drop)
        })
    }

    async fn is_revoked(&self, login: &Login) {
        let heard = async {
            while self.verified(login) != [Err(AccessTokenError::Revoked); 2] {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let heard = timeout(SOON, heard).await;
        assert!(heard.is_ok(), "{:?}", self.verified(login));
    }

    /// Returns the error with which this replica rejects a refresh.
    async fn refused(&self, login: &mut Login, replica: usize) -> String {
        self.sends_clients_to(replica);
        match login.takes(Step::Refresh).await.unwrap() {
            StepOutcome::Refused(said) => said,
            other => panic!("{other:?}"),
        }
    }
}

async fn done(login: &mut Login, step: Step) {
    let taken = login.takes(step).await.unwrap();
    assert!(matches!(taken, StepOutcome::Done), "{step:?}: {taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawn_document_ends_grants_on_all_replicas() {
    if skipped() {
        return;
    }
    for status in [StatusCode::NOT_FOUND, StatusCode::GONE] {
        let mut world = TestEnv::start().await;
        let (mut login, mut other) = (world.logged_in("ann").await, world.logged_in("bob").await);
        *world.document.lock().unwrap() = (status, Value::Null);
        world.clock.advance(KEPT);
        let said = world.refused(&mut login, 0).await;
        assert!(said.contains("invalid_grant"), "{status}: {said}");
        world.is_revoked(&login).await;
        // The other replica fetches the document itself.
        let said = world.refused(&mut other, 1).await;
        assert!(said.contains("invalid_grant"), "{status}: {said}");
        world.is_revoked(&other).await;
        // The document's return or a new replica does not restore the grants.
        *world.document.lock().unwrap() = (StatusCode::OK, document());
        world.clock.advance(KEPT);
        world.replicas[0] = world.replica().await;
        for login in [&mut login, &mut other] {
            world.is_revoked(login).await;
            for replica in [0, 1] {
                let said = world.refused(login, replica).await;
                assert!(said.contains("invalid_grant"), "{status} {replica}: {said}");
            }
        }
        world.logged_in("ann").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_document_counts_on_all_replicas() {
    if skipped() {
        return;
    }
    let world = TestEnv::start().await;
    let mut login = world.logged_in("ann").await;
    for (member, value, error) in [
        ("grant_types", json!(["authorization_code"]), "unauthorized_client"),
        ("client_id", json!("https://app.example/other.json"), "invalid_client"),
        ("client_secret", json!("x"), "invalid_client"),
    ] {
        let mut changed = document();
        changed[member] = value;
        *world.document.lock().unwrap() = (StatusCode::OK, changed);
        world.clock.advance(KEPT);
        for replica in [0, 1] {
            let said = world.refused(&mut login, replica).await;
            assert!(said.contains(error), "{member} {replica}: {said}");
        }
        // The rejected refreshes consumed no token.
        *world.document.lock().unwrap() = (StatusCode::OK, document());
        world.clock.advance(KEPT);
        for replica in [0, 1] {
            world.sends_clients_to(replica);
            done(&mut login, Step::Refresh).await;
        }
    }
}
