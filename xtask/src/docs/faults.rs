//! Fault matrix: which test shows what becomes of a request under which fault.
//!
//! The rows are in `faults.txt`. A test names the rows that it shows in a comment before it, `// Faults: 3, 4`; the
//! table in `docs/reliability.md` is written from both.
//!
//! Invariant: a test that names a row that is not there fails the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const ROWS: &str = include_str!("faults.txt");

/// What a test says before it.
const MARK: &str = "// Faults: ";

/// Where the table stands in the page.
const BEGIN: &str = "<!-- faults: written by `cargo xtask docs` -->\n";
const END: &str = "<!-- faults end -->\n";

/// Where tests are.
const PLACES: [&str; 2] = ["crates", "tests"];

/// Tests by the number of the row that they show.
type Shown = BTreeMap<u32, Vec<String>>;

/// The page with its table written anew.
pub(super) fn page(root: &Path, page: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("`docs/reliability.md` has no faults")?;
    let (_, after) = rest.split_once(END).context("its table of faults has no end")?;
    let mut shown = Shown::new();
    for place in PLACES {
        walk(root, &root.join(place), &mut shown)?;
    }
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(&shown)?))
}

fn walk(root: &Path, folder: &Path, shown: &mut Shown) -> Result<()> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if !path.ends_with("node_modules") {
                walk(root, &path, shown)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            collect(&name, &text, shown)?;
        }
    }
    Ok(())
}

/// Takes in what the tests of one file show.
fn collect(file: &str, text: &str, shown: &mut Shown) -> Result<()> {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(rows) = line.trim_start().strip_prefix(MARK) else { continue };
        let test = lines.by_ref().find_map(name_of).with_context(|| format!("{file}: {line}"))?;
        for row in rows.split(',') {
            let row = row.trim().parse().with_context(|| format!("{file}: `{row}` is no row"))?;
            shown.entry(row).or_default().push(format!("[`{test}`](../{file})"));
        }
    }
    Ok(())
}

/// The name of the function that a line begins.
fn name_of(line: &str) -> Option<String> {
    let (_, name) = line.split_once("fn ")?;
    Some(name.split('(').next()?.to_owned())
}

fn table(shown: &Shown) -> Result<String> {
    let mut page = String::new();
    let (mut rows, mut found) = (0, 0);
    for line in ROWS.lines() {
        if let Some(group) = line.strip_prefix("# ") {
            write!(
                page,
                "\n### {group}\n\n| | fault | what is promised | shown by |\n|---|---|---|---|\n"
            )?;
            continue;
        }
        let mut cells = line.split('|');
        let (Some(number), Some(fault), Some(promise)) = (cells.next(), cells.next(), cells.next())
        else {
            bail!("`{line}` is no row of `faults.txt`; expected NUMBER|FAULT|PROMISE");
        };
        rows += 1;
        let tests = shown.get(&number.parse()?).map(|tests| tests.join(", "));
        found += usize::from(tests.is_some());
        let tests = tests.unwrap_or_else(|| "–".to_owned());
        writeln!(page, "| {number} | {fault} | {promise} | {tests} |")?;
    }
    if let Some(unknown) =
        shown.keys().find(|row| usize::try_from(**row).is_ok_and(|row| rows < row))
    {
        bail!("a test shows row {unknown}, and `faults.txt` has {rows}");
    }
    let sum = format!("\n{found} of {rows} rows are shown by tests of this repository.\n");
    Ok(format!("{sum}{page}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_shows_the_rows_that_it_names() {
        let mut shown = Shown::new();
        let text = "// Faults: 3, 4\n#[tokio::test]\nasync fn it_holds() {\n}\n";
        collect("tests/one.rs", text, &mut shown).unwrap();
        let table = table(&shown).unwrap();
        assert!(table.starts_with("\n2 of 82 rows"), "{table}");
        assert!(table.contains("| [`it_holds`](../tests/one.rs) |\n| 4 |"), "{table}");
    }

    #[test]
    fn a_row_that_is_not_there_is_refused() {
        let shown = Shown::from([(83, vec!["one".to_owned()])]);
        assert!(table(&shown).unwrap_err().to_string().contains("row 83"));
        assert!(collect("one.rs", "// Faults: three\nfn it() {}", &mut Shown::new()).is_err());
    }
}
