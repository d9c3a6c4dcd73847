//! The gateway's layers as data: a folder names itself and the layers under it.

use std::path::Path;

use super::Imports;

/// Folders of `crates/gateway/src` from the bottom to the top. Folders of one layer may not name
/// each other. Files and folders that are not in the table are exempt until they move into it.
const LAYERS: &[&[&str]] = &[
    &["settings"],
    &["trace"],
    &["upstream"],
    &["discovery"],
    &["dispatch"],
    &["sync"],
    &["fleet"],
    &["pipeline"],
    &["cache", "cascade"],
    &["server"],
];

/// Imports of the gateway that lead upwards or sideways.
pub(super) fn faults(imports: &Imports) -> Vec<String> {
    let mut faults = Vec::new();
    for (file, imported) in imports {
        for (target, path) in imported {
            let (Some(from), Some(to)) = (layer(file), layer(target)) else { continue };
            if from.height < to.height || from.height == to.height && from.folder != to.folder {
                faults.push(format!(
                    "crates/gateway: {} imports {} (`{path}`), but `{}` may not name `{}`",
                    file.display(),
                    target.display(),
                    from.folder,
                    to.folder
                ));
            }
        }
    }
    faults
}

struct Layer<'path> {
    folder: &'path str,
    height: usize,
}

fn layer(file: &Path) -> Option<Layer<'_>> {
    let folder = file.parent()?.iter().next()?.to_str()?;
    let height = LAYERS.iter().position(|folders| folders.contains(&folder))?;
    Some(Layer { folder, height })
}
