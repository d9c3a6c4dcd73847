//! The site's source and its links.

use std::fs;
use std::path::Path;

use super::{links, source};

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A folder of this test alone, empty.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("xtask-site-{name}-{}", std::process::id()));
    let _gone = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn links_are_rewritten_and_code_is_not() {
    let text =
        "[a](b.md) `[c](d.md)` <img src=\"e.png\"> [f](https://g) [h](#i)\n```\n[j](k.md)\n```\n";
    let mut seen = Vec::new();
    let new = source::rewritten(text, |target| {
        seen.push(target.to_owned());
        (target == "b.md").then(|| "new.md".to_owned())
    });
    assert_eq!(seen, ["b.md", "e.png"]);
    assert_eq!(new, text.replace("(b.md)", "(new.md)"));
}

#[test]
fn pages_files_and_folders_that_are_linked_to_come_along() {
    let root = folder("source");
    write(&root, "README.md", "# First\n\n[guide](docs/guide.md) [why](docs/guide.md#why)\n");
    for name in ["CHANGELOG", "SECURITY", "CONTRIBUTING", "CODE_OF_CONDUCT"] {
        write(&root, &format!("{name}.md"), &format!("# {name}\n"));
    }
    write(&root, "docs/SUMMARY.md", "# Summary\n\n- [Guide](guide.md)\n");
    write(
        &root,
        "docs/guide.md",
        "# Guide\n\n[all](../examples) [one](../examples/a.yaml) [d](../deploy/README.md)\n",
    );
    write(&root, "examples/a.yaml", "a: 1\n");
    write(&root, "deploy/README.md", "# Deploy\n\n[back](../README.md)\n");
    let to = root.join("site-source");
    source::gather(&root, &to).unwrap();
    let read = |name: &str| fs::read_to_string(to.join(name)).unwrap();
    assert!(read("docs/guide.md").contains("(../examples/index.md)"));
    assert!(read("docs/guide.md").contains("(../deploy/index.md)"));
    assert!(read("examples/README.md").contains("[a.yaml](a.yaml)"));
    assert_eq!(read("examples/a.yaml"), "a: 1\n");
    assert!(read("deploy/README.md").contains("(../index.md)"));
    let summary = read("SUMMARY.md");
    for part in [
        "[Overdraft](README.md)",
        "- [Guide](docs/guide.md)",
        "- [Deploy](deploy/README.md)",
        "  - [examples](examples/README.md)",
    ] {
        assert!(summary.contains(part), "`{part}` is not in {summary}");
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let site = folder("links");
    write(
        &site,
        "index.html",
        "<a href=\"b.html#here\"></a> <a href=\"b.html#gone\"></a> <img src=\"c.png\">",
    );
    write(
        &site,
        "b.html",
        "<h2 id=\"here\"></h2> <a href=\"https://elsewhere\"></a> <a href=\"#here\"></a>",
    );
    let faults = links::faults(&site).unwrap();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("b.html#gone") && faults[1].contains("c.png"), "{faults:?}");
    fs::remove_dir_all(site).unwrap();
}
