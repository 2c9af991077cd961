//! What pages with figures show, read out of their HTML: tables, the texts beside them, and forms that
//! were refused.

use super::super::support::console::Seen;

/// A table of a page as it stands beside a chart.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<String>,
    /// When each interval begins, and its values; newest first.
    pub(super) rows: Vec<(String, Vec<Option<f64>>)>,
}

/// What stands in a text between these two.
pub(super) fn between<'t>(text: &'t str, before: &str, behind: &str) -> &'t str {
    let found = text.split_once(before);
    let (_, rest) = found.unwrap_or_else(|| panic!("no {before:?}: {text}"));
    rest.split(behind).next().unwrap()
}

/// The part of the page that one chart has.
fn figure<'p>(page: &'p str, chart: &str) -> &'p str {
    between(page, &format!("id=\"figure-{chart}\""), "</section>")
}

impl Table {
    pub(super) fn of(page: &str, chart: &str) -> Self {
        let table = between(figure(page, chart), "<table", "</table>");
        let (head, body) = table.split_once("<tbody>").unwrap();
        let columns = head.split("<th class=\"number\"").skip(1);
        let columns = columns.map(|one| between(one, ">", "<").to_owned());
        let rows = body.split("<tr>").skip(1).map(|row| {
            let start = between(row, "datetime=\"", "\"").to_owned();
            let cells = row.split("<td").skip(1).map(|cell| {
                let (_, value) = cell.split_once("data-value=\"")?;
                value.split('"').next().unwrap().parse().ok()
            });
            (start, cells.collect())
        });
        Table {
            columns: columns.collect(),
            rows: rows.collect(),
        }
    }
}

/// The text beside a chart.
pub(super) fn said(page: &str, chart: &str) -> String {
    let text = between(figure(page, chart), "<p class=\"said\"", "</p>");
    text.split_once('>').unwrap().1.to_owned()
}

/// Fails where the form is not shown again with this field, its words and what was filled in.
#[track_caller]
pub(super) fn assert_refused(seen: &Seen, field: &str, words: &str, kept: &[(&str, &str)]) {
    let wrong = between(&seen.text, &format!("id=\"wrong-{field}\""), "</p>");
    assert!(wrong.contains(words), "{field}: {wrong}");
    for (name, value) in kept {
        let input = between(&seen.text, &format!("id=\"field-{name}\""), ">");
        let select = between(&seen.text, &format!("id=\"field-{name}\""), "</div>");
        let is_kept = input.contains(&format!("value=\"{value}\""))
            || select.contains(&format!("value=\"{value}\" selected"));
        assert!(is_kept, "{name}: {select}");
    }
}
