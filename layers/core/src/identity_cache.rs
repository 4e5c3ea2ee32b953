//! Value cached with an identity.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Key of a value that is cached with identities, see [`Identity::get_or_insert_with`]. Each new key differs from all others
/// of this process, so that a value made under replaced policies is never returned under the new ones.
///
/// [`Identity::get_or_insert_with`]: crate::Identity::get_or_insert_with
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdentityCacheKey(u64);

/// Value that is cached with an identity, and its key.
pub(crate) struct IdentityCacheEntry {
    key: IdentityCacheKey,
    value: Box<dyn Any + Send + Sync>,
}

impl IdentityCacheKey {
    /// Creates a key that differs from all others.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each key is unique, a default value is not")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl IdentityCacheEntry {
    pub(crate) fn new<T: Send + Sync + 'static>(key: IdentityCacheKey, value: T) -> Self {
        Self { key, value: Box::new(value) }
    }

    /// Returns the value if its key is `key`.
    pub(crate) fn get<T: Clone + 'static>(&self, key: IdentityCacheKey) -> Option<T> {
        if self.key == key { self.value.downcast_ref().cloned() } else { None }
    }
}

impl fmt::Debug for IdentityCacheEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdentityCacheEntry").field(&self.key).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Identity;

    #[test]
    fn value_is_computed_once_for_each_identity() {
        let (key, times) = (IdentityCacheKey::new(), Cell::new(0));
        let make = || {
            times.set(times.get() + 1);
            times.get()
        };
        let one = Identity::new("i", "s");
        assert_eq!(
            [one.get_or_insert_with(key, make), one.clone().get_or_insert_with(key, make)],
            [1, 1]
        );
        // Another token of the same caller, and the anonymous caller.
        assert_eq!(Identity::new("i", "s").get_or_insert_with(key, make), 2);
        let anonymous = Identity::anonymous();
        assert_eq!(
            [anonymous.get_or_insert_with(key, make), anonymous.get_or_insert_with(key, make)],
            [3, 4]
        );
    }

    #[test]
    fn key_never_returns_value_of_another_key() {
        let (one, other) = (IdentityCacheKey::new(), IdentityCacheKey::new());
        let identity = Identity::new("i", "s");
        assert_eq!(identity.get_or_insert_with(one, || "one"), "one");
        assert_eq!(identity.get_or_insert_with(other, || "other"), "other");
        assert_eq!(identity.get_or_insert_with(one, || "again"), "one");
        assert_eq!(identity.get_or_insert_with(one, || 7), 7);
    }
}
