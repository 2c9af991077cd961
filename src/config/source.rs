//! Where settings come from. They are read at the start, and again whenever the server is told to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::overlay::{self, Origins, Overlay};
use super::{Config, ConfigError, DEFAULTS, show};

/// The file of settings that is taken where none is named, if it is there.
const FILE: &str = "config.toml";

/// A file of settings, and the environment.
#[derive(Debug, Clone)]
pub struct Source {
    file: Option<PathBuf>,
    environment: Vec<(String, String)>,
}

impl Source {
    /// Without a file it is `config.toml` in the working folder, where that is there.
    pub fn new(file: Option<PathBuf>, environment: Vec<(String, String)>) -> Self {
        Source { file, environment }
    }

    /// Reads the settings: the defaults, over them the file, over it the environment.
    ///
    /// # Errors
    /// The first setting that can't be used.
    pub fn read(&self) -> Result<Loaded, ConfigError> {
        let here = Path::new(FILE);
        let found = || here.exists().then(|| here.to_owned());
        let file = self.file.clone().or_else(found);
        let mut settings = Overlay::new(defaults()?);
        if let Some(path) = &file {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| ConfigError::File {
                file: name.clone(),
                reason: error.to_string(),
            })?;
            settings.file(&name, &text)?;
        }
        settings.environment(self.environment.iter().cloned())?;
        let (table, origins) = settings.finish();
        let config = typed(&table, &origins)?;
        config
            .check()
            .map_err(|(key, right)| overlay::bad(&table, &origins, key, right))?;
        let source = Source {
            file,
            environment: self.environment.clone(),
        };
        Ok(Loaded {
            config,
            source,
            table,
            origins,
        })
    }
}

/// Settings as they were read.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    source: Source,
    table: Table,
    origins: Origins,
}

impl Loaded {
    /// Reads them again from where they came.
    ///
    /// # Errors
    /// The first setting that can't be used.
    pub fn again(&self) -> Result<Self, ConfigError> {
        self.source.read()
    }

    /// Writes them down as a config.toml: each with where it comes from, and none that is a secret.
    #[must_use]
    pub fn show(&self) -> String {
        show::written(&self.table, &self.origins)
    }

    /// The names of the settings that have other values there.
    pub(crate) fn changes(&self, there: &Self) -> Vec<String> {
        let (here, there) = (flat(&self.table), flat(&there.table));
        let mut changed: Vec<String> = here
            .iter()
            .filter(|(name, value)| there.get(*name) != Some(value))
            .map(|(name, _)| name.clone())
            .chain(
                there
                    .keys()
                    .filter(|name| !here.contains_key(*name))
                    .cloned(),
            )
            .collect();
        changed.sort();
        changed
    }
}

/// Every setting by its dotted name.
fn flat(table: &Table) -> BTreeMap<String, &Value> {
    let mut all = BTreeMap::new();
    flatten(table, "", &mut all);
    all
}

fn flatten<'t>(table: &'t Table, before: &str, into: &mut BTreeMap<String, &'t Value>) {
    for (key, value) in table {
        let name = format!("{before}{key}");
        match value.as_table() {
            Some(inner) => flatten(inner, &format!("{name}."), into),
            None => drop(into.insert(name, value)),
        }
    }
}

fn typed(table: &Table, origins: &Origins) -> Result<Config, ConfigError> {
    serde_path_to_error::deserialize(Value::Table(table.clone())).map_err(|error| {
        let expected = error
            .inner()
            .message()
            .rsplit_once(", expected ")
            .map_or("", |(_, expected)| expected);
        let most = match expected {
            "u32" => Some(i64::from(u32::MAX)),
            "u64" | "usize" => Some(i64::MAX),
            _ => None,
        };
        let right = most.map(|most| format!("must be a whole number, 0 to {most}"));
        let right = right.unwrap_or_else(|| error.inner().message().to_owned());
        overlay::bad(table, origins, error.path().to_string(), right)
    })
}

fn defaults() -> Result<Table, ConfigError> {
    DEFAULTS
        .parse()
        .map_err(|error: toml::de::Error| ConfigError::File {
            file: "the compiled-in config.toml".into(),
            reason: error.to_string(),
        })
}
