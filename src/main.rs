//! The program: runs the command that the command line asks for and ends with its exit code.

mod arguments;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use arguments::{Command, ListenOptions, USAGE};
use colloquy::config::{ConfigError, Loaded, Source};
use colloquy::{OperatorRequest, Output};

/// glibc's allocator took a tenth of a request's time: what one worker allocates, another often
/// frees.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The allocator asks for huge pages. The kernel clears 2 MiB of one at once, for which others on the
    // same worker wait up to 4 ms, and the process holds a third more. Where this is refused, it goes on
    // with them.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let command = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(wrong) => {
            complain(format_args!("{wrong}\n\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    match command {
        Command::Help => printed(USAGE),
        Command::Version => printed(concat!("colloquy ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Serve { config } => {
            with_settings(config, |settings| colloquy::run(settings).map(|()| true))
        }
        Command::Demo { config } => {
            with_settings(config, |settings| colloquy::demo(settings).map(|()| true))
        }
        Command::Check { config } => {
            with_settings(config, |settings| colloquy::check(&settings.config))
        }
        Command::CheckConfig { config } => match usable(config) {
            Ok(_) => printed("The settings can be used.\n"),
            Err(error) => unusable(&error),
        },
        Command::ShowConfig { config } => match usable(config) {
            Ok(settings) => printed(&settings.show()),
            Err(error) => unusable(&error),
        },
        Command::Audit { config, command } => with_settings(config, |settings| {
            colloquy::audit(&settings.config, &command)
        }),
        Command::Export { config } => with_settings(config, |settings| {
            colloquy::export(&settings.config).map(|()| true)
        }),
        Command::Import { config } => with_settings(config, |settings| {
            colloquy::import(&settings.config).map(|()| true)
        }),
        Command::Migrate { config, is_dry_run } => with_settings(config, |settings| {
            colloquy::migrate(&settings.config, is_dry_run)
        }),
        Command::Restore { config, what } => with_settings(config, |settings| {
            colloquy::restore(&settings.config, &what)
        }),
        Command::Operate {
            config,
            request,
            output,
        } => operate(config, &request, output),
        Command::Listen(options) => listen(options),
    }
}

fn listen(options: ListenOptions) -> ExitCode {
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
        forward_to: options.forward_to,
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

fn operate(file: Option<PathBuf>, request: &OperatorRequest, output: Output) -> ExitCode {
    let asked = match source(file).read() {
        Ok(settings) => colloquy::operate(&settings.config, request, output),
        Err(error) => return unusable(&error),
    };
    match asked {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

fn with_settings(
    file: Option<PathBuf>,
    then: impl FnOnce(Loaded) -> Result<bool, colloquy::RunError>,
) -> ExitCode {
    let settings = match usable(file) {
        Ok(settings) => settings,
        Err(error) => return unusable(&error),
    };
    match then(settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

/// The settings that a start would have.
fn usable(file: Option<PathBuf>) -> Result<Loaded, ConfigError> {
    let settings = source(file).read()?;
    colloquy::check_settings(&settings.config).map(|()| settings)
}

/// This file, or the one in the working folder, and the environment.
fn source(file: Option<PathBuf>) -> Source {
    let as_text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    Source::new(file, std::env::vars_os().filter_map(as_text).collect())
}

fn unusable(settings: &ConfigError) -> ExitCode {
    complain(format_args!("{settings}"));
    ExitCode::from(2)
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
