//! Operators, as people who sign in; what they have in common with other records is in `records`.

use colloquy_actors::accounts::{CreateOperator, User};

use super::super::api_call::ApiCall;
use super::super::body::Json;
use super::super::output::Output;
use super::super::problem::Problem;
use super::records;

pub(super) async fn create(call: ApiCall, new: Json<CreateOperator>) -> Result<Output, Problem> {
    let made = records::create::<User, CreateOperator>(call, new).await;
    made.map_err(|problem| match &*problem.field {
        // By which users sign in, and what the store calls it; operators have their name there.
        "email" => Problem {
            field: "name".into(),
            ..problem
        },
        _ => problem,
    })
}
