//! Redis commands per step, as counted by Redis itself.

use vmcp_session::{SessionRecord, SessionStorage};
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::{pair, session};
use crate::fixtures::standalone;
use crate::trips::Monitor;

/// Returns the commands since the last call, without the messages that each replica sends in the background.
async fn commands(monitor: &mut Monitor) -> Vec<String> {
    let mut commands = monitor.commands().await;
    commands.retain(|command| !command.contains("\"PUBLISH\""));
    commands
}

/// Takes a step and counts its commands. The first use of a script sends its source, so each step is taken twice and the
/// second run counts.
macro_rules! costs {
    ($monitor:ident, $step:expr) => {
        $step.await.unwrap();
        commands(&mut $monitor).await;
        $step.await.unwrap();
        let commands = commands(&mut $monitor).await;
        assert_eq!(commands.len(), 1, "{}: {commands:?}", stringify!($step));
    };
}

#[tokio::test]
async fn each_step_of_session_is_one_command() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let [storage, replica] = pair(&standalone(server.port)).await;
    let mut monitor = Monitor::start(server.port).await;
    let session = session();
    costs!(monitor, storage.create(&session));
    costs!(monitor, storage.restore(&session));
    let value = || Some(b"value".to_vec());
    costs!(monitor, storage.replace_backend_session(&session, "backend", None, value()));
    costs!(monitor, storage.set_level(&session, "1"));
    costs!(monitor, storage.subscribe(&session, "backend", "uri", true));
    costs!(monitor, storage.subscribe(&session, "backend", "uri", false));
    costs!(monitor, storage.merge(&session, &SessionRecord::default(), true));
    costs!(monitor, storage.hold_stream(&session));
    costs!(monitor, storage.touch(&[session; 256]));
    costs!(monitor, storage.check(&session));
    costs!(monitor, storage.leave(&session));
    costs!(monitor, storage.end(&session));
    let mut events = storage.events();
    storage.announce("handle");
    let known = (storage.has_ended(&session), storage.liveness(), storage.ended());
    assert!(known.0 && storage.replicas().is_empty() && replica.replicas().is_empty());
    assert!(storage.check(&session).await.is_err());
    assert!(storage.restore(&session).await.is_err());
    assert_eq!(commands(&mut monitor).await, [""; 0], "{known:?}");
    drop(futures_util::StreamExt::next(&mut events));
}
