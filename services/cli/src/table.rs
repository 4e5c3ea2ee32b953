//! Tables for a terminal.

use std::fmt::Write as _;

/// Formats rows under a heading, each column as wide as its widest cell.
///
/// Cells contain text of backends: characters that could move the cursor or change a color are replaced.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(&heading)
        .chain(rows)
        .map(|row| row.iter().map(|cell| plain(cell)).collect())
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a string cannot fail.
            _ = write!(line, "{cell:width$}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Replaces control characters.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if vmcp_core::is_invisible(c) { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_columns_and_replaces_control_characters() {
        let rows = [vec!["long\u{1b}[2J".to_owned(), "b".to_owned()]];
        assert_eq!(table(&["A", "B"], &rows), "A         B\nlong\u{fffd}[2J  b\n");
    }
}
