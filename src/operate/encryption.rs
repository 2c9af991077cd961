//! Encryption at rest, from a terminal.

use colloquy_actors::key_rotation::RotationView;
use serde::Deserialize;

use super::table::{Align, Cell, Table};

/// An account that was forgotten, as the server answers.
#[derive(Debug, Deserialize)]
pub(super) struct Forgotten {
    account_id: String,
    name: String,
    forgotten_at: String,
}

/// The account, and what that means.
pub(super) fn forgotten(account: &Forgotten) -> Table {
    let mut table = Table::new(&[
        ("account", Align::Left),
        ("name", Align::Left),
        ("forgotten at", Align::Left),
    ]);
    table.row([
        Cell::usual(&account.account_id),
        Cell::usual(&account.name),
        Cell::usual(&account.forgotten_at),
    ]);
    table.line("The keys of its texts are destroyed. Copies of the store that were made before still hold them.");
    table
}

/// The key that is used now, and which one may be thrown away.
pub(super) fn rotated(rotated: &RotationView) -> Table {
    let mut table = Table::new(&[("master key", Align::Left), ("was", Align::Left)]);
    table.row([Cell::usual(&rotated.master_key), Cell::usual(&rotated.was)]);
    if rotated.is_change() {
        table.line(format!(
            "The store is under {} from now on. Once every node has been started with it, {} may be thrown away, with its file, \
             and previous_master_key be emptied; backups and dumps of before still need it.",
            rotated.master_key, rotated.was
        ));
    } else {
        table.line("Nothing was to be done: the store was under this master key before.");
    }
    table
}
