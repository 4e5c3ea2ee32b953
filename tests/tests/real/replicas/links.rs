//! Relinking of a second provider with another account.

use http::StatusCode;
use tokio::time::{Duration, sleep};
use vmcp_tests::counterparts::{Reply, leads_to, skipped};
use vmcp_tests::login_steps::{Login, Step};

use super::ReplicaPair;

/// Maximum age of a replica's cached link.
const REREAD: Duration = Duration::from_secs(1);

impl ReplicaPair {
    /// Returns the account at the second provider whose token each replica sends to the backend, and routes clients to the
    /// first replica again.
    async fn accounts(&mut self, login: &Login) -> [String; 2] {
        let mut accounts = [String::new(), String::new()];
        for account in &mut accounts {
            *account = self.ground.second.account(&self.shown(&login.access).await).await.unwrap();
            self.switch();
        }
        accounts
    }
}

fn asks(page: &Reply) -> bool {
    let html = String::from_utf8_lossy(&page.body);
    page.status == StatusCode::OK && html.contains("This is another account")
}

fn is_linked(page: &Reply) -> bool {
    leads_to(page).is_some_and(|place| place.ends_with("/oauth/connections"))
}

/// Returns a pair with a logged-in user who has started to relink the second provider with another account.
async fn changed() -> (ReplicaPair, Login) {
    let mut pair = ReplicaPair::start().await;
    let mut login = pair.login("ann");
    login.goes(Step::Token).await.unwrap();
    assert_eq!(pair.accounts(&login).await, ["ann", "ann"]);
    login.changes_account("mallory");
    login.starts_link("second").await.unwrap();
    (pair, login)
}

#[tokio::test(flavor = "multi_thread")]
async fn links_other_account_on_any_replica_after_confirmation() {
    if skipped() {
        return;
    }
    let (mut pair, mut login) = changed().await;
    pair.switch();
    let asked = login.ends_link().await.unwrap();
    assert!(asks(&asked), "{asked:?}");
    sleep(REREAD).await;
    assert_eq!(pair.accounts(&login).await, ["ann", "ann"]);
    // The other replica accepts the form of this replica's page.
    pair.switch();
    login.confirms_link(&asked, "second").await.unwrap();
    pair.switch();
    let linked = login.ends_link().await.unwrap();
    assert!(is_linked(&linked), "{linked:?}");
    sleep(REREAD).await;
    assert_eq!(pair.accounts(&login).await, ["mallory", "mallory"]);
    // The currently linked account needs no confirmation.
    login.starts_link("second").await.unwrap();
    pair.switch();
    let linked = login.ends_link().await.unwrap();
    assert!(is_linked(&linked), "{linked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_other_account_only_if_confirmed_after_restart() {
    if skipped() {
        return;
    }
    let (mut pair, mut login) = changed().await;
    // Both replicas were started after the relinking began.
    pair.kill().await;
    pair.kill().await;
    let asked = login.ends_link().await.unwrap();
    assert!(asks(&asked), "{asked:?}");
    assert_eq!(pair.accounts(&login).await, ["ann", "ann"]);
    pair.kill().await;
    login.confirms_link(&asked, "second").await.unwrap();
    pair.kill().await;
    let linked = login.ends_link().await.unwrap();
    assert!(is_linked(&linked), "{linked:?}");
    sleep(REREAD).await;
    assert_eq!(pair.accounts(&login).await, ["mallory", "mallory"]);
}
