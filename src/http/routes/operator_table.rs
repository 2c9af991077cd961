//! The operators' part of the table: accounts and their keys, health, actors and their supervision.

use colloquy_actors::accounts::{Account, ChangeKey, ForgetAccount, Key, User};
use colloquy_actors::audit::{AuditView, ChainPage};
use colloquy_actors::backup::BackupView;
use colloquy_actors::key_rotation::{EncryptionView, RotationView};
use colloquy_actors::supervision::messages::SupervisionView;
use colloquy_actors::supervision::{ActorKindView, InstanceView, StoreView};
use colloquy_actors::webhook::HealthView;
use colloquy_model::account::AccountView;
use colloquy_model::key::KeyView;
use colloquy_model::user::OperatorView;

use super::super::operation::{AuthRequirement, LocationRule, Operation, delete, get, patch, post};
use super::super::problem::Kind;
use super::invitations::{self, InvitationShown};
use super::{
    accounts, actors, analytics, audit, backups, deliveries, encryption, keys, limits, nodes,
    operators, records,
};

/// What operators do, in the order in which the document shows it.
pub(super) fn operations() -> Vec<Operation> {
    let mut all = of_accounts();
    all.extend(of_domains());
    all.extend(of_keys());
    all.extend(of_operators());
    all.extend(watching());
    all.extend(audit_trail());
    all.extend(of_limits());
    all.extend(of_nodes());
    all.extend(of_encryption());
    all.extend(of_analytics());
    all.extend(of_backups());
    all.extend(of_actors());
    all.extend(
        steering()
            .into_iter()
            .chain(drills())
            .map(Operation::conditional),
    );
    all.extend(supervision());
    all
}

fn of_accounts() -> Vec<Operation> {
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
            accounts::change,
        )
        .about(
            TAG,
            "Change an account",
            "Takes effect for the very next request of its keys. A domain is the account's once its TXT record \
             is found, which is looked up by itself; 409 where another account has proven it.",
        )
        .auth(AuthRequirement::Operator)
        .refuses(&[Kind::Conflict])
        .shows::<AccountView>(),
        post(
            "/admin/v1/accounts/{account_id}/forget",
            "forgetAccount",
            records::change::<Account, ForgetAccount>,
        )
        .about(
            TAG,
            "Destroy the keys of an account's texts",
            "For good: where texts are encrypted, nobody can read what was written in the account any more, in \
             no copy of the store that is made from now on. Nobody comes in with its keys, users or clients. \
             409 where texts are not encrypted.",
        )
        .auth(AuthRequirement::Operator)
        .refuses(&[Kind::Conflict])
        .conditional()
        .shows::<AccountView>(),
    ]
}

/// What makes host names an account's own.
fn of_domains() -> Vec<Operation> {
    const TAG: &str = "Operators: accounts";
    vec![
        post(
            "/admin/v1/accounts/{account_id}/domains/{host}/verify",
            "verifyDomain",
            accounts::verify_domain,
        )
        .about(
            TAG,
            "Look up a domain's TXT record",
            "At once, instead of by itself after a while. 409 says what was found where it proves nothing. A \
             domain that is proven stays so until it is taken from the account's list.",
        )
        .auth(AuthRequirement::Operator)
        .refuses(&[Kind::Conflict])
        .conditional()
        .shows::<AccountView>(),
    ]
}

fn of_keys() -> Vec<Operation> {
    const TAG: &str = "Operators: keys";
    vec![
        post("/admin/v1/accounts/{account_id}/keys", "createKey", keys::create)
            .about(TAG, "Create a key", "The answer's `key` is the secret: it is shown only here.")
            .auth(AuthRequirement::Operator)
            .creates::<KeyView>(LocationRule::UnderPath("/admin/v1/keys/"))
            .refuses(&[Kind::Conflict])
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

/// The people who sign in to the operators' side of the console.
fn of_operators() -> Vec<Operation> {
    const TAG: &str = "Operators: people";
    vec![
        post(
            "/admin/v1/operators",
            "createOperator",
            operators::create,
        )
        .about(
            TAG,
            "Create an operator",
            "A person who signs in to the console by name and password; the password is set by invitation.",
        )
        .auth(AuthRequirement::Operator)
        .creates::<OperatorView<'_>>(LocationRule::UnderRequestPath)
        .refuses(&[Kind::Conflict]),
        get("/admin/v1/operators", "listOperators", records::list::<User>)
            .about(
                TAG,
                "List operators",
                "Newest first. Whoever has signed in with the operator token is one of them.",
            )
            .auth(AuthRequirement::Operator)
            .lists::<OperatorView<'_>>(),
        get(
            "/admin/v1/operators/{operator_id}",
            "getOperator",
            records::read::<User>,
        )
        .about(TAG, "Get an operator", "Shows one operator.")
        .auth(AuthRequirement::Operator)
        .shows::<OperatorView<'_>>(),
        delete(
            "/admin/v1/operators/{operator_id}",
            "deleteOperator",
            records::remove::<User>,
        )
        .about(
            TAG,
            "Delete an operator",
            "The operator's sessions end at once.",
        )
        .auth(AuthRequirement::Operator)
        .refuses(&[Kind::Conflict]),
        post(
            "/admin/v1/operators/{operator_id}/invitations",
            "inviteOperator",
            invitations::invite,
        )
        .about(
            TAG,
            "Invite an operator to set a password",
            "Holds for 72 h and once; a new invitation ends the earlier one.",
        )
        .auth(AuthRequirement::Operator)
        .creates::<InvitationShown<'_>>(LocationRule::FurtherUp(1, ""))
        .refuses(&[Kind::Conflict])
        .secret(),
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

fn audit_trail() -> Vec<Operation> {
    vec![
        get("/admin/v1/audit", "listAllAudit", audit::list_all)
            .about(
                "Operators: audit",
                "List what was done",
                "What operators did, and everything that was done in any account, newest first.",
            )
            .auth(AuthRequirement::Operator)
            .lists::<AuditView>(),
        get("/admin/v1/audit/chain", "readAuditChain", audit::chain)
            .about(
                "Operators: audit",
                "Read the chain over all records",
                "Oldest first, behind a position: what `colloquy audit verify` and `colloquy audit export` read of a running \
                 server. The README says what the links are made of.",
            )
            .auth(AuthRequirement::Operator)
            .shows::<ChainPage>(),
    ]
}

fn of_limits() -> Vec<Operation> {
    vec![
        get("/admin/v1/limits", "watchLimits", limits::watch)
            .about(
                "Operators: limits",
                "See which keys come near to their limits",
                "Those nearest to them, those refused most in the last hour, and what each asked minute by minute, at all \
                 nodes, a good second behind. It is kept in memory, of 10,000 keys at most.",
            )
            .auth(AuthRequirement::Operator)
            .shows::<limits::WatchedLimits>(),
    ]
}

fn of_nodes() -> Vec<Operation> {
    const TAG: &str = "Operators: nodes";
    vec![
        get("/admin/v1/nodes", "listNodes", nodes::list)
            .about(
                TAG,
                "List nodes",
                "The processes that serve the store; on the embedded store there is one.",
            )
            .auth(AuthRequirement::Operator)
            .shows::<nodes::NodeList>(),
        post("/admin/v1/nodes/{node}/drain", "drainNode", nodes::drain)
            .about(
                TAG,
                "Drain a node",
                "Its `/readyz` answers 503 within 15 s, so that a balancer takes it out; it serves until it is told to end.",
            )
            .auth(AuthRequirement::Operator)
            .accepts::<nodes::NodeView>(),
    ]
}

fn of_encryption() -> Vec<Operation> {
    const TAG: &str = "Operators: encryption";
    vec![
        get("/admin/v1/encryption", "getEncryption", encryption::show)
            .about(
                TAG,
                "How the store is encrypted",
                "Which master key the store is under, by names from which nothing can be told of the keys.",
            )
            .auth(AuthRequirement::Operator)
            .shows::<EncryptionView>(),
        post("/admin/v1/encryption/rotate", "rotateMasterKey", encryption::rotate)
            .about(
                TAG,
                "Put the master key in the place of the one before",
                "From then on a start needs the master key alone that this node was started with. Again, it does nothing: `was` is \
                 `master_key` then.",
            )
            .auth(AuthRequirement::Operator)
            .shows::<RotationView>()
            .refuses(&[Kind::Conflict]),
    ]
}

fn of_backups() -> Vec<Operation> {
    const TAG: &str = "Operators: backups";
    vec![
        post("/admin/v1/backups", "createBackup", backups::create)
            .about(
                TAG,
                "Back the store up now",
                "The backup is made behind the answer and holds at least what was acknowledged before. 409 where one is being \
                 made, where `[backup] url` is not set, and on MongoDB, which has tools of its own.",
            )
            .auth(AuthRequirement::Operator)
            .accepts::<BackupView>()
            .refuses(&[Kind::Conflict]),
        get("/admin/v1/backups", "listBackups", backups::list)
            .about(TAG, "List backups", "Newest first; as many as are kept, and failed ones.")
            .auth(AuthRequirement::Operator)
            .lists::<BackupView>(),
        get("/admin/v1/backups/{backup_id}", "getBackup", backups::get)
            .about(TAG, "Get a backup", "`url` is what `colloquy restore` takes.")
            .auth(AuthRequirement::Operator)
            .shows::<BackupView>(),
    ]
}

fn of_analytics() -> Vec<Operation> {
    const TAG: &str = "Operators: analytics";
    vec![
        get("/admin/v1/analytics", "getAnalyticsState", analytics::state)
            .about(
                TAG,
                "Whether figures are being made anew",
                "And how far that has come in the log.",
            )
            .auth(AuthRequirement::Operator)
            .shows::<analytics::AnalyticsState>(),
        post("/admin/v1/analytics/rebuild", "rebuildAnalytics", analytics::rebuild)
            .about(
                TAG,
                "Make all figures anew from the log",
                "Those that are shown are kept up meanwhile, and replaced at once in the end. Where it is under way already, it \
                 goes on. Refused where retention has taken events: those figures can't be made again.",
            )
            .auth(AuthRequirement::Operator)
            .accepts::<analytics::AnalyticsState>()
            .refuses(&[Kind::Conflict]),
    ]
}

fn of_actors() -> Vec<Operation> {
    const TAG: &str = "Operators: actors";
    vec![
        get("/admin/v1/actors", "listActorKinds", actors::kinds)
            .about(TAG, "How actors fare", "The figures of every kind, added up over all nodes that serve the store as they are at this moment; a node \
                 that does not answer within 6 s is left out.")
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
            "The figures of the kind, added up in the same way.",
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
            "The largest or latest first; there is no next page. One whose quarantine has ended is `ready`: the next \
             request is let in, as its trial. Those of all nodes: one that several have in memory comes once for each, \
             with its `node`.",
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
             `loading`, although nobody knows yet whether it is stored. Of several nodes that have it in memory, as \
             it is where it fares worst.",
        )
        .auth(AuthRequirement::Operator)
        .shows::<InstanceView>(),
    ]
}

/// What operators do with one actor, or only with one that is in the state that they name.
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
            "It drops its state behind what is queued and loads it again; a backoff ends at once, which is the restart \
             that was counted with its crash, and its crashes still count. Requests that come before that is done are \
             one restart; where it is not in memory, in quarantine, or not asked since its quarantine, nothing is done. \
             Like every command, it reaches the actor at each node that has it in memory; 503 where one of them did not \
             answer, and it is not known whether it was done there.",
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
             been busy all the time. One that backs off or is in quarantine stays as it is. Its crashes still count, and \
             a trial or a drill stays ahead of it; of each kind that is remembered of the 10,000 actors that left \
             memory last with any of these.",
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
            "Or from a backoff. Its crashes are forgotten, and there is no trial, which also holds for one in memory that \
             has not been asked since its quarantine ended. Otherwise nothing is done.",
        )
        .auth(AuthRequirement::Operator)
        .shows::<InstanceView>(),
    ]
}

fn drills() -> Vec<Operation> {
    const TAG: &str = "Operators: actors";
    vec![
        post(
            "/admin/v1/actors/{actor_kind}/instances/{actor_id}/crash",
            "crashActor",
            actors::crash,
        )
        .about(
            TAG,
            "Let an actor crash",
            "A drill: its next request panics. One that is not in memory is loaded first. The drill keeps no actor in \
             memory, and a passivation in between does not end it. Of several nodes, those that have it in memory; where \
             none has, the one that was asked.",
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
             actors that live, for a backoff or a quarantine that runs, counted from its beginning, and after a restart; at \
             every node once it is answered.",
        )
        .auth(AuthRequirement::Operator)
        .shows::<SupervisionView>(),
    ]
}
