//! The table: every operation of the interface, one builder call each. What does not stand here
//! does not exist, neither for callers nor in the document.

mod accounts;
mod actors;
mod bulk;
mod conversations;
mod customers;
mod deliveries;
mod document;
mod events;
mod keys;
mod messages;
mod realtime;
mod records;
mod service;
mod webhooks;

use colloquy_actors::accounts::{
    Account, ChangeAccount, ChangeCustomer, ChangeKey, ChangeUser, CreateCustomer, CreateUser,
    Customer, CustomerView, Key, User,
};
use colloquy_actors::conversation::messages::ConversationView;
use colloquy_actors::supervision::messages::SupervisionView;
use colloquy_actors::supervision::{ActorKindView, InstanceView, StoreView};
use colloquy_actors::webhook::{
    DeliveryLogView, DeliveryView, HealthView, ReplayView, Webhook, WebhookView,
};
use colloquy_model::account::AccountView;
use colloquy_model::attempt::Attempt;
use colloquy_model::conversation::{MessageView, RevisionView};
use colloquy_model::key::{KeyView, Permission};
use colloquy_model::user::UserView;

pub(super) use self::document::refusal_page;
use self::events::EventShown;
use self::realtime::TicketShown;
use super::operation::{AuthRequirement, LocationRule, Operation, delete, get, patch, post};
use super::problem::Kind;

/// What reads conversations, once or for as long as a stream is open.
const READING: &[Permission] = &[Permission::ConversationsRead];
const READ: AuthRequirement = AuthRequirement::Key(READING);
/// What changes conversations.
pub(super) const WRITING: &[Permission] = &[Permission::ConversationsWrite];
const WRITE: AuthRequirement = AuthRequirement::Key(WRITING);
/// What opens an event stream or a WebSocket: what is read or sent there has its own.
const LINES: &[Permission] = &[
    Permission::ConversationsRead,
    Permission::ConversationsWrite,
];
const ANY: AuthRequirement = AuthRequirement::Key(&[]);
const READ_USERS: AuthRequirement = AuthRequirement::Key(&[
    Permission::UsersManage,
    Permission::ConversationsRead,
    Permission::DocumentsRead,
]);
const WRITE_USERS: AuthRequirement = AuthRequirement::Key(&[Permission::UsersManage]);
const MANAGE_WEBHOOKS: AuthRequirement = AuthRequirement::Key(&[Permission::WebhooksManage]);

/// All operations, in the order in which the document shows them.
pub(crate) fn operations() -> Vec<Operation> {
    let mut all = conversations();
    all.extend(messages());
    all.extend(single_messages());
    all.extend(events());
    all.extend(customers());
    all.extend(users());
    all.extend(document::operations());
    all.extend(webhooks());
    all.extend(service());
    all.extend(descriptions());
    all.extend(accounts());
    all.extend(keys());
    all.extend(watching());
    all.extend(actors());
    all.extend(steering());
    all.extend(supervision());
    all
}

fn conversations() -> Vec<Operation> {
    const TAG: &str = "Conversations";
    vec![
        post("/v1/conversations", "createConversation", conversations::create)
            .about(TAG, "Start a conversation", "A new conversation is active. An initial message becomes message 1.")
            .auth(WRITE)
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
        .auth(WRITE)
        .creates::<CustomerView>(LocationRule::UnderRequestPath)
        .refuses(&[Kind::Conflict]),
        get("/v1/customers", "listCustomers", customers::list)
            .about(TAG, "List customers", "Newest first.")
            .auth(READ)
            .lists::<CustomerView>(),
        get(
            "/v1/customers/{customer_id}",
            "getCustomer",
            records::read::<Customer>,
        )
        .about(TAG, "Get a customer", "Shows one customer.")
        .auth(READ)
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
        .auth(WRITE)
        .shows::<CustomerView>()
        .refuses(&[Kind::Conflict]),
        delete(
            "/v1/customers/{customer_id}",
            "deleteCustomer",
            records::remove::<Customer>,
        )
        .about(
            TAG,
            "Delete a customer",
            "One that has conversations can't be deleted.",
        )
        .auth(WRITE)
        .refuses(&[Kind::Conflict]),
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
                "Conversations that were assigned to the user are assigned to nobody.",
            )
            .auth(WRITE_USERS)
            .refuses(&[Kind::Conflict]),
    ]
}

/// Webhooks stand in both interfaces, with the same handlers.
macro_rules! webhooks {
    ($base:literal, $after:literal) => {
        vec![
            post(concat!($base, "/webhooks"), concat!("createWebhook", $after), webhooks::create)
                .about(
                    "Webhooks",
                    "Create a webhook endpoint",
                    "The answer's `secret` signs its deliveries: it is shown only here.",
                )
                .auth(MANAGE_WEBHOOKS)
                .creates::<WebhookView>(LocationRule::UnderRequestPath)
                .secret(),
            get(concat!($base, "/webhooks"), concat!("listWebhooks", $after), records::list::<Webhook>)
                .about("Webhooks", "List webhook endpoints", "Newest first.")
                .auth(MANAGE_WEBHOOKS)
                .lists::<WebhookView>(),
            get(concat!($base, "/webhooks/{webhook_id}"), concat!("getWebhook", $after), records::read::<Webhook>)
                .about("Webhooks", "Get a webhook endpoint", "Shows one endpoint, without its secret.")
                .auth(MANAGE_WEBHOOKS)
                .shows::<WebhookView>(),
            patch(concat!($base, "/webhooks/{webhook_id}"), concat!("changeWebhook", $after), webhooks::change)
                .about(
                    "Webhooks",
                    "Change a webhook endpoint",
                    "What is given is set, what is left out stays; a `filter` replaces the one before as a whole.",
                )
                .auth(MANAGE_WEBHOOKS)
                .shows::<WebhookView>(),
            delete(concat!($base, "/webhooks/{webhook_id}"), concat!("deleteWebhook", $after), records::remove::<Webhook>)
                .about("Webhooks", "Delete a webhook endpoint", "What waits for it is given up.")
                .auth(MANAGE_WEBHOOKS),
            post(
                concat!($base, "/webhooks/{webhook_id}/rotate-secret"),
                concat!("rotateWebhookSecret", $after),
                webhooks::rotate_secret,
            )
            .about(
                "Webhooks",
                "Rotate an endpoint's secret",
                "The answer's `secret` is the new one: it is shown only here. The old one signs too for the overlap.",
            )
            .auth(MANAGE_WEBHOOKS)
            .shows::<WebhookView>()
            .conditional()
            .secret(),
            post(concat!($base, "/webhooks/{webhook_id}/test"), concat!("testWebhook", $after), webhooks::test)
                .about(
                    "Webhooks",
                    "Try a webhook endpoint",
                    "Sends a sample at once, also to an endpoint that is disabled, and shows what came of it.",
                )
                .auth(MANAGE_WEBHOOKS)
                .shows::<Attempt>(),
            get(
                concat!($base, "/webhooks/{webhook_id}/deliveries"),
                concat!("listDeliveries", $after),
                deliveries::list,
            )
            .about("Webhooks", "List an endpoint's deliveries", "Newest first.")
            .auth(MANAGE_WEBHOOKS)
            .lists::<DeliveryView>(),
            get(
                concat!($base, "/webhooks/{webhook_id}/deliveries/{delivery_id}"),
                concat!("getDelivery", $after),
                deliveries::read,
            )
            .about("Webhooks", "Get a delivery", "Shows one delivery with each attempt.")
            .auth(MANAGE_WEBHOOKS)
            .shows::<DeliveryLogView>(),
            post(
                concat!($base, "/webhooks/{webhook_id}/deliveries/{delivery_id}/retry"),
                concat!("retryDelivery", $after),
                deliveries::retry,
            )
            .about(
                "Webhooks",
                "Send a delivery again",
                "One that waits is sent at once, when its turn has come; one that has ended is sent once more.",
            )
            .auth(MANAGE_WEBHOOKS)
            .accepts::<DeliveryView>()
            .refuses(&[Kind::Conflict]),
            post(concat!($base, "/webhooks/{webhook_id}/replay"), concat!("replayEvents", $after), deliveries::replay)
                .about(
                    "Webhooks",
                    "Send events of the past again",
                    "All stored events that match, in order, beside what happens now; older ones than the endpoint too.",
                )
                .auth(MANAGE_WEBHOOKS)
                .accepts::<ReplayView>()
                .refuses(&[Kind::Conflict]),
        ]
    };
}

fn webhooks() -> Vec<Operation> {
    let mut all = webhooks!("/v1", "");
    all.extend(webhooks!("/api/v1", "OfDocuments"));
    all
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
            .watched()
            .writes("text/plain; charset=utf-8"),
        get("/readyz", "getReadiness", service::readiness)
            .about(
                TAG,
                "Can the server serve?",
                "503 while it starts, drains, or has no store.",
            )
            .watched()
            .writes("text/plain; charset=utf-8"),
        get("/metrics", "getMetrics", service::metrics)
            .about(TAG, "Get metrics", "In Prometheus' text format.")
            .auth(AuthRequirement::Metrics)
            .writes("text/plain; version=0.0.4; charset=utf-8"),
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
            .writes("application/json"),
        get("/docs", "getDocs", service::docs)
            .about(
                TAG,
                "Read this document",
                "The interface as a page for people.",
            )
            .writes("text/html; charset=utf-8"),
        get("/docs/diff.css", "getDiffStyle", service::diff_style)
            .about(
                TAG,
                "Get the style of compared versions",
                "What makes them readable side by side.",
            )
            .writes("text/css; charset=utf-8"),
        get("/docs/share.css", "getShareStyle", service::share_style)
            .about(
                TAG,
                "Get the style of shared documents",
                "What makes the pages under `/s/` readable.",
            )
            .writes("text/css; charset=utf-8"),
        get("/docs/style.css", "getDocsStyle", service::docs_style)
            .about(TAG, "Get the page's style", "What makes `/docs` readable.")
            .writes("text/css; charset=utf-8"),
    ]
}

fn accounts() -> Vec<Operation> {
    const TAG: &str = "Operators: accounts";
    vec![
        post("/admin/v1/accounts", "createAccount", accounts::create)
            .about(
                TAG,
                "Create an account",
                "An account owns everything else, and nothing of it is visible to another.",
            )
            .auth(AuthRequirement::Operator)
            .creates::<AccountView>(LocationRule::UnderRequestPath),
        get(
            "/admin/v1/accounts",
            "listAccounts",
            records::list::<Account>,
        )
        .about(TAG, "List accounts", "Newest first.")
        .auth(AuthRequirement::Operator)
        .lists::<AccountView>(),
        get(
            "/admin/v1/accounts/{account_id}",
            "getAccount",
            records::read::<Account>,
        )
        .about(TAG, "Get an account", "Shows one account.")
        .auth(AuthRequirement::Operator)
        .shows::<AccountView>(),
        patch(
            "/admin/v1/accounts/{account_id}",
            "changeAccount",
            records::change::<Account, ChangeAccount>,
        )
        .about(
            TAG,
            "Change an account",
            "Takes effect for the very next request of its keys.",
        )
        .auth(AuthRequirement::Operator)
        .shows::<AccountView>(),
    ]
}

fn watching() -> Vec<Operation> {
    vec![
        get(
            "/admin/v1/webhooks",
            "listWebhookHealth",
            deliveries::health,
        )
        .about(
            "Operators: health",
            "How deliveries fare",
            "Every webhook endpoint of every account, newest first.",
        )
        .auth(AuthRequirement::Operator)
        .lists::<HealthView>(),
        get("/admin/v1/store", "getStoreHealth", actors::health)
            .about(
                "Operators: health",
                "How the store fares",
                "Its size, how fast it commits, what waits for it, and how far its followers have come.",
            )
            .auth(AuthRequirement::Operator)
            .shows::<StoreView>(),
    ]
}

fn actors() -> Vec<Operation> {
    const TAG: &str = "Operators: actors";
    vec![
        get("/admin/v1/actors", "listActorKinds", actors::kinds)
            .about(TAG, "How actors fare", "The figures of every kind.")
            .auth(AuthRequirement::Operator)
            .shows::<actors::ActorKinds>(),
        get(
            "/admin/v1/actors/{actor_kind}",
            "getActorKind",
            actors::kind,
        )
        .about(
            TAG,
            "How the actors of one kind fare",
            "The figures of the kind.",
        )
        .auth(AuthRequirement::Operator)
        .shows::<ActorKindView>(),
        get(
            "/admin/v1/actors/{actor_kind}/instances",
            "listActors",
            actors::instances,
        )
        .about(
            TAG,
            "List the actors of one kind that are in memory",
            "The largest or latest first; there is no next page.",
        )
        .auth(AuthRequirement::Operator)
        .shows::<actors::ActorInstances>(),
        get(
            "/admin/v1/actors/{actor_kind}/instances/{actor_id}",
            "getActor",
            actors::instance,
        )
        .about(
            TAG,
            "Get an actor",
            "One that is stored and not in memory is `passive`; looking does not load it. One that is loading is \
             `loading`, although nobody knows yet whether it is stored.",
        )
        .auth(AuthRequirement::Operator)
        .shows::<InstanceView>(),
    ]
}

/// What operators do with one actor.
fn steering() -> Vec<Operation> {
    const TAG: &str = "Operators: actors";
    vec![
        post(
            "/admin/v1/actors/{actor_kind}/instances/{actor_id}/restart",
            "restartActor",
            actors::restart,
        )
        .about(
            TAG,
            "Restart an actor",
            "It drops its state behind what is queued and loads it again; a backoff ends at once, and its crashes still \
             count. Requests that come before that is done are one restart; where it is not in memory, or in \
             quarantine, nothing is done.",
        )
        .auth(AuthRequirement::Operator)
        .shows::<InstanceView>(),
        post(
            "/admin/v1/actors/{actor_kind}/instances/{actor_id}/passivate",
            "passivateActor",
            actors::passivate,
        )
        .about(
            TAG,
            "Take an actor out of memory",
            "As soon as it holds no request, which is waited for no longer than `ask_timeout_seconds`: 409 where it has \
             been busy all the time. One that backs off or is in quarantine stays as it is; a drill stays ahead of it.",
        )
        .auth(AuthRequirement::Operator)
        .refuses(&[Kind::Conflict])
        .shows::<InstanceView>(),
        post(
            "/admin/v1/actors/{actor_kind}/instances/{actor_id}/release",
            "releaseActor",
            actors::release,
        )
        .about(
            TAG,
            "Release an actor from quarantine",
            "Or from a backoff. Its crashes are forgotten. Where it is in neither, nothing is done.",
        )
        .auth(AuthRequirement::Operator)
        .shows::<InstanceView>(),
        post(
            "/admin/v1/actors/{actor_kind}/instances/{actor_id}/crash",
            "crashActor",
            actors::crash,
        )
        .about(
            TAG,
            "Let an actor crash",
            "A drill: its next request panics. One that is not in memory is loaded first; a passivation in between does \
             not end the drill.",
        )
        .auth(AuthRequirement::Operator)
        .known_by(actors::check_drills)
        .refuses(&[Kind::Forbidden])
        .shows::<InstanceView>(),
    ]
}

fn supervision() -> Vec<Operation> {
    const TAG: &str = "Operators: supervision";
    vec![
        get("/admin/v1/supervision", "getSupervision", actors::settings)
            .about(
                TAG,
                "How actors are supervised",
                "Each setting of each kind, with its value and the one that is configured.",
            )
            .auth(AuthRequirement::Operator)
            .shows::<SupervisionView>(),
        patch(
            "/admin/v1/supervision",
            "changeSupervision",
            actors::change_settings,
        )
        .about(
            TAG,
            "Change how actors are supervised",
            "What is given is set, what is left out stays, null goes back to what is configured. Holds at once for \
             actors that live, for a backoff or a quarantine that runs, counted from its beginning, and after a restart.",
        )
        .auth(AuthRequirement::Operator)
        .shows::<SupervisionView>(),
    ]
}

fn keys() -> Vec<Operation> {
    const TAG: &str = "Operators: keys";
    vec![
        post("/admin/v1/accounts/{account_id}/keys", "createKey", keys::create)
            .about(TAG, "Create a key", "The answer's `key` is the secret: it is shown only here.")
            .auth(AuthRequirement::Operator)
            .creates::<KeyView>(LocationRule::UnderPath("/admin/v1/keys/"))
            .secret(),
        get("/admin/v1/accounts/{account_id}/keys", "listKeys", records::list::<Key>)
            .about(TAG, "List an account's keys", "Newest first, revoked ones too.")
            .auth(AuthRequirement::Operator)
            .lists::<KeyView>(),
        get("/admin/v1/keys/{key_id}", "getKey", records::read::<Key>)
            .about(TAG, "Get a key", "Shows one key, without its secret.")
            .auth(AuthRequirement::Operator)
            .shows::<KeyView>(),
        patch("/admin/v1/keys/{key_id}", "changeKey", records::change::<Key, ChangeKey>)
            .about(TAG, "Change a key", "Takes effect for the very next request with it.")
            .auth(AuthRequirement::Operator)
            .shows::<KeyView>()
            .refuses(&[Kind::Conflict]),
        delete("/admin/v1/keys/{key_id}", "revokeKey", keys::revoke)
            .about(TAG, "Revoke a key", "Holds for the very next request with it. The key stays listed.")
            .auth(AuthRequirement::Operator),
        post("/admin/v1/keys/{key_id}/rotate", "rotateKey", keys::rotate)
            .about(
                TAG,
                "Rotate a key's secret",
                "The answer's `key` is the new secret: it is shown only here. The old one holds for the overlap.",
            )
            .auth(AuthRequirement::Operator)
            .shows::<KeyView>()
            .conditional()
            .refuses(&[Kind::Conflict])
            .secret(),
    ]
}
