//! Arguments, run, exit code.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use colloquy::config::{Config, ConfigError};

/// glibc's allocator took a tenth of a request's time: what one worker allocates, another often frees.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
Colloquy: the server behind an AI-assisted customer-service platform.

Usage: colloquy [serve | check] [--config FILE]

  serve          Starts the server (also without any argument).
  check          Checks the store and says what is wrong with it.
  --config FILE  Settings; otherwise config.toml in the working folder, if there is one.
  --version      Prints the version.
  --help         Prints this.
";

/// What the command line asks for.
enum Command {
    Serve,
    Check,
    Version,
    Help,
}

fn main() -> ExitCode {
    let (command, file) = match arguments(std::env::args_os().skip(1)) {
        Ok(asked) => asked,
        Err(wrong) => {
            complain(format_args!("{wrong}\n\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    match command {
        Command::Help => printed(USAGE),
        Command::Version => printed(concat!("colloquy ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Serve => with_config(file.as_deref(), |config| colloquy::run(config).map(|()| true)),
        Command::Check => with_config(file.as_deref(), |config| colloquy::check(&config)),
    }
}

fn arguments(mut given: impl Iterator<Item = OsString>) -> Result<(Command, Option<PathBuf>), String> {
    let mut command = None;
    let mut file = None;
    while let Some(argument) = given.next() {
        let known = match argument.to_str() {
            Some("--config") => {
                file = Some(PathBuf::from(given.next().ok_or("--config needs a file")?));
                continue;
            }
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
    Ok((command.unwrap_or(Command::Serve), file))
}

fn with_config(file: Option<&Path>, then: impl FnOnce(Config) -> Result<bool, colloquy::RunError>) -> ExitCode {
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
    let as_text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    Config::load(file, std::env::vars_os().filter_map(as_text))
}

/// Says on stderr why it ends; the exit code says so too, wherever stderr leads.
fn complain(why: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "colloquy: {why}");
}

fn printed(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
