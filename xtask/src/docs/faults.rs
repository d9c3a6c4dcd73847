//! Fault matrix: which test shows what becomes of a request under which fault.
//!
//! The rows are in `faults.txt`, and those of Failover Bench in `scenarios.txt`. A test names the rows that it shows in a
//! comment before it, `// Faults: 3, 4` or `// Failover: S01`; the tables in `docs/reliability.md` are written from both.
//!
//! Invariant: a test that names a row that is not there fails the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A table of the page.
struct Matrix {
    /// NUMBER|FAULT|PROMISE; a line that begins with `#` heads a group.
    rows: &'static str,
    /// What a test says before it.
    mark: &'static str,
    /// Where the table stands in the page.
    begin: &'static str,
    end: &'static str,
}

const MATRICES: [Matrix; 2] = [
    Matrix {
        rows: include_str!("faults.txt"),
        mark: "// Faults: ",
        begin: "<!-- faults: written by `cargo xtask docs` -->\n",
        end: "<!-- faults end -->\n",
    },
    Matrix {
        rows: include_str!("scenarios.txt"),
        mark: "// Failover: ",
        begin: "<!-- failover: written by `cargo xtask docs` -->\n",
        end: "<!-- failover end -->\n",
    },
];

/// Where tests are.
const PLACES: [&str; 2] = ["crates", "tests"];

/// Tests by the row that they show.
type Shown = BTreeMap<String, Vec<String>>;

/// The page with its tables written anew.
pub(super) fn page(root: &Path, page: &str) -> Result<String> {
    let mut page = page.to_owned();
    for matrix in &MATRICES {
        let Matrix { begin, end, mark, rows } = matrix;
        let (before, rest) =
            page.split_once(begin).with_context(|| format!("the page has no line `{begin}`"))?;
        let (_, after) =
            rest.split_once(end).with_context(|| format!("the page has no line `{end}`"))?;
        let mut shown = Shown::new();
        for place in PLACES {
            walk(root, &root.join(place), mark, &mut shown)?;
        }
        page = format!("{before}{begin}{}{end}{after}", table(rows, &shown)?);
    }
    Ok(page)
}

fn walk(root: &Path, folder: &Path, mark: &str, shown: &mut Shown) -> Result<()> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if !path.ends_with("node_modules") {
                walk(root, &path, mark, shown)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            collect(&name, &text, mark, shown)?;
        }
    }
    Ok(())
}

/// Takes in what the tests of one file show.
fn collect(file: &str, text: &str, mark: &str, shown: &mut Shown) -> Result<()> {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(rows) = line.trim_start().strip_prefix(mark) else { continue };
        let test = lines.by_ref().find_map(name_of).with_context(|| format!("{file}: {line}"))?;
        for row in rows.split(',') {
            shown.entry(row.trim().to_owned()).or_default().push(format!("[`{test}`](../{file})"));
        }
    }
    Ok(())
}

/// The name of the function that a line begins.
fn name_of(line: &str) -> Option<String> {
    let (_, name) = line.split_once("fn ")?;
    Some(name.split('(').next()?.to_owned())
}

fn table(rows: &str, shown: &Shown) -> Result<String> {
    const HEAD: &str = "| | fault | what is promised | shown by |\n|---|---|---|---|\n";
    let mut page = String::new();
    let (mut numbers, mut found) = (BTreeSet::new(), 0);
    if !rows.starts_with('#') {
        write!(page, "\n{HEAD}")?;
    }
    for line in rows.lines() {
        if let Some(group) = line.strip_prefix("# ") {
            write!(page, "\n### {group}\n\n{HEAD}")?;
            continue;
        }
        let mut cells = line.split('|');
        let (Some(number), Some(fault), Some(promise)) = (cells.next(), cells.next(), cells.next())
        else {
            bail!("`{line}` is no row; expected NUMBER|FAULT|PROMISE");
        };
        numbers.insert(number);
        let tests = shown.get(number).map(|tests| tests.join(", "));
        found += usize::from(tests.is_some());
        let tests = tests.unwrap_or_else(|| "–".to_owned());
        writeln!(page, "| {number} | {fault} | {promise} | {tests} |")?;
    }
    if let Some(unknown) = shown.keys().find(|row| !numbers.contains(row.as_str())) {
        bail!("a test shows row {unknown}, which is none of {}", numbers.len());
    }
    let count = numbers.len();
    Ok(format!("\n{found} of {count} rows are shown by tests of this repository.\n{page}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_shows_the_rows_that_it_names() {
        for (matrix, rows, last) in [(&MATRICES[0], "3, 4", "4"), (&MATRICES[1], "S03, S04", "S04")]
        {
            let mut shown = Shown::new();
            let text =
                format!("{}{rows}\n#[tokio::test]\nasync fn it_holds() {{\n}}\n", matrix.mark);
            collect("tests/one.rs", &text, matrix.mark, &mut shown).unwrap();
            let table = table(matrix.rows, &shown).unwrap();
            assert!(table.starts_with("\n2 of "), "{table}");
            assert!(
                table.contains(&format!("| [`it_holds`](../tests/one.rs) |\n| {last} |")),
                "{table}"
            );
        }
    }

    #[test]
    fn a_row_that_is_not_there_is_refused() {
        let shown = Shown::from([("83".to_owned(), vec!["one".to_owned()])]);
        assert!(table(MATRICES[0].rows, &shown).unwrap_err().to_string().contains("row 83"));
    }
}
