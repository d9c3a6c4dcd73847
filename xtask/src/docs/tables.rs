//! Tables of a Markdown page, by section and column.

use std::collections::{BTreeMap, BTreeSet};

/// One row: its cells by the column's name, without marks of code.
pub(crate) type Row = BTreeMap<String, String>;

/// The first table of each section.
#[derive(Debug, Default)]
pub(crate) struct Page {
    sections: BTreeMap<String, Vec<Row>>,
}

impl Page {
    /// Reads a page.
    pub(crate) fn read(text: &str) -> Self {
        let mut page = Self::default();
        for section in text.split("\n## ").skip(1) {
            let title = section.lines().next().unwrap_or_default().trim().to_owned();
            let mut lines =
                section.lines().skip_while(|line| !line.starts_with('|')).map_while(cells);
            let names = lines.next().unwrap_or_default();
            let rows = lines.skip(1).map(|cells| names.iter().cloned().zip(cells).collect());
            page.sections.insert(title, rows.collect());
        }
        page
    }

    /// The rows of a section's table.
    pub(crate) fn rows(&self, section: &str) -> &[Row] {
        self.sections.get(section).map_or(&[], Vec::as_slice)
    }

    /// What a column has, without empty cells.
    pub(crate) fn column(&self, section: &str, name: &str) -> BTreeSet<String> {
        let cells = self.rows(section).iter().filter_map(|row| row.get(name));
        cells.filter(|cell| !cell.is_empty()).cloned().collect()
    }
}

/// The cells of a row; the marks of code go, for names are compared.
fn cells(line: &str) -> Option<Vec<String>> {
    let inside = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(|cell| cell.trim().replace('`', "")).collect())
}
