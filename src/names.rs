//! Names to addresses, by the operating system's resolver. It takes a thread for each name and holds it as long as it
//! pleases: so these threads are nobody else's, and a name that many ask for at once is asked for once.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Names that are resolved at once.
pub(crate) const RESOLVERS_MAX: usize = 1_024;
/// How many of them may be names that are only looked at.
const LOOKS_MAX: usize = 32;

/// What a name was found to be, or in words why not.
pub(crate) type Found = Result<Arc<[IpAddr]>, Arc<str>>;

type Running = Arc<Mutex<HashMap<String, Shared<BoxFuture<'static, Found>>>>>;

/// A resolver, on the blocking threads of its runtime.
#[derive(Clone)]
pub(crate) struct Names {
    runtime: Handle,
    running: Running,
    looks: Arc<Semaphore>,
}

impl Names {
    pub(crate) fn new(runtime: Handle) -> Self {
        Names { runtime, running: Arc::default(), looks: Arc::new(Semaphore::new(LOOKS_MAX)) }
    }

    /// The addresses of a name.
    pub(crate) async fn resolve(&self, name: &str) -> Found {
        self.ask(name, None).await
    }

    /// The same for who only wants to look; none where too many look already.
    pub(crate) async fn look(&self, name: &str) -> Option<Found> {
        let permit = Arc::clone(&self.looks).try_acquire_owned().ok()?;
        Some(self.ask(name, Some(permit)).await)
    }

    fn ask(&self, name: &str, permit: Option<OwnedSemaphorePermit>) -> Shared<BoxFuture<'static, Found>> {
        let mut running = self.running.lock();
        if let Some(asked) = running.get(name) {
            return asked.clone();
        }
        let (own, all) = (name.to_owned(), Arc::clone(&self.running));
        let found = self.runtime.spawn_blocking(move || {
            let addresses = (own.as_str(), 0).to_socket_addrs().map(|found| found.map(|one| one.ip()).collect());
            // Held until the thread is free again, however long ago whoever asked has left.
            drop(permit);
            all.lock().remove(&own);
            addresses.map_err(|error| Arc::from(error.to_string()))
        });
        let stopping = |_| Err(Arc::from("the server is stopping"));
        let asked = async move { found.await.unwrap_or_else(stopping) }.boxed().shared();
        running.insert(name.to_owned(), asked.clone());
        asked
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_name_is_resolved_and_forgotten_and_one_that_is_none_says_so() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let names = Names::new(runtime.handle().clone());
        let found = runtime.block_on(names.resolve("localhost")).unwrap();
        assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty());
        assert!(runtime.block_on(names.resolve("nowhere.invalid")).is_err());
        assert!(names.running.lock().is_empty());
    }

    #[test]
    fn only_so_many_may_look_at_once() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let names = Names::new(runtime.handle().clone());
        let held: Vec<_> = (0..LOOKS_MAX).map(|_| Arc::clone(&names.looks).try_acquire_owned().unwrap()).collect();
        assert!(runtime.block_on(names.look("localhost")).is_none());
        drop(held);
        assert!(runtime.block_on(names.look("localhost")).unwrap().is_ok());
    }
}
