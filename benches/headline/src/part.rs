//! A part of the report: a table, what it promises, and the raw figures.

use std::fmt;

use overdraft_claims::Claim;
use serde::Serialize;
use serde_json::Value;

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// So little that all parts take about a minute.
    Quick,
    /// Enough for narrow intervals.
    Full,
}

impl Effort {
    /// One of two counts.
    pub(crate) const fn pick<T: Copy>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// A part of the report.
#[derive(Debug, Serialize)]
pub(crate) struct Part {
    /// What is compared, in a line.
    pub(crate) title: String,
    /// The first row names the columns.
    pub(crate) rows: Vec<Vec<String>>,
    /// What has to be known to read the table.
    pub(crate) notes: Vec<String>,
    /// All figures.
    pub(crate) raw: Value,
    #[serde(skip)]
    pub(crate) claims: Vec<Claim>,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
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
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        Ok(())
    }
}
