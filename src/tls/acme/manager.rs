//! When which certificate is ordered: before the first is there, before one ends, and again after a
//! failure, each time later. It also brings in what another node has had issued.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::authority::OrderError;
use super::certificates::Issued;
use super::domains::Names;
use super::lease::{Lease, Leases};
use super::storage::{CERTIFICATES, FAILURES, Failure, StorageError};
use super::suggestions::Suggestions;
use super::{Acme, now};
use crate::tls::days_until;

/// The first wait after a failure, in seconds …
const FIRST_WAIT_SECONDS: i64 = 60;
/// … and the longest, to which each doubles.
const LONGEST_WAIT_SECONDS: i64 = 86_400;
/// How soon is looked again whether another node's order has ended.
const LEASE_LOOK: Duration = Duration::from_secs(2);
/// An order that takes longer has failed.
const ORDER_MAX: Duration = Duration::from_secs(240);

/// Orders what is missing, for as long as the process runs. The storage is looked at this often.
pub(crate) async fn keep_certificates(acme: Arc<Acme>, every: Duration) -> Infallible {
    let mut manager = Manager {
        leases: Leases::new(Arc::clone(&acme.storage)),
        seen: BTreeMap::new(),
        told: None,
        unkept: BTreeSet::new(),
        damaged: BTreeMap::new(),
        suggestions: Suggestions::default(),
        acme: Arc::clone(&acme),
        every,
    };
    let mut changes = acme.domains.changes();
    loop {
        let wait = manager.turn().await;
        tokio::select! {
            () = sleep(wait) => {}
            // The sender lives as long as this does.
            _ = changes.changed() => {}
            () = acme.try_again.notified() => manager.lift_waits().await,
        }
    }
}

/// What a node knows of certificates and orders.
struct Manager {
    acme: Arc<Acme>,
    every: Duration,
    leases: Leases,
    /// Which version of each file was read, by its kind and name.
    seen: BTreeMap<(&'static str, String), Option<String>>,
    /// What was wrong with the storage, where the log says so already.
    told: Option<String>,
    /// Names of which the storage did not take that their order has failed.
    unkept: BTreeSet<String>,
    /// Names of which a file can't be read, and why: nothing is ordered for them, which would replace it.
    damaged: BTreeMap<String, String>,
    suggestions: Suggestions,
}

impl Manager {
    /// Looks, and orders what is to be ordered; gives how long nothing is to be done.
    async fn turn(&mut self) -> Duration {
        if !self.look().await {
            return self.every;
        }
        let acme = Arc::clone(&self.acme);
        self.suggestions
            .refresh(&acme.authority, &acme.certificates, &acme.domains.wanted())
            .await;
        if self.due().is_empty() {
            return self.idle();
        }
        match self.leases.take().await {
            Ok(Some(lease)) => {
                self.order_all(lease).await;
                self.idle()
            }
            Ok(None) => LEASE_LOOK.min(self.every),
            Err(error) => {
                self.tell(&error);
                self.every
            }
        }
    }

    /// How long nothing is to be done: until the next name is due, and no longer than between looks.
    fn idle(&self) -> Duration {
        let next = self.acme.domains.wanted();
        let next = next.iter().map(|name| self.due_at(name)).min();
        let seconds = next.map_or(i64::MAX, |at| (at - now()).max(1));
        self.every.min(Duration::from_secs(seconds.unsigned_abs()))
    }

    /// When the certificate of a name is to be ordered, in seconds since 1970.
    fn due_at(&self, name: &str) -> i64 {
        let acme = &self.acme;
        let renewed = acme.certificates.issued(name).map_or(0, |issued| {
            let at = issued.renewed_at(acme.renew_before_days);
            let suggested = self.suggestions.at(name, issued.ends());
            suggested.map_or(at, |suggested| suggested.min(at))
        });
        let failures = acme.failures.lock();
        let waits = failures.get(name).map_or(0, |failure| failure.next_at);
        renewed.max(waits).max(acme.authority.alone_until())
    }

    /// Has failed orders wait no more. What the authority itself asks for holds on.
    async fn lift_waits(&mut self) {
        // What the storage holds of a failure is read once: after this, not after what is lifted here.
        self.look().await;
        for failure in self.acme.failures.lock().values_mut() {
            failure.next_at = 0;
        }
    }

    fn due(&self) -> Vec<String> {
        let wanted = self.acme.domains.wanted();
        let is_due = |name: &&String| self.due_at(name) <= now();
        wanted.iter().filter(is_due).cloned().collect()
    }

    /// Takes over what has changed in the storage; whether it could be looked at.
    async fn look(&mut self) -> bool {
        let wanted = self.acme.domains.wanted();
        match self.read_changes(&wanted).await {
            Ok(()) => {
                self.told = None;
                self.acme.certificates.keep_only(&wanted);
                // One whose name comes back is read again.
                self.seen.retain(|(_, name), _| wanted.contains(name));
                true
            }
            Err(error) => {
                self.tell(&error);
                false
            }
        }
    }

    /// Says once what is wrong with the storage.
    fn tell(&mut self, error: &StorageError) {
        let error = error.to_string();
        if self.told.as_ref() != Some(&error) {
            tracing::warn!(
                error,
                "certificates are neither looked for nor ordered: those in force hold on"
            );
        }
        self.told = Some(error);
    }

    async fn read_changes(&mut self, wanted: &Names) -> Result<(), StorageError> {
        let mut damaged = BTreeMap::new();
        self.read_certificates(wanted, &mut damaged).await?;
        self.read_failures(wanted, &mut damaged).await?;
        for (name, problem) in &damaged {
            if self.damaged.get(name) != Some(problem) {
                tracing::warn!(
                    name,
                    problem,
                    "no certificate is ordered for this name until the file is mended or deleted"
                );
            }
        }
        self.damaged = damaged;
        Ok(())
    }

    async fn read_certificates(
        &mut self,
        wanted: &Names,
        damaged: &mut BTreeMap<String, String>,
    ) -> Result<(), StorageError> {
        let storage = Arc::clone(&self.acme.storage);
        for (name, version) in storage.versions(CERTIFICATES).await? {
            let place = (CERTIFICATES, name.clone());
            if !wanted.contains(&name) || self.is_seen(&place, &version) {
                continue;
            }
            let kept = storage.certificate(&name).await;
            let Some(kept) = undamaged(&name, kept, damaged)? else {
                continue;
            };
            match Issued::of(&name, &kept.chain, &kept.key) {
                Ok(issued) => self.take_over(&name, issued),
                Err(error) => tracing::warn!(
                    name,
                    error,
                    "a certificate that is kept can't be used: another one is ordered"
                ),
            }
            self.seen.insert(place, version);
        }
        Ok(())
    }

    async fn read_failures(
        &mut self,
        wanted: &Names,
        damaged: &mut BTreeMap<String, String>,
    ) -> Result<(), StorageError> {
        let storage = Arc::clone(&self.acme.storage);
        let versions = storage.versions(FAILURES).await?;
        let mut failures = self.acme.failures.lock().clone();
        failures.retain(|name, _| {
            !self.damaged.contains_key(name)
                && (versions.contains_key(name) || self.unkept.contains(name))
        });
        for (name, version) in versions {
            let place = (FAILURES, name.clone());
            if !wanted.contains(&name)
                || self.is_seen(&place, &version) && failures.contains_key(&name)
            {
                continue;
            }
            let failure = storage.failure(&name).await;
            let Some(failure) = undamaged(&name, failure, damaged)? else {
                continue;
            };
            failures.insert(name, failure);
            self.seen.insert(place, version);
        }
        // An order would replace what can't be read.
        for (name, problem) in &*damaged {
            let held = Failure {
                failures: 0,
                problem: problem.clone(),
                failed_at: now(),
                next_at: i64::MAX,
            };
            failures.insert(name.clone(), held);
        }
        *self.acme.failures.lock() = failures;
        Ok(())
    }

    fn is_seen(&self, place: &(&'static str, String), version: &Option<String>) -> bool {
        let seen = self.seen.get(place);
        seen.is_some_and(|seen| version.is_some() && seen == version)
    }

    /// Lets a certificate hold, unless it does already.
    fn take_over(&self, name: &str, issued: Issued) {
        let days_left = days_until(issued.ends());
        if self.acme.certificates.put(name, issued) {
            tracing::info!(name, days_left, "a TLS certificate is in force");
        }
    }

    /// Orders what is due, while the lease is kept.
    async fn order_all(&mut self, lease: Lease) {
        tokio::select! {
            () = self.order_each() => {}
            never = lease.keep() => match never {},
        }
        if let Err(error) = lease.release().await {
            self.tell(&error);
        }
    }

    async fn order_each(&mut self) {
        // Whoever held the lease before may have done it.
        if !self.look().await {
            return;
        }
        for name in self.due() {
            // What one order was answered may hold for the next ones.
            if self.due_at(&name) > now() {
                continue;
            }
            let ordered = timeout(ORDER_MAX, self.order(&name)).await;
            let counts = &self.acme.orders;
            match ordered.unwrap_or_else(|_| Err("it took too long".to_owned())) {
                Ok(issued) => {
                    counts.issued.fetch_add(1, Ordering::Relaxed);
                    self.acme.failures.lock().remove(&name);
                    self.unkept.remove(&name);
                    self.take_over(&name, issued);
                }
                Err(problem) => {
                    counts.failed.fetch_add(1, Ordering::Relaxed);
                    self.failed(&name, problem).await;
                }
            }
        }
    }

    async fn order(&self, name: &str) -> Result<Issued, String> {
        let acme = &self.acme;
        let one = async || {
            let account = acme.authority.account().await?;
            acme.authority.order(&account, &acme.challenges, name).await
        };
        let issued = match one().await {
            Err(error) if error.is_of_account() => {
                tracing::warn!(%error, "the authority does not know the account: another one is made");
                let gone = acme.storage.delete_account().await;
                gone.map_err(|error| error.to_string())?;
                one().await
            }
            issued => issued,
        };
        issued.map_err(|error: OrderError| error.to_string())
    }

    /// Notes that an order has failed, for all nodes: the next one is tried later each time.
    async fn failed(&mut self, name: &str, problem: String) {
        let failed_at = now();
        let before = self.acme.failures.lock().get(name).map(|one| one.failures);
        let failures = before.unwrap_or(0).saturating_add(1);
        let next_at = failed_at + wait_seconds(failures, colloquy_model::random::u64());
        let failure = Failure {
            failures,
            problem,
            failed_at,
            next_at: next_at.max(self.acme.authority.alone_until()),
        };
        tracing::warn!(
            name,
            problem = failure.problem,
            next_in_seconds = failure.next_at - failed_at,
            "no TLS certificate was issued: SIGHUP has it tried at once"
        );
        let kept = self.acme.storage.put_failure(name, &failure).await;
        if let Err(error) = kept {
            tracing::warn!(%error, "other nodes do not know of it");
            self.unkept.insert(name.to_owned());
        }
        self.acme.failures.lock().insert(name.to_owned(), failure);
    }
}

/// What was read for a name; none where it is gone, or damaged, which is noted.
fn undamaged<T>(
    name: &str,
    read: Result<Option<T>, StorageError>,
    damaged: &mut BTreeMap<String, String>,
) -> Result<Option<T>, StorageError> {
    match read {
        Err(error @ StorageError::Damaged { .. }) => {
            damaged.insert(name.to_owned(), error.to_string());
            Ok(None)
        }
        read => read,
    }
}

/// How long to wait after so many failures: twice as long each time, and a fifth more or less, so that
/// many servers do not come at once.
fn wait_seconds(failures: u32, chance: u64) -> i64 {
    let doublings = failures.saturating_sub(1).min(20);
    let wait = (FIRST_WAIT_SECONDS << doublings).min(LONGEST_WAIT_SECONDS);
    let spread = wait / 5;
    let chance = i64::try_from(chance % 1_000).unwrap_or(0);
    wait - spread + 2 * spread * chance / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_a_minute_to_a_day_and_vary_by_a_fifth() {
        for (failures, least, most) in [
            (1, 48, 72),
            (2, 96, 144),
            (5, 768, 1_152),
            (12, 69_120, 103_680),
            (u32::MAX, 69_120, 103_680),
        ] {
            for chance in [0, 500, 999] {
                let wait = wait_seconds(failures, chance);
                assert!((least..=most).contains(&wait), "{failures}: {wait}");
            }
            assert_ne!(wait_seconds(failures, 0), wait_seconds(failures, 999));
        }
    }
}
