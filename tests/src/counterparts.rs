//! MCP clients, servers and the test suite of other projects, installed and run by the tests.
//!
//! All versions are pinned in `tests/tools` and installed once into `target/counterparts`. Without Node.js or Python the
//! tests fail, unless `VMCP_TEST_SKIP_REAL=1` is set.

mod authorization;
mod aws;
mod browser;
mod calls;
mod certificates;
mod client_file;
mod clients;
mod embeddings;
mod extensions;
mod gateway;
mod go;
mod helm;
mod http;
mod identity;
mod inspector;
mod install;
mod load;
mod login;
mod manifests;
mod old;
mod otlp;
mod person;
mod process;
mod programs;
mod redis;
mod servers;
mod suite;
mod tokens;
mod upstream;

pub use authorization::run_authorization_suite;
pub use aws::{AccessKeys, SignedService, Sts};
pub use browser::{Browser, Complaint, Focus, Sight, Window};
pub use calls::{CallPlan, CallResult, CallsReport, PlannedCall};
pub use certificates::Certificates;
pub use client_file::ImportedFile;
pub use clients::{Change, Client, ClientReport, Era, Plan, ServerRequestReport, Watcher, ask};
pub use embeddings::EmbeddingServer;
pub use extensions::ExtensionServer;
pub use gateway::Gateway;
pub use go::{actionlint, definition};
pub use helm::{Helm, Release};
pub use http::{Reply, get, post, post_form};
pub use identity::IdentityProvider;
pub use inspector::Inspector;
pub use install::{Npm, Python, npm, python};
pub use load::ClientLoad;
pub use login::{LoggedIn, LoginProvider, TokenState};
pub use manifests::{validate_bills, validate_manifests};
pub use old::{Heard, OldCall, old_client};
pub use otlp::Collector;
pub(crate) use person::parameter;
pub use person::{Person, leads_to};
pub use process::Process;
pub use programs::{gateway_program, operator_program};
pub use redis::{Redis, RedisCluster, RedisSentinels};
pub use servers::{Backend, Fixture};
pub use suite::{
    Check, Lost, Report, Revision, Status, run_suite, run_suite_as, run_tasks_suite, scenarios,
};
pub use tokens::TokenServer;
pub use upstream::UpstreamProvider;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, fmt, fs, io};

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

/// Failure to use a counterpart. `Debug` prints plain text too, so that quoted logs keep their lines.
pub struct TestError(Box<dyn Error + Send + Sync>);

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for TestError {
    fn from(cause: E) -> Self {
        Self(cause.into())
    }
}

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns `true` if the tests against real counterparts are to be skipped.
#[must_use]
pub fn skipped() -> bool {
    let skipped = env::var_os("VMCP_TEST_SKIP_REAL").is_some_and(|value| value == "1");
    if skipped {
        eprintln!("skipped: VMCP_TEST_SKIP_REAL=1");
    }
    skipped
}

/// Returns an unused TCP port of the loopback interface.
///
/// # Errors
/// Returns an error if no port is free.
pub async fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?.port())
}

/// Waits until a server accepts connections on the loopback port.
///
/// # Errors
/// Returns an error on a timeout, or if the server's process has exited.
pub async fn until_listening(
    port: u16,
    process: &mut Process,
    within: Duration,
) -> Result<(), TestError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let deadline = Instant::now() + within;
    while TcpStream::connect(address).await.is_err() {
        if let Some(end) = process.ended()? {
            return Err(format!(
                "{process} ended with {end} before it listened:\n{}",
                process.log()
            )
            .into());
        }
        if Instant::now() > deadline {
            return Err(format!(
                "{process} does not listen on {address} after {within:?}:\n{}",
                process.log()
            )
            .into());
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Returns the build directory of the running test.
///
/// # Errors
/// Returns an error if the running program is not a test built by Cargo.
fn profile_dir() -> Result<PathBuf, TestError> {
    let program = env::current_exe()?;
    let dir = program.parent().ok_or("the running program has no folder")?;
    let dir = if dir.ends_with("deps") { dir.parent().unwrap_or(dir) } else { dir };
    Ok(dir.to_owned())
}

/// Returns the directory for installations and output of runs.
fn scratch_dir() -> Result<PathBuf, TestError> {
    let profile = profile_dir()?;
    let dir = profile.parent().unwrap_or(&profile).join("counterparts");
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Creates a directory for a run.
fn folder(kind: &str) -> Result<PathBuf, TestError> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{number}-{kind}", std::process::id());
    let folder = scratch_dir()?.join("runs").join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Returns `tests/tools` of the source tree.
fn tools_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tools")
}
