//! The log on stderr. What can't be written is lost and harms nobody: a full disk must not end the
//! server.

use std::any::Any;
use std::io::{self, Write};
use std::panic::PanicHookInfo;

use std::sync::OnceLock;

use colloquy_runtime::threads;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Directive;
use tracing_subscriber::reload::Handle;

use crate::config;

/// Changes what is logged.
type ChangeFilter = Box<dyn Fn(&dyn Fn(&mut EnvFilter)) + Send + Sync>;

static CHANGE_FILTER: OnceLock<ChangeFilter> = OnceLock::new();

/// Starts it; panics go there too.
pub(crate) fn start(settings: &config::Log) {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(&settings.level))
        .with_writer(|| Unfailing(io::stderr()))
        .log_internal_errors(false)
        .with_ansi(
            io::IsTerminal::is_terminal(&io::stderr()) && std::env::var_os("NO_COLOR").is_none(),
        );
    // A second call in one process keeps the first one's log.
    let _ = match settings.format.as_str() {
        "json" => {
            let lines = lines.json().flatten_event(true).with_current_span(false);
            let lines = lines.with_span_list(false).with_filter_reloading();
            CHANGE_FILTER.get_or_init(|| changing(lines.reload_handle()));
            lines.try_init()
        }
        "compact" => {
            let lines = lines.compact().with_filter_reloading();
            CHANGE_FILTER.get_or_init(|| changing(lines.reload_handle()));
            lines.try_init()
        }
        _ => {
            let lines = lines.with_filter_reloading();
            CHANGE_FILTER.get_or_init(|| changing(lines.reload_handle()));
            lines.try_init()
        }
    };
    // The default one panics, and so aborts, where stderr can't be written.
    std::panic::set_hook(Box::new(note));
}

/// Logs what this level says from now on.
pub(crate) fn set_level(level: &str) {
    if let Some(change) = CHANGE_FILTER.get() {
        change(&|current| *current = filter(level));
    }
}

/// Logs no more what becomes of new connections: the server stops, and one that comes while the workers
/// end would be an error.
pub(crate) fn leave_out_new_connections() {
    if let (Some(change), Ok(quiet)) = (CHANGE_FILTER.get(), "actix_server::accept=off".parse()) {
        let quiet: Directive = quiet;
        change(&|current| *current = std::mem::take(current).add_directive(quiet.clone()));
    }
}

fn changing<S: 'static>(handle: Handle<EnvFilter, S>) -> ChangeFilter {
    Box::new(move |change| {
        if let Err(error) = handle.modify(|current| change(current)) {
            tracing::warn!(%error, "what is logged stays as it was");
        }
    })
}

fn filter(level: &str) -> EnvFilter {
    let filter = EnvFilter::builder().parse_lossy(level);
    // It logs what clients send wrong as errors of ours: anybody could fill the log.
    match "actix_http::h1=off".parse() {
        Ok(quiet) if !level.contains("actix_http") => filter.add_directive(quiet),
        Ok(_) | Err(_) => filter,
    }
}

/// Notes and counts a panic; what becomes of it is decided where it is caught.
fn note(panic: &PanicHookInfo<'_>) {
    let place = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    let thread = std::thread::current();
    threads::note_panic();
    tracing::error!(
        panic = words(panic.payload()),
        place,
        thread = thread.name().unwrap_or_default(),
        "panicked"
    );
}

/// The message of a panic, where it is a text.
pub(crate) fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no words")
}

/// A writer that takes everything and never tells of a failure.
struct Unfailing<W>(W);

impl<W: Write> Write for Unfailing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // There is nowhere to tell it.
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn a_full_disk_does_not_fail_the_log() {
        let mut log = Unfailing(Full);
        assert!(log.write_all(b"a line\n").is_ok() && log.flush().is_ok());
    }
}
