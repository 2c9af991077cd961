//! Accounts, as operators see them; what they have in common with other records is in `records`.

use colloquy_actors::accounts::{Account, CreateAccount, OpenAccount};

use super::super::api_call::ApiCall;
use super::super::body::Json;
use super::super::output::Output;
use super::super::problem::Problem;
use super::records::make;

pub(super) async fn create(
    call: ApiCall,
    Json(new): Json<CreateAccount>,
) -> Result<Output, Problem> {
    let number = call.app.system.next_account_number().await?;
    make::<Account, _>(call, OpenAccount { new, number }).await
}
