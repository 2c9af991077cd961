//! Laying one set of settings over another: what is not in the defaults is unknown, and what is of
//! another type is bad.

use std::collections::HashMap;

use toml::{Table, Value};

use super::ConfigError;
use super::secrets::{is_secret, shown, shown_name, shown_of_unknown};

/// Variables of the environment that are settings.
const VARIABLE: &str = "COLLOQUY__";
/// Behind the name of a setting it says that a file holds it.
const FILE: &str = "_file";
/// The section whose tables of their own take the same keys.
const SUPERVISION: &str = "supervision";
/// The kinds that have such a table.
pub(super) const KINDS: [&str; 9] = [
    "conversation",
    "account",
    "key",
    "user",
    "customer",
    "webhook",
    "document",
    "client",
    "grant",
];

/// Where each setting that is no default was given, by its dotted name.
pub(super) type Origins = HashMap<String, String>;

/// Settings to which others are added.
pub(super) struct Overlay {
    defaults: Table,
    table: Table,
    origins: Origins,
}

impl Overlay {
    pub(super) fn new(defaults: Table) -> Self {
        Overlay {
            table: defaults.clone(),
            defaults,
            origins: Origins::new(),
        }
    }

    /// Lays a file over what is there.
    pub(super) fn file(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| ConfigError::File {
                file: name.to_owned(),
                reason: without_excerpt(text, &error),
            })?;
        self.lay(name, &mut Vec::new(), table)
    }

    /// Lays the environment's variables over what is there.
    pub(super) fn environment(
        &mut self,
        all: impl Iterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        for (name, text) in all {
            let Some(rest) = name.strip_prefix(VARIABLE) else {
                continue;
            };
            let path: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
            let value = match self.default_of(&path) {
                Some(Value::String(_)) => bare(&text),
                Some(_) | None => typed(&text),
            };
            self.set(&name, &path, value)?;
        }
        Ok(())
    }

    /// The result, and where it comes from.
    pub(super) fn finish(self) -> (Table, Origins) {
        (self.table, self.origins)
    }

    fn lay(
        &mut self,
        origin: &str,
        path: &mut Vec<String>,
        table: Table,
    ) -> Result<(), ConfigError> {
        for (key, value) in table {
            path.push(key);
            let section = self.is_section(path);
            match value.as_table() {
                Some(inner) if section => self.lay(origin, path, inner.clone())?,
                Some(_) | None => self.set(origin, path, value)?,
            }
            path.pop();
        }
        Ok(())
    }

    fn is_section(&self, path: &[String]) -> bool {
        of_kind(path, 2) || matches!(self.default_of(path), Some(Value::Table(_)))
    }

    fn default_of(&self, path: &[String]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        let mut found = self.defaults.get(first)?;
        let rest = if of_kind(path, 3) {
            rest.get(1..).unwrap_or_default()
        } else {
            rest
        };
        for key in rest {
            found = found.as_table()?.get(key)?;
        }
        Some(found)
    }

    /// Sets what a file holds, without the line's end behind it.
    fn set_from_file(
        &mut self,
        origin: &str,
        path: &[String],
        file: &Value,
    ) -> Result<(), ConfigError> {
        let name = file.as_str().unwrap_or_default();
        let bad = |right| ConfigError::Bad {
            origin: origin.to_owned(),
            key: format!("{}{FILE}", path.join(".")),
            value: shown_name(file),
            right,
        };
        let held = std::fs::read_to_string(name)
            .map_err(|error| bad(format!("must be a file that can be read: {error}")))?;
        let held = held.strip_suffix('\n').unwrap_or(&held);
        let held = held.strip_suffix('\r').unwrap_or(held);
        if held.is_empty() {
            // It is named because there is one; without it the server would take that for "none".
            return Err(bad(
                "must be a file that holds the secret: this one is empty".to_owned(),
            ));
        }
        self.set(origin, path, Value::from(held))
    }

    /// The secret that is to be read from a file where this key says which.
    fn held_by_file(&self, path: &[String]) -> Option<Vec<String>> {
        let (last, section) = path.split_last()?;
        let secret = last.strip_suffix(FILE)?;
        let path: Vec<String> = section.iter().cloned().chain([secret.to_owned()]).collect();
        is_secret(&path.join(".")).then_some(path)
    }

    fn set(&mut self, origin: &str, path: &[String], value: Value) -> Result<(), ConfigError> {
        if self.default_of(path).is_none()
            && let Some(secret) = self.held_by_file(path)
        {
            return self.set_from_file(origin, &secret, &value);
        }
        let key = path.join(".");
        let Some(default) = self.default_of(path) else {
            return Err(self.unknown(origin, key, &value));
        };
        if !alike(default, &value) {
            let right = format!("must be {}", wanted(default, &value));
            return Err(refused(origin, key, &value, right));
        }
        let is_variable = |origin: &str| origin.starts_with(VARIABLE);
        if let Some(other) = self.origins.get(&key)
            && is_variable(other) == is_variable(origin)
        {
            let right = format!("is given twice: {other} sets it, too");
            return Err(refused(origin, key, &value, right));
        }
        let mut table = &mut self.table;
        let Some((last, sections)) = path.split_last() else {
            return Ok(());
        };
        for section in sections {
            let slot = table
                .entry(section.clone())
                .or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(inner) = slot else {
                return Ok(());
            };
            table = inner;
        }
        table.insert(last.clone(), value);
        self.origins.insert(key, origin.to_owned());
        Ok(())
    }

    fn unknown(&self, origin: &str, key: String, value: &Value) -> ConfigError {
        let nearest = self.nearest(&key);
        ConfigError::Unknown {
            origin: origin.to_owned(),
            value: shown_of_unknown(&key, nearest.as_deref(), value),
            key,
            hint: match nearest {
                Some(name) => format!("; did you mean `{name}`?"),
                None => "; config.toml lists all keys".to_owned(),
            },
        }
    }

    /// The setting, or the section, whose name is most like this one, if any is like it.
    fn nearest(&self, key: &str) -> Option<String> {
        let mut known = Vec::new();
        names(&self.defaults, "", &mut known);
        known.extend(self.defaults.keys().cloned());
        let nearest = known
            .into_iter()
            .map(|name| (strsim::levenshtein(key, &name), name))
            .min();
        let (far, name) = nearest?;
        (far <= 2 + key.len() / 4).then_some(name)
    }
}

/// The value that this origin gives a setting can't be used.
fn refused(origin: &str, key: String, value: &Value, right: String) -> ConfigError {
    ConfigError::Bad {
        origin: origin.to_owned(),
        value: shown(&key, value),
        key,
        right,
    }
}

/// Whether a path leads into one kind's table of supervision.
fn of_kind(path: &[String], least: usize) -> bool {
    let mut path_of = path.iter().map(String::as_str);
    path.len() >= least
        && path_of.next() == Some(SUPERVISION)
        && path_of.next().is_some_and(|k| KINDS.contains(&k))
}

/// Says what is wrong with a setting that has the right type.
pub(super) fn bad(table: &Table, origins: &Origins, key: String, right: String) -> ConfigError {
    let mut found = None;
    let mut inside = Some(table);
    for part in key.split('.') {
        found = inside.and_then(|table| element(table, part));
        inside = found.and_then(Value::as_table);
    }
    let value = found.map_or_else(String::new, |value| shown(&key, value));
    // A list is given as a whole, wherever in it the mistake is.
    let list = key.split('[').next().unwrap_or_default();
    let origin = origins
        .get(&key)
        .or_else(|| origins.get(list))
        .cloned()
        .unwrap_or_else(|| "config.toml".to_owned());
    ConfigError::Bad {
        origin,
        key,
        value,
        right,
    }
}

/// What a part of a setting's name leads to: `issuers[0]` is the first table of a list.
fn element<'t>(table: &'t Table, part: &str) -> Option<&'t Value> {
    match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
        Some((list, index)) => table.get(list)?.get(index.parse::<usize>().ok()?),
        None => table.get(part),
    }
}

fn bare(text: &str) -> Value {
    let quoted = Some(typed(text)).filter(|value| value.is_str() && text.starts_with(['"', '\'']));
    quoted.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn typed(text: &str) -> Value {
    let line: Option<Table> = format!("value = {text}").parse().ok();
    let value = line
        .filter(|line| line.len() == 1)
        .and_then(|mut line| line.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn alike(default: &Value, value: &Value) -> bool {
    match (default, value) {
        (Value::Integer(_) | Value::Float(_), Value::Integer(_) | Value::Float(_)) => true,
        (Value::Array(defaults), Value::Array(items)) => {
            items.iter().all(|item| match defaults.first() {
                Some(first) => alike(first, item),
                // What the tables of a list hold is looked at where they are read.
                None => item.is_str() || item.is_table(),
            })
        }
        (default, value) => default.same_type(value) && !default.is_table(),
    }
}

/// What a parser says, and where. Of the line only its key is told, and a number: anything else may
/// be a secret.
fn without_excerpt(text: &str, error: &toml::de::Error) -> String {
    let words = plainly(error.message());
    let Some(span) = error.span() else {
        return words;
    };
    let before = text.get(..span.start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let assigned = text
        .lines()
        .nth(line - 1)
        .and_then(|line| line.split_once('='));
    let number = text
        .get(span)
        .filter(|found| is_number(found))
        .unwrap_or("…");
    let what = match assigned.map(|(key, _)| key.trim()) {
        Some(key) if is_key(key) => format!("`{key} = {number}`: "),
        Some(_) | None => String::new(),
    };
    format!("line {line}, column {column}: {what}{words}")
}

/// Whether it looks like the name of a setting, and not like a line of a secret that has several.
fn is_key(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.".contains(&b);
    (1..=40).contains(&text.len()) && text.bytes().all(is_plain)
}

fn is_number(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || b"+-_".contains(&b))
}

/// A parser's words; what it says of an integer beyond 64 bits is about itself.
fn plainly(words: &str) -> String {
    match words.rsplit_once("invalid type: integer `") {
        Some((_, what)) if what.contains("128") => "the integer must fit in 64 bits".to_owned(),
        Some(_) | None => words.to_owned(),
    }
}

fn wanted(default: &Value, given: &Value) -> String {
    let digits = |text: &str| {
        !text.is_empty()
            && text
                .trim_start_matches('-')
                .bytes()
                .all(|b| b.is_ascii_digit())
    };
    let kind = match default {
        Value::Integer(_) | Value::Float(_) if given.as_str().is_some_and(digits) => {
            return "a number that fits in 64 bits".to_owned();
        }
        Value::String(_) => "a string",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Array(items) if items.iter().any(|item| !item.is_str()) => "a list of numbers",
        Value::Array(_) => "a list of strings",
        Value::Table(_) => return "a table".to_owned(),
        Value::Datetime(_) => "a time",
    };
    format!("{kind}, such as {default}")
}

fn names(table: &Table, before: &str, into: &mut Vec<String>) {
    for (key, value) in table {
        let name = if before.is_empty() {
            key.clone()
        } else {
            format!("{before}.{key}")
        };
        match value.as_table() {
            Some(inner) => names(inner, &name, into),
            None => into.push(name),
        }
    }
}
