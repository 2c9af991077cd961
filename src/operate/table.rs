//! Columns of text that fit a terminal of 100 columns, in colours if wanted.

use std::fmt::Write;

/// How wide a row is at most, in characters.
const WIDTH_MAX: usize = 100;
/// What stands between two columns.
const GAP: &str = "  ";

/// Whether colours are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// As SGR sequences (ECMA-48).
    Coloured,
    /// Text alone, for pipes and files.
    Plain,
}

/// What a cell says beyond its text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Nothing that anybody has to look at.
    Usual,
    /// It is the name of something.
    Title,
    /// Something is as it should be.
    Good,
    /// Something is under way, such as a backoff.
    Warning,
    /// Something that somebody should look at.
    Bad,
}

impl Tone {
    fn sgr(self) -> &'static str {
        match self {
            Tone::Usual => "",
            Tone::Title => "\x1b[1m",
            Tone::Good => "\x1b[32m",
            Tone::Warning => "\x1b[33m",
            Tone::Bad => "\x1b[31m",
        }
    }
}

/// Where a column's text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// Aligned to the left, as words are.
    Left,
    /// Aligned to the right, as numbers are.
    Right,
}

/// One text of a table, with its tone.
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A text with what it says beyond itself.
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        // What a server wrote must not steer the terminal.
        let text: String = text.into();
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        Cell {
            text: text.collect(),
            tone,
        }
    }

    /// The text, without what would steer a terminal.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A text that says nothing beyond itself.
    pub(super) fn usual(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Usual)
    }
}

/// Rows beneath titles, and lines that follow them.
pub(super) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
    lines: Vec<String>,
}

impl Table {
    /// An empty one with these columns; without titles where all are empty.
    pub(super) fn new(columns: &[(&'static str, Align)]) -> Self {
        Table {
            columns: columns.to_vec(),
            rows: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Adds a row, with a cell for each column.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a line beneath the rows.
    pub(super) fn line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// The whole text. What does not fit the width is cut off the last column.
    pub(super) fn render(&self, style: Style) -> String {
        let titles: Vec<Cell> = self
            .columns
            .iter()
            .map(|(title, _)| Cell::new(*title, Tone::Title))
            .collect();
        let titled = titles.iter().any(|title| !title.text.is_empty());
        let rows: Vec<&Vec<Cell>> = titled
            .then_some(&titles)
            .into_iter()
            .chain(&self.rows)
            .collect();
        let mut widths = vec![0; self.columns.len()];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(*row) {
                *width = cell.text.chars().count().max(*width);
            }
        }
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        if let Some((last, others)) = widths.split_last_mut() {
            *last = (*last).min(WIDTH_MAX.saturating_sub(others.iter().sum::<usize>() + gaps));
        }
        let mut text = String::new();
        for row in rows {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                if at > 0 {
                    line.push_str(GAP);
                }
                let width = widths.get(at).copied().unwrap_or_default();
                let align = self
                    .columns
                    .get(at)
                    .map_or(Align::Left, |(_, align)| *align);
                line.push_str(&padded(cell, width, align, style));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for line in &self.lines {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

/// A cell's text in its column's width.
fn padded(cell: &Cell, width: usize, align: Align, style: Style) -> String {
    let mut shown: String = cell.text.clone();
    if cell.text.chars().count() > width {
        shown = cell.text.chars().take(width.saturating_sub(1)).collect();
        shown.push('…');
    }
    let space = " ".repeat(width.saturating_sub(shown.chars().count()));
    if style == Style::Coloured && cell.tone != Tone::Usual {
        shown = format!("{}{shown}\x1b[0m", cell.tone.sgr());
    }
    match align {
        Align::Left => shown + &space,
        Align::Right => space + &shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_texts_and_the_last_one_ends_at_the_width() {
        let mut table = Table::new(&[
            ("kind", Align::Left),
            ("live", Align::Right),
            ("", Align::Left),
        ]);
        let long = "x".repeat(200);
        table.row([
            Cell::usual("conversation"),
            Cell::usual("7"),
            Cell::usual(long),
        ]);
        table.row([
            Cell::usual("key"),
            Cell::usual("12345"),
            Cell::usual("a\x1bb"),
        ]);
        let text = table.render(Style::Plain);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines.first(), Some(&"kind           live"));
        assert_eq!(lines.get(2), Some(&"key           12345  a b"));
        let cut = lines.get(1).copied().unwrap_or_default();
        assert!(
            cut.starts_with("conversation      7  xxx") && cut.ends_with("x…"),
            "{cut}"
        );
        assert_eq!(cut.chars().count(), WIDTH_MAX);
    }

    #[test]
    fn colours_take_no_width() {
        let mut table = Table::new(&[("", Align::Right), ("", Align::Left)]);
        table.row([Cell::new("7", Tone::Bad), Cell::usual("a")]);
        table.row([Cell::usual("12"), Cell::usual("b")]);
        assert_eq!(
            table.render(Style::Coloured),
            " \x1b[31m7\x1b[0m  a\n12  b\n"
        );
    }
}
