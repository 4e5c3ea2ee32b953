//! Sessions of a backend that are being closed in the background.

use std::future::Future;
use std::sync::Arc;

use super::BackendHandle;

/// Guard that counts a session until it is closed.
struct PendingClose(Arc<BackendHandle>);

impl PendingClose {
    fn new(backend: &Arc<BackendHandle>) -> Self {
        backend.closing.send_modify(|count| *count += 1);
        Self(Arc::clone(backend))
    }
}

impl Drop for PendingClose {
    fn drop(&mut self) {
        // Cannot underflow: each guard has counted itself.
        self.0.closing.send_modify(|count| *count -= 1);
    }
}

impl BackendHandle {
    /// Closes a session in the background. [`closed`](Self::closed) waits for it. Outside a runtime, nothing is sent.
    pub(crate) fn spawn_close(self: &Arc<Self>, close: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let pending = PendingClose::new(self);
        runtime.spawn(async move {
            close.await;
            drop(pending);
        });
    }

    /// Waits until no session of this backend is being closed.
    pub(crate) async fn closed(&self) {
        let closed = self.closing.subscribe().wait_for(|count| *count == 0).await.map(drop);
        closed.expect("the sender is owned by `self`");
    }
}
