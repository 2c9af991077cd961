//! Arguments, run, exit code.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use colloquy::config::{Config, ConfigError};

/// glibc's allocator took a tenth of a request's time: what one worker allocates, another often
/// frees.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
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

/// What the command line asks for.
enum Command {
    Serve,
    Check,
    Listen,
    Version,
    Help,
}

fn main() -> ExitCode {
    let (command, options) = match arguments(std::env::args_os().skip(1)) {
        Ok(asked) => asked,
        Err(wrong) => {
            complain(format_args!("{wrong}\n\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    match command {
        Command::Help => printed(USAGE),
        Command::Version => printed(concat!("colloquy ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Serve => with_config(options.config.as_deref(), |config| {
            colloquy::run(config).map(|()| true)
        }),
        Command::Check => with_config(options.config.as_deref(), |config| colloquy::check(&config)),
        Command::Listen => listen(options),
    }
}

/// What may stand beside a command.
#[derive(Default)]
struct Options {
    config: Option<PathBuf>,
    forward_to: Option<String>,
    events: Option<String>,
    key: Option<String>,
    server: Option<String>,
}

fn arguments(mut given: impl Iterator<Item = OsString>) -> Result<(Command, Options), String> {
    let mut command = None;
    let mut options = Options::default();
    while let Some(argument) = given.next() {
        let known = match argument.to_str() {
            Some("--config") => {
                options.config = Some(PathBuf::from(given.next().ok_or("--config needs a file")?));
                continue;
            }
            Some(name @ ("--forward-to" | "--events" | "--key" | "--server")) => {
                let value = given.next().and_then(|value| value.into_string().ok());
                let value = Some(value.ok_or_else(|| format!("{name} needs a value"))?);
                match name {
                    "--forward-to" => options.forward_to = value,
                    "--events" => options.events = value,
                    "--key" => options.key = value,
                    _ => options.server = value,
                }
                continue;
            }
            Some("listen") => Command::Listen,
            Some("serve") => Command::Serve,
            Some("check") => Command::Check,
            Some("--version" | "-V") => Command::Version,
            Some("--help" | "-h") => Command::Help,
            Some(_) | None => return Err(format!("unknown argument {}", argument.display())),
        };
        if command.replace(known).is_some() {
            return Err("one command at a time".to_owned());
        }
    }
    let command = command.unwrap_or(Command::Serve);
    let Options {
        config,
        forward_to,
        events,
        key,
        server,
    } = &options;
    let listens = [forward_to, events, key, server]
        .into_iter()
        .any(Option::is_some);
    match command {
        Command::Listen if config.is_some() => Err("listen takes no --config".to_owned()),
        Command::Listen if forward_to.is_none() => Err("listen needs --forward-to URL".to_owned()),
        Command::Serve | Command::Check if listens => {
            Err("--forward-to, --events, --key and --server go with listen".to_owned())
        }
        Command::Serve | Command::Check | Command::Listen | Command::Version | Command::Help => {
            Ok((command, options))
        }
    }
}

fn listen(options: Options) -> ExitCode {
    let key = options
        .key
        .or_else(|| std::env::var("COLLOQUY_KEY").ok())
        .filter(|key| !key.is_empty());
    let Some(key) = key else {
        complain(format_args!(
            "listen needs an API key: --key KEY, or COLLOQUY_KEY in the environment"
        ));
        return ExitCode::from(2);
    };
    let asked = colloquy::Listen {
        server: options
            .server
            .unwrap_or_else(|| "http://127.0.0.1:8080".to_owned()),
        key,
        forward_to: options.forward_to.unwrap_or_default(),
        events: options.events,
    };
    match colloquy::listen(asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

fn with_config(
    file: Option<&Path>,
    then: impl FnOnce(Config) -> Result<bool, colloquy::RunError>,
) -> ExitCode {
    let config = match load(file) {
        Ok(config) => config,
        Err(error) => {
            complain(format_args!("{error}"));
            return ExitCode::from(2);
        }
    };
    match then(config) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

fn load(file: Option<&Path>) -> Result<Config, ConfigError> {
    let here = Path::new("config.toml");
    let file = file.or_else(|| here.exists().then_some(here));
    let as_text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    Config::load(file, std::env::vars_os().filter_map(as_text))
}

/// Says on stderr why it ends; the exit code says so too, wherever stderr leads.
fn complain(why: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "colloquy: {why}");
}

fn printed(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if written.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
