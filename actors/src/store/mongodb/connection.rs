//! The connection to the server: how it is asked, and how long it is waited for.

use std::io::ErrorKind;
use std::time::Duration;

use mongodb::error::Result;
use mongodb::options::{
    ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern,
};
use mongodb::{Client, Database};

/// How long a server that takes writes is looked for.
const SELECTION_MAX: Duration = Duration::from_secs(2);
/// How long anything is waited for; the server may have done it nevertheless.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The database at this URI. What is written is acknowledged when most members of a replica set
/// have it in their journals; what is read was acknowledged so.
///
/// # Errors
/// The connection string can't be parsed.
pub(super) async fn database(uri: &str, name: &str) -> Result<Database> {
    let mut options = ClientOptions::parse(uri).await?;
    options
        .app_name
        .get_or_insert_with(|| "colloquy".to_owned());
    options.server_selection_timeout = Some(SELECTION_MAX);
    options.connect_timeout = Some(SELECTION_MAX);
    options.write_concern = Some(
        WriteConcern::builder()
            .w(mongodb::options::Acknowledgment::Majority)
            .journal(true)
            .build(),
    );
    options.read_concern = Some(ReadConcern::majority());
    options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    #[cfg(test)]
    super::tests::commands::record(name, &mut options);
    Ok(Client::with_options(options)?.database(name))
}

/// What comes of it, if it comes in time.
///
/// # Errors
/// The server's, or that there was no answer in time.
pub(super) async fn answered<T>(asked: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(ANSWER_MAX, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(std::io::Error::new(ErrorKind::TimedOut, "no answer in time").into()),
    }
}

/// How long a server that does not answer is left alone.
pub(super) const AGAIN: Duration = Duration::from_millis(100);
