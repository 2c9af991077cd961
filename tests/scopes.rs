//! Who may call what: every operation of the published interface, with every kind of credential and
//! every scope, against one table.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::oauth::{self, Authority, BACK, Registered};
use crate::support::{Account, Client, OPERATOR, Person, Server, Setup};

/// What lets somebody in, and below it what that is needed for: `nothing`, `an OAuth client` with its
/// secret in a form, `the operator token`, `any key`, or scopes of which a key needs one.
const TABLE: &str = "
nothing
    GET /healthz
    GET /readyz
    GET /openapi.json
    GET /docs
    GET /docs/diff.css
    GET /docs/docs.js
    GET /docs/share.css
    GET /docs/style.css
    GET /s/{token}
    GET /s/{token}/versions/{version_id}
    PUT /s/{token}
    POST /s/{token}
    POST /s/{token}/comment
    POST /s/{token}/comments
    POST /s/{token}/edit
    GET /oauth/authorize
    GET /.well-known/oauth-authorization-server
    GET /.well-known/jwks.json
an OAuth client
    POST /oauth/token
    POST /oauth/revoke
    POST /oauth/introspect
the operator token
    GET /metrics
    GET POST /admin/v1/accounts
    GET PATCH /admin/v1/accounts/{account_id}
    GET POST /admin/v1/accounts/{account_id}/keys
    GET PATCH DELETE /admin/v1/keys/{key_id}
    POST /admin/v1/keys/{key_id}/rotate
    GET /admin/v1/actors
    GET /admin/v1/actors/{actor_kind}
    GET /admin/v1/actors/{actor_kind}/instances
    GET /admin/v1/actors/{actor_kind}/instances/{actor_id}
    POST /admin/v1/actors/{actor_kind}/instances/{actor_id}/crash
    POST /admin/v1/actors/{actor_kind}/instances/{actor_id}/passivate
    POST /admin/v1/actors/{actor_kind}/instances/{actor_id}/release
    POST /admin/v1/actors/{actor_kind}/instances/{actor_id}/restart
    GET /admin/v1/analytics
    POST /admin/v1/analytics/rebuild
    GET /admin/v1/audit
    GET /admin/v1/audit/chain
    GET POST /admin/v1/backups
    GET /admin/v1/backups/{backup_id}
    GET /admin/v1/limits
    GET /admin/v1/nodes
    POST /admin/v1/nodes/{node}/drain
    GET POST /admin/v1/operators
    GET DELETE /admin/v1/operators/{operator_id}
    POST /admin/v1/operators/{operator_id}/invitations
    GET /admin/v1/store
    GET PATCH /admin/v1/supervision
    GET /admin/v1/webhooks
    GET /admin/v1/encryption
    POST /admin/v1/encryption/rotate
    POST /admin/v1/oauth/rotate-keys
    POST /admin/v1/accounts/{account_id}/forget
    POST /admin/v1/accounts/{account_id}/domains/{host}/verify
any key
    GET /v1
    GET /v1/changelog
    GET /v1/limits
conversations:read conversations:assigned
    GET /v1/attachments/{attachment_id}
    GET /v1/attachments/{attachment_id}/content
    GET /v1/conversations
    GET /v1/conversations/{conversation_id}
    GET /v1/conversations/{conversation_id}/events
    GET /v1/conversations/{conversation_id}/messages
    GET /v1/conversations/{conversation_id}/messages/{message_id}
    GET /v1/conversations/{conversation_id}/messages/{message_id}/revisions
    GET /v1/events
conversations:write conversations:assigned
    POST /v1/attachments
    PATCH /v1/conversations/{conversation_id}
    POST /v1/conversations/{conversation_id}/close
    POST /v1/conversations/{conversation_id}/reopen
    POST /v1/conversations/{conversation_id}/messages
    PATCH DELETE /v1/conversations/{conversation_id}/messages/{message_id}
    POST /v1/conversations/bulk
conversations:read conversations:write conversations:assigned
    GET /v1/realtime
    POST /v1/realtime/tickets
conversations:read
    GET /v1/customers
    GET /v1/customers/{customer_id}
conversations:write
    POST /v1/conversations
    POST /v1/customers
    PATCH /v1/customers/{customer_id}
conversations:write users:manage
    DELETE /v1/customers/{customer_id}
users:manage conversations:read documents:read
    GET /v1/users
    GET /v1/users/{user_id}
users:manage
    GET /v1/audit
    GET /v1/erasures/{erasure_id}
    POST /v1/users
    PATCH DELETE /v1/users/{user_id}
    POST /v1/users/{user_id}/invitations
    GET POST /v1/oauth/clients
    GET PATCH DELETE /v1/oauth/clients/{client_id}
    POST /v1/oauth/clients/{client_id}/rotate-secret
analytics:read
    GET /v1/analytics/conversations
    GET /v1/usage
documents:read
    GET /api/v1/documents
    GET /api/v1/documents/{document_id}
    GET /api/v1/documents/{document_id}/activity
    GET /api/v1/documents/{document_id}/collaborators
    GET /api/v1/documents/{document_id}/comments
    GET /api/v1/documents/{document_id}/diff
    GET /api/v1/documents/{document_id}/permissions
    GET /api/v1/documents/{document_id}/share
    GET /api/v1/documents/{document_id}/versions
    GET /api/v1/documents/{document_id}/versions/{version}
documents:write
    POST /api/v1/documents
    PUT DELETE /api/v1/documents/{document_id}
    POST /api/v1/documents/{document_id}/comments
    PATCH DELETE /api/v1/documents/{document_id}/comments/{comment_id}
    POST /api/v1/documents/{document_id}/merge
    POST /api/v1/documents/{document_id}/restore
    POST /api/v1/documents/{document_id}/versions
    POST /api/v1/documents/{document_id}/versions/{version}/restore
documents:share
    POST /api/v1/documents/{document_id}/collaborators
    PUT DELETE /api/v1/documents/{document_id}/collaborators/{user_id}
    PUT /api/v1/documents/{document_id}/permissions
    POST /api/v1/documents/{document_id}/share
    DELETE /api/v1/documents/{document_id}/share/{share_id}
webhooks:manage
    GET POST /v1/webhooks /api/v1/webhooks
    GET PATCH DELETE /v1/webhooks/{webhook_id} /api/v1/webhooks/{webhook_id}
    POST /v1/webhooks/{webhook_id}/rotate-secret /api/v1/webhooks/{webhook_id}/rotate-secret
    POST /v1/webhooks/{webhook_id}/test /api/v1/webhooks/{webhook_id}/test
    POST /v1/webhooks/{webhook_id}/replay /api/v1/webhooks/{webhook_id}/replay
    GET /v1/webhooks/{webhook_id}/deliveries /api/v1/webhooks/{webhook_id}/deliveries
    GET /v1/webhooks/{webhook_id}/deliveries/{delivery_id}
    GET /api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}
    POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry
    POST /api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry
";

const SCOPES: [&str; 9] = [
    "conversations:read",
    "conversations:write",
    "conversations:assigned",
    "documents:read",
    "documents:write",
    "documents:share",
    "webhooks:manage",
    "analytics:read",
    "users:manage",
];

/// What agents may not do, whatever their key may.
const FOR_ADMINS: [&str; 2] = ["users:manage", "webhooks:manage"];

/// Requests under way at once.
const AT_ONCE: usize = 16;

/// The table by method and path.
fn table() -> BTreeMap<(String, String), &'static str> {
    let (mut all, mut needed) = (BTreeMap::new(), "");
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        let Some(operations) = line.strip_prefix("    ") else {
            needed = line;
            continue;
        };
        let (methods, paths): (Vec<&str>, Vec<&str>) = operations
            .split(' ')
            .partition(|word| !word.starts_with('/'));
        for path in paths {
            for method in &methods {
                let operation = ((*method).to_owned(), path.to_owned());
                assert!(all.insert(operation, needed).is_none(), "{line} twice");
            }
        }
    }
    all
}

/// Whom a key acts for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Nobody,
    Agent,
    Admin,
}

/// What a credential is.
enum Kind {
    /// None, or none that the interface knows.
    Nothing,
    Operator,
    Key {
        read_only: bool,
        /// None: all but those that have to be named.
        scope: Option<&'static str>,
        role: Role,
    },
}

struct Credential {
    name: String,
    /// The header that bears it.
    header: Option<(&'static str, String)>,
    kind: Kind,
}

/// What becomes of a request before anything else is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    LetIn,
    Unauthorized,
    Forbidden,
}

impl Outcome {
    fn of(status: u16) -> Self {
        match status {
            401 => Outcome::Unauthorized,
            403 => Outcome::Forbidden,
            _ => Outcome::LetIn,
        }
    }
}

impl Credential {
    fn expected(&self, method: &str, needed: &str) -> Outcome {
        let Kind::Key {
            read_only,
            scope,
            role,
        } = self.kind
        else {
            let is_operator = matches!(self.kind, Kind::Operator);
            return match needed {
                "nothing" => Outcome::LetIn,
                "the operator token" if is_operator => Outcome::LetIn,
                _ => Outcome::Unauthorized,
            };
        };
        match needed {
            "nothing" => return Outcome::LetIn,
            "the operator token" => return Outcome::Unauthorized,
            _ if read_only && method != "GET" => return Outcome::Forbidden,
            "any key" => return Outcome::LetIn,
            _ => {}
        }
        let has = |one: &&str| match scope {
            Some(own) => own == *one,
            None => *one != "conversations:assigned",
        };
        let granted: Vec<&str> = needed.split(' ').filter(has).collect();
        let only = |some: &[&str]| granted.iter().all(|one| some.contains(one));
        let refused = granted.is_empty()
            || (role == Role::Agent && only(&FOR_ADMINS))
            || (role == Role::Nobody && only(&["conversations:assigned"]));
        match refused {
            true => Outcome::Forbidden,
            false => Outcome::LetIn,
        }
    }
}

/// Makes the credentials of an account.
async fn credentials(account: &Account) -> Vec<Credential> {
    let all = account.test();
    let users = [
        (Role::Nobody, Value::Null),
        (Role::Agent, json!(all.user("agent").await)),
        (Role::Admin, json!(all.user("admin").await)),
    ];
    let scopes = SCOPES.map(Some);
    let mut wanted = Vec::new();
    for (role, user) in &users {
        for kind in ["test", "prod", "read"] {
            wanted.push((kind, None, *role, user));
        }
        wanted.extend(scopes.map(|scope| ("test", scope, *role, user)));
    }
    wanted.extend(scopes.map(|scope| ("read", scope, Role::Admin, &users[2].1)));
    let mut made = Vec::new();
    for (kind, scope, role, user) in wanted {
        let scopes = scope.map(|scope| [scope]);
        let body = json!({"type": kind, "scopes": scopes, "user_id": user});
        let (client, _) = account.key(body).await;
        made.push(Credential {
            name: format!("a {kind} key with {scope:?} of {user}"),
            header: bearer(client.credential().unwrap()),
            kind: Kind::Key {
                read_only: kind == "read",
                scope,
                role,
            },
        });
    }
    made
}

/// Makes clients with one scope each, and gets their tokens: for the account itself, and for users
/// who have consented.
async fn access_tokens(server: &Server, account: &Account) -> Vec<Credential> {
    let authority = Authority::of(server);
    let people = [
        (Role::Agent, Person::user(account, "agent").await),
        (Role::Admin, Person::user(account, "admin").await),
    ];
    let mut made = Vec::new();
    for scope in SCOPES {
        let app = json!({"name": scope, "redirect_uris": [BACK], "scopes": [scope]});
        let app = Registered::make(&account.test(), app).await;
        let machine = json!({"name": scope, "scopes": [scope]});
        let machine = Registered::make(&account.test(), machine).await;
        let mut tokens = vec![(Role::Nobody, authority.credentials(&machine).await)];
        for (role, person) in &people {
            let given = oauth::tokens(&authority, person, &app).await;
            tokens.push((*role, oauth::text(&given, "access_token")));
        }
        made.extend(tokens.into_iter().map(|(role, token)| Credential {
            name: format!("an access token with {scope} of {role:?}"),
            header: bearer(&format!("Bearer {token}")),
            kind: Kind::Key {
                read_only: false,
                scope: Some(scope),
                role,
            },
        }));
    }
    made
}

fn bearer(text: &str) -> Option<(&'static str, String)> {
    Some(("authorization", text.to_owned()))
}

fn nothing(name: &str, header: Option<(&'static str, String)>) -> Credential {
    Credential {
        name: name.to_owned(),
        header,
        kind: Kind::Nothing,
    }
}

/// A path with something in each of its places that is well formed and not there.
fn filled(path: &str) -> String {
    let filled = path.split('/').map(|segment| {
        let name = segment
            .strip_prefix('{')
            .and_then(|one| one.strip_suffix('}'));
        let prefix = match name {
            None => return segment.to_owned(),
            Some("token") => return "A".repeat(49),
            Some("version") => return "7".to_owned(),
            Some("actor_kind") => return "conversation".to_owned(),
            Some("actor_id" | "conversation_id") => "conv",
            Some("message_id") => "msg",
            Some("customer_id") => "cus",
            Some("account_id") => "acc",
            Some("key_id") => "key",
            Some("webhook_id") => "whk",
            Some("delivery_id") => "dlv",
            Some("document_id") => "doc",
            Some("share_id") => "shr",
            Some("comment_id") => "cmt",
            Some("client_id") => "cli",
            Some("erasure_id") => "era",
            Some(_) => "usr",
        };
        format!("{prefix}_0190163d8694739b85d52d5e4a4d6d5f")
    });
    filled.collect::<Vec<_>>().join("/")
}

async fn published(client: &Client) -> Value {
    client.get("/openapi.json").await.expect(200).body["paths"].take()
}

#[tokio::test]
async fn every_operation_lets_in_whom_the_table_says_and_nobody_else() {
    let server = Setup::default()
        .env("COLLOQUY__SUPERVISION__DRILLS", "true")
        .start();
    let account = server.account().await;
    let mut credentials = credentials(&account).await;
    credentials.extend(access_tokens(&server, &account).await);
    let (person, operator) = (
        Person::user(&account, "admin").await,
        Person::operator(&server).await,
    );
    let cookie = |person: Person| Some(("cookie", person.cookie.unwrap()));
    credentials.extend([
        nothing("nothing", None),
        nothing("an unknown key", bearer("Bearer sk_test_0000")),
        nothing("an admin's session in the console", cookie(person)),
        nothing("an operator's session in the console", cookie(operator)),
        Credential {
            name: "the operator token".to_owned(),
            header: bearer(&format!("Bearer {OPERATOR}")),
            kind: Kind::Operator,
        },
    ]);
    let (table, anonymous) = (table(), server.anonymous());
    // A client shows itself in a form, which none of these requests is.
    let rows: Vec<_> = table
        .iter()
        .filter(|(_, needed)| **needed != "an OAuth client")
        .collect();
    let pairs = credentials
        .iter()
        .flat_map(|credential| rows.iter().map(move |row| (credential, *row)));
    let asked = pairs.map(|(credential, ((method, path), needed))| {
        let mut call = anonymous.call(method, &filled(path));
        // What browsers say of a form of this server.
        call = call.with("sec-fetch-site", "same-origin");
        if method != "GET" && method != "DELETE" {
            call = call.json(&json!({}));
        }
        if let Some((name, value)) = &credential.header {
            call = call.with(name, value);
        }
        async move {
            let status = call.await.status;
            let expected = credential.expected(method, needed);
            (Outcome::of(status) != expected).then(|| {
                let name = &credential.name;
                format!("{method} {path} with {name}: {status}, not {expected:?}")
            })
        }
    });
    let wrong: Vec<Option<String>> = stream::iter(asked)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    assert!(wrong.len() > 7_000, "only {} were asked", wrong.len());
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} are wrong: {wrong:#?}", wrong.len());
}

#[tokio::test]
async fn the_table_holds_every_operation_that_is_published_with_its_scopes() {
    let published = published(&crate::support::shared().anonymous()).await;
    let mut said = BTreeMap::new();
    for (path, methods) in published.as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            said.insert(
                (method.to_uppercase(), path.clone()),
                operation["security"].clone(),
            );
        }
    }
    let expected = table().into_iter().map(|(operation, needed)| {
        let mut security = match needed {
            "nothing" => vec![],
            "an OAuth client" => vec![json!({"oauthClient": []}), json!({})],
            "the operator token" => vec![json!({"operatorToken": []})],
            "any key" => vec![json!({"apiKey": []})],
            scopes => scopes
                .split(' ')
                .map(|scope| json!({"apiKey": [scope]}))
                .collect(),
        };
        if operation.1 == "/v1/realtime" {
            security.push(json!({"ticket": []}));
        }
        (operation, json!(security))
    });
    assert_eq!(said, expected.collect::<BTreeMap<_, _>>());
}
