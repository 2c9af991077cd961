//! `colloquy migrate`: brings the store's file to the version of this binary before a server is started
//! on it, or does so to a copy (a dry run).

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use colloquy_actors::store::sqlite::{DryRun, Migration, OpenError};

use crate::config::{Store, StoreKind};
use crate::startup;

/// How wide the bar is.
const BAR: usize = 20;

/// Migrates, or does a dry run; true where nothing is wrong.
///
/// # Errors
/// The store is in use, of a newer version, or can't be written.
pub(crate) fn migrate(store: &Store, is_dry_run: bool) -> Result<bool, OpenError> {
    if store.kind == StoreKind::MongoDb {
        startup::say(
            "Nothing is to be migrated: a server makes the collections and indexes that it needs at its start.\n",
        );
        return Ok(true);
    }
    let path = &store.path;
    if !is_dry_run {
        let mut migration = Migration::of(path)?;
        let many = migration.steps().len();
        take_steps(&mut migration)?;
        startup::say(&format!(
            "{} is of version {} ({many} steps were taken).\n",
            path.display(),
            migration.version()
        ));
        return Ok(true);
    }
    let mut dry_run = DryRun::of(path)?;
    let (found, many) = (dry_run.migration.version(), dry_run.migration.steps().len());
    let took = take_steps(&mut dry_run.migration)?;
    let version = dry_run.migration.version();
    let wrong = dry_run.check()?;
    let mut told = format!(
        "{} is of version {found}, and was left so. Its copy was brought to version {version} in {many} steps, which took {:.1} s.\n",
        path.display(),
        took.as_secs_f64()
    );
    if wrong.is_empty() {
        // Writing to a String can't fail.
        let _ = writeln!(told, "The copy is sound.");
    }
    startup::say(&told);
    if !wrong.is_empty() {
        startup::report(&wrong);
    }
    Ok(wrong.is_empty())
}

/// Takes all steps that are left, and tells of each on stderr; how long they took.
fn take_steps(migration: &mut Migration) -> Result<Duration, OpenError> {
    let (steps, began) = (migration.steps(), Instant::now());
    for (taken, description) in steps.iter().enumerate() {
        tell(taken, steps.len(), description);
        migration.step()?;
    }
    if let Some(last) = steps.last() {
        tell(steps.len(), steps.len(), last);
        if io::stderr().is_terminal() {
            let _ = writeln!(io::stderr());
        }
    }
    Ok(began.elapsed())
}

/// A bar that is drawn again on a terminal, and a line for each step elsewhere.
fn tell(taken: usize, all: usize, description: &str) {
    let filled = BAR * taken / all.max(1);
    let bar = format!("[{}{}]", "#".repeat(filled), ".".repeat(BAR - filled));
    let line = format!("{bar} {taken} of {all}  {description}");
    let mut stderr = io::stderr();
    // Whoever has closed stderr does not want to know.
    let _ = match stderr.is_terminal() {
        true => write!(stderr, "\r\x1b[2K{line}").and_then(|()| stderr.flush()),
        false => writeln!(stderr, "{line}"),
    };
}
