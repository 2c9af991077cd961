//! The table: every operation of the interface, one builder call each. What stands neither here
//! nor in `document/`, `webhook_table.rs` or `operator_table.rs` does not exist, neither for callers
//! nor in the document.

mod accounts;
mod actors;
mod analytics;
mod attachments;
mod audit;
mod backups;
mod bulk;
mod conversations;
mod customers;
mod deliveries;
mod document;
mod encryption;
mod events;
mod invitations;
mod keys;
mod limits;
mod messages;
mod nodes;
mod oauth;
mod operator_table;
mod operators;
mod realtime;
mod records;
mod service;
mod usage;
mod webhook_table;
mod webhooks;

use colloquy_actors::accounts::{
    ChangeCustomer, ChangeUser, CreateCustomer, CreateUser, Customer, CustomerView, Erasure,
    ErasureView, User,
};
use colloquy_actors::analytics::FigureList;
use colloquy_actors::audit::AuditView;
use colloquy_actors::conversation::messages::ConversationView;
use colloquy_model::attachment::AttachmentView;
use colloquy_model::conversation::{MessageView, RevisionView};
use colloquy_model::key::Permission;
use colloquy_model::user::UserView;

pub(super) use self::document::refusal_page;
use self::events::EventShown;
use self::invitations::InvitationShown;
use self::realtime::TicketShown;
use super::csv;
use super::metrics::MEDIA_TYPE;
use super::operation::{
    AuthRequirement, LocationRule, Operation, delete, delete_as, get, patch, post,
};
use super::problem::Kind;

/// What reads conversations, once or for as long as a stream is open.
const READING: &[Permission] = &[
    Permission::ConversationsRead,
    Permission::ConversationsAssigned,
];
const READ: AuthRequirement = AuthRequirement::Key(READING);
/// What changes conversations.
pub(super) const WRITING: &[Permission] = &[
    Permission::ConversationsWrite,
    Permission::ConversationsAssigned,
];
const WRITE: AuthRequirement = AuthRequirement::Key(WRITING);
/// What reads and changes more than a conversation that is there: customers, and new conversations.
const READ_ALL: AuthRequirement = AuthRequirement::Key(&[Permission::ConversationsRead]);
const WRITE_ALL: AuthRequirement = AuthRequirement::Key(&[Permission::ConversationsWrite]);
/// What opens an event stream or a WebSocket: what is read or sent there has its own.
const LINES: &[Permission] = &[
    Permission::ConversationsRead,
    Permission::ConversationsWrite,
    Permission::ConversationsAssigned,
];
const ANY: AuthRequirement = AuthRequirement::Key(&[]);
const READ_USERS: AuthRequirement = AuthRequirement::Key(&[
    Permission::UsersManage,
    Permission::ConversationsRead,
    Permission::DocumentsRead,
]);
const WRITE_USERS: AuthRequirement = AuthRequirement::Key(&[Permission::UsersManage]);

/// All operations, in the order in which the document shows them.
pub(crate) fn operations() -> Vec<Operation> {
    let mut all = conversations();
    all.extend(messages());
    all.extend(single_messages());
    all.extend(attachments());
    all.extend(events());
    all.extend(customers());
    all.extend(erasing());
    all.extend(users());
    all.extend(figures());
    all.extend(audit_trail());
    all.extend(limits_and_usage());
    all.extend(document::operations());
    all.extend(webhook_table::operations());
    all.extend(oauth::operations());
    all.extend(service());
    all.extend(descriptions());
    all.extend(operator_table::operations());
    all
}

fn conversations() -> Vec<Operation> {
    const TAG: &str = "Conversations";
    vec![
        post("/v1/conversations", "createConversation", conversations::create)
            .about(TAG, "Start a conversation", "A new conversation is active. An initial message becomes message 1.")
            .auth(WRITE_ALL)
            .creates::<ConversationView>(LocationRule::UnderRequestPath),
        get("/v1/conversations", "listConversations", conversations::list)
            .about(TAG, "List conversations", "Newest first, unless `order` or `sort` says otherwise.")
            .auth(READ)
            .lists::<ConversationView>(),
        get("/v1/conversations/{conversation_id}", "getConversation", conversations::read)
            .about(TAG, "Get a conversation", "Shows one conversation with its customer.")
            .auth(READ)
            .shows::<ConversationView>(),
        patch("/v1/conversations/{conversation_id}", "changeConversation", conversations::change)
            .about(
                TAG,
                "Change a conversation",
                "What is given is set, what is left out stays. Closing and reopening go by `status` too.",
            )
            .auth(WRITE)
            .shows::<ConversationView>()
            .refuses(&[Kind::InvalidTransition]),
        post("/v1/conversations/{conversation_id}/close", "closeConversation", conversations::close)
            .about(TAG, "Close a conversation", "Closing one that is closed changes nothing.")
            .auth(WRITE)
            .shows::<ConversationView>()
            .conditional(),
        post("/v1/conversations/{conversation_id}/reopen", "reopenConversation", conversations::reopen)
            .about(TAG, "Reopen a conversation", "Makes a closed one active; any other is left as it is.")
            .auth(WRITE)
            .shows::<ConversationView>()
            .conditional(),
        post("/v1/conversations/bulk", "bulkConversations", bulk::run)
            .about(
                TAG,
                "Do many things at once",
                "Each operation is carried out in its turn and answered in its place, as the single call would be. Each \
                 takes one permit. With an `Idempotency-Key` each is known by key and place: a repeat goes on where the \
                 first request stopped.",
            )
            .auth(WRITE)
            .shows::<bulk::BulkAnswer>(),
    ]
}

fn messages() -> Vec<Operation> {
    const TAG: &str = "Messages";
    vec![
        post(
            "/v1/conversations/{conversation_id}/messages",
            "sendMessage",
            messages::send,
        )
        .about(
            TAG,
            "Send a message",
            "A customer's message makes a pending or closed conversation active.",
        )
        .auth(WRITE)
        .creates::<MessageView>(LocationRule::UnderRequestPath)
        .conditional()
        .refuses(&[Kind::ConversationClosed]),
        get(
            "/v1/conversations/{conversation_id}/messages",
            "listMessages",
            messages::list,
        )
        .about(TAG, "List messages", "Oldest first.")
        .auth(READ)
        .lists::<MessageView>(),
    ]
}

/// What is done with one message.
fn single_messages() -> Vec<Operation> {
    const TAG: &str = "Messages";
    vec![
        get(
            "/v1/conversations/{conversation_id}/messages/{message_id}",
            "getMessage",
            messages::read,
        )
        .about(TAG, "Get a message", "Shows one message.")
        .auth(READ)
        .shows::<MessageView>(),
        patch(
            "/v1/conversations/{conversation_id}/messages/{message_id}",
            "editMessage",
            messages::edit,
        )
        .about(
            TAG,
            "Edit a message",
            "Earlier texts stay readable as revisions. A redacted message can't be edited.",
        )
        .auth(WRITE)
        .shows::<MessageView>()
        .refuses(&[Kind::Conflict]),
        delete(
            "/v1/conversations/{conversation_id}/messages/{message_id}",
            "redactMessage",
            messages::redact,
        )
        .about(
            TAG,
            "Redact a message",
            "Erases what the message says, everywhere. The message stays in its place.",
        )
        .auth(WRITE),
        get(
            "/v1/conversations/{conversation_id}/messages/{message_id}/revisions",
            "listRevisions",
            messages::revisions,
        )
        .about(
            TAG,
            "List a message's revisions",
            "What it said before, newest first.",
        )
        .auth(READ)
        .lists::<RevisionView>(),
    ]
}

fn events() -> Vec<Operation> {
    const TAG: &str = "Events";
    vec![
        get("/v1/events", "listEvents", events::of_account)
            .about(
                TAG,
                "List events",
                "Oldest first. There is always a next page, so that a poller can go on.",
            )
            .auth(READ)
            .lists::<EventShown>()
            .streams()
            .refuses(&[Kind::CursorExpired]),
        get(
            "/v1/conversations/{conversation_id}/events",
            "listConversationEvents",
            events::of_conversation,
        )
        .about(
            TAG,
            "List a conversation's events",
            "Oldest first; a cursor is an event's `seq`.",
        )
        .auth(READ)
        .lists::<EventShown>()
        .streams()
        .refuses(&[Kind::CursorExpired]),
        get("/v1/realtime", "openRealtime", realtime::open)
            .about(
                TAG,
                "Open a WebSocket",
                "Events, messages, typing and presence in JSON frames; subprotocol `colloquy.v1`.",
            )
            .auth(AuthRequirement::KeyOrTicket(LINES))
            .switches(),
        post(
            "/v1/realtime/tickets",
            "createRealtimeTicket",
            realtime::ticket,
        )
        .about(
            TAG,
            "Make a ticket",
            "For browsers: it opens one WebSocket, within a minute, in place of a key.",
        )
        .auth(AuthRequirement::Key(LINES))
        .creates::<TicketShown<'_>>(LocationRule::UnderPath("/v1/realtime"))
        .secret(),
    ]
}

fn customers() -> Vec<Operation> {
    const TAG: &str = "Customers";
    vec![
        post(
            "/v1/customers",
            "createCustomer",
            records::create::<Customer, CreateCustomer>,
        )
        .about(
            TAG,
            "Create a customer",
            "An `external_id` is unique in the account and mode.",
        )
        .auth(WRITE_ALL)
        .creates::<CustomerView>(LocationRule::UnderRequestPath)
        .refuses(&[Kind::Conflict]),
        get("/v1/customers", "listCustomers", customers::list)
            .about(TAG, "List customers", "Newest first.")
            .auth(READ_ALL)
            .lists::<CustomerView>(),
        get(
            "/v1/customers/{customer_id}",
            "getCustomer",
            records::read::<Customer>,
        )
        .about(TAG, "Get a customer", "Shows one customer.")
        .auth(READ_ALL)
        .shows::<CustomerView>(),
        patch(
            "/v1/customers/{customer_id}",
            "changeCustomer",
            records::change::<Customer, ChangeCustomer>,
        )
        .about(
            TAG,
            "Change a customer",
            "What is given is set, what is left out stays.",
        )
        .auth(WRITE_ALL)
        .shows::<CustomerView>()
        .refuses(&[Kind::Conflict]),
    ]
}

/// How customers go, with or without all that they said.
fn erasing() -> Vec<Operation> {
    const TAG: &str = "Customers";
    vec![
        delete_as(
            "/v1/customers/{customer_id}",
            "deleteCustomer",
            customers::remove,
        )
        .about(
            TAG,
            "Delete or erase a customer",
            "One that has conversations can't be deleted. With `erase=true`, which wants `users:manage`, the customer and \
             all conversations are gone from the answer on, and their texts, names and files are erased behind it: events \
             stay with identifiers and numbers only, each conversation's last one is `conversation.erased`. Asked again \
             while that runs, it answers with the same erasure.",
        )
        .auth(AuthRequirement::Key(&[
            Permission::ConversationsWrite,
            Permission::UsersManage,
        ]))
        .or_accepts::<ErasureView>()
        .refuses(&[Kind::Conflict]),
        get(
            "/v1/erasures/{erasure_id}",
            "getErasure",
            records::read::<Erasure>,
        )
        .about(
            TAG,
            "Get an erasure",
            "How much of a customer was erased, and when nothing was left. It stays as the proof.",
        )
        .auth(WRITE_USERS)
        .shows::<ErasureView>(),
    ]
}

fn users() -> Vec<Operation> {
    const TAG: &str = "Users";
    vec![
        post(
            "/v1/users",
            "createUser",
            records::create::<User, CreateUser>,
        )
        .about(
            TAG,
            "Create a user",
            "Users belong to the account in both modes; an `email` is unique there.",
        )
        .auth(WRITE_USERS)
        .creates::<UserView>(LocationRule::UnderRequestPath)
        .refuses(&[Kind::Conflict]),
        get("/v1/users", "listUsers", records::list::<User>)
            .about(TAG, "List users", "Newest first.")
            .auth(READ_USERS)
            .lists::<UserView>(),
        get("/v1/users/{user_id}", "getUser", records::read::<User>)
            .about(TAG, "Get a user", "Shows one user.")
            .auth(READ_USERS)
            .shows::<UserView>(),
        patch(
            "/v1/users/{user_id}",
            "changeUser",
            records::change::<User, ChangeUser>,
        )
        .about(
            TAG,
            "Change a user",
            "What is given is set, what is left out stays.",
        )
        .auth(WRITE_USERS)
        .shows::<UserView>()
        .refuses(&[Kind::Conflict]),
        delete("/v1/users/{user_id}", "deleteUser", records::remove::<User>)
            .about(
                TAG,
                "Delete a user",
                "Conversations that were assigned to the user are assigned to nobody. The user's sessions in the \
                 console end at once.",
            )
            .auth(WRITE_USERS)
            .refuses(&[Kind::Conflict]),
        post("/v1/users/{user_id}/invitations", "inviteUser", invitations::invite)
            .about(
                TAG,
                "Invite a user to the console",
                "With the link, the person sets a password, once and within 72 h, and signs in to the console. A new \
                 invitation ends the earlier one. The person may do what the role may, and no more than the key that invites: \
                 with a test key, test data only.",
            )
            .auth(WRITE_USERS)
            .creates::<InvitationShown<'_>>(LocationRule::FurtherUp(1, ""))
            .refuses(&[Kind::Conflict])
            .secret(),
    ]
}

fn attachments() -> Vec<Operation> {
    const TAG: &str = "Attachments";
    vec![
        post("/v1/attachments", "uploadAttachment", attachments::upload)
            .about(
                TAG,
                "Upload a file",
                "The body is the file, of any media type, its name in `Content-Disposition`; or a form with one part `file`. \
                 Folders before a name are left out. A name without anything but dots and spaces, with control characters, or \
                 with those that turn the order of others (U+202A to U+202E, U+2066 to U+2069), is refused, since people would \
                 read another one; so is what is no media type. A message of type `file` then takes it by its id, and one of \
                 type `image` where the answer's `content_type` is PNG, JPEG, GIF or WebP. One that no message takes within 24 \
                 hours goes.",
            )
            .auth(WRITE)
            .creates::<AttachmentView>(LocationRule::UnderRequestPath),
        get("/v1/attachments/{attachment_id}", "getAttachment", attachments::read)
            .about(
                TAG,
                "Get what is known of a file",
                "Of one that a message has, for whoever may read that message; otherwise for whoever uploaded it, and who \
                 acts for the whole account.",
            )
            .auth(READ)
            .shows::<AttachmentView>(),
        get(
            "/v1/attachments/{attachment_id}/content",
            "getAttachmentContent",
            attachments::content,
        )
        .about(
            TAG,
            "Get a file",
            "Its bytes, or the part that `Range` names. It is a download, unless it is an image that browsers show safely. \
             Where the server is set so, the answer leads on to the object storage that has it.",
        )
        .auth(READ)
        .leads_on()
        .serves_a_file(),
    ]
}

fn figures() -> Vec<Operation> {
    const READ: AuthRequirement = AuthRequirement::Key(&[Permission::AnalyticsRead]);
    vec![
        get("/v1/analytics/conversations", "analyzeConversations", analytics::conversations)
            .about(
                "Analytics",
                "What conversations have come to",
                "How many were created, closed, reopened and open, who wrote how much, and how long first responses and \
                 resolutions took, for each interval. All of it can be recomputed from the events; it shows what was \
                 acknowledged before.",
            )
            .auth(READ)
            .shows::<FigureList>()
            .or_writes(&[csv::CSV]),
    ]
}

fn audit_trail() -> Vec<Operation> {
    vec![
        get("/v1/audit", "listAudit", audit::list)
            .about(
                "Audit",
                "List what was done",
                "Who did what, from where, and what was refused: everything of the account, in both modes, newest first.",
            )
            .auth(WRITE_USERS)
            .lists::<AuditView>(),
    ]
}

fn limits_and_usage() -> Vec<Operation> {
    const TAG: &str = "Usage";
    vec![
        get("/v1/limits", "getLimits", limits::show)
            .about(
                TAG,
                "Get the calling key's limits",
                "Its rate and its burst, and the quota that it shares with all keys of its account: what each is, and what \
                 is left of it, this request counted.",
            )
            .auth(ANY)
            .shows::<limits::LimitsShown>(),
        get("/v1/usage", "getUsage", usage::list)
            .about(
                TAG,
                "Get the account's usage",
                "What the account used between two days, by day, by key or by both, in both modes: requests and refusals, \
                 bytes, messages, documents and deliveries; with its quota, and what is stored of it. Requests of the last \
                 second before a crash may be missing.",
            )
            .auth(AuthRequirement::Key(&[Permission::AnalyticsRead]))
            .shows::<usage::UsageShown>()
            .or_writes(&[csv::CSV]),
    ]
}

fn service() -> Vec<Operation> {
    const TAG: &str = "Service";
    vec![
        get("/v1", "getVersion", service::version)
            .about(
                TAG,
                "Get the interface's version",
                "Which version this is, and since when.",
            )
            .auth(ANY)
            .shows::<service::Version>(),
        get("/v1/changelog", "getChangelog", service::changelog)
            .about(TAG, "Get the changelog", "All releases, newest first.")
            .auth(ANY)
            .shows::<service::Changelog>(),
        get("/healthz", "getHealth", service::health)
            .about(
                TAG,
                "Is the server alive?",
                "Answers as long as the process does.",
            )
            .auth(AuthRequirement::Public)
            .watched()
            .writes("text/plain; charset=utf-8"),
        get("/readyz", "getReadiness", service::readiness)
            .about(
                TAG,
                "Can the server serve?",
                "503 while it starts, drains, or has no store.",
            )
            .auth(AuthRequirement::Public)
            .watched()
            .writes("text/plain; charset=utf-8"),
        get("/metrics", "getMetrics", service::metrics)
            .about(
                TAG,
                "Get metrics",
                "As OpenMetrics 1.0, which Prometheus reads.",
            )
            .auth(AuthRequirement::Metrics)
            .writes(MEDIA_TYPE),
    ]
}

/// The interface's description, and the styles of its pages.
fn descriptions() -> Vec<Operation> {
    const TAG: &str = "Service";
    vec![
        get("/openapi.json", "getOpenApi", service::openapi)
            .about(
                TAG,
                "Get this document",
                "OpenAPI 3.1, made from the code that serves it.",
            )
            .auth(AuthRequirement::Public)
            .writes("application/json"),
        get("/docs", "getDocs", service::docs)
            .about(
                TAG,
                "Read this document",
                "The interface as a page for people.",
            )
            .auth(AuthRequirement::Public)
            .scripted()
            .writes("text/html; charset=utf-8"),
        get("/docs/docs.js", "getDocsScript", service::docs_script)
            .about(
                TAG,
                "Get the page's script",
                "What searches `/docs` as one types; without it the page is whole, but has no search field.",
            )
            .auth(AuthRequirement::Public)
            .writes("text/javascript; charset=utf-8"),
        get("/docs/diff.css", "getDiffStyle", service::diff_style)
            .about(
                TAG,
                "Get the style of compared versions",
                "What makes them readable side by side.",
            )
            .auth(AuthRequirement::Public)
            .writes("text/css; charset=utf-8"),
        get("/docs/share.css", "getShareStyle", service::share_style)
            .about(
                TAG,
                "Get the style of shared documents",
                "What makes the pages under `/s/` readable.",
            )
            .auth(AuthRequirement::Public)
            .writes("text/css; charset=utf-8"),
        get("/docs/style.css", "getDocsStyle", service::docs_style)
            .about(TAG, "Get the page's style", "What makes `/docs` readable.")
            .auth(AuthRequirement::Public)
            .writes("text/css; charset=utf-8"),
    ]
}
