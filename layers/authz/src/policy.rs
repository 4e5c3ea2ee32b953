//! The policy trait.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use vmcp_core::{
    Authorizer, CallerPermissions, Claims, Decision, Fingerprint, Identity, Item, Rejection,
};

/// Authorization policy.
///
/// A closure `Fn(&Identity, &Item<'_>, Action<'_>) -> Decision` is a policy. The inputs of a closure are unknown, so
/// views are shared only between requests with the same claims; a type that implements this trait can return an
/// [`Authorizer`] with a less specific [`Authorizer::visibility_key`].
pub trait Policy: Send + Sync + 'static {
    /// Returns the permissions of `identity`. Called once per request; results can be cached in the identity, which is
    /// shared by the requests with the same token ([`Identity::get_or_insert_with`]). `epoch` distinguishes the layers of a
    /// process and must be part of [`Authorizer::visibility_key`], so that no view of a replaced policy is reused.
    fn permissions(self: &Arc<Self>, identity: &Identity, epoch: u64) -> PermissionsFuture;
}

/// Result of [`Policy::permissions`].
pub enum PermissionsFuture {
    /// The permissions.
    Ready(CallerPermissions),
    /// Permissions that depend on data to fetch. Fails if the data is unavailable.
    Pending(Pin<Box<dyn Future<Output = Result<CallerPermissions, Rejection>> + Send>>),
}

/// Action on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// The item appears in a list. Every decision but [`Decision::Hide`] permits it.
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
    F: Fn(&Identity, &Item<'_>, Action<'_>) -> Decision + Send + Sync + 'static,
{
    fn permissions(self: &Arc<Self>, identity: &Identity, epoch: u64) -> PermissionsFuture {
        let (closure, identity) = (Arc::clone(self), identity.clone());
        PermissionsFuture::Ready(CallerPermissions::new(ClosureAuthorizer {
            closure,
            identity,
            epoch,
        }))
    }
}

impl<F> Authorizer for ClosureAuthorizer<F>
where
    F: Fn(&Identity, &Item<'_>, Action<'_>) -> Decision + Send + Sync + 'static,
{
    fn is_visible(&self, item: &Item<'_>) -> bool {
        (self.closure)(&self.identity, item, Action::List) != Decision::Hide
    }

    fn authorize(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Decision {
        if self.is_visible(item) {
            (self.closure)(&self.identity, item, Action::Call(arguments))
        } else {
            Decision::Hide
        }
    }

    fn visibility_key(&self) -> Fingerprint {
        let claims = self.identity.claims().map(Claims::object);
        Fingerprint::of(&(self.epoch, &self.identity, claims))
    }
}

impl fmt::Debug for PermissionsFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(permissions) => f.debug_tuple("Ready").field(permissions).finish(),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use vmcp_core::{ItemKind, ToolAnnotations};

    use super::*;

    fn permissions(claims: Value, epoch: u64) -> CallerPermissions {
        let Value::Object(claims) = claims else { panic!("no object") };
        let policy = |identity: &Identity, item: &Item<'_>, action: Action<'_>| match (
            identity.subject(),
            item.name,
            action,
        ) {
            (Some("a"), "open", Action::List) | (_, "lost", Action::Call(_)) => Decision::Allow,
            (Some("a"), "open", Action::Call(None)) => Decision::Deny,
            _ => Decision::Hide,
        };
        let identity = Identity::builder("i", "a").claims(claims).build();
        match Arc::new(policy).permissions(&identity, epoch) {
            PermissionsFuture::Ready(permissions) => permissions,
            PermissionsFuture::Pending(_) => panic!("closures return permissions immediately"),
        }
    }

    #[test]
    fn closure_denies_hidden_items() {
        let permissions = permissions(json!({}), 1);
        let item = |name| Item {
            kind: ItemKind::Tool,
            name,
            annotations: ToolAnnotations::default(),
            backend: None,
        };
        assert_eq!(permissions.authorize(&item("open"), None), Decision::Deny);
        assert_eq!(permissions.authorize(&item("lost"), None), Decision::Hide);
    }

    #[test]
    fn closure_view_depends_on_epoch_and_claims() {
        let view = |claims, epoch| permissions(claims, epoch).visibility_key();
        assert_eq!(view(json!({"a": 1, "b": 2}), 1), view(json!({"b": 2, "a": 1}), 1));
        assert_ne!(view(json!({"a": 1}), 1), view(json!({"a": 2}), 1));
        assert_ne!(view(json!({}), 1), view(json!({}), 2));
    }
}
