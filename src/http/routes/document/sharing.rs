//! Who may do what with a document: collaborators, the permission set, share links.

use colloquy_actors::document::access::{DocumentRole, Visibility};
use colloquy_actors::document::messages::{
    AddCollaborator, ChangeCollaborator, ChangeRole, CreateShare, RemoveShare, RevokeRole,
    SetPermissions,
};
use colloquy_model::answer::Answer;
use colloquy_model::id::{DocumentKind, ShareKind, UserId, UserKind};
use colloquy_model::page::{Order, Page, Paging};
use colloquy_model::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::records::PlainQuery;
use super::{Addressed, addressed, ask};
use crate::http::api_call::ApiCall;
use crate::http::body::{Json, OptionalJson};
use crate::http::output::{LinkStyle, Listing, Output};
use crate::http::problem::Problem;
use crate::http::query::NoQuery;

/// A user who was let in.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Collaborator)]
pub(super) struct CollaboratorShown {
    /// Who.
    user_id: UserId,
    /// The user's e-mail address.
    email: Option<String>,
    /// What the user may do.
    role: DocumentRole,
    /// Since when.
    added_at: Timestamp,
}

/// Who may do what.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Permissions)]
pub(super) struct PermissionsShown {
    /// Who may see it at all.
    visibility: Visibility,
    /// What everybody of the account may do, where it is theirs to see.
    default_role: DocumentRole,
    /// Whose it is; null: the account's.
    owner_id: Option<UserId>,
    /// Who was let in.
    collaborators: Vec<CollaboratorShown>,
    /// Whether share links open it.
    link_sharing: bool,
}

pub(super) async fn collaborators(call: ApiCall, query: PlainQuery) -> Result<Output, Problem> {
    let paging = query.part().paging::<DocumentKind>(Order::Desc)?;
    let Addressed { app, id, meta } = addressed(call)?;
    let documents = &app.system.documents;
    let page = documents.collaborators(id, meta, paging).await?;
    Ok(listing(page, paging))
}

pub(super) async fn add_collaborator(
    call: ApiCall,
    Json(new): Json<AddCollaborator>,
) -> Result<Output, Problem> {
    let Addressed { app, id, meta } = addressed(call)?;
    let documents = &app.system.documents;
    Ok(documents.add_collaborator(id, meta, new).await?.into())
}

pub(super) async fn change_collaborator(
    call: ApiCall,
    Json(change): Json<ChangeCollaborator>,
) -> Result<Output, Problem> {
    let (user, role) = (call.id::<UserKind>(1)?, change.role);
    let Addressed { app, id, meta } = addressed(call)?;
    let documents = &app.system.documents;
    let change = ChangeRole { user, role };
    Ok(documents.change_role(id, meta, change).await?.into())
}

pub(super) async fn remove_collaborator(call: ApiCall) -> Result<Output, Problem> {
    let user = call.id::<UserKind>(1)?;
    ask(call, RevokeRole { user }).await
}

pub(super) async fn permissions(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let id = call.id::<DocumentKind>(0)?;
    let documents = &call.app.system.documents;
    let meta = documents.meta(call.caller.clone());
    Ok(documents.permissions(id, meta).await?.into())
}

pub(super) async fn set_permissions(
    call: ApiCall,
    OptionalJson(set): OptionalJson<SetPermissions>,
) -> Result<Output, Problem> {
    let Addressed { app, id, meta } = addressed(call)?;
    let documents = &app.system.documents;
    Ok(documents.set_permissions(id, meta, set).await?.into())
}

pub(super) async fn share(
    call: ApiCall,
    OptionalJson(new): OptionalJson<CreateShare>,
) -> Result<Output, Problem> {
    let base = call.links_base();
    let Addressed { app, id, meta } = addressed(call)?;
    let documents = &app.system.documents;
    let (answer, token) = documents.create_share(id, meta, new).await?;
    let url = format!("{base}/s/{token}");
    Ok(with_url(answer, &url)?.into())
}

pub(super) async fn shares(call: ApiCall, query: PlainQuery) -> Result<Output, Problem> {
    let paging = query.part().paging::<DocumentKind>(Order::Desc)?;
    let Addressed { app, id, meta } = addressed(call)?;
    let page = app.system.documents.shares(id, meta, paging).await?;
    Ok(listing(page, paging))
}

pub(super) async fn remove_share(call: ApiCall) -> Result<Output, Problem> {
    let share = call.id::<ShareKind>(1)?;
    ask(call, RemoveShare { share }).await
}

fn listing(page: Page, paging: Paging) -> Output {
    Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    })
}

/// Shows where a new link opens, which no later answer does.
fn with_url(answer: Answer, url: &str) -> Result<Answer, Problem> {
    // It stands last, as null; a replay has the same bytes but for it.
    let before = answer
        .body
        .strip_suffix(b"null}")
        .ok_or_else(Problem::crashed)?;
    let body = [before, b"\"", url.as_bytes(), b"\"}"].concat();
    Ok(Answer {
        body: body.into(),
        ..answer
    })
}
