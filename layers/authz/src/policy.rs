//! The policy trait.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use vmcp_core::{Admission, Admit, Claims, Identity, Item, Rejection, Verdict, ViewKey};

/// Authorization policy.
///
/// A closure `Fn(&Identity, &Item<'_>, Action<'_>) -> Verdict` is a policy. The inputs of a closure are unknown, so
/// views are shared only between requests with the same claims; a type that implements this trait can return an
/// [`Admit`] with a less specific [`Admit::view`].
pub trait Policy: Send + Sync + 'static {
    /// Returns the permissions of `identity`. Called once per request; results can be cached in the identity, which is
    /// shared by the requests with the same token ([`Identity::keep`]). `epoch` distinguishes the layers of a process
    /// and must be part of [`Admit::view`], so that no view of a replaced policy is reused.
    fn permissions(self: &Arc<Self>, identity: &Identity, epoch: u64) -> PermissionsFuture;
}

/// Result of [`Policy::permissions`].
pub enum PermissionsFuture {
    /// The permissions.
    Ready(Admission),
    /// Permissions that depend on data to fetch. Fails if the data is unavailable.
    Pending(Pin<Box<dyn Future<Output = Result<Admission, Rejection>> + Send>>),
}

/// Action on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// The item appears in a list. Every verdict but [`Verdict::Hidden`] permits it.
    List,
    /// The item is used with these arguments, the raw JSON of an object.
    Call(Option<&'a [u8]>),
}

/// Authorizer that calls a closure for one caller.
struct ClosureAuthorizer<F> {
    closure: Arc<F>,
    identity: Identity,
    epoch: u64,
}

impl<F> Policy for F
where
    F: Fn(&Identity, &Item<'_>, Action<'_>) -> Verdict + Send + Sync + 'static,
{
    fn permissions(self: &Arc<Self>, identity: &Identity, epoch: u64) -> PermissionsFuture {
        let (closure, identity) = (Arc::clone(self), identity.clone());
        PermissionsFuture::Ready(Admission::new(ClosureAuthorizer { closure, identity, epoch }))
    }
}

impl<F> Admit for ClosureAuthorizer<F>
where
    F: Fn(&Identity, &Item<'_>, Action<'_>) -> Verdict + Send + Sync + 'static,
{
    fn visible(&self, item: &Item<'_>) -> bool {
        (self.closure)(&self.identity, item, Action::List) != Verdict::Hidden
    }

    fn admit(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Verdict {
        if self.visible(item) {
            (self.closure)(&self.identity, item, Action::Call(arguments))
        } else {
            Verdict::Hidden
        }
    }

    fn view(&self) -> ViewKey {
        let claims = self.identity.claims().map(Claims::object);
        ViewKey::of(&(self.epoch, &self.identity, claims))
    }
}

impl fmt::Debug for PermissionsFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(admission) => f.debug_tuple("Ready").field(admission).finish(),
            Self::Pending(_) => f.write_str("Pending"),
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
        let policy = |identity: &Identity, item: &Item<'_>, action: Action<'_>| match (
            identity.subject(),
            item.name,
            action,
        ) {
            (Some("a"), "open", Action::List) | (_, "lost", Action::Call(_)) => Verdict::Permitted,
            (Some("a"), "open", Action::Call(None)) => Verdict::Denied,
            _ => Verdict::Hidden,
        };
        let identity = Identity::builder("i", "a").claims(claims).build();
        match Arc::new(policy).permissions(&identity, epoch) {
            PermissionsFuture::Ready(admission) => admission,
            PermissionsFuture::Pending(_) => panic!("closures return permissions immediately"),
        }
    }

    #[test]
    fn closure_denies_what_it_hides() {
        let admission = admission(json!({}), 1);
        let item =
            |name| Item { kind: ItemKind::Tool, name, hints: Hints::default(), backend: None };
        assert_eq!(admission.admit(&item("open"), None), Verdict::Denied);
        assert_eq!(admission.admit(&item("lost"), None), Verdict::Hidden);
    }

    #[test]
    fn closure_view_depends_on_epoch_and_claims() {
        let view = |claims, epoch| admission(claims, epoch).view();
        assert_eq!(view(json!({"a": 1, "b": 2}), 1), view(json!({"b": 2, "a": 1}), 1));
        assert_ne!(view(json!({"a": 1}), 1), view(json!({"a": 2}), 1));
        assert_ne!(view(json!({}), 1), view(json!({}), 2));
    }
}
