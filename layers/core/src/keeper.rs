//! Something that goes with an identity.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Key of a value that is kept with identities, see [`Identity::keep`]. Each new key differs from all others of this
/// process, so that a value made under replaced policies is never returned under the new ones.
///
/// [`Identity::keep`]: crate::Identity::keep
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Keeper(u64);

/// Value that is kept with an identity, and its key.
pub(crate) struct Kept {
    keeper: Keeper,
    what: Box<dyn Any + Send + Sync>,
}

impl Keeper {
    /// One that keeps nothing yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "no two are alike, as those by default are")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Kept {
    pub(crate) fn new<T: Send + Sync + 'static>(keeper: Keeper, what: T) -> Self {
        Self { keeper, what: Box::new(what) }
    }

    /// Returns the value of `keeper`.
    pub(crate) fn of<T: Clone + 'static>(&self, keeper: Keeper) -> Option<T> {
        if self.keeper == keeper { self.what.downcast_ref().cloned() } else { None }
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.keeper).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Identity;

    #[test]
    fn what_is_kept_is_made_once_and_stays_with_the_identity() {
        let (keeper, times) = (Keeper::new(), Cell::new(0));
        let make = || {
            times.set(times.get() + 1);
            times.get()
        };
        let one = Identity::new("i", "s");
        assert_eq!([one.keep(keeper, make), one.clone().keep(keeper, make)], [1, 1]);
        // Another token of the same caller, and the anonymous caller.
        assert_eq!(Identity::new("i", "s").keep(keeper, make), 2);
        let nobody = Identity::anonymous();
        assert_eq!([nobody.keep(keeper, make), nobody.keep(keeper, make)], [3, 4]);
    }

    #[test]
    fn nobody_gets_what_somebody_else_keeps() {
        let (one, other) = (Keeper::new(), Keeper::new());
        let identity = Identity::new("i", "s");
        assert_eq!(identity.keep(one, || "one"), "one");
        assert_eq!(identity.keep(other, || "other"), "other");
        assert_eq!(identity.keep(one, || "again"), "one");
        assert_eq!(identity.keep(one, || 7), 7);
    }
}
