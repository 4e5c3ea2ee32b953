//! What everything in the service shares: the current snapshot, the sessions, the listeners.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use vmcp_core::{BudgetAccount, ByteBudget, Caller, Generation, Identity, ItemBackend};
use vmcp_session::Sessions;

use crate::backend::Link;
use crate::backend::handshake::Introduction;
use crate::backend::own::{Content, Owns};
use crate::catalog::{ByGeneration, Catalog, Catalogs, Kind, Offer, Part, combine, define_literal};
use crate::detached::{Account, DetachedBudget};
use crate::hearing::Hearing;
use crate::listen::Listeners;
use crate::mixed::Mixed;
use crate::park::Parked;
use crate::rebuild::Rebuilds;
use crate::session::Session;
use crate::settings::{BackendSettings, Checks, Limits, PartialFailure, Rules, Settings, Sharing};
use crate::shared::SharedSessions;
use crate::views::Views;
use crate::watchers::Watchers;

/// The most items of which a catalog is made beside requests: it takes less than a millisecond.
pub(crate) const FEW: usize = 2000;

/// The catalog of everything for one generation, with the backends as handles.
pub(crate) type Everything = Catalog<Arc<Link>>;

/// The catalogs of everything.
pub(crate) type Combined = Catalogs<Arc<Link>>;

/// One configuration. A request runs to its end on the one it began with; the catalog in it changes
/// as the backends do.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) partial_failure: PartialFailure,
    pub(crate) checks: Option<Checks>,
    pub(crate) rules: Rules,
    pub(crate) links: Vec<Arc<Link>>,
    /// Whether some of them offer each caller something else.
    pub(crate) per_caller: bool,
    /// What is offered to everybody.
    catalogs: ArcSwap<Combined>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Hub {
    snapshot: ArcSwap<Snapshot>,
    pub(crate) rebuilds: Rebuilds,
    watchers: Watchers,
    pub(crate) sessions: Sessions<Session>,
    pub(crate) listeners: Listeners,
    pub(crate) shared: SharedSessions,
    pub(crate) views: Arc<Views>,
    pub(crate) mixed: Mixed,
    pub(crate) hearing: Hearing,
    pub(crate) parked: Parked,
    pub(crate) detached: Arc<DetachedBudget>,
    pub(crate) limits: Limits,
    pub(crate) seal: crate::seal::Seal,
}

/// Who the gateway says it is, to backends that nobody asked for yet.
#[derive(Debug)]
pub(crate) struct Myself(Vec<u8>);

impl Myself {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn get(&self) -> Introduction<'_> {
        // Some servers show certain tools only to clients that can be asked. The catalog is for all
        // clients, so it has to have those too; whoever cannot be asked is told so by the call. Others show
        // certain tools only to clients that can show user interfaces.
        let capabilities = br#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#;
        let caller = &Caller::Gateway;
        Introduction { caller, capabilities, client: &self.0, cause: None, address: None }
    }

    /// The same, asking in the name of a caller.
    pub(crate) fn on_behalf_of<'a>(&'a self, caller: &'a Caller) -> Introduction<'a> {
        Introduction { caller, ..self.get() }
    }

    /// Who asks a backend what it speaks: whoever has credentials for it.
    pub(crate) fn before<'a>(&'a self, link: &Link, caller: &'a Caller) -> Introduction<'a> {
        if link.shared() { self.get() } else { self.on_behalf_of(caller) }
    }
}

impl Snapshot {
    fn new(settings: Settings, old: Option<&Self>, budget: Option<&ByteBudget>) -> Self {
        let Settings { name, version, backends, rules, partial_failure, checks } = settings;
        let kept: HashMap<_, _> = old
            .iter()
            .flat_map(|old| &old.links)
            .map(|link| ((link.backend.clone(), link.fingerprint), Arc::clone(link)))
            .collect();
        let link = |backend: BackendSettings| {
            let known = kept.get(&(backend.backend.clone(), backend.fingerprint));
            // What is a caller's own must not become everybody's.
            match known.filter(|link| link.shared() == (backend.catalog == Sharing::Shared)) {
                Some(link) => {
                    link.retune(&backend);
                    Arc::clone(link)
                }
                None => Link::new(backend, budget.cloned()),
            }
        };
        let links: Vec<_> = backends.into_iter().map(link).collect();
        let none = combine(&[], &[], &rules);
        let snapshot = Self {
            name,
            version,
            partial_failure,
            checks,
            rules,
            per_caller: links.iter().any(|link| !link.shared()),
            links,
            catalogs: ArcSwap::from_pointee(none),
        };
        snapshot.store(snapshot.combine(&[]));
        snapshot
    }

    /// The catalogs, for a short look: cheaper than a reference of one's own.
    pub(crate) fn look(&self) -> arc_swap::Guard<Arc<Combined>> {
        self.catalogs.load()
    }

    pub(crate) fn catalogs(&self) -> Arc<Combined> {
        self.catalogs.load_full()
    }

    /// The catalog for clients of one generation.
    pub(crate) fn catalog(&self, generation: Generation) -> Arc<Everything> {
        Arc::clone(self.catalogs.load().of(generation))
    }

    pub(crate) fn store(&self, catalogs: Combined) {
        self.catalogs.store(Arc::new(catalogs));
    }

    /// Waits for first offers that are still on their way, each for a while from when it was asked
    /// for first.
    pub(crate) async fn settle(&self) {
        let patience = self.patience();
        for link in self.links.iter().filter(|link| link.shared()) {
            link.settled(patience).await;
        }
    }

    /// How long a first offer is waited for.
    pub(crate) fn patience(&self) -> Duration {
        match self.partial_failure {
            PartialFailure::Fail => Duration::from_secs(5),
            PartialFailure::BestEffort => Duration::from_secs(1),
        }
    }

    /// How many items the backends offer to everybody.
    pub(crate) fn items(&self) -> usize {
        self.links.iter().map(|link| link.offers.load().len()).sum()
    }

    /// Whether callers may be offered something else of what is their own than under `old`.
    fn per_caller_changed(&self, old: &Self) -> bool {
        let own = |links: &[Arc<Link>]| -> Vec<_> {
            links.iter().filter(|link| !link.shared()).map(Arc::as_ptr).collect()
        };
        let (own, before) = (own(&self.links), own(&old.links));
        own != before || !own.is_empty() && self.rules != old.rules
    }

    /// What everybody is offered, together with a caller's own offers: one for each backend that has
    /// such, in their order.
    pub(crate) fn combine(&self, own: &[Option<Arc<Content>>]) -> Combined {
        let offers: Vec<_> = self.links.iter().map(|link| link.offers.load_full()).collect();
        let (mut own, none) = (own.iter(), Offer::default());
        let parts: Vec<_> = self
            .links
            .iter()
            .zip(&offers)
            .filter_map(|(link, offer)| {
                let offers = if link.shared() { &**offer } else { &own.next()?.as_ref()?.offers };
                let only = offers.only_generation();
                let offers = offers.known(&none)?;
                Some(Part { name: link.name(), link: Arc::clone(link), offers, only })
            })
            .collect();
        let backends: Vec<_> = self.links.iter().map(|link| link.name()).collect();
        combine(&parts, &backends, &self.rules)
    }
}

impl Everything {
    /// What policies are told of the backend `link`, for a client of this generation.
    pub(crate) fn item_backend<'a>(&self, link: &'a Link, client: Generation) -> ItemBackend<'a> {
        ItemBackend { name: link.name(), generation: self.spoken(link.name(), client) }
    }

    /// What policies are told of the backend of a listed item.
    pub(crate) fn backend_of(
        &self,
        kind: Kind,
        name: &str,
        client: Generation,
    ) -> Option<ItemBackend<'_>> {
        self.owner(kind, name).map(|link| self.item_backend(link, client))
    }
}

impl Hub {
    pub(crate) fn new(settings: Settings, limits: Limits, seal: crate::seal::Seal) -> Arc<Self> {
        let hub = Arc::new(Self {
            snapshot: ArcSwap::from_pointee(Snapshot::new(
                settings,
                None,
                limits.buffered.as_ref(),
            )),
            rebuilds: Rebuilds::default(),
            watchers: Watchers::default(),
            sessions: Sessions::new(limits.sessions, limits.session_ttl)
                .in_use_while(Session::in_use),
            listeners: Listeners::new(limits.listeners),
            shared: SharedSessions::default(),
            views: Arc::new(Views::new()),
            mixed: Mixed::new(),
            hearing: Hearing::default(),
            parked: Parked::new(limits.parked, limits.parked_per_identity),
            detached: DetachedBudget::new(limits.detached_bytes),
            limits,
            seal,
        });
        hub.observe_all();
        hub
    }

    /// The accounts of what waits for a client, connected or not.
    pub(crate) fn account(&self, identity: &Identity, address: Option<IpAddr>) -> Account {
        Account::new(&self.detached, self.limits.buffered.as_ref(), identity, address)
    }

    /// The account of a client in the budget of the process, if that has one.
    pub(crate) fn process_account(
        &self,
        identity: &Identity,
        address: Option<IpAddr>,
    ) -> Option<BudgetAccount> {
        let budget = self.limits.buffered.as_ref()?;
        Some(budget.account(budget.caller(identity, address)))
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// `seen` with the first offers that were still on their way, or what has replaced it meanwhile:
    /// nobody fetches what only an older configuration has.
    pub(crate) async fn settled(&self, seen: &Arc<Snapshot>) -> Arc<Snapshot> {
        let mut snapshot = Arc::clone(seen);
        loop {
            snapshot.settle().await;
            let newest = self.snapshot();
            if Arc::ptr_eq(&newest, &snapshot) {
                return snapshot;
            }
            snapshot = newest;
        }
    }

    /// Takes over another configuration. Backends that are the same keep everything.
    pub(crate) async fn reload(self: &Arc<Self>, settings: Settings) {
        let guard = self.rebuilds.hold().await;
        let old = self.snapshot();
        let new = Arc::new(Snapshot::new(settings, Some(&old), self.limits.buffered.as_ref()));
        let mut changes = new.catalogs().changes(&old.catalogs());
        if new.per_caller_changed(&old) {
            changes = ByGeneration::both(Kind::ALL.to_vec());
        }
        self.snapshot.store(Arc::clone(&new));
        drop(guard);
        self.observe_all();
        let kept = |link: &Arc<Link>| new.links.iter().any(|kept| Arc::ptr_eq(kept, link));
        old.links.iter().filter(|link| !kept(link)).for_each(|link| link.retire());
        self.tell(&changes);
        self.sessions.for_each(|session| session.keep_only(&new.links));
        self.listeners.keep_only(&new.links);
        self.shared.keep_only(&new.links);
    }

    /// Tells one caller that it is offered something else.
    pub(crate) fn tell_caller(&self, caller: &Identity, changes: &ByGeneration<Vec<Kind>>) {
        let ByGeneration { stateful, stateless } = changes;
        if !stateful.is_empty() {
            self.sessions.for_each(|session| {
                if session.caller().identity() == caller {
                    session.lists_changed(stateful);
                }
            });
        }
        self.listeners.lists_changed(stateless, Some(caller));
    }

    /// Tells the clients of each generation which of their lists are not what they were.
    pub(crate) fn tell(&self, changes: &ByGeneration<Vec<Kind>>) {
        let ByGeneration { stateful, stateless } = changes;
        if !stateful.is_empty() {
            self.sessions.for_each(|session| session.lists_changed(stateful));
        }
        self.listeners.lists_changed(stateless, None);
    }

    /// What the gateway says of itself in `clientInfo`.
    pub(crate) fn introduction(&self) -> Myself {
        let snapshot = self.snapshot.load();
        let mut info = b"{\"name\":".to_vec();
        info.extend_from_slice(&define_literal(&snapshot.name));
        info.extend_from_slice(b",\"version\":");
        info.extend_from_slice(&define_literal(&snapshot.version));
        info.push(b'}');
        Myself(info)
    }

    /// Looks after the backends of the snapshot and no others.
    fn observe_all(self: &Arc<Self>) {
        let snapshot = self.snapshot();
        self.watchers.follow(self, &snapshot.links, snapshot.checks);
    }

    /// Lets go of everything that is over.
    pub(crate) fn sweep(&self) {
        for session in self.sessions.sweep() {
            session.end();
        }
        self.sessions.for_each(|session| session.prune(self.limits.parked_for));
        self.shared.sweep();
        self.views.sweep();
        self.mixed.sweep();
        let snapshot = self.snapshot();
        snapshot.links.iter().filter_map(|link| link.own.as_ref()).for_each(Owns::sweep);
    }

    /// Ends everything that runs by itself.
    pub(crate) fn shut_down(&self) {
        self.watchers.end();
        self.sessions.for_each(|session| session.end());
        self.shared.end();
    }
}
