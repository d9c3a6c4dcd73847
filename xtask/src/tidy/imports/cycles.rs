//! Cycles of imports: strongly connected components of a crate's files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Imports;
use super::modules::module_of;

/// A cycle of more files than this has no order in which to read it.
const CYCLE_FILES_MAX: usize = 6;

/// Crates that do not keep the rules yet, with the size of their largest cycle, which only falls.
const DEBTS: &[(&str, usize)] = &[];

/// Cycles of one crate that cross a folder or are large.
pub(super) fn faults(name: &str, imports: &Imports) -> Vec<String> {
    let debt =
        DEBTS.iter().find(|(crate_name, _)| *crate_name == name).map_or(0, |(_, size)| *size);
    let mut faults = Vec::new();
    for cycle in cycles(imports).iter().filter(|cycle| debt < cycle.len()) {
        if CYCLE_FILES_MAX < cycle.len() {
            let reason = format!("at most {CYCLE_FILES_MAX} may be");
            faults.push(described(name, cycle, imports, &reason));
        } else if !is_one_folder(cycle) {
            faults.push(described(name, cycle, imports, "and a cycle may not leave its folder"));
        }
    }
    faults
}

/// Sets of two files and more, each of which reaches all others of its set.
fn cycles(imports: &Imports) -> Vec<BTreeSet<&Path>> {
    let mut cycles = BTreeSet::new();
    for file in imports.keys() {
        let reached = reached_from(file, imports);
        let cycle: BTreeSet<&Path> = reached
            .iter()
            .filter(|other| reached_from(other, imports).contains(file.as_path()))
            .copied()
            .collect();
        if cycle.len() > 1 {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

/// Files that a file needs, itself among them only where it is in a cycle.
fn reached_from<'files>(file: &Path, imports: &'files Imports) -> BTreeSet<&'files Path> {
    let mut reached: BTreeSet<&Path> = BTreeSet::new();
    let mut open: Vec<&Path> = vec![file];
    while let Some(next) = open.pop() {
        for needed in imports.get(next).into_iter().flat_map(|needed| needed.keys()) {
            if reached.insert(needed) {
                open.push(needed);
            }
        }
    }
    reached
}

/// Whether all files are one module and its direct children: those may know each other.
fn is_one_folder(cycle: &BTreeSet<&Path>) -> bool {
    let modules: Vec<Vec<String>> = cycle.iter().map(|file| module_of(file)).collect();
    let Some(shortest) = modules.iter().min_by_key(|module| module.len()) else { return true };
    let parents = [&shortest[..], shortest.split_last().map_or(&[][..], |(_, parent)| parent)];
    parents.iter().any(|parent| {
        modules.iter().all(|module| {
            module == parent || module.split_last().is_some_and(|(_, own)| own == *parent)
        })
    })
}

fn described(name: &str, cycle: &BTreeSet<&Path>, imports: &Imports, reason: &str) -> String {
    let mut text =
        format!("crates/{name}: {} files import each other in a cycle, {reason}:", cycle.len());
    for file in cycle {
        let inside = |(target, _): &(&PathBuf, &String)| cycle.contains(target.as_path());
        if let Some((target, path)) = imports.get(*file).into_iter().flatten().find(inside) {
            let _ =
                write!(text, "\n    {} imports {} (`{path}`)", file.display(), target.display());
        }
    }
    text
}
