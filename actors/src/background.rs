//! A thread of its own for work that goes on beside the requests.

use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// The thread. Dropped, it ends at the step's next wait.
pub(crate) struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts it; none where no thread can be had.
    pub(crate) fn start(name: &str, work: impl Future<Output = ()> + Send + 'static) -> Option<Self> {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = work => {}
                }
            });
        });
        Some(Background { stop: Some(stop), thread: Some(thread.ok()?) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic in there was reported there.
            let _ = thread.join();
        }
    }
}
