//! A customer's new name is held on to for lists at every node, and only until every header shows it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::json;

use super::OwnDatabase;
use crate::accounts::{ChangeCustomer, Customer};
use crate::store::Facets;
use crate::store::contract::{Bench, House};
use colloquy_model::caller::{Mode, Tenant};

#[test]
fn a_node_lets_a_name_go_that_another_one_has_copied_into_every_header() {
    let live = Tenant::of(1, Mode::Live);
    let mut second = OwnDatabase::new();
    let first = OwnDatabase::new();
    second.name.clone_from(&first.name);
    let (renames, follows) = (House::at(first), House::at(second));
    let customer = renames.customer(live, "before");
    renames.conversation(live, customer, None);
    renames
        .record::<Customer>(live, customer)
        .ask(serde_json::from_value::<ChangeCustomer>(json!({"name": "after"})).unwrap())
        .unwrap();
    let shown = || {
        let headers = follows.list(live, Facets::default()).items;
        headers
            .iter()
            .all(|header| &*follows.name_of(header) == "after")
    };
    assert!(shown(), "at once, at the other node");
    follows.until("the name is known to be copied", || {
        follows.views.names.held().is_empty()
    });
    assert!(shown());
}
