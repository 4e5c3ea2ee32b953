//! Compares this client with hyper-util's pooled client in one interleaved run.
//!
//! ```text
//! cargo run --release -p vmcp-egress --example versus_legacy [seconds per turn] [turns] [size]
//! ```
//!
//! 64 callers send POSTs of 200 bytes (or `size`) to an echo server in another process: first from
//! tasks of this process, then through this process as a reverse proxy, with the callers in a third
//! process. Prints requests per second and the CPU time of this process per request; the last line
//! of each table is the ratio of this client to the other. Only the ratios are meaningful.

use std::{
    future::Future,
    io::{BufRead, BufReader},
    pin::pin,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use url::Url;
use vmcp_core::BoxError;
use vmcp_egress::{Client, ClientSettings, Egress};

const CALLERS: usize = 64;

type Legacy = legacy::Client<HttpConnector, Full<Bytes>>;

/// Guard that ends a child process.
struct Helper(Child);

/// Work of a set of callers.
#[derive(Clone)]
struct Job {
    url: Url,
    payload: Bytes,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    requests: u64,
    seconds: f64,
    cpu: f64,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("serve") => serve().await,
        Some("load") => load(&arguments).await,
        _ => compare(&arguments).await,
    }
}

async fn compare(arguments: &[String]) -> Result<(), BoxError> {
    let number = |index: usize, default: u64| {
        arguments.get(index).map_or(Ok(default), |argument| argument.parse())
    };
    let (seconds, turns) = (number(0, 2)?, number(1, 5)?);
    let size = usize::try_from(number(2, 200)?)?;
    let (_server, url) = Helper::start(&["serve"])?;
    let url = Url::parse(url.trim())?;
    let (ours, theirs) = (ours(&url)?, theirs());

    let (mut a, mut b) = (Tally::default(), Tally::default());
    for _ in 0..turns {
        a.add(measure(seconds, Job::new(&url, size), |job| call(ours.clone(), job)).await?);
        b.add(
            measure(seconds, Job::new(&url, size), |job| call_legacy(theirs.clone(), job)).await?,
        );
    }
    print("called by tasks", &a, &b);

    let front = proxy({
        let (client, path) = (ours.clone(), url.path().to_owned());
        move |body| {
            let (client, path) = (client.clone(), path.clone());
            async move { Ok(client.send(Request::post(path).body(Full::new(body))?).await?) }
        }
    })
    .await?;
    let legacy_front = proxy(move |body| {
        let request = Request::post(url.as_str()).body(Full::new(body));
        let client = theirs.clone();
        async move { Ok(client.request(request?).await?) }
    })
    .await?;
    let (mut a, mut b) = (Tally::default(), Tally::default());
    for _ in 0..turns {
        a.add(proxied(&front, seconds, size).await?);
        b.add(proxied(&legacy_front, seconds, size).await?);
    }
    print("as a reverse proxy", &a, &b);
    Ok(())
}

fn ours(url: &Url) -> Result<Client, BoxError> {
    Ok(Egress::default().client(url, ClientSettings::allowing_private_addresses())?)
}

fn theirs() -> Legacy {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    legacy::Client::builder(TokioExecutor::new()).build(connector)
}

async fn call(client: Client, job: Job) -> Result<(), BoxError> {
    while job.goes_on() {
        let request = Request::post(job.url.path()).body(Full::new(job.payload.clone()))?;
        job.check(client.send(request).await?).await?;
    }
    Ok(())
}

async fn call_legacy(client: Legacy, job: Job) -> Result<(), BoxError> {
    while job.goes_on() {
        let request = Request::post(job.url.as_str()).body(Full::new(job.payload.clone()))?;
        job.check(client.request(request).await?).await?;
    }
    Ok(())
}

/// Runs 64 callers for some seconds and returns their work and its cost.
async fn measure<F>(seconds: u64, job: Job, caller: impl Fn(Job) -> F) -> Result<Tally, BoxError>
where
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let begun = cpu()?;
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(caller(job.clone()));
    }
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    job.stop.store(true, Ordering::Relaxed);
    for outcome in callers.join_all().await {
        outcome?;
    }
    let requests = job.count.load(Ordering::Relaxed);
    Ok(Tally { requests, seconds: as_float(seconds), cpu: cpu()? - begun })
}

/// Runs callers in another process against the proxy at `url`.
async fn proxied(url: &Url, seconds: u64, size: usize) -> Result<Tally, BoxError> {
    let begun = cpu()?;
    let (url, text, size) = (url.to_string(), seconds.to_string(), size.to_string());
    let requests = tokio::task::spawn_blocking(move || {
        Helper::start(&["load", &url, &text, &size]).map(|(_helper, line)| line)
    })
    .await??;
    Ok(Tally {
        requests: requests.trim().parse()?,
        seconds: as_float(seconds),
        cpu: cpu()? - begun,
    })
}

/// Returns the user and system time of this process in seconds (proc(5), `/proc/pid/stat`).
fn cpu() -> Result<f64, BoxError> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The command name may contain spaces; it ends with the last parenthesis.
    let rest = stat.rsplit_once(')').ok_or("no stat")?.1;
    let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    Ok(f64::from(ticks.sum::<Result<u32, _>>()?) / TICKS_PER_SECOND)
}

async fn load(arguments: &[String]) -> Result<(), BoxError> {
    let [_, url, seconds, size] = arguments else {
        return Err("load needs a URL, seconds and a size".into());
    };
    let url = Url::parse(url)?;
    let (client, job) = (ours(&url)?, Job::new(&url, size.parse()?));
    let tally = measure(seconds.parse()?, job, |job| call(client.clone(), job)).await?;
    println!("{}", tally.requests);
    Ok(())
}

async fn serve() -> Result<(), BoxError> {
    let url = accept(|request: Request<hyper::body::Incoming>| async move {
        let body = request.into_body().collect().await?.to_bytes();
        Ok(Response::new(Full::new(body)))
    })
    .await?;
    println!("{url}");
    std::future::pending().await
}

/// Serves requests with the result of `forward` for their bodies.
async fn proxy<F, B>(
    forward: impl Fn(Bytes) -> F + Clone + Send + Sync + 'static,
) -> Result<Url, BoxError>
where
    F: Future<Output = Result<Response<B>, BoxError>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    accept(move |request: Request<hyper::body::Incoming>| {
        let forward = forward.clone();
        async move { forward(request.into_body().collect().await?.to_bytes()).await }
    })
    .await
}

async fn accept<F, B>(
    answer: impl Fn(Request<hyper::body::Incoming>) -> F + Clone + Send + 'static,
) -> Result<Url, BoxError>
where
    F: Future<Output = Result<Response<B>, BoxError>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = Url::parse(&format!("http://{}/mcp", listener.local_addr()?))?;
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(connection(tcp, answer.clone()));
        }
    });
    Ok(url)
}

async fn connection<F, B>(
    tcp: TcpStream,
    answer: impl Fn(Request<hyper::body::Incoming>) -> F,
) -> Result<(), BoxError>
where
    F: Future<Output = Result<Response<B>, BoxError>>,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    tcp.set_nodelay(true)?;
    Ok(http1::Builder::new().serve_connection(TokioIo::new(tcp), service_fn(answer)).await?)
}

fn print(title: &str, ours: &Tally, theirs: &Tally) {
    println!("{title:<20} requests/s   CPU/request");
    for (name, tally) in [("this client", ours), ("hyper-util legacy", theirs)] {
        println!("{name:<20} {:>10.0} {:>10.2} µs", tally.rate(), tally.cost() * 1e6);
    }
    println!(
        "{:<20} {:>10.3} {:>10.3}\n",
        "ratio",
        ours.rate() / theirs.rate(),
        ours.cost() / theirs.cost()
    );
}

fn as_float(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

impl Job {
    fn new(url: &Url, size: usize) -> Self {
        let (stop, count) = (Arc::default(), Arc::default());
        Self { url: url.clone(), payload: vec![b'x'; size].into(), stop, count }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Reads the echo and counts it.
    async fn check<B>(&self, response: Response<B>) -> Result<(), BoxError>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let mut body = pin!(response.into_body());
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame.map_err(Into::into)?.data_ref().map_or(0, Bytes::len);
        }
        if length != self.payload.len() {
            return Err("the echo has another length".into());
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.seconds += other.seconds;
        self.cpu += other.cpu;
    }

    fn rate(&self) -> f64 {
        as_float(self.requests) / self.seconds
    }

    fn cost(&self) -> f64 {
        self.cpu / as_float(self.requests)
    }
}

impl Helper {
    /// Starts this program in another role and waits for its first line.
    fn start(arguments: &[&str]) -> Result<(Self, String), BoxError> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        let helper = Self(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok((helper, line))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
