//! The file that `keys_file` names: what it may say, how it is watched, and how commands edit it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use overdraft_config::{Change, Key, KeysFile, LOOK_EVERY, Loaded, Loader, Variables, Watcher};

/// SHA-256 of nothing that anybody has.
fn hash(number: usize) -> String {
    format!("a{number:063x}")
}

/// A folder with a configuration and the keys file that it names.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new(keys: &str) -> Self {
        Self::with("", keys)
    }

    /// With more in the configuration.
    fn with(more: &str, keys: &str) -> Self {
        let world = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        world.write(keys);
        let text = format!(
            "workers: [{{url: 'http://a:1', model: llama}}]\nkeys_file: {}\n{more}",
            world.path().display()
        );
        std::fs::write(world.folder.path().join("overdraft.yaml"), text).expect("it is writable");
        world
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("keys.yaml")
    }

    fn write(&self, keys: &str) {
        std::fs::write(self.path(), keys).expect("it is writable");
    }

    fn loader(&self) -> Loader {
        let path = self.folder.path().join("overdraft.yaml");
        Loader::new(path).with_variables(Variables::default())
    }

    fn load(&self) -> Result<Loaded, String> {
        let folder = format!("{}/", self.folder.path().display());
        self.loader().load().map_err(|errors| errors.to_string().replace(&folder, ""))
    }

    #[track_caller]
    fn refused(&self, expected: &str) {
        let said = self.load().expect_err("it cannot be used");
        assert_eq!(said, expected.trim_matches('\n'), "\n{said}");
    }
}

fn tenants(loaded: &Loaded) -> Vec<&str> {
    loaded.config.all_keys().map(|key| key.tenant.as_str()).collect()
}

#[test]
fn its_keys_stand_beside_those_of_the_configuration_in_yaml_and_in_json() {
    let world = World::with("keys: [{key: sk-inline, tenant: inline}]\n", "# nobody yet\n");
    assert_eq!(tenants(&world.load().unwrap()), ["inline"]);
    let yaml = format!("- key_sha256: {}\n  tenant: acme\n  models: [llama]\n", hash(1));
    world.write(&yaml);
    assert_eq!(tenants(&world.load().unwrap()), ["inline", "acme"]);
    world.write(&format!(r#"[{{"tenant": "bolt", "key_sha256": "{}"}}]"#, hash(1)));
    let loaded = world.load().unwrap();
    assert_eq!(tenants(&loaded), ["inline", "bolt"]);
    assert!(loaded.config.needs_key());
    // The configuration that is shown names the file, not its keys.
    let shown = loaded.config.effective_yaml();
    assert!(shown.contains("keys.yaml") && !shown.contains("bolt"), "{shown}");
}

#[test]
fn a_key_is_needed_while_the_file_is_empty() {
    let world = World::new("");
    assert!(world.load().unwrap().config.needs_key());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let world = World::new("");
    std::fs::remove_file(world.path()).unwrap();
    world.refused(
        "
keys.yaml: there is no such file
 = expected a list of keys; `overdraft keys new --file FILE` begins one, and an empty file lets nobody in
",
    );
}

#[test]
fn a_key_in_clear_is_refused_and_not_repeated() {
    let world = World::new("- tenant: acme\n  key: sk-secret\n");
    world.refused(
        "
keys.yaml:2:3: `keys[0].key` holds a key in clear
  |
2 |   key: (redacted)
  |   ^^^
  = expected `key_sha256`; whoever has read the file may have the key, so make another one with `overdraft keys new`
",
    );
    // Also where it stands for itself, or in JSON.
    for text in ["- sk-secret\n", r#"["sk-secret"]"#, r#"[{"key": "sk-secret", "tenant": 1}]"#] {
        world.write(text);
        let said = world.load().unwrap_err();
        assert!(said.contains("keys.yaml:1:") && !said.contains("sk-secret"), "{said}");
    }
}

#[test]
fn what_is_no_list_is_refused() {
    let world = World::new("keys: []\n");
    let said = world.load().unwrap_err();
    assert!(said.starts_with("keys.yaml:1:1: the file holds no list of keys"), "{said}");
}

#[test]
fn a_key_that_the_configuration_has_as_well_is_refused_also_by_its_hash() {
    let inline = Key { key: Some("sk-inline".to_owned().into()), ..Key::hashed("", "inline") };
    let digest = inline.digest();
    let text = format!("- {{key_sha256: {}, tenant: acme}}\n", digest.to_uppercase());
    let world = World::with("keys: [{key: sk-inline, tenant: inline}]\n", &text);
    world.refused(
        "
keys.yaml:1:16: `keys[0]` has the key of another, in `keys` of the configuration
  |
1 | - {key_sha256: (redacted)
  |                ^^^^^^^^^^
  = expected each key once
",
    );
    world.write(&format!(
        "- {{key_sha256: {0}, tenant: acme}}\n- {{key_sha256: {0}, tenant: bolt}}\n",
        hash(7)
    ));
    let said = world.load().unwrap_err();
    assert!(said.contains("keys.yaml:2:16: `keys[1]` has the key of another, on line 1"), "{said}");
}

#[test]
fn as_many_keys_as_fit_are_taken_and_no_more() {
    let list = |count: usize| {
        let mut text = String::new();
        for number in 0..count {
            let (hash, team) = (hash(number), number % 9);
            writeln!(text, "- key_sha256: {hash}\n  tenant: team-{team}\n  name: of-somebody")
                .unwrap();
        }
        text
    };
    let world = World::new(&list(10_000));
    assert_eq!(world.load().unwrap().config.file_keys.len(), 10_000);
    world.write(&list(10_001));
    world.refused("keys.yaml: 10001 keys are configured\n = expected at most 10000");
}

/// A watched configuration, and a clock that only the test moves.
struct Watched {
    world: World,
    watcher: Watcher,
    now: Instant,
}

impl Watched {
    #[expect(clippy::disallowed_methods, reason = "an origin to count the looks from")]
    fn new(keys: &str) -> Self {
        let world = World::new(keys);
        let watcher = Watcher::new(world.loader(), world.load().expect("it is good"));
        Self { world, watcher, now: Instant::now() }
    }

    fn look(&mut self) -> Option<Change> {
        self.now += LOOK_EVERY;
        self.watcher.look(self.now, |_| Ok(()))
    }

    #[track_caller]
    fn settled(&mut self) -> Change {
        assert!(self.look().is_none(), "the first sight settles nothing");
        self.look().expect("the second does")
    }
}

#[test]
fn a_change_of_the_file_is_in_force_and_a_broken_one_leaves_the_old() {
    let one = format!("- {{key_sha256: {}, tenant: acme}}\n", hash(1));
    let mut watched = Watched::new(&one);
    assert!((0..3).all(|_| watched.look().is_none()));
    watched.world.write(&format!("{one}- {{key_sha256: {}, tenant: bolt}}\n", hash(2)));
    let Change::Taken { loaded, keys, restart } = watched.settled() else { panic!("it is good") };
    assert_eq!(tenants(&loaded), ["acme", "bolt"]);
    assert_eq!((keys, restart), (vec!["keys_file".to_owned()], Vec::new()));
    watched.world.write("- {tenant: acme}\n");
    let Change::Refused(errors) = watched.settled() else { panic!("it is bad") };
    assert!(errors.summary().contains("keys.yaml:1:3: `keys[0]` has no key"), "{errors}");
    assert_eq!(tenants(watched.watcher.in_force()), ["acme", "bolt"]);
    assert!(watched.look().is_none(), "it is told once");
    std::fs::remove_file(watched.world.path()).unwrap();
    assert!(matches!(watched.settled(), Change::Refused(_)));
    watched.world.write(&one);
    let Change::Taken { loaded, .. } = watched.settled() else { panic!("it is good") };
    assert_eq!(tenants(&loaded), ["acme"]);
    assert!(watched.watcher.stale().is_none());
}

#[test]
fn a_file_that_is_swapped_by_its_link_is_seen() {
    let list = |number| format!("- {{key_sha256: {}, tenant: team-{number}}}\n", hash(number));
    let mut watched = Watched::new(&list(1));
    let folder = watched.world.folder.path().to_owned();
    // As a ConfigMap does it: the name is a link to a link that is renamed over.
    for number in [2, 3] {
        let (data, link) = (folder.join(format!("data-{number}")), folder.join("new"));
        std::fs::write(&data, list(number)).unwrap();
        std::os::unix::fs::symlink(&data, &link).unwrap();
        std::fs::rename(&link, watched.world.path()).unwrap();
        let Change::Taken { loaded, .. } = watched.settled() else { panic!("it is good") };
        assert_eq!(tenants(&loaded), [format!("team-{number}")]);
    }
}

#[test]
fn another_file_is_watched_once_the_configuration_names_it() {
    let mut watched = Watched::new("");
    let other = watched.world.folder.path().join("others.yaml");
    std::fs::write(&other, format!("- {{key_sha256: {}, tenant: acme}}\n", hash(1))).unwrap();
    let config = watched.world.folder.path().join("overdraft.yaml");
    let text =
        format!("workers: [{{url: 'http://a:1', model: llama}}]\nkeys_file: {}\n", other.display());
    std::fs::write(config, text).unwrap();
    let Change::Taken { loaded, .. } = watched.settled() else { panic!("it is good") };
    assert_eq!(tenants(&loaded), ["acme"]);
    assert!((0..3).all(|_| watched.look().is_none()));
    std::fs::write(&other, "").unwrap();
    let Change::Taken { loaded, .. } = watched.settled() else { panic!("it is good") };
    assert!(tenants(&loaded).is_empty());
}

const COMMENTED: &str = "\
# The teams.
  # acme pays.
  - key_sha256: '0000000000000000000000000000000000000000000000000000000000000001'
    tenant: acme  # since May

    # may grow
    tokens_per_minute: 1000
  # bolt does not.
  - {key_sha256: 'a000000000000000000000000000000000000000000000000000000000000002', tenant: bolt}

# The end.
";

#[track_caller]
fn edited(text: &str) -> (World, KeysFile) {
    let world = World::new(text);
    let file = KeysFile::read(world.path()).expect("it is good");
    (world, file)
}

#[test]
fn one_more_key_leaves_every_line_and_is_read_as_it_was_meant() {
    let (_world, file) = edited(COMMENTED);
    let mut key = Key::hashed(hash(3), "off");
    key.name = Some("a \"name\": of # its own".to_owned());
    key.expires = Some("2027-01-31T00:00:00Z".parse().unwrap());
    key.models = Some(vec!["llama".to_owned(), "gpt 4".to_owned()]);
    let more = file.with(&key).expect("there is a place for it");
    let added = more.text().strip_prefix(COMMENTED).expect("nothing else has changed");
    let expected = format!(
        "  - tenant: \"off\"\n    name: \"a \\\"name\\\": of # its own\"\n    key_sha256: {}\n    \
         expires: \"2027-01-31T00:00:00Z\"\n    models: [\"llama\",\"gpt 4\"]\n",
        hash(3)
    );
    assert_eq!(added, expected);
    assert_eq!((more.keys().len(), &more.keys()[2]), (3, &key));
    let again = file.with(&Key::hashed(hash(2), "acme")).unwrap_err().to_string();
    assert!(again.contains("has the key of another, on line 9"), "{again}");
}

#[test]
fn a_key_that_goes_takes_its_lines_along_and_no_others() {
    let (_world, file) = edited(COMMENTED);
    let first = "\
# The teams.
  # acme pays.
  # bolt does not.
  - {key_sha256: 'a000000000000000000000000000000000000000000000000000000000000002', tenant: bolt}

# The end.
";
    let without = file.without(0).expect("its lines can be told");
    assert_eq!(without.text(), first);
    let none = without.without(0).expect("its lines can be told");
    assert_eq!(none.text(), "# The teams.\n  # acme pays.\n  # bolt does not.\n\n# The end.\n");
    assert!(none.keys().is_empty());
}

#[test]
fn a_new_file_says_what_it_is_and_json_stays_json() {
    let (_world, file) = edited("");
    let begun = file.with(&Key::hashed(hash(1), "acme")).unwrap();
    assert!(begun.text().starts_with("# The keys of `keys_file`"), "{}", begun.text());
    let (_world, file) = edited(&format!(r#"[{{"tenant":"a","key_sha256":"{}"}}]"#, hash(1)));
    let two = file.with(&Key::hashed(hash(2), "b")).unwrap();
    let json: serde_json::Value = serde_json::from_str(two.text()).expect("JSON");
    assert_eq!((&json[1]["tenant"], json.as_array().map(Vec::len)), (&"b".into(), Some(2)));
    assert_eq!(two.without(0).unwrap().keys()[0].tenant, "b");
}

#[test]
fn a_form_that_only_a_person_can_edit_is_left_alone() {
    for text in [
        // A list in braces that is no JSON.
        format!("[{{key_sha256: '{}', tenant: acme}}]\n", hash(1)),
        // A document that has been ended.
        format!("- {{key_sha256: '{}', tenant: acme}}\n...\n", hash(1)),
    ] {
        let (_world, file) = edited(&text);
        assert!(file.with(&Key::hashed(hash(2), "b")).is_err(), "{text}");
    }
}
