//! What an account used, read with what is not written yet, and what is stored of it.

use super::report::{FindCredential, ROWS_MAX, UsageGroup, UsagePeriod, UsageRow, grouped};
use super::writing::Usage;
use crate::analytics::Analytics;
use crate::store::{
    ConversationQuery, DocumentOrder, DocumentQuery, Facets, ListFailure, Made, MadeCell,
    MadeQuery, UsageQuery,
};
use colloquy_model::answer::Invalid;
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::time::Timestamp;

/// Which usage of an account is wanted.
#[derive(Debug, Clone, Copy)]
pub struct UsageList {
    /// The account's small number.
    pub account: u32,
    /// Of which days.
    pub period: UsagePeriod,
    /// By what it is added up.
    pub group: UsageGroup,
}

/// How much there is of an account's data, in both modes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredTotals {
    /// Conversations.
    pub conversations: u64,
    /// Messages, redacted ones too.
    pub messages: u64,
    /// Documents, without those in the bin.
    pub documents: u64,
    /// Bytes of the texts as they stand: of messages, and of the latest versions of those documents.
    pub bytes: u64,
}

/// An account's data, live and test.
fn modes(account: u32) -> [Tenant; 2] {
    [Mode::Live, Mode::Test].map(|mode| Tenant::of(account, mode))
}

impl Usage {
    /// What an account used, with what it made.
    ///
    /// # Errors
    /// The store can't be read, or there are too many rows.
    pub async fn rows(
        &self,
        list: UsageList,
        analytics: &Analytics,
        find: &FindCredential<'_>,
    ) -> Result<Vec<UsageRow>, ListFailure> {
        let made = made(analytics, list.account, list.period).await?;
        let UsagePeriod { from, to } = list.period;
        let query = UsageQuery {
            account: list.account,
            from,
            to,
        };
        let days = self.days(query).await?;
        let rows = grouped(&days, &made, (list.period, list.group), find);
        if rows.len() > ROWS_MAX {
            let reason = format!("gives more than {ROWS_MAX} rows: ask for fewer days");
            return Err(ListFailure::Invalid(Invalid::new("to", reason)));
        }
        Ok(rows)
    }

    /// How much there is of an account's data.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn stored(
        &self,
        account: u32,
        analytics: &Analytics,
    ) -> Result<StoredTotals, ListFailure> {
        let ever = UsagePeriod {
            from: Timestamp::MIN,
            to: Timestamp::MAX,
        };
        let made = made(analytics, account, ever).await?;
        let paging = Paging {
            limit: 1,
            start: Start::Offset(0),
            order: Order::Desc,
        };
        let text_bytes: i64 = made.iter().map(|(_, made)| made.text_bytes).sum();
        let (mut messages, mut erased) = (0_u64, 0_u64);
        for (cell, made) in &made {
            match cell.day {
                MadeCell::ERASED => erased += made.messages,
                _ => messages += made.messages,
            }
        }
        let mut stored = StoredTotals {
            messages: messages.saturating_sub(erased),
            bytes: u64::try_from(text_bytes).unwrap_or(0),
            ..StoredTotals::default()
        };
        for tenant in modes(account) {
            let conversations = self.store.conversations(ConversationQuery {
                tenant,
                facets: Facets::default(),
                by_update: false,
                paging,
            });
            let documents = self.store.documents(DocumentQuery {
                tenant,
                reader: None,
                role: None,
                owner: None,
                content_type: None,
                updated_after: None,
                deleted: false,
                among: None,
                sort: DocumentOrder::Creation,
                paging,
            });
            stored.conversations += conversations.await?.total;
            stored.documents += documents.await?.total;
        }
        Ok(stored)
    }
}

/// What was made in the account in a period, live and test.
async fn made(
    analytics: &Analytics,
    account: u32,
    period: UsagePeriod,
) -> Result<Vec<(MadeCell, Made)>, ListFailure> {
    let mut all = Vec::new();
    for tenant in modes(account) {
        let query = MadeQuery {
            tenant,
            from: period.from,
            to: period.to,
        };
        all.extend(analytics.made(query).await?);
    }
    Ok(all)
}
