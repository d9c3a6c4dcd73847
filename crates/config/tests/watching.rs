//! A file that changes under a running process: what comes into force, and what does not.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use overdraft_config::{Change, LOOK_EVERY, Loader, Variables, Watcher};

const GOOD: &str = "workers: [{url: 'http://a:1'}]\n";
const BETTER: &str = "workers: [{url: 'http://a:1'}, {url: 'http://b:1'}]\nlisten: 127.0.0.1:1\n";
const BAD: &str = "workers: [{url: 'http://a:1', poool: draft}]\n";

/// A watched file, and a clock that only the test moves.
struct World {
    _folder: tempfile::TempDir,
    path: PathBuf,
    watcher: Watcher,
    begin: Instant,
    looks: u32,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("overdraft.yaml");
        std::fs::write(&path, GOOD).expect("it is writable");
        Self::watching(folder, path)
    }

    #[expect(clippy::disallowed_methods, reason = "an origin to count the looks from")]
    fn watching(folder: tempfile::TempDir, path: PathBuf) -> Self {
        let loader = Loader::new(&path).with_variables(Variables::default());
        let loaded = loader.load().expect("it is good");
        let begin = Instant::now();
        let watcher = Watcher::new(loader, loaded);
        Self { _folder: folder, path, watcher, begin, looks: 0 }
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.path, text).expect("it is writable");
    }

    fn now(&self) -> Instant {
        self.begin + LOOK_EVERY * self.looks
    }

    fn look(&mut self) -> Option<Change> {
        self.looks += 1;
        let now = self.now();
        self.watcher.look(now, |_| Ok(()))
    }

    /// Looks that see nothing, and the one that sees something.
    #[track_caller]
    fn settled(&mut self) -> Change {
        assert!(self.look().is_none(), "the first sight settles nothing");
        self.look().expect("the second does")
    }

    fn workers(&self) -> usize {
        self.watcher.in_force().config.workers.len()
    }
}

#[test]
fn nothing_is_said_while_nothing_changes() {
    let mut world = World::new();
    assert!((0..5).all(|_| world.look().is_none()));
    world.write(GOOD);
    assert!((0..5).all(|_| world.look().is_none()), "the same text is no change");
}

#[test]
fn a_good_change_comes_into_force_and_names_what_needs_a_restart() {
    let mut world = World::new();
    world.write(BETTER);
    let Change::Taken { loaded, keys, restart } = world.settled() else { panic!("it is good") };
    assert_eq!(loaded.config.workers.len(), 2);
    assert_eq!((keys, restart), (vec!["listen".to_owned(), "workers".to_owned()], vec!["listen"]));
    assert_eq!(world.workers(), 2);
    assert!(world.watcher.stale().is_none() && world.look().is_none());
}

#[test]
fn a_bad_change_is_told_once_and_the_last_good_one_stays() {
    let mut world = World::new();
    world.write(BAD);
    let Change::Refused(errors) = world.settled() else { panic!("it is bad") };
    assert!(errors.to_string().contains("unknown key `poool`"), "{errors}");
    assert_eq!(world.workers(), 1);
    let since = world.now();
    assert!((0..5).all(|_| world.look().is_none()), "it is told once");
    let stale = world.watcher.stale().expect("the file says something else");
    assert_eq!((stale.since, stale.why.clone()), (since, errors));
    world.write(&BAD.replace("poool", "pol"));
    assert!(matches!(world.settled(), Change::Refused(_)), "another fault is told again");
    let stale = world.watcher.stale().expect("it still does");
    assert_eq!(stale.since, since, "it has been stale since the first");
    world.write(BETTER);
    assert!(matches!(world.settled(), Change::Taken { .. }));
    assert!(world.watcher.stale().is_none() && world.workers() == 2);
}

#[test]
fn a_change_that_is_taken_back_is_told() {
    let mut world = World::new();
    world.write(BAD);
    assert!(matches!(world.settled(), Change::Refused(_)));
    world.write(GOOD);
    assert!(matches!(world.settled(), Change::Restored));
    assert!(world.watcher.stale().is_none());
}

#[test]
fn a_file_that_vanishes_takes_nothing_with_it() {
    let mut world = World::new();
    std::fs::remove_file(&world.path).expect("it can be removed");
    let Change::Refused(errors) = world.settled() else { panic!("it is gone") };
    assert!(errors.to_string().contains("there is no such file"), "{errors}");
    assert_eq!(world.workers(), 1);
    world.write(GOOD);
    assert!(matches!(world.settled(), Change::Restored));
}

#[test]
fn a_half_written_file_is_not_taken() {
    let mut world = World::new();
    for end in [10, 30, 50, BETTER.len()] {
        world.write(&BETTER[..end]);
        assert!(world.look().is_none(), "it changes with every look");
    }
    assert!(matches!(world.look(), Some(Change::Taken { .. })));
}

#[test]
fn a_reload_that_is_asked_for_does_not_wait() {
    let mut world = World::new();
    world.write(BETTER);
    let now = world.begin + Duration::from_millis(1);
    assert!(matches!(world.watcher.reload(now, |_| Ok(())), Some(Change::Taken { .. })));
    assert!(world.look().is_none());
    world.write(BAD);
    assert!(matches!(world.watcher.reload(now, |_| Ok(())), Some(Change::Refused(_))));
    assert!(
        matches!(world.watcher.reload(now, |_| Ok(())), Some(Change::Refused(_))),
        "asked again, told again"
    );
}

#[test]
fn what_cannot_be_put_in_force_is_told_once_and_taken_when_it_can_and_somebody_asks() {
    const WHY: &str = "TLS of worker `b`: `ca.pem` is not there; expected certificates";
    let mut world = World::new();
    world.write(BETTER);
    let now = world.begin;
    assert!(world.watcher.look(now, |_| Err(WHY.to_owned())).is_none(), "it may be half written");
    let told = world.watcher.look(now, |_| Err(WHY.to_owned()));
    let Some(Change::Refused(errors)) = told else { panic!("it cannot be put in force") };
    let summary = errors.summary();
    assert!(summary.ends_with("overdraft.yaml: TLS of worker `b`: `ca.pem` is not there"));
    assert!(errors.to_string().contains("expected certificates"), "{errors}");
    assert_eq!(world.workers(), 1);
    assert!(world.watcher.stale().is_some_and(|stale| stale.why == errors));
    assert!((0..5).all(|_| world.look().is_none()), "it is told once");
    let asked = world.watcher.reload(now, |config| {
        assert_eq!(config.workers.len(), 2);
        Ok(())
    });
    assert!(matches!(asked, Some(Change::Taken { .. })));
    assert!(world.watcher.stale().is_none() && world.workers() == 2);
}

#[cfg(unix)]
#[test]
fn a_swapped_config_map_is_seen() {
    // As the kubelet does it: file -> ..data/file, ..data -> ..1; then ..data is renamed over.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().to_owned();
    let version = |name: &str, text: &str| {
        std::fs::create_dir(root.join(name)).expect("it is writable");
        std::fs::write(root.join(name).join("overdraft.yaml"), text).expect("it is writable");
    };
    let point = |name: &str, target: &str| {
        std::os::unix::fs::symlink(Path::new(target), root.join(name)).expect("it is writable");
    };
    version("..1", GOOD);
    point("..data", "..1");
    point("overdraft.yaml", "..data/overdraft.yaml");
    let path = root.join("overdraft.yaml");
    let mut world = World::watching(folder, path);
    version("..2", BETTER);
    point("..data_tmp", "..2");
    std::fs::rename(root.join("..data_tmp"), root.join("..data")).expect("it can be swapped");
    std::fs::remove_dir_all(root.join("..1")).expect("the old one goes");
    assert!(matches!(world.settled(), Change::Taken { .. }));
    assert_eq!(world.workers(), 2);
}
