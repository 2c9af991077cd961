//! Names to addresses, by the operating system's resolver. It takes a thread for each name and
//! holds it as long as it pleases: so these threads are nobody else's, each account has a share of
//! them, and a name that an account asks for many times at once is asked for once.

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
/// How many of them may be names of one account. Names whose server is silent hold theirs for half
/// a minute each.
const ACCOUNT_MAX: usize = 16;
/// How many of them may be names that are only looked at.
const LOOKS_MAX: usize = 32;

/// What a name was found to be, or in words why not.
pub(crate) type Resolution = Result<Arc<[IpAddr]>, Arc<str>>;

type PendingLookup = Shared<BoxFuture<'static, Resolution>>;

/// Whose threads a look-up takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Share {
    /// An account's, by its number.
    Account(u32),
    /// The threads that are kept for names which are only looked at.
    Looks,
}

/// The look-ups that run, and what each account may still begin.
#[derive(Default)]
struct Table {
    /// Not shared between accounts: nobody waits for what another account has asked for.
    running: HashMap<(Share, String), PendingLookup>,
    /// One for each account that has ever asked.
    accounts: HashMap<u32, Arc<Semaphore>>,
}

/// Resolves names on the blocking threads of a runtime.
#[derive(Clone)]
pub(crate) struct NameResolver {
    runtime: Handle,
    table: Arc<Mutex<Table>>,
    looks: Arc<Semaphore>,
}

impl NameResolver {
    pub(crate) fn new(runtime: Handle) -> Self {
        NameResolver {
            runtime,
            table: Arc::default(),
            looks: Arc::new(Semaphore::new(LOOKS_MAX)),
        }
    }

    /// The addresses of a name, for this account. Waits while all threads of the account's share
    /// are taken.
    pub(crate) async fn resolve(&self, account: u32, name: &str) -> Resolution {
        let key = (Share::Account(account), name.to_owned());
        if let Some(asked) = self.running(&key) {
            return asked.await;
        }
        let share = {
            let mut table = self.table.lock();
            Arc::clone(
                table
                    .accounts
                    .entry(account)
                    .or_insert_with(|| Arc::new(Semaphore::new(ACCOUNT_MAX))),
            )
        };
        let Ok(permit) = share.acquire_owned().await else {
            return Err(Arc::from("the server is stopping"));
        };
        self.ask(key, permit).await
    }

    /// The addresses of a name that is only looked at; none where too many look already.
    pub(crate) async fn look(&self, name: &str) -> Option<Resolution> {
        let permit = Arc::clone(&self.looks).try_acquire_owned().ok()?;
        Some(self.ask((Share::Looks, name.to_owned()), permit).await)
    }

    fn running(&self, key: &(Share, String)) -> Option<PendingLookup> {
        self.table.lock().running.get(key).cloned()
    }

    fn ask(&self, key: (Share, String), permit: OwnedSemaphorePermit) -> PendingLookup {
        let mut table = self.table.lock();
        if let Some(asked) = table.running.get(&key) {
            return asked.clone();
        }
        let (own, all) = (key.clone(), Arc::clone(&self.table));
        let found = self.runtime.spawn_blocking(move || {
            let addresses = (own.1.as_str(), 0)
                .to_socket_addrs()
                .map(|found| found.map(|one| one.ip()).collect());
            all.lock().running.remove(&own);
            // Held until the thread is free again, however long ago whoever asked has left.
            drop(permit);
            addresses.map_err(|error| Arc::from(error.to_string()))
        });
        let stopping = |_| Err(Arc::from("the server is stopping"));
        let asked = async move { found.await.unwrap_or_else(stopping) }
            .boxed()
            .shared();
        table.running.insert(key, asked.clone());
        asked
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_name_is_resolved_and_forgotten_and_one_that_is_none_says_so() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let names = NameResolver::new(runtime.handle().clone());
        let found = runtime.block_on(names.resolve(1, "localhost")).unwrap();
        assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty());
        assert!(
            runtime
                .block_on(names.resolve(1, "nowhere.invalid"))
                .is_err()
        );
        assert!(names.table.lock().running.is_empty());
    }

    #[test]
    fn only_so_many_may_look_at_once() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let names = NameResolver::new(runtime.handle().clone());
        let held: Vec<_> = (0..LOOKS_MAX)
            .map(|_| Arc::clone(&names.looks).try_acquire_owned().unwrap())
            .collect();
        assert!(runtime.block_on(names.look("localhost")).is_none());
        drop(held);
        assert!(runtime.block_on(names.look("localhost")).unwrap().is_ok());
    }

    #[test]
    fn an_account_waits_for_its_own_share_and_nobody_for_anothers() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let names = NameResolver::new(runtime.handle().clone());
        let share = Arc::new(Semaphore::new(ACCOUNT_MAX));
        names.table.lock().accounts.insert(1, Arc::clone(&share));
        let held = share
            .try_acquire_many(u32::try_from(ACCOUNT_MAX).unwrap())
            .unwrap();
        let soon = std::time::Duration::from_millis(50);
        runtime.block_on(async {
            assert!(
                tokio::time::timeout(soon, names.resolve(1, "localhost"))
                    .await
                    .is_err()
            );
            assert!(names.resolve(2, "localhost").await.is_ok());
            drop(held);
            assert!(names.resolve(1, "localhost").await.is_ok());
        });
        assert_eq!(share.available_permits(), ACCOUNT_MAX);
    }
}
