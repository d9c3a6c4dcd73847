//! Files that are replaced, rewritten, broken and gone.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::{FILE_BYTES_MAX, FileError, Look, Watched};
use crate::discovery::tests::Watching;
use crate::settings::FileSettings;
use crate::settings::Source;

const ONE: &str = "http://10.0.0.1:8000\n";
const TWO: &str = "http://10.0.0.1:8000\nhttp://10.0.0.2:8000 name=beta\n";

/// As a careful writer does it: whole, under another name first.
fn replace(path: &Path, content: &str) {
    let draft = path.with_extension("new");
    std::fs::write(&draft, content).unwrap();
    std::fs::rename(&draft, path).unwrap();
}

fn read(content: &str) -> Look {
    Look::Content(content.as_bytes().to_vec())
}

fn start(path: &Path) -> Watching {
    let mut settings = FileSettings::new(path);
    settings.interval = Duration::from_millis(2);
    Watching::start(Source::File(settings))
}

#[test]
fn a_file_is_read_again_until_its_stamp_has_settled() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("workers");
    std::fs::write(&path, ONE).unwrap();
    let mut watched = Watched::new(path);
    assert_eq!(watched.look().unwrap(), read(ONE));
    assert_eq!(watched.look().unwrap(), read(ONE));
    assert_eq!(watched.look().unwrap(), Look::Unchanged);
}

#[test]
fn a_file_that_is_replaced_is_read_at_once() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("workers");
    std::fs::write(&path, ONE).unwrap();
    let mut watched = Watched::new(path.clone());
    assert_eq!(watched.look().unwrap(), read(ONE));
    replace(&path, TWO);
    assert_eq!(watched.look().unwrap(), read(TWO));
}

// Faults: 78
#[test]
fn a_file_that_is_being_written_is_not_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("workers");
    std::fs::write(&path, TWO).unwrap();
    let mut watched = Watched::new(path.clone());
    assert_eq!(watched.look().unwrap(), read(TWO));
    // It is cut to nothing, then grows; each look finds it changed.
    let mut writer = File::create(&path).unwrap();
    assert_eq!(watched.look().unwrap(), Look::Unchanged);
    writer.write_all(ONE.as_bytes()).unwrap();
    assert_eq!(watched.look().unwrap(), Look::Unchanged);
    writer.write_all(b"# the end\n").unwrap();
    assert_eq!(watched.look().unwrap(), Look::Unchanged);
    let whole = format!("{ONE}# the end\n");
    assert_eq!(watched.look().unwrap(), read(&whole));
    assert_eq!(watched.look().unwrap(), Look::Unchanged);
}

#[test]
fn a_file_fits_exactly() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("workers");
    let file = File::create(&path).unwrap();
    file.set_len(FILE_BYTES_MAX).unwrap();
    let mut watched = Watched::new(path.clone());
    assert!(matches!(watched.look(), Ok(Look::Content(_))));
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b" ").unwrap();
    assert_eq!(watched.look().unwrap(), Look::Unchanged);
    assert!(matches!(watched.look(), Err(FileError::TooLong { .. })));
    assert!(matches!(Watched::new(folder.path().into()).look(), Err(FileError::NotAFile { .. })));
}

#[tokio::test]
async fn a_config_map_is_followed_through_its_links() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    // As the kubelet lays it out: workers -> ..data/workers, ..data -> ..v1.
    for (version, content) in [("..v1", ONE), ("..v2", TWO)] {
        std::fs::create_dir(at(version)).unwrap();
        std::fs::write(at(version).join("workers"), content).unwrap();
    }
    symlink("..v1", at("..data")).unwrap();
    symlink("..data/workers", at("workers")).unwrap();
    let mut watching = start(&at("workers"));
    assert_eq!(watching.next().await, ["10.0.0.1:8000 http://10.0.0.1:8000"]);
    symlink("..v2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    let told = watching.next().await;
    assert_eq!(told, ["10.0.0.1:8000 http://10.0.0.1:8000", "beta http://10.0.0.2:8000"]);
    watching.end().await;
}

// Faults: 78
#[tokio::test]
async fn bad_content_keeps_the_last_good_and_names_its_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("workers");
    let mut watching = start(&path);
    watching.trouble("cannot be read").await;
    replace(&path, ONE);
    assert_eq!(watching.next().await, ["10.0.0.1:8000 http://10.0.0.1:8000"]);
    watching.fine().await;

    replace(&path, "# two workers\nhttp://10.0.0.1:8000\ngrpc://10.0.0.2:8000\n");
    let error = watching.trouble("scheme").await;
    assert!(error.starts_with(&format!("{}:3: ", path.display())), "{error}");
    std::fs::remove_file(&path).unwrap();
    watching.trouble("cannot be read").await;
    replace(&path, "");
    watching.trouble("write `[]`").await;
    watching.is_silent();

    replace(&path, ONE);
    watching.fine().await;
    replace(&path, "[]");
    assert_eq!(watching.next().await, Vec::<String>::new());
    watching.end().await;
}
