//! Who decides.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use vmcp_core::{Admission, Admit, Claims, Identity, Item, Rejection, Verdict, ViewKey};

/// Decides what callers may see and do.
///
/// A closure `Fn(&Identity, &Item<'_>, Purpose<'_>) -> Verdict` is one. Since nobody knows what a
/// closure looks at, views are shared only between requests with the same claims; a type that
/// implements this trait can hand out an [`Admit`] that says less in [`Admit::view`].
pub trait Policy: Send + Sync + 'static {
    /// What `identity` may see and do. Asked once for each request: what is worked out can stay with the
    /// identity, which comes again with its token ([`Identity::keep`]). `epoch` tells the layers of a
    /// process apart and belongs into [`Admit::view`], so that nothing seen under policies that were
    /// replaced is shown again.
    fn admission(self: &Arc<Self>, identity: &Identity, epoch: u64) -> Admitting;
}

/// The answer of [`Policy::admission`].
pub enum Admitting {
    /// It is known.
    Ready(Admission),
    /// Something has to be fetched first. It fails if that cannot be had at the moment.
    Later(Pin<Box<dyn Future<Output = Result<Admission, Rejection>> + Send>>),
}

/// What for somebody wants to have an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// To know of it. Everything but [`Verdict::Hidden`] shows it.
    See,
    /// To use it with these arguments, the raw JSON of an object.
    Use(Option<&'a [u8]>),
}

/// A closure, asked for one caller.
struct Asked<F> {
    decide: Arc<F>,
    identity: Identity,
    epoch: u64,
}

impl<F> Policy for F
where
    F: Fn(&Identity, &Item<'_>, Purpose<'_>) -> Verdict + Send + Sync + 'static,
{
    fn admission(self: &Arc<Self>, identity: &Identity, epoch: u64) -> Admitting {
        let (decide, identity) = (Arc::clone(self), identity.clone());
        Admitting::Ready(Admission::new(Asked { decide, identity, epoch }))
    }
}

impl<F> Admit for Asked<F>
where
    F: Fn(&Identity, &Item<'_>, Purpose<'_>) -> Verdict + Send + Sync + 'static,
{
    fn visible(&self, item: &Item<'_>) -> bool {
        (self.decide)(&self.identity, item, Purpose::See) != Verdict::Hidden
    }

    fn admit(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Verdict {
        if self.visible(item) {
            (self.decide)(&self.identity, item, Purpose::Use(arguments))
        } else {
            Verdict::Hidden
        }
    }

    fn view(&self) -> ViewKey {
        let claims = self.identity.claims().map(Claims::object);
        ViewKey::of(&(self.epoch, &self.identity, claims))
    }
}

impl fmt::Debug for Admitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(admission) => f.debug_tuple("Ready").field(admission).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use vmcp_core::{Hints, ItemKind};

    use super::*;

    fn admission(claims: Value, epoch: u64) -> Admission {
        let Value::Object(claims) = claims else { panic!("no object") };
        let policy = |identity: &Identity, item: &Item<'_>, purpose: Purpose<'_>| match (
            identity.subject(),
            item.name,
            purpose,
        ) {
            (Some("a"), "open", Purpose::See) | (_, "lost", Purpose::Use(_)) => Verdict::Permitted,
            (Some("a"), "open", Purpose::Use(None)) => Verdict::Denied,
            _ => Verdict::Hidden,
        };
        let identity = Identity::builder("i", "a").claims(claims).build();
        match Arc::new(policy).admission(&identity, epoch) {
            Admitting::Ready(admission) => admission,
            Admitting::Later(_) => panic!("a closure needs no time"),
        }
    }

    #[test]
    fn what_a_closure_hides_it_also_denies() {
        let admission = admission(json!({}), 1);
        let item =
            |name| Item { kind: ItemKind::Tool, name, hints: Hints::default(), backend: None };
        assert_eq!(admission.admit(&item("open"), None), Verdict::Denied);
        assert_eq!(admission.admit(&item("lost"), None), Verdict::Hidden);
    }

    #[test]
    fn a_closures_view_is_that_of_its_epoch_and_all_claims() {
        let view = |claims, epoch| admission(claims, epoch).view();
        assert_eq!(view(json!({"a": 1, "b": 2}), 1), view(json!({"b": 2, "a": 1}), 1));
        assert_ne!(view(json!({"a": 1}), 1), view(json!({"a": 2}), 1));
        assert_ne!(view(json!({}), 1), view(json!({}), 2));
    }
}
