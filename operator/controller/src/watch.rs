//! Watch of one resource: a list, and the changes after it.

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{ObjectList, PartialObjectMeta, Status, TypeMeta};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use vmcp_lease::Environment;

/// Objects of one page of a list. All kinds list at the same time, and a page is decoded before its objects are cut down.
const PAGE: u32 = 100;

/// Time after which the API server ends a watch.
const WATCH_SECONDS: u32 = 290;

/// Time without any event after which the connection counts as dead. The API server ends the watch before.
const IDLE_TIMEOUT: Duration = Duration::from_secs(295);

/// Time after which a kind that the cluster lacks is looked for again.
const ABSENT_INTERVAL: Duration = Duration::from_mins(5);

/// A watch that ends sooner counts as failed.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

const FIRST_DELAY: Duration = Duration::from_millis(800);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Stream of the events of a watch.
pub(crate) type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

/// Requests for the objects of one resource.
pub(crate) trait Feed: Send + Sync + 'static {
    type Object: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static;

    fn list(
        &self,
        parameters: &ListParams,
    ) -> impl Future<Output = kube::Result<ObjectList<Self::Object>>> + Send;

    fn watch(
        &self,
        parameters: &WatchParams,
        version: &str,
    ) -> impl Future<Output = kube::Result<Events<Self::Object>>> + Send;
}

/// Feed of whole objects.
#[derive(Debug)]
pub(crate) struct Whole<K>(pub(crate) Api<K>);

/// Feed of the metadata of objects.
#[derive(Debug)]
pub(crate) struct Metadata<K>(pub(crate) Api<K>);

/// Feed of a kind that not every cluster has. Its absence means no objects.
#[derive(Debug)]
pub(crate) struct Optional<F>(pub(crate) F);

/// Consumer of the objects of a feed.
pub(crate) trait Consumer<K>: Send + Sync + 'static {
    /// The part of an object that is kept.
    type Item: Send;

    fn convert(&self, object: K) -> Self::Item;

    /// Replaces all objects.
    fn replace(&self, items: Vec<Self::Item>);

    fn put(&self, item: Self::Item);

    fn remove(&self, item: Self::Item);
}

/// Failure of a watch, which starts again after a delay.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Request(#[from] kube::Error),
    #[error("the API server sent an error: {0}")]
    Event(String),
    #[error("the watch ended at once")]
    Ended,
}

/// Position in the changes of a resource.
#[derive(Debug)]
enum Position {
    /// The objects have to be listed.
    Unknown,
    /// All changes up to this version are known.
    Version(String),
}

/// Passes the objects of a feed to a consumer until the future is dropped.
pub(crate) async fn watch<F, C>(
    feed: F,
    selector: Option<&str>,
    consumer: C,
    environment: Environment,
) where
    F: Feed,
    C: Consumer<F::Object>,
{
    let kind = F::Object::plural(&());
    let mut position = Position::Unknown;
    let mut failures = 0;
    loop {
        match step(&feed, selector, &consumer, &mut position).await {
            Ok(()) => failures = 0,
            Err(error) => {
                failures += 1;
                let delay = environment.backoff(FIRST_DELAY, LONGEST_DELAY, failures);
                tracing::warn!(resource = %kind, %error, delay_ms = delay.as_millis(), "watch failed");
                sleep(delay).await;
            }
        }
    }
}

/// Lists if necessary, and watches until the watch ends.
async fn step<F, C>(
    feed: &F,
    selector: Option<&str>,
    consumer: &C,
    position: &mut Position,
) -> Result<(), WatchError>
where
    F: Feed,
    C: Consumer<F::Object>,
{
    if let Position::Version(version) = position
        && is_reset(feed, version).await?
    {
        *position = Position::Unknown;
    }
    if let Position::Unknown = position {
        *position = Position::Version(list(feed, selector, consumer).await?);
    }
    follow(feed, selector, consumer, position).await
}

/// Returns whether the API server restarted with older data. A watch from a version that it has not reached would miss
/// changes.
async fn is_reset<F: Feed>(feed: &F, version: &str) -> Result<bool, WatchError> {
    let list = feed.list(&ListParams::default().limit(1)).await?;
    let present = list.metadata.resource_version.unwrap_or_default();
    let number = |text: &str| text.parse::<u64>().ok();
    Ok(number(&present).zip(number(version)).is_some_and(|(present, known)| present < known))
}

/// Lists all objects, and returns the version of the list.
async fn list<F, C>(feed: &F, selector: Option<&str>, consumer: &C) -> Result<String, WatchError>
where
    F: Feed,
    C: Consumer<F::Object>,
{
    let mut parameters = ListParams::default().limit(PAGE);
    parameters.label_selector = selector.map(str::to_owned);
    let mut items = Vec::new();
    loop {
        let page = feed.list(&parameters).await?;
        items.extend(page.items.into_iter().map(|object| consumer.convert(object)));
        parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if parameters.continue_token.is_none() {
            consumer.replace(items);
            return Ok(page.metadata.resource_version.unwrap_or_default());
        }
    }
}

/// Watches from a position until the watch ends.
async fn follow<F, C>(
    feed: &F,
    selector: Option<&str>,
    consumer: &C,
    position: &mut Position,
) -> Result<(), WatchError>
where
    F: Feed,
    C: Consumer<F::Object>,
{
    let Position::Version(version) = position else { return Ok(()) };
    let mut parameters = WatchParams::default().timeout(WATCH_SECONDS);
    parameters.label_selector = selector.map(str::to_owned);
    let start = Instant::now();
    let mut has_events = false;
    let mut events = match feed.watch(&parameters, version).await {
        Ok(events) => events,
        Err(kube::Error::Api(status)) if status.code == 410 => {
            *position = Position::Unknown;
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    while let Ok(Some(event)) = timeout(IDLE_TIMEOUT, events.next()).await {
        has_events = true;
        match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                advance(version, object.meta().resource_version.as_ref());
                consumer.put(consumer.convert(object));
            }
            WatchEvent::Deleted(object) => {
                advance(version, object.meta().resource_version.as_ref());
                consumer.remove(consumer.convert(object));
            }
            WatchEvent::Bookmark(bookmark) => {
                advance(version, Some(&bookmark.metadata.resource_version));
            }
            WatchEvent::Error(status) if status.code == 410 => {
                *position = Position::Unknown;
                return Ok(());
            }
            WatchEvent::Error(status) => return Err(WatchError::Event(status.message)),
        }
    }
    if has_events || start.elapsed() >= SHORTEST_WATCH { Ok(()) } else { Err(WatchError::Ended) }
}

fn advance(version: &mut String, new: Option<&String>) {
    if let Some(new) = new.filter(|new| !new.is_empty()) {
        version.clone_from(new);
    }
}

// === impl Whole ===

impl<K> Feed for Whole<K>
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    type Object = K;

    async fn list(&self, parameters: &ListParams) -> kube::Result<ObjectList<K>> {
        self.0.list(parameters).await
    }

    async fn watch(&self, parameters: &WatchParams, version: &str) -> kube::Result<Events<K>> {
        Ok(self.0.watch(parameters, version).await?.boxed())
    }
}

// === impl Metadata ===

impl<K> Feed for Metadata<K>
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    type Object = PartialObjectMeta<K>;

    async fn list(&self, parameters: &ListParams) -> kube::Result<ObjectList<Self::Object>> {
        self.0.list_metadata(parameters).await
    }

    async fn watch(
        &self,
        parameters: &WatchParams,
        version: &str,
    ) -> kube::Result<Events<Self::Object>> {
        Ok(self.0.watch_metadata(parameters, version).await?.boxed())
    }
}

// === impl Optional ===

impl<F: Feed> Feed for Optional<F> {
    type Object = F::Object;

    async fn list(&self, parameters: &ListParams) -> kube::Result<ObjectList<F::Object>> {
        match self.0.list(parameters).await {
            Err(error) if is_absent(&error) => Ok(ObjectList {
                types: TypeMeta::default(),
                metadata: ListMeta::default(),
                items: Vec::new(),
            }),
            result => result,
        }
    }

    /// Watches, or waits if the list was that of an absent kind. Then the objects have to be listed again.
    async fn watch(
        &self,
        parameters: &WatchParams,
        version: &str,
    ) -> kube::Result<Events<F::Object>> {
        if version.is_empty() {
            sleep(ABSENT_INTERVAL).await;
            return Err(list_again());
        }
        match self.0.watch(parameters, version).await {
            Err(error) if is_absent(&error) => Err(list_again()),
            result => result,
        }
    }
}

fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Returns the error of the API server for a version that it does not have any more.
fn list_again() -> kube::Error {
    kube::Error::Api(Box::new(Status { code: 410, ..Status::default() }))
}
