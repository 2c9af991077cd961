//! The command line: which command is asked for, with which options.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

/// What `--help` prints, and what follows a command line that is not understood.
pub(crate) const USAGE: &str = "\
Colloquy: the server behind an AI-assisted customer-service platform.

Usage: colloquy [serve | check] [--config FILE]
       colloquy listen --forward-to URL [--events KIND,KIND] [--key KEY] [--server URL]

  serve             Starts the server (also without any argument).
  check             Checks the store and says what is wrong with it.
  listen            Brings a server's events to a receiver on this machine, signed as webhooks are: prints the signing
                    secret, then each event with what the receiver answered.
  --config FILE     Settings; otherwise config.toml in the working folder, if there is one.
  --forward-to URL  Where listen posts each event, such as http://127.0.0.1:3000/hooks.
  --events KINDS    Only these kinds of events, with commas between; otherwise all.
  --key KEY         The API key to listen with; otherwise COLLOQUY_KEY in the environment.
  --server URL      The server to listen to; otherwise http://127.0.0.1:8080.
  --version         Prints the version.
  --help            Prints this.
";

/// A command with the options that it takes.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    /// Starts the server with the settings of this file.
    Serve { config: Option<PathBuf> },
    /// Checks the store that the settings of this file name.
    Check { config: Option<PathBuf> },
    /// Forwards a server's events to a receiver on this machine.
    Listen(ListenOptions),
    /// Prints the version.
    Version,
    /// Prints [`USAGE`].
    Help,
}

/// The options of `listen`.
#[derive(Debug, PartialEq)]
pub(crate) struct ListenOptions {
    pub(crate) forward_to: String,
    pub(crate) events: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) server: Option<String>,
}

/// The words that name a command.
#[derive(Clone, Copy)]
enum Word {
    Serve,
    Check,
    Listen,
    Version,
    Help,
}

/// Everything that stands on the command line, in any order.
#[derive(Default)]
struct Given {
    word: Option<Word>,
    config: Option<PathBuf>,
    forward_to: Option<String>,
    events: Option<String>,
    key: Option<String>,
    server: Option<String>,
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// Says which argument is unknown, repeated, without its value, or does not go with the command.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut parser = Parser::from_args(arguments);
    let mut given = Given::default();
    while let Some(argument) = parser.next()? {
        let word = match argument {
            Arg::Long("config") => {
                given.config = Some(parser.value()?.into());
                continue;
            }
            Arg::Long("forward-to") => {
                given.forward_to = Some(parser.value()?.string()?);
                continue;
            }
            Arg::Long("events") => {
                given.events = Some(parser.value()?.string()?);
                continue;
            }
            Arg::Long("key") => {
                given.key = Some(parser.value()?.string()?);
                continue;
            }
            Arg::Long("server") => {
                given.server = Some(parser.value()?.string()?);
                continue;
            }
            Arg::Long("version") | Arg::Short('V') => Word::Version,
            Arg::Long("help") | Arg::Short('h') => Word::Help,
            Arg::Value(ref value) if value == "serve" => Word::Serve,
            Arg::Value(ref value) if value == "check" => Word::Check,
            Arg::Value(ref value) if value == "listen" => Word::Listen,
            Arg::Long(_) | Arg::Short(_) | Arg::Value(_) => return Err(argument.unexpected()),
        };
        if given.word.replace(word).is_some() {
            return Err("one command at a time".into());
        }
    }
    given.command()
}

impl Given {
    fn command(self) -> Result<Command, lexopt::Error> {
        let Given {
            word,
            config,
            forward_to,
            events,
            key,
            server,
        } = self;
        let listens = [&forward_to, &events, &key, &server]
            .into_iter()
            .any(Option::is_some);
        match word.unwrap_or(Word::Serve) {
            Word::Help => Ok(Command::Help),
            Word::Version => Ok(Command::Version),
            Word::Serve | Word::Check if listens => {
                Err("--forward-to, --events, --key and --server go with listen".into())
            }
            Word::Serve => Ok(Command::Serve { config }),
            Word::Check => Ok(Command::Check { config }),
            Word::Listen if config.is_some() => Err("listen takes no --config".into()),
            Word::Listen => Ok(Command::Listen(ListenOptions {
                forward_to: forward_to.ok_or("listen needs --forward-to URL")?,
                events,
                key,
                server,
            })),
        }
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn what_is_unknown_or_out_of_place_is_refused() {
        for line in [
            "--bind x",
            "run",
            "--config",
            "serve check",
            "serve --key k",
            "listen",
            "listen --forward-to u --config a.toml",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
