//! Writes settings down as a config.toml, each with where it comes from.

use toml::{Table, Value};

use super::overlay::Origins;
use super::secrets::shown;

/// The settings as a file with the same settings would have them, but for secrets, which are not
/// shown; behind each stands where it was given.
pub(super) fn written(table: &Table, origins: &Origins) -> String {
    let mut text = String::new();
    section(table, &mut Vec::new(), origins, &mut text);
    text
}

fn section(table: &Table, path: &mut Vec<String>, origins: &Origins, text: &mut String) {
    let (sections, values): (Vec<_>, Vec<_>) =
        table.iter().partition(|(_, value)| value.is_table());
    if !path.is_empty() && !values.is_empty() {
        text.push_str(&format!("\n[{}]\n", path.join(".")));
    }
    for (key, value) in values {
        path.push(key.clone());
        let name = path.join(".");
        let origin = origins.get(&name).map_or("default", String::as_str);
        text.push_str(&format!("{key} = {} # {origin}\n", shown(&name, value)));
        path.pop();
    }
    for (key, value) in sections {
        if let Value::Table(inner) = value {
            path.push(key.clone());
            section(inner, path, origins, text);
            path.pop();
        }
    }
}
