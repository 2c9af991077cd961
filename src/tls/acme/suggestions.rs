//! When the authority suggests that certificates are renewed (ARI, RFC 9773): earlier than they would
//! be where it has to take some back, and spread where many would come at once.

use std::collections::BTreeMap;

use super::authority::Authority;
use super::certificates::Certificates;
use super::domains::Names;
use super::now;

/// Between two questions for one certificate, in seconds: what the authority says, within these.
const AGAIN_SECONDS: std::ops::RangeInclusive<i64> = 3_600..=86_400;

/// What was suggested for one certificate. Times are in seconds since 1970.
#[derive(Debug)]
struct Suggestion {
    /// Of which certificate: when that ends.
    ends: i64,
    /// A point of the window that was suggested, by chance; none where the authority did not say.
    at: Option<i64>,
    window: (i64, i64),
    ask_again_at: i64,
}

/// What was suggested for each name.
#[derive(Debug, Default)]
pub(super) struct Suggestions(BTreeMap<String, Suggestion>);

impl Suggestions {
    /// When the certificate of this name that ends then is to be renewed.
    pub(super) fn at(&self, name: &str, ends: i64) -> Option<i64> {
        let suggestion = self.0.get(name).filter(|one| one.ends == ends);
        suggestion.and_then(|one| one.at)
    }

    /// Asks again for the certificates for which it is time to, until one question is not answered: an
    /// order is not to wait behind many of those. That certificate is asked for later: certificates are
    /// renewed in time without the authority's word.
    pub(super) async fn refresh(
        &mut self,
        authority: &Authority,
        certificates: &Certificates,
        wanted: &Names,
    ) {
        self.0.retain(|name, _| wanted.contains(name));
        if authority.alone_until() > now() {
            return;
        }
        let mut account = None;
        for name in wanted {
            let Some(issued) = certificates.issued(name) else {
                continue;
            };
            let before = self.0.get(name).filter(|one| one.ends == issued.ends());
            let is_asked = before.is_some_and(|one| one.ask_again_at > now());
            let Some(id) = issued.id().filter(|_| !is_asked) else {
                continue;
            };
            if account.is_none() {
                account = authority.account().await.ok();
            }
            let told = match &account {
                Some(account) => account.renewal_info(id).await.ok(),
                None => None,
            };
            let is_answered = told.is_some();
            let mut suggestion = Suggestion {
                ends: issued.ends(),
                at: before.and_then(|one| one.at),
                window: before.map_or((0, 0), |one| one.window),
                ask_again_at: now() + AGAIN_SECONDS.start(),
            };
            if let Some((info, again)) = told {
                let again = i64::try_from(again.as_secs()).unwrap_or(i64::MAX);
                suggestion.ask_again_at =
                    now() + again.clamp(*AGAIN_SECONDS.start(), *AGAIN_SECONDS.end());
                let window = &info.suggested_window;
                let window = (window.start.unix_timestamp(), window.end.unix_timestamp());
                if window != suggestion.window {
                    suggestion.window = window;
                    let chance = colloquy_model::random::u64();
                    suggestion.at = Some(issued.suggested_at(point_of(window, chance)));
                }
            }
            self.0.insert(name.clone(), suggestion);
            if !is_answered {
                return;
            }
        }
    }
}

/// A point of a window, by chance.
fn point_of((start, end): (i64, i64), chance: u64) -> i64 {
    let length = end.saturating_sub(start).max(0).unsigned_abs();
    let into = chance.checked_rem(length).unwrap_or(0);
    start.saturating_add_unsigned(into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_lies_within_its_window_even_where_that_is_empty() {
        for chance in [0, 1, 99, 100, u64::MAX] {
            assert!((1_000..1_100).contains(&point_of((1_000, 1_100), chance)));
            assert_eq!(point_of((1_000, 1_000), chance), 1_000);
            assert_eq!(point_of((1_000, 900), chance), 1_000);
        }
    }
}
