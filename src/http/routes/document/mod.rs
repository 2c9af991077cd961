//! The part of the table that is about documents, and what its handlers have in common.

mod comments;
mod documents;
mod edit_page;
mod link_forms;
mod links;
mod page;
mod sharing;
mod versions;

use std::sync::Arc;

use colloquy_actors::document::messages::CommandMeta;
use colloquy_actors::document::views::{
    CommentView, DocumentView, NewShareView, ShareView, VersionView,
};
use colloquy_actors::document::{ActivityView, ComputedRequest, DocumentRequest};
use colloquy_model::answer::Answer;
use colloquy_model::id::{DocumentId, DocumentKind};
use colloquy_model::key::Permission;

use self::sharing::{CollaboratorShown, PermissionsShown};
use self::versions::NotMerged;
use crate::http::api_call::{ApiCall, CommandCall};
use crate::http::app_state::AppState;
use crate::http::operation::{
    AuthRequirement, LocationRule, Operation, delete, delete_as, get, patch, post, put,
};
use crate::http::output::Output;
use crate::http::problem::{Kind, Problem};

pub(in crate::http) use self::page::{STYLE, refusal_page};

const READ: AuthRequirement = AuthRequirement::Key(&[Permission::DocumentsRead]);
const WRITE: AuthRequirement = AuthRequirement::Key(&[Permission::DocumentsWrite]);
const SHARE: AuthRequirement = AuthRequirement::Key(&[Permission::DocumentsShare]);
const TAG: &str = "Documents";
const TAG_VERSIONS: &str = "Documents: versions";
const TAG_PEOPLE: &str = "Documents: people";
const TAG_LINKS: &str = "Documents: share links";
const HTML: &str = "text/html; charset=utf-8";

/// Sends a request to the document in the path, and shows its answer.
async fn ask<R>(call: ApiCall, request: R) -> Result<Output, Problem>
where
    R: DocumentRequest<Reply = Answer>,
{
    let Addressed { app, id, meta } = addressed(call)?;
    Ok(app.system.documents.ask(id, meta, request).await?.into())
}

/// The same for a request for which something must be computed first.
async fn ask_computed<R>(call: ApiCall, request: R) -> Result<Output, Problem>
where
    R: ComputedRequest<Reply = Answer>,
{
    let Addressed { app, id, meta } = addressed(call)?;
    let documents = &app.system.documents;
    Ok(documents.ask_computed(id, meta, request).await?.into())
}

/// The document in a call's path, and what goes with a request to it.
struct Addressed {
    app: Arc<AppState>,
    id: DocumentId,
    meta: CommandMeta,
}

fn addressed(call: ApiCall) -> Result<Addressed, Problem> {
    let id = call.id::<DocumentKind>(0)?;
    let CommandCall { app, meta } = call.into_command();
    let meta = app.system.documents.with_requester(meta);
    Ok(Addressed { app, id, meta })
}

/// All operations on documents.
pub(super) fn operations() -> Vec<Operation> {
    let mut all = whole();
    all.extend(versions());
    all.extend(collaborators());
    all.extend(permissions());
    all.extend(share_links());
    all.extend(comments());
    all.extend(links());
    all.extend(link_forms());
    all
}

fn whole() -> Vec<Operation> {
    vec![
        post("/api/v1/documents", "createDocument", documents::create)
            .about(TAG, "Create a document", "Its content is version 1; it belongs to the user for whom the key acts.")
            .auth(WRITE)
            .large()
            .whole()
            .creates::<DocumentView<'_>>(LocationRule::UnderRequestPath),
        get("/api/v1/documents", "listDocuments", documents::list)
            .about(TAG, "List documents", "What the caller may read, without contents; with `q` a full-text search.")
            .auth(READ)
            .lists::<DocumentView<'_>>(),
        get("/api/v1/documents/{document_id}", "getDocument", documents::read)
            .about(TAG, "Get a document", "With the head's content, or that of the version that is named.")
            .auth(READ)
            .plentiful()
            .shows::<DocumentView<'_>>(),
        put("/api/v1/documents/{document_id}", "updateDocument", documents::update)
            .about(
                TAG,
                "Update a document",
                "What is given replaces, the rest stays; a change of content makes a version on the head.",
            )
            .auth(WRITE)
            .large()
            .shows::<DocumentView<'_>>(),
        delete_as("/api/v1/documents/{document_id}", "deleteDocument", documents::remove)
            .about(
                TAG,
                "Delete a document",
                "To the bin, from which it can be restored for 30 days; or at once for good.",
            )
            .auth(WRITE),
        post("/api/v1/documents/{document_id}/restore", "restoreDocument", documents::restore)
            .about(TAG, "Take a document out of the bin", "One that is not in it is left as it is.")
            .auth(WRITE)
            .whole()
            .shows::<DocumentView<'_>>()
            .conditional(),
    ]
}

fn versions() -> Vec<Operation> {
    vec![
        get("/api/v1/documents/{document_id}/versions", "listVersions", versions::list)
            .about(TAG_VERSIONS, "List versions", "Newest first, without contents.")
            .auth(READ)
            .lists::<VersionView<'_>>(),
        get("/api/v1/documents/{document_id}/versions/{version}", "getVersionOfDocument", versions::read)
            .about(TAG_VERSIONS, "Get a version", "By its ID, number or label, or the newest of a branch; with its content.")
            .auth(READ)
            .plentiful()
            .shows::<VersionView<'_>>(),
        post("/api/v1/documents/{document_id}/versions", "addVersion", versions::add)
            .about(
                TAG_VERSIONS,
                "Add a version",
                "On the head it becomes the head; elsewhere, or with a new `branch`, it begins or goes on with a side branch.",
            )
            .auth(WRITE)
            .large()
            .creates::<VersionView<'_>>(LocationRule::UnderRequestPath)
            .conditional()
            .refuses(&[Kind::Conflict]),
        post("/api/v1/documents/{document_id}/versions/{version}/restore", "restoreVersion", versions::restore)
            .about(TAG_VERSIONS, "Restore a version", "A new head with that content.")
            .auth(WRITE)
            .creates::<VersionView<'_>>(LocationRule::FurtherUp(2, "/"))
            .conditional(),
        post("/api/v1/documents/{document_id}/merge", "mergeVersions", versions::merge)
            .about(
                TAG_VERSIONS,
                "Merge",
                "Three-way, line by line, from the nearest common ancestor; of several, which lines that were merged \
                 crosswise have, these are merged with each other first, as git does. Conflicts stand in the refusal's \
                 `details`: sent again with `resolutions`, both IDs, and the same `style` and `strategy`, it goes through.",
            )
            .auth(WRITE)
            .large()
            .creates::<VersionView<'_>>(LocationRule::FurtherUp(1, "/versions/"))
            .or_shows::<NotMerged>()
            .conditional()
            .refuses(&[Kind::Conflict, Kind::MergeConflict]),
        get("/api/v1/documents/{document_id}/diff", "compareVersions", versions::diff)
            .about(TAG_VERSIONS, "Compare versions", "As a patch, as data, as a page, or counted.")
            .auth(READ)
            .plentiful()
            .writes("text/x-diff; charset=utf-8")
            .or_writes(&["application/json", HTML]),
    ]
}

fn collaborators() -> Vec<Operation> {
    vec![
        get(
            "/api/v1/documents/{document_id}/collaborators",
            "listCollaborators",
            sharing::collaborators,
        )
        .about(TAG_PEOPLE, "List collaborators", "Newest first.")
        .auth(READ)
        .lists::<CollaboratorShown>(),
        post(
            "/api/v1/documents/{document_id}/collaborators",
            "addCollaborator",
            sharing::add_collaborator,
        )
        .about(TAG_PEOPLE, "Add a collaborator", "By `user_id` or `email`.")
        .auth(SHARE)
        .creates::<CollaboratorShown>(LocationRule::UnderRequestPath)
        .conditional()
        .refuses(&[Kind::Conflict]),
        put(
            "/api/v1/documents/{document_id}/collaborators/{user_id}",
            "changeCollaborator",
            sharing::change_collaborator,
        )
        .about(
            TAG_PEOPLE,
            "Change a collaborator's role",
            "An owner is made with `transfer_owner_to`.",
        )
        .auth(SHARE)
        .shows::<CollaboratorShown>()
        .refuses(&[Kind::Conflict]),
        delete(
            "/api/v1/documents/{document_id}/collaborators/{user_id}",
            "removeCollaborator",
            sharing::remove_collaborator,
        )
        .about(
            TAG_PEOPLE,
            "Remove a collaborator",
            "Holds for the user's very next request.",
        )
        .auth(SHARE)
        .refuses(&[Kind::Conflict]),
    ]
}

fn permissions() -> Vec<Operation> {
    vec![
        get(
            "/api/v1/documents/{document_id}/permissions",
            "getPermissions",
            sharing::permissions,
        )
        .about(TAG_PEOPLE, "Get the permission set", "Who may do what.")
        .auth(READ)
        .shows::<PermissionsShown>(),
        put(
            "/api/v1/documents/{document_id}/permissions",
            "setPermissions",
            sharing::set_permissions,
        )
        .about(
            TAG_PEOPLE,
            "Set permissions",
            "All of it at once, or nothing; what is left out stays.",
        )
        .auth(SHARE)
        .shows::<PermissionsShown>(),
    ]
}

fn share_links() -> Vec<Operation> {
    vec![
        post(
            "/api/v1/documents/{document_id}/share",
            "createShare",
            sharing::share,
        )
        .about(
            TAG_PEOPLE,
            "Make a share link",
            "The answer's `url` is shown only here.",
        )
        .auth(SHARE)
        .creates::<NewShareView<'_>>(LocationRule::UnderRequestPath)
        .conditional()
        .secret()
        .refuses(&[Kind::Conflict]),
        get(
            "/api/v1/documents/{document_id}/share",
            "listShares",
            sharing::shares,
        )
        .about(TAG_PEOPLE, "List share links", "Newest first.")
        .auth(READ)
        .lists::<ShareView>(),
        delete(
            "/api/v1/documents/{document_id}/share/{share_id}",
            "removeShare",
            sharing::remove_share,
        )
        .about(
            TAG_PEOPLE,
            "Take a share link back",
            "Holds for the very next request with it.",
        )
        .auth(SHARE),
    ]
}

fn comments() -> Vec<Operation> {
    vec![
        get(
            "/api/v1/documents/{document_id}/comments",
            "listComments",
            comments::list,
        )
        .about(TAG, "List comments", "Newest first.")
        .auth(READ)
        .lists::<CommentView>(),
        post(
            "/api/v1/documents/{document_id}/comments",
            "addComment",
            comments::add,
        )
        .about(
            TAG,
            "Comment",
            "On lines of a version; on the head's, it follows them from version to version.",
        )
        .auth(WRITE)
        .creates::<CommentView>(LocationRule::UnderRequestPath)
        .conditional()
        .refuses(&[Kind::Conflict]),
        patch(
            "/api/v1/documents/{document_id}/comments/{comment_id}",
            "changeComment",
            comments::edit,
        )
        .about(
            TAG,
            "Change a comment",
            "Who may comment may settle any; the words of others are the owner's to change.",
        )
        .auth(WRITE)
        .shows::<CommentView>()
        .refuses(&[Kind::Conflict]),
        delete(
            "/api/v1/documents/{document_id}/comments/{comment_id}",
            "deleteComment",
            comments::remove,
        )
        .about(TAG, "Delete a comment", "One's own, or as the owner any.")
        .auth(WRITE),
        get(
            "/api/v1/documents/{document_id}/activity",
            "listActivity",
            comments::activity,
        )
        .about(
            TAG,
            "List what was done",
            "Newest first; nothing is ever taken out.",
        )
        .auth(READ)
        .lists::<ActivityView>(),
    ]
}

fn links() -> Vec<Operation> {
    vec![
        get("/s/{token}", "openLink", links::open)
            .about(
                TAG_LINKS,
                "Open a share link",
                "As a page, or as JSON where `Accept` says so. Every GET or PUT answered 200 is one use. A password goes \
                 into `X-Share-Password`.",
            )
            .auth(AuthRequirement::ShareLink)
            .secret()
            .plentiful()
            .shared()
            .shows::<DocumentView<'_>>()
            .or_writes(&[HTML]),
        get("/s/{token}/versions/{version_id}", "openLinkVersion", links::open_version)
            .about(
                TAG_LINKS,
                "Open a version by a share link",
                "The head, or what was the head since the link was made; others are 404. It never changes. Answered 200, it is one \
                 use. A password goes into `X-Share-Password`.",
            )
            .auth(AuthRequirement::ShareLink)
            .secret()
            .plentiful()
            .shared()
            .shows::<VersionView<'_>>(),
        post("/s/{token}", "enterLink", links::enter)
            .about(TAG_LINKS, "Open a share link with a password", "What the page's form sends.")
            .auth(AuthRequirement::ShareLink)
            .known_by(links::known_to_people)
            .secret()
            .plentiful()
            .unrepeatable()
            .shows::<DocumentView<'_>>()
            .or_writes(&[HTML])
            .refuses(&[Kind::Forbidden]),
        put("/s/{token}", "updateByLink", links::update)
            .about(TAG_LINKS, "Update a shared document", "With an editor's link; answered 200, it is one use.")
            .auth(AuthRequirement::ShareLink)
            .known_by(links::known)
            .large()
            .secret()
            .shows::<DocumentView<'_>>()
            .refuses(&[Kind::Forbidden]),
        post("/s/{token}/comments", "commentByLink", links::comment)
            .about(TAG_LINKS, "Comment on a shared document", "With a commenter's or an editor's link.")
            .auth(AuthRequirement::ShareLink)
            .known_by(links::known)
            .secret()
            .creates::<CommentView>(LocationRule::UnderRequestPath)
            .conditional()
            .refuses(&[Kind::Forbidden, Kind::Conflict]),
    ]
}

/// What the forms of a shared page send.
fn link_forms() -> Vec<Operation> {
    vec![
        post("/s/{token}/comment", "commentOnPage", link_forms::comment)
            .about(
                TAG_LINKS,
                "Comment on a shared page",
                "What the page's form sends, which takes no header: the same as `commentByLink`, with a page as the answer. \
                 It is no use; the page that follows is.",
            )
            .auth(AuthRequirement::ShareLink)
            .known_by(links::known_to_people)
            .large()
            .secret()
            .plentiful()
            .unrepeatable()
            .writes(HTML)
            .leads_on()
            .refuses(&[Kind::Forbidden, Kind::Conflict, Kind::IdempotencyInProgress, Kind::IdempotencyKeyReused]),
        post("/s/{token}/edit", "editOnPage", link_forms::edit)
            .about(
                TAG_LINKS,
                "Edit on a shared page",
                "What the page's form sends, with an editor's link. `save` is the same as `updateByLink`, as long as `base` is \
                 the head, and one use; where it is not, nothing is saved, and the page tells what happened since. `preview` \
                 is no use; `compare` shows the document's text and is one.",
            )
            .auth(AuthRequirement::ShareLink)
            .known_by(links::known_to_people)
            .large()
            .secret()
            .plentiful()
            .unrepeatable()
            .writes(HTML)
            .leads_on()
            .refuses(&[Kind::Forbidden, Kind::Conflict, Kind::PreconditionFailed]),
    ]
}
