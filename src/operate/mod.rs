//! `colloquy actors`, `colloquy supervision`, `colloquy operators`, `colloquy oauth`, `colloquy encryption` and `colloquy analytics`:
//! what operators see of actors, how they steer them, who the operators are, which keys sign and under which the store is, from a
//! terminal. Knows the server by its interface only.
//!
//! - `admin_client.rs`: asks the server
//! - `analytics.rs`: has figures made anew
//! - `auditing.rs`: reads the chain of the audit trail, for `colloquy audit`
//! - `encryption.rs`: which master key the store is under; accounts that are forgotten
//! - `operators.rs`: adds and removes operators
//! - `signing_keys.rs`: the keys that sign access tokens
//! - `summaries.rs`: what is shown of its answers
//! - `table.rs`: columns that fit a terminal

mod admin_client;
mod analytics;
mod auditing;
mod encryption;
mod operators;
mod signing_keys;
mod summaries;
mod table;

use std::io::{self, IsTerminal, Write};

use colloquy_model::id::{
    AccountKind, ClientKind, ConversationKind, CustomerKind, DocumentKind, GrantKind, KeyKind,
    Prefix, UserKind, WebhookKind,
};
use colloquy_model::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Number, Value, json};

use self::admin_client::AdminClient;
pub use self::admin_client::OperateError;
pub(crate) use self::auditing::AuditClient;
use self::table::Style;
use crate::config::Config;

/// What an operator asks for.
#[derive(Debug, PartialEq)]
pub enum OperatorRequest {
    /// Shows every kind of actor.
    Kinds,
    /// Shows actors of one kind that are in memory.
    Instances {
        /// The kind's name, such as `conversation`.
        kind: String,
        /// Filter, order and number, as parameters of the query.
        query: Vec<(&'static str, String)>,
    },
    /// Shows one actor of whatever kind.
    Instance {
        /// Its identifier, which also says of which kind it is.
        id: String,
    },
    /// Gives one actor a command.
    Steer {
        /// The identifier of the actor, which tells its kind.
        id: String,
        /// What the actor is to do.
        command: ActorCommand,
    },
    /// Shows how actors are supervised.
    Settings {
        /// The settings of this kind only.
        kind: Option<String>,
    },
    /// Changes how actors are supervised, all or nothing.
    Change {
        /// Each setting with what it becomes.
        changes: Vec<SettingChange>,
    },
    /// Shows who signs in as an operator.
    Operators,
    /// Adds an operator, and makes the invitation with which the person sets a password.
    AddOperator {
        /// By which the operator signs in.
        name: String,
    },
    /// Removes an operator, who is signed out at once.
    RemoveOperator {
        /// By which the operator signs in.
        name: String,
    },
    /// Lets the next key sign access tokens.
    RotateKeys,
    /// Destroys the keys of an account's texts.
    ForgetAccount {
        /// The identifier of the account.
        id: String,
    },
    /// Puts the configured master key in the place of the one before.
    RotateMasterKey,
    /// Has all figures made anew from the log, and waits for them.
    RebuildAnalytics,
}

/// What an operator may have a single actor do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActorCommand {
    /// Drops what it holds in memory and loads it again.
    Restart,
    /// Leaves memory until it is asked again.
    Passivate,
    /// Ends its quarantine or its backoff.
    Release,
    /// Panics at its next message: a drill.
    Crash,
}

impl ActorCommand {
    const ALL: [ActorCommand; 4] = [
        ActorCommand::Restart,
        ActorCommand::Passivate,
        ActorCommand::Release,
        ActorCommand::Crash,
    ];

    /// Its name on the command line, which is the last part of its path.
    fn name(self) -> &'static str {
        match self {
            ActorCommand::Restart => "restart",
            ActorCommand::Passivate => "passivate",
            ActorCommand::Release => "release",
            ActorCommand::Crash => "crash",
        }
    }

    /// The command with this name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.name() == name)
    }
}

/// One setting of one kind of actor, and what it becomes.
#[derive(Debug, PartialEq)]
pub struct SettingChange {
    /// The kind's name, such as `conversation`.
    pub kind: String,
    /// The setting's name, such as `crashes_max`.
    pub setting: String,
    /// Its new value, or none: what is configured.
    pub value: Option<Number>,
}

impl SettingChange {
    /// Reads `conversation.crashes_max=3`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn to(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} must be KIND.SETTING=NUMBER, such as conversation.crashes_max=3");
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let value = value.parse().map_err(|_| wrong())?;
        let (kind, setting) = name.split_once('.').ok_or_else(wrong)?;
        Ok(SettingChange {
            kind: kind.to_owned(),
            setting: setting.to_owned(),
            value: Some(value),
        })
    }

    /// Reads `conversation.crashes_max`, which goes back to what is configured.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn back(text: &str) -> Result<Self, String> {
        let (kind, setting) = text
            .split_once('.')
            .filter(|_| !text.contains('='))
            .ok_or_else(|| {
                format!("{text:?} must be KIND.SETTING, such as conversation.crashes_max")
            })?;
        Ok(SettingChange {
            kind: kind.to_owned(),
            setting: setting.to_owned(),
            value: None,
        })
    }
}

/// How an answer is printed: for people, or for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// As tables for people, in colours where stdout is a terminal.
    Tables,
    /// As the server's JSON, for scripts.
    Json,
}

/// Asks the server that these settings describe, and prints its answer to stdout.
///
/// # Errors
/// The server is not there, refuses, or answers what is not understood.
pub fn operate(
    config: &Config,
    request: &OperatorRequest,
    output: Output,
) -> Result<(), OperateError> {
    let client = AdminClient::new(config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(OperateError::Runtime)?;
    let answer = runtime.block_on(ask(&client, request))?;
    let mut out = io::stdout().lock();
    let text = match output {
        Output::Json => format!("{}\n", String::from_utf8_lossy(&answer)),
        Output::Tables => {
            let is_coloured =
                out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
            let style = if is_coloured {
                Style::Coloured
            } else {
                Style::Plain
            };
            shown(&client, request, &answer)?.render(style)
        }
    };
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(OperateError::Stdout)
}

async fn ask(client: &AdminClient, request: &OperatorRequest) -> Result<Vec<u8>, OperateError> {
    match request {
        OperatorRequest::Kinds => client.get(&["actors"], &[]).await,
        OperatorRequest::Instances { kind, query } => {
            client.get(&["actors", kind, "instances"], query).await
        }
        OperatorRequest::Instance { id } => {
            let kind = kind_of(id)?;
            client.get(&["actors", kind, "instances", id], &[]).await
        }
        OperatorRequest::Steer { id, command } => {
            let path = ["actors", kind_of(id)?, "instances", id, command.name()];
            client.post(&path).await
        }
        OperatorRequest::Settings { .. } => client.get(&["supervision"], &[]).await,
        OperatorRequest::Change { changes } => {
            client.patch(&["supervision"], &merge_patch(changes)?).await
        }
        OperatorRequest::Operators => operators::all(client).await,
        OperatorRequest::AddOperator { name } => operators::add(client, name).await,
        OperatorRequest::RemoveOperator { name } => operators::remove(client, name).await,
        OperatorRequest::RotateKeys => client.post(&["oauth", "rotate-keys"]).await,
        OperatorRequest::ForgetAccount { id } => client.post(&["accounts", id, "forget"]).await,
        OperatorRequest::RotateMasterKey => client.post(&["encryption", "rotate"]).await,
        OperatorRequest::RebuildAnalytics => analytics::rebuild(client).await,
    }
}

/// What is shown to people of an answer.
fn shown(
    client: &AdminClient,
    request: &OperatorRequest,
    answer: &[u8],
) -> Result<table::Table, OperateError> {
    fn parsed<'a, T: Deserialize<'a>>(
        client: &AdminClient,
        answer: &'a [u8],
    ) -> Result<T, OperateError> {
        serde_json::from_slice(answer).map_err(|_| client.not_understood())
    }
    let now = Timestamp::now();
    Ok(match request {
        OperatorRequest::Kinds => summaries::kinds(&parsed(client, answer)?),
        OperatorRequest::Instances { .. } => summaries::instances(&parsed(client, answer)?, now),
        OperatorRequest::Instance { .. } | OperatorRequest::Steer { .. } => {
            summaries::instance(&parsed(client, answer)?, now)
        }
        OperatorRequest::Settings { kind } => {
            let settings = summaries::settings(&parsed(client, answer)?, kind.as_deref());
            settings.ok_or_else(|| OperateError::Kind(kind.clone().unwrap_or_default()))?
        }
        OperatorRequest::Change { changes } => {
            summaries::changed(&parsed(client, answer)?, changes)
        }
        OperatorRequest::Operators => operators::table(&parsed(client, answer)?),
        OperatorRequest::AddOperator { .. } => operators::invitation(&parsed(client, answer)?),
        OperatorRequest::RemoveOperator { .. } => operators::removed(&parsed(client, answer)?),
        OperatorRequest::RotateKeys => signing_keys::published(&parsed(client, answer)?),
        OperatorRequest::ForgetAccount { .. } => encryption::forgotten(&parsed(client, answer)?),
        OperatorRequest::RotateMasterKey => encryption::rotated(&parsed(client, answer)?),
        OperatorRequest::RebuildAnalytics => analytics::rebuilt(),
    })
}

/// The change as the interface takes it: a member for each kind, in it one for each setting.
fn merge_patch(changes: &[SettingChange]) -> Result<Value, OperateError> {
    let mut kinds: Map<String, Value> = Map::new();
    for SettingChange {
        kind,
        setting,
        value,
    } in changes
    {
        let settings = kinds.entry(kind).or_insert_with(|| json!({}));
        let value = value.clone().map_or(Value::Null, Value::Number);
        let before = settings
            .as_object_mut()
            .and_then(|settings| settings.insert(setting.clone(), value));
        if before.is_some() {
            return Err(OperateError::Twice(format!("{kind}.{setting}")));
        }
    }
    Ok(json!({ "kinds": kinds }))
}

/// Whether this is the identifier of an actor, and not the name of a kind.
#[must_use]
pub fn names_an_actor(text: &str) -> bool {
    text != DISPATCHER && kind_of(text).is_ok()
}

/// The kind of the one actor that sends webhooks, and its identifier.
const DISPATCHER: &str = "webhook_dispatcher";

/// The kind of actor that an identifier names by its prefix.
fn kind_of(id: &str) -> Result<&'static str, OperateError> {
    let kinds = [
        (ConversationKind::PREFIX, "conversation"),
        (DocumentKind::PREFIX, "document"),
        (AccountKind::PREFIX, "account"),
        (KeyKind::PREFIX, "key"),
        (UserKind::PREFIX, "user"),
        (CustomerKind::PREFIX, "customer"),
        (WebhookKind::PREFIX, "webhook"),
        (ClientKind::PREFIX, "client"),
        (GrantKind::PREFIX, "grant"),
        ("limiter", "limiter"),
    ];
    if id == DISPATCHER {
        return Ok(DISPATCHER);
    }
    let prefix = id.split_once('_').map(|(prefix, _)| prefix);
    kinds
        .into_iter()
        .find(|(known, _)| prefix == Some(known))
        .map(|(_, kind)| kind)
        .ok_or_else(|| OperateError::Id(id.to_owned()))
}
