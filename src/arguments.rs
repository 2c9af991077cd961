//! The command line: which command is asked for, with which options.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use colloquy::{
    ActorCommand, AuditCommand, OperatorRequest, Output, Restore, SettingChange, names_an_actor,
};
use lexopt::{Arg, Parser, ValueExt};

/// What `--help` prints, and what follows a command line that is not understood.
pub(crate) const USAGE: &str = "\
Colloquy: the server behind an AI-assisted customer-service platform.

Usage: colloquy [serve | demo | check] [--config FILE]
       colloquy export [--config FILE] > DUMP
       colloquy import [--config FILE] < DUMP
       colloquy migrate [--dry-run] [--config FILE]
       colloquy restore URL --to FOLDER [--config FILE]
       colloquy config (check | show) [--config FILE]
       colloquy audit verify [--file EXPORT] [--config FILE]
       colloquy audit export [--config FILE] > EXPORT
       colloquy actors [KIND | ID] [--state STATE] [--sort SORT] [--limit N] [--json] [--config FILE]
       colloquy actors (restart | passivate | release | crash) ID [--json] [--config FILE]
       colloquy supervision [KIND] [--json] [--config FILE]
       colloquy supervision set KIND.SETTING=NUMBER ... [--json] [--config FILE]
       colloquy supervision reset KIND.SETTING ... [--json] [--config FILE]
       colloquy operators [add NAME | remove NAME] [--json] [--config FILE]
       colloquy oauth rotate-keys [--json] [--config FILE]
       colloquy encryption rotate [--json] [--config FILE]
       colloquy encryption forget-account ID [--json] [--config FILE]
       colloquy analytics rebuild [--json] [--config FILE]
       colloquy listen --forward-to URL [--events KIND,KIND] [--key KEY] [--server URL]

  serve             Starts the server (also without any argument).
  demo              Starts the server with an account that is filled and goes on by itself, and says where to sign in.
  check             Checks the store and says what is wrong with it.
  config            check says whether the settings can be used, and touches no store; show prints all of them as a
                    config.toml, with where each comes from and without secrets.
  migrate           Brings the store of an earlier version to this one's before a server is started on it, which would do the
                    same; with --dry-run, brings a copy there, checks it, and leaves the store as it is.
  restore           Brings a backup back into an empty folder, checks it there, and says how to start a server on it; URL is
                    what the server that made it shows as the backup's url.
  audit             Verifies the audit trail (exit 1 and the position where it was altered), in the store, on the running
                    server or in an export; or exports it to stdout, one JSON object a line.
  export            Writes everything that the store holds to stdout, one JSON object a line; no server may use it.
  import            Puts such a dump into an empty store, of the other kind too; the same dump again goes on where an
                    import stopped.
  actors            Shows every kind of actor on the running server, those of one KIND that are in memory, or one by
                    its ID; or has one restart, leave memory, leave quarantine, or (a drill) crash.
  supervision       Shows how actors are supervised; sets it, or resets it to what is configured, at once and for good.
  operators         Shows who signs in to the console as an operator; adds one and prints the link with which the
                    person sets a password, or removes one, who is signed out at once.
  oauth             rotate-keys lets the next key sign access tokens, on the running server; those that were signed
                    before hold on.
  encryption        rotate puts the master key in the place of the one before (previous_master_key), on the running
                    server, and says which one may be thrown away; forget-account destroys the keys of an account's
                    texts: for good.
  analytics         rebuild makes all figures anew from the log, on the running server, and waits until they are shown.
  listen            Brings a server's events to a receiver on this machine, signed as webhooks are: prints the signing
                    secret, then each event with what the receiver answered.
  --config FILE     Settings; otherwise config.toml in the working folder, if there is one. [server] bind and [admin]
                    token say where actors, supervision and operators find the server, and let them in.
  --file EXPORT     The export of the audit trail that is verified, without a store.
  --state STATE     Only actors in this state: loading, ready, backing_off or quarantined.
  --sort SORT       The largest or latest first: mailbox, bytes, restarts or last_used (the default).
  --limit N         At most so many actors, up to 1000; otherwise 20.
  --json            Prints the server's JSON.
  --forward-to URL  Where listen posts each event, such as http://127.0.0.1:3000/hooks.
  --events KINDS    Only these kinds of events, with commas between; otherwise all.
  --key KEY         The API key to listen with; otherwise COLLOQUY_KEY in the environment.
  --server URL      The server to listen to; otherwise http://127.0.0.1:8080.
  --to FOLDER       Where restore puts the store: a folder that is empty, or not there.
  --dry-run         Has migrate change nothing but a copy.
  --version         Prints the version.
  --help            Prints this.
";

/// A command with the options that it takes.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    /// Starts the server with the settings of this file.
    Serve { config: Option<PathBuf> },
    /// The same, with an account that is filled and goes on by itself.
    Demo { config: Option<PathBuf> },
    /// Checks the store that the settings of this file name.
    Check { config: Option<PathBuf> },
    /// Says whether the settings can be used.
    CheckConfig { config: Option<PathBuf> },
    /// Prints the settings.
    ShowConfig { config: Option<PathBuf> },
    /// Verifies or exports the audit trail.
    Audit {
        config: Option<PathBuf>,
        command: AuditCommand,
    },
    /// Writes the store that the settings of this file name to stdout.
    Export { config: Option<PathBuf> },
    /// Puts the dump on stdin into the store that the settings of this file name.
    Import { config: Option<PathBuf> },
    /// Brings the store of an earlier version to this one, or a copy of it.
    Migrate {
        config: Option<PathBuf>,
        is_dry_run: bool,
    },
    /// Brings a backup back.
    Restore {
        config: Option<PathBuf>,
        what: Restore,
    },
    /// Asks the server that runs with the settings of this file.
    Operate {
        config: Option<PathBuf>,
        request: OperatorRequest,
        output: Output,
    },
    /// Forwards a server's events to a receiver on this machine.
    Listen(ListenOptions),
    /// Prints the version and ends.
    Version,
    /// Prints [`USAGE`] and ends.
    Help,
}

/// The options of `colloquy listen`, as they were given.
#[derive(Debug, PartialEq)]
pub(crate) struct ListenOptions {
    pub(crate) forward_to: String,
    pub(crate) events: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) server: Option<String>,
}

/// Options that take a value.
const VALUED: [&str; 10] = [
    "to",
    "file",
    "config",
    "forward-to",
    "events",
    "key",
    "server",
    "state",
    "sort",
    "limit",
];

/// Everything that stands on the command line, in any order.
#[derive(Default)]
struct Given {
    /// What is no option: a command and what follows it.
    words: Vec<String>,
    /// Options with a value, by name.
    values: BTreeMap<&'static str, OsString>,
    json: bool,
    is_dry_run: bool,
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// Says which argument is unknown, repeated, without its value, or does not go with the command.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut parser = Parser::from_args(arguments);
    let mut given = Given::default();
    while let Some(argument) = parser.next()? {
        let valued = match &argument {
            Arg::Long(name) => VALUED.into_iter().find(|valued| valued == name),
            Arg::Short(_) | Arg::Value(_) => None,
        };
        match (valued, argument) {
            (Some(name), _) => given.take(name, parser.value()?)?,
            (None, Arg::Long("json")) => set("json", &mut given.json)?,
            (None, Arg::Long("dry-run")) => set("dry-run", &mut given.is_dry_run)?,
            (None, Arg::Long("version") | Arg::Short('V')) => return Ok(Command::Version),
            (None, Arg::Long("help") | Arg::Short('h')) => return Ok(Command::Help),
            (None, Arg::Value(word)) => given.words.push(word.string()?),
            (None, unknown @ (Arg::Long(_) | Arg::Short(_))) => return Err(unknown.unexpected()),
        }
    }
    given.command()
}

/// Sets an option without a value.
fn set(name: &str, option: &mut bool) -> Result<(), lexopt::Error> {
    match std::mem::replace(option, true) {
        true => Err(twice(name)),
        false => Ok(()),
    }
}

/// Which of two was meant, nobody can tell.
fn twice(name: &str) -> lexopt::Error {
    format!("--{name} is given twice").into()
}

impl Given {
    fn take(&mut self, name: &'static str, value: OsString) -> Result<(), lexopt::Error> {
        match self.values.insert(name, value) {
            Some(_) => Err(twice(name)),
            None => Ok(()),
        }
    }

    fn command(mut self) -> Result<Command, lexopt::Error> {
        let words = std::mem::take(&mut self.words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (command, rest) = words.split_first().unwrap_or((&"serve", &[]));
        let taken = options_of(command, rest)?;
        if let Some(other) = self.values.keys().find(|name| !taken.contains(name)) {
            return Err(format!("--{other} does not go with {}", words.join(" ")).into());
        }
        self.check_flags(command)?;
        let config = self.values.remove("config").map(PathBuf::from);
        match *command {
            "serve" => Ok(Command::Serve { config }),
            "demo" => Ok(Command::Demo { config }),
            "check" => Ok(Command::Check { config }),
            "config" if rest == ["show"] => Ok(Command::ShowConfig { config }),
            "config" => Ok(Command::CheckConfig { config }),
            "audit" => Ok(Command::Audit {
                command: match rest {
                    ["export"] => AuditCommand::Export,
                    _ => AuditCommand::Verify(self.values.remove("file").map(PathBuf::from)),
                },
                config,
            }),
            "export" => Ok(Command::Export { config }),
            "import" => Ok(Command::Import { config }),
            "migrate" => Ok(Command::Migrate {
                config,
                is_dry_run: self.is_dry_run,
            }),
            "restore" => Ok(Command::Restore {
                config,
                what: Restore {
                    url: rest.concat(),
                    to: self
                        .values
                        .remove("to")
                        .filter(|folder| !folder.is_empty())
                        .map(PathBuf::from)
                        .ok_or("restore needs --to FOLDER")?,
                },
            }),
            "listen" => self.listen(),
            _ => Ok(Command::Operate {
                config,
                output: if self.json {
                    Output::Json
                } else {
                    Output::Tables
                },
                request: self.request(command, rest)?,
            }),
        }
    }

    fn check_flags(&self, command: &str) -> Result<(), &'static str> {
        let asks_a_server = matches!(
            command,
            "actors" | "supervision" | "operators" | "oauth" | "encryption" | "analytics"
        );
        if self.json && !asks_a_server {
            return Err(
                "--json goes with actors, supervision, operators, oauth, encryption and analytics",
            );
        }
        if self.is_dry_run && command != "migrate" {
            return Err("--dry-run goes with migrate");
        }
        Ok(())
    }

    /// What an operator asks of the running server.
    fn request(self, command: &str, rest: &[&str]) -> Result<OperatorRequest, lexopt::Error> {
        match command {
            "actors" => self.actors(rest),
            "operators" => operators(rest),
            "oauth" => oauth(rest),
            "encryption" => encryption(rest),
            "analytics" => analytics(rest),
            _ => supervision(rest),
        }
    }

    fn listen(mut self) -> Result<Command, lexopt::Error> {
        let forward_to = self.text("forward-to")?;
        Ok(Command::Listen(ListenOptions {
            forward_to: forward_to.ok_or("listen needs --forward-to URL")?,
            events: self.text("events")?,
            key: self.text("key")?,
            server: self.text("server")?,
        }))
    }

    fn actors(mut self, words: &[&str]) -> Result<OperatorRequest, lexopt::Error> {
        match words {
            [] => Ok(OperatorRequest::Kinds),
            [id] if names_an_actor(id) => match self.values.keys().next() {
                Some(option) => Err(format!("--{option} goes with a kind of actor").into()),
                None => Ok(OperatorRequest::Instance {
                    id: (*id).to_owned(),
                }),
            },
            [name] if ActorCommand::named(name).is_some() => {
                Err(format!("actors {name} needs the ID of an actor").into())
            }
            [kind] => {
                let mut query = Vec::new();
                for name in ["state", "sort", "limit"] {
                    query.extend(self.text(name)?.map(|value| (name, value)));
                }
                Ok(OperatorRequest::Instances {
                    kind: (*kind).to_owned(),
                    query,
                })
            }
            [name, id] => Ok(OperatorRequest::Steer {
                id: (*id).to_owned(),
                command: ActorCommand::named(name).ok_or_else(|| {
                    format!("{name:?} is none of restart, passivate, release and crash")
                })?,
            }),
            [_, _, extra, ..] => Err(format!("one actor at a time: {extra:?}").into()),
        }
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, lexopt::Error> {
        let value = self.values.remove(name);
        value.map(|value| value.string()).transpose()
    }
}

/// The options that a command takes, if there is such a command.
fn options_of(command: &str, rest: &[&str]) -> Result<&'static [&'static str], lexopt::Error> {
    Ok(match (command, rest) {
        ("serve" | "demo" | "check" | "export" | "import" | "migrate", []) => &["config"],
        ("config", ["check" | "show"]) => &["config"],
        ("config", _) => return Err("config check, or config show?".into()),
        ("audit", ["verify"]) => &["config", "file"],
        ("audit", ["export"]) => &["config"],
        ("audit", _) => return Err("audit verify, or audit export?".into()),
        ("restore", [_]) => &["config", "to"],
        ("restore", _) => return Err("restore takes the URL of one backup".into()),
        ("listen", []) => &["forward-to", "events", "key", "server"],
        ("actors", [_]) => &["config", "state", "sort", "limit"],
        ("actors" | "supervision" | "operators" | "oauth" | "encryption" | "analytics", _) => {
            &["config"]
        }
        ("serve" | "demo" | "check" | "export" | "import" | "migrate" | "listen", [extra, ..]) => {
            return Err(format!("{command} takes no {extra:?}").into());
        }
        (unknown, _) => return Err(format!("no such command: {unknown:?}").into()),
    })
}

fn operators(words: &[&str]) -> Result<OperatorRequest, lexopt::Error> {
    let named = |name: &[&str]| match name {
        // A name of several words needs no quotation marks.
        [_, ..] => Ok(name.join(" ")),
        [] => Err("which name?".to_owned()),
    };
    match words {
        [] => Ok(OperatorRequest::Operators),
        ["add", name @ ..] => Ok(OperatorRequest::AddOperator { name: named(name)? }),
        ["remove", name @ ..] => Ok(OperatorRequest::RemoveOperator { name: named(name)? }),
        [unknown, ..] => Err(format!("{unknown:?} is neither add nor remove").into()),
    }
}

fn oauth(words: &[&str]) -> Result<OperatorRequest, lexopt::Error> {
    match words {
        ["rotate-keys"] => Ok(OperatorRequest::RotateKeys),
        _ => Err("oauth takes rotate-keys, and nothing else".into()),
    }
}

fn analytics(words: &[&str]) -> Result<OperatorRequest, lexopt::Error> {
    match words {
        ["rebuild"] => Ok(OperatorRequest::RebuildAnalytics),
        _ => Err("analytics takes rebuild, and nothing else".into()),
    }
}

fn encryption(words: &[&str]) -> Result<OperatorRequest, lexopt::Error> {
    match words {
        ["rotate"] => Ok(OperatorRequest::RotateMasterKey),
        ["forget-account", id] => Ok(OperatorRequest::ForgetAccount {
            id: (*id).to_owned(),
        }),
        ["forget-account", ..] => Err("forget-account takes one account's identifier".into()),
        ["rotate", ..] => Err("rotate takes nothing else".into()),
        _ => Err("encryption rotate, or encryption forget-account?".into()),
    }
}

fn supervision(words: &[&str]) -> Result<OperatorRequest, lexopt::Error> {
    let change = match words {
        ["set", changes @ ..] => (changes, SettingChange::to as fn(&str) -> _),
        ["reset", changes @ ..] => (changes, SettingChange::back as fn(&str) -> _),
        [] => return Ok(OperatorRequest::Settings { kind: None }),
        [kind] => {
            let kind = Some((*kind).to_owned());
            return Ok(OperatorRequest::Settings { kind });
        }
        [_, extra, ..] => return Err(format!("supervision takes no {extra:?}").into()),
    };
    let (words, read) = change;
    if words.is_empty() {
        return Err("which setting? For example conversation.crashes_max=3".into());
    }
    let changes: Result<Vec<SettingChange>, String> = words.iter().map(|word| read(word)).collect();
    Ok(OperatorRequest::Change { changes: changes? })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    fn read(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_takes_its_own_options_in_any_order() {
        let config = Some(PathBuf::from("a.toml"));
        for line in [
            "--config a.toml",
            "serve --config=a.toml",
            "--config a.toml serve",
        ] {
            let config = config.clone();
            assert_eq!(read(line), Ok(Command::Serve { config }), "{line}");
        }
        let copy = config.clone();
        assert_eq!(
            read("export --config a.toml"),
            Ok(Command::Export { config: copy })
        );
        let copy = config.clone();
        assert_eq!(
            read("--config a.toml import"),
            Ok(Command::Import { config: copy })
        );
        assert_eq!(read("check --config a.toml"), Ok(Command::Check { config }));
        assert_eq!(read("-V"), Ok(Command::Version));
        let listen = Command::Listen(ListenOptions {
            forward_to: "http://a".to_owned(),
            events: None,
            key: Some("k".to_owned()),
            server: None,
        });
        assert_eq!(read("--key k listen --forward-to http://a"), Ok(listen));
    }

    fn request(line: &str) -> OperatorRequest {
        match read(line) {
            Ok(Command::Operate { request, .. }) => request,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn operators_ask_for_kinds_actors_and_settings() {
        let id = "conv_018f2f6e5c6a7c3e8d2b1a0f9e8d7c6b".to_owned();
        assert_eq!(request("actors"), OperatorRequest::Kinds);
        assert_eq!(
            request("actors --limit=5 conversation --state quarantined"),
            OperatorRequest::Instances {
                kind: "conversation".to_owned(),
                query: vec![
                    ("state", "quarantined".to_owned()),
                    ("limit", "5".to_owned())
                ],
            }
        );
        assert_eq!(
            request(&format!("actors {id}")),
            OperatorRequest::Instance { id: id.clone() }
        );
        assert_eq!(
            request(&format!("actors release {id} --json")),
            OperatorRequest::Steer {
                id,
                command: ActorCommand::Release
            }
        );
        assert_eq!(request("operators"), OperatorRequest::Operators);
        assert_eq!(
            request("operators add Ada Lovelace"),
            OperatorRequest::AddOperator {
                name: "Ada Lovelace".to_owned()
            }
        );
        let change = |value: Option<i64>| SettingChange {
            kind: "conversation".to_owned(),
            setting: "crashes_max".to_owned(),
            value: value.map(Into::into),
        };
        assert_eq!(
            request("supervision set conversation.crashes_max=3"),
            OperatorRequest::Change {
                changes: vec![change(Some(3))]
            }
        );
        assert_eq!(
            request("supervision reset conversation.crashes_max"),
            OperatorRequest::Change {
                changes: vec![change(None)]
            }
        );
    }

    #[test]
    fn what_is_unknown_or_out_of_place_is_refused() {
        for line in [
            "operators add",
            "operators invite ada",
            "oauth",
            "oauth rotate-keys now",
            "encryption",
            "encryption rotate now",
            "analytics",
            "analytics rebuild now",
            "operators --state ready",
            "actors restart",
            "actors stop conv_1",
            "actors restart conv_1 conv_2",
            "actors --state ready",
            "actors conv_1 --limit 5",
            "supervision set",
            "supervision set conversation.crashes_max",
            "supervision set conversation.crashes_max=many",
            "supervision set crashes_max=3",
            "supervision reset conversation.crashes_max=3",
            "supervision conversation document",
            "serve --json",
            "--bind x",
            "run",
            "--config",
            "serve check",
            "export dump.ndjson",
            "import --json",
            "serve --key k",
            "listen",
            "listen --forward-to u --config a.toml",
            "restore u",
            "restore u --to=",
            "restore u --to a --to b",
            "restore u --to a --to a",
            "serve --config a.toml --config=a.toml",
            "actors --json --json",
            "migrate --dry-run --dry-run",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
