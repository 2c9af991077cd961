//! `colloquy operators`: who signs in as an operator; a new one with an invitation, one less.

use colloquy_model::time::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::admin_client::{AdminClient, OperateError};
use super::table::{Align, Cell, Table, Tone};

/// The answer to `GET /admin/v1/operators`, all of its pages together.
#[derive(Deserialize)]
pub(super) struct Operators {
    data: Vec<Operator>,
}

#[derive(Deserialize)]
pub(super) struct Operator {
    operator_id: String,
    name: String,
    created_at: Timestamp,
}

/// An operator who was added, with the way to a password.
#[derive(Deserialize)]
pub(super) struct Invitation {
    name: String,
    url: String,
    expires_at: Timestamp,
}

/// How many operators a page of the list has.
const PER_PAGE: usize = 100;

/// Every operator, as JSON.
pub(super) async fn all(client: &AdminClient) -> Result<Vec<u8>, OperateError> {
    let mut all: Vec<Value> = Vec::new();
    loop {
        let query = [
            ("limit", PER_PAGE.to_string()),
            ("offset", all.len().to_string()),
        ];
        let page = client.get(&["operators"], &query).await?;
        let mut page: Value = read(client, &page)?;
        let items = page.get_mut("data").and_then(Value::as_array_mut);
        let items = items.map(std::mem::take).unwrap_or_default();
        let is_last = items.len() < PER_PAGE;
        all.extend(items);
        if is_last {
            return Ok(json!({ "data": all }).to_string().into_bytes());
        }
    }
}

/// Adds an operator and invites the person; the answer is the operator with the invitation.
pub(super) async fn add(client: &AdminClient, name: &str) -> Result<Vec<u8>, OperateError> {
    let made = client
        .make(&["operators"], &json!({ "name": name }))
        .await?;
    let mut made: Value = read(client, &made)?;
    let id = made.get("operator_id").and_then(Value::as_str);
    let id = id.ok_or_else(|| client.not_understood())?.to_owned();
    let path = ["operators", &id, "invitations"];
    let invited: Value = read(client, &client.make(&path, &json!({})).await?)?;
    if let (Some(made), Value::Object(invited)) = (made.as_object_mut(), invited) {
        made.extend(invited);
    }
    Ok(made.to_string().into_bytes())
}

/// Removes the operator with this name; the answer is the operator who was.
pub(super) async fn remove(client: &AdminClient, name: &str) -> Result<Vec<u8>, OperateError> {
    let all: Value = read(client, &all(client).await?)?;
    let is_it = |operator: &&Value| {
        let known = operator.get("name").and_then(Value::as_str);
        known.is_some_and(|known| known.to_lowercase() == name.to_lowercase())
    };
    let operators = all.get("data").and_then(Value::as_array);
    let mut operators = operators.into_iter().flatten();
    let operator = operators.find(is_it);
    let operator = operator.ok_or_else(|| OperateError::NoOperator(name.to_owned()))?;
    let id = operator.get("operator_id").and_then(Value::as_str);
    let id = id.ok_or_else(|| client.not_understood())?;
    client.delete(&["operators", id]).await?;
    Ok(operator.to_string().into_bytes())
}

fn read(client: &AdminClient, answer: &[u8]) -> Result<Value, OperateError> {
    serde_json::from_slice(answer).map_err(|_| client.not_understood())
}

/// A row for each operator.
pub(super) fn table(operators: &Operators) -> Table {
    let mut table = Table::new(&[
        ("id", Align::Left),
        ("added", Align::Left),
        ("name", Align::Left),
    ]);
    for operator in &operators.data {
        table.row([
            Cell::usual(&operator.operator_id),
            Cell::usual(operator.created_at.to_string()),
            Cell::new(&operator.name, Tone::Title),
        ]);
    }
    table
}

/// What is to be given to the person who was added: the whole link, however long it is.
pub(super) fn invitation(invitation: &Invitation) -> Table {
    let mut table = Table::new(&[]);
    let name = Cell::usual(&invitation.name);
    table.line(format!(
        "{} sets a password here, once, until {}:",
        name.text(),
        invitation.expires_at
    ));
    table.line(&*invitation.url);
    table
}

/// Who was removed.
pub(super) fn removed(operator: &Operator) -> Table {
    let mut table = Table::new(&[]);
    let name = Cell::usual(&operator.name);
    table.line(format!("{} is no operator any more.", name.text()));
    table
}
