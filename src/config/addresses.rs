//! What must hold of settings that are addresses: of other services, and of places for files.

use colloquy_objects::Location;
use url::Url;

use super::checks::{Wrong, wrong};
use super::sections::{Config, StoreKind};

/// The address of a service, to which the paths of its calls are added; empty, there is none or it
/// is the provider's own.
pub(super) fn check_endpoint(key: &str, endpoint: &str) -> Result<(), Wrong> {
    check_web_url(key, endpoint)?;
    if endpoint.contains(['?', '#']) {
        wrong(key, "must be a URL without ? and #")?;
    }
    Ok(())
}

/// A whole address on the web; empty, there is none.
pub(super) fn check_web_url(key: &str, text: &str) -> Result<(), Wrong> {
    if text.is_empty() {
        return Ok(());
    }
    let url = Url::parse(text).ok().filter(|url| {
        let is_web = ["http", "https"].contains(&url.scheme());
        is_web && url.has_host() && !text.contains(char::is_whitespace)
    });
    match url {
        None => wrong(key, "must be an http:// or https:// URL, or empty"),
        Some(url) if !url.username().is_empty() || url.password().is_some() => wrong(
            key,
            "must be a URL without user and password: credentials have settings of their own",
        ),
        Some(_) => Ok(()),
    }
}

/// Backups are listed by what stands in their place, so nothing that grows may stand in it.
pub(super) fn check_places(config: &Config) -> Result<(), Wrong> {
    // Each was looked at: where one is none, that is told before.
    let (Ok(Some(backups)), Ok(objects)) = (config.backup.location(), config.objects.location())
    else {
        return Ok(());
    };
    if backups.holds(&objects) {
        let right = "must be a place of its own, and objects.url neither it nor below it";
        wrong("backup.url", right)?;
    }
    let is_file = config.store.kind == StoreKind::Sqlite;
    if is_file && backups.holds(&Location::folder_of(&config.store.path)) {
        let right = "must be a place of its own, and store.path not below it";
        wrong("backup.url", right)?;
    }
    Ok(())
}
