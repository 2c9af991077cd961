//! The keys that sign access tokens, from a terminal.

use serde::Deserialize;

use super::table::{Align, Cell, Table};

/// The public keys, as the server answers.
#[derive(Debug, Deserialize)]
pub(super) struct Published {
    keys: Vec<PublicKey>,
}

/// A public key, by its name.
#[derive(Debug, Deserialize)]
struct PublicKey {
    kid: String,
    alg: String,
}

/// A row for each key.
pub(super) fn published(published: &Published) -> Table {
    let mut table = Table::new(&[("kid", Align::Left), ("alg", Align::Left)]);
    for key in &published.keys {
        table.row([Cell::usual(&key.kid), Cell::usual(&key.alg)]);
    }
    table.line("The next key signs from now on; tokens that were signed before hold on.");
    table
}
