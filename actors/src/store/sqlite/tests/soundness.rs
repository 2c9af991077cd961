//! `colloquy check` finds what is altered in a store's file.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rusqlite::Connection;

use super::Folder;
use crate::store::contract::{Bench, House, wait};
use colloquy_model::caller::{Mode, Tenant};

#[test]
fn a_check_finds_what_was_altered() {
    let house = House::<Folder>::new();
    let tenant = Tenant::of(1, Mode::Live);
    let customer = house.customer(tenant, "Ada");
    let assignee = house.user(tenant, "ada@example.org").unwrap().id;
    let mut conversation = house.conversation(tenant, customer, Some("one"));
    let id = conversation
        .send("two")
        .unwrap()
        .id
        .unwrap()
        .parse()
        .unwrap();
    let edit = serde_json::from_value(serde_json::json!({"content": "three"})).unwrap();
    conversation
        .ask(crate::conversation::messages::ReviseMessage { message: id, edit })
        .unwrap();
    let assign = serde_json::json!({"assignee_id": assignee});
    let assign: crate::conversation::messages::ChangeConversation =
        serde_json::from_value(assign).unwrap();
    conversation.ask(assign).unwrap();
    assert_eq!(wait(house.store().chores()).unwrap(), []);
    house.store().close();
    for plant in [
        "UPDATE counters SET total = total + 1 WHERE field = 0",
        "DELETE FROM counters WHERE field = 3",
        "UPDATE conversations SET messages = messages + 1",
        "UPDATE conversations SET status = 2",
        "UPDATE conversations SET updated_at = updated_at + 1",
        "UPDATE records SET seq = seq + 1",
        "UPDATE rows SET payload = x'7b7d' WHERE pos = 2",
        "UPDATE rows SET edit = 1 WHERE edit IS NOT NULL",
        "UPDATE edits SET number = number + 1",
        "UPDATE edits SET pos = pos + 1",
        "DELETE FROM edits",
        "UPDATE rows SET number = NULL WHERE number = 1",
        "DELETE FROM rows WHERE seq = 2",
        "DELETE FROM rows WHERE pos = (SELECT max(pos) FROM rows)",
        "DELETE FROM rows",
        "DELETE FROM records WHERE kind = 3",
        "DELETE FROM feed",
        "DELETE FROM feed_assignees",
        "UPDATE feed SET before = x'0102030405060708090a', first = first + 512",
        "UPDATE feed SET entries = CAST(substr(entries, 1, length(entries) - 26) AS BLOB)",
        "UPDATE feed SET entries = CAST(substr(entries, 27) || substr(entries, 1, 26) AS BLOB)",
        "UPDATE feed_assignees SET here = here + 1",
        "UPDATE feed_assignees SET assignee = assignee + 1",
        "UPDATE scopes SET number = number + 1",
        "UPDATE scopes SET floor = number + 1",
    ] {
        let altered = house.bench().killed();
        assert_eq!(altered.findings(), Vec::<String>::new());
        Connection::open(altered.path())
            .unwrap()
            .execute_batch(plant)
            .unwrap();
        assert!(!altered.findings().is_empty(), "{plant}");
    }
}
