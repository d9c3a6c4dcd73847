//! Tables for a terminal.

use std::fmt;

use overdraft_claims::as_float;

/// Rows under a header, each column as wide as it has to be.
#[derive(Debug)]
pub(crate) struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    /// More columns.
    pub(crate) fn add_header<'a>(&mut self, cells: impl Iterator<Item = &'a str>) {
        if let Some(header) = self.rows.first_mut() {
            header.extend(cells.map(str::to_owned));
        }
    }

    pub(crate) fn add(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "  {cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// So many of so many, in a hundred.
pub(crate) fn percent(part: usize, all: usize) -> String {
    format!("{:.1}", as_float(part) / as_float(all.max(1)) * 100.0)
}
