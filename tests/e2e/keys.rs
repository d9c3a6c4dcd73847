//! Keys of a file: made, listed and revoked by commands, taken by a gateway that runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Server, binary, until};
use crate::redis::{Redis, free_port};

/// A folder with a keys file that need not be there.
struct Folder {
    folder: tempfile::TempDir,
}

/// How a command ended.
struct Ended {
    code: Option<i32>,
    out: String,
    said: String,
}

impl Folder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("keys.yaml")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).expect("it is there")
    }

    /// `overdraft keys` about the file.
    fn keys(&self, command: &str, arguments: &[&str]) -> Ended {
        let out = Command::new(binary())
            .args(["keys", command, "--file"])
            .arg(self.file())
            .args(arguments)
            .output()
            .expect("the binary starts");
        Ended {
            code: out.status.code(),
            out: String::from_utf8_lossy(&out.stdout).into_owned(),
            said: String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }

    /// A new key, which must be made.
    #[track_caller]
    fn made(&self, arguments: &[&str]) -> String {
        let ended = self.keys("new", arguments);
        assert_eq!(ended.code, Some(0), "{}", ended.said);
        let key = ended.out.strip_suffix('\n').expect("a line").to_owned();
        assert!(key.starts_with("od_") && key.len() == 52, "standard output has the key alone");
        assert!(!ended.said.contains(&key) && !self.text().contains(&key), "{}", ended.said);
        key
    }

    /// What the file lists.
    fn listed(&self) -> Vec<Value> {
        let ended = self.keys("list", &["--output", "json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.said);
        serde_json::from_str(&ended.out).expect("a list")
    }
}

/// The status that a request with this key gets.
fn status(gateway: &Server, key: &str) -> u16 {
    let mut stream = TcpStream::connect(gateway.address).expect("it listens");
    let request = format!(
        "GET /v1/models HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("the request is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status")
}

#[test]
fn a_key_is_printed_once_and_kept_by_its_hash_in_a_file_of_its_owner() {
    let folder = Folder::new();
    let key = folder.made(&["--tenant", "acme", "--name", "ci", "--expires", "90d"]);
    let mode = std::fs::metadata(folder.file()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let other =
        folder.made(&["--tenant", "acme", "--models", "llama, embed", "--priority", "flex"]);
    assert_ne!(key, other);
    let [first, second] = &folder.listed()[..] else { panic!("there are two") };
    assert_eq!((&first["tenant"], &first["name"]), (&"acme".into(), &"ci".into()));
    assert_eq!((&first["expired"], &second["expires"]), (&false.into(), &Value::Null));
    assert_eq!((&second["models"][1], &second["priority"]), (&"embed".into(), &"flex".into()));
    let table = folder.keys("list", &[]).out;
    for part in ["HASH", "acme", "ci", "llama,embed", first["hash"].as_str().expect("digits")] {
        assert!(table.contains(part), "`{part}` is not in: {table}");
    }
    assert!(!table.contains("od_"), "{table}");
}

#[test]
fn who_may_read_the_file_stays_and_so_do_its_comments() {
    let folder = Folder::new();
    folder.made(&["--tenant", "acme", "--name", "first"]);
    let mut text = folder.text();
    text.push_str("# Bolt's:\n");
    std::fs::write(folder.file(), &text).expect("it is writable");
    let readable = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(folder.file(), readable).expect("it is ours");
    folder.made(&["--tenant", "bolt", "--name", "second"]);
    assert!(folder.text().starts_with(&text), "{}", folder.text());
    let ended = folder.keys("revoke", &["first"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{}", ended.said);
    assert!(folder.text().contains("# Bolt's:\n- tenant: bolt\n"), "{}", folder.text());
    let mode = std::fs::metadata(folder.file()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(folder.listed().len(), 1);
    let left = std::fs::read_dir(folder.folder.path()).expect("it is there").count();
    assert_eq!(left, 1, "nothing else lies beside it");
}

#[test]
fn what_cannot_be_meant_is_refused_and_changes_nothing() {
    let folder = Folder::new();
    folder.made(&["--tenant", "acme", "--name", "ci"]);
    folder.made(&["--tenant", "bolt", "--name", "ci"]);
    let text = folder.text();
    let cases: [(&str, &[&str], &str); 6] = [
        ("new", &["--tenant", "acme", "--expires", "soon"], "`soon` is no end of a key"),
        ("new", &["--tenant", "acme", "--expires", "2001-01-01T00:00:00Z"], "is over"),
        ("new", &["--tenant", "acme", "--models", "llama,,embed"], "between the commas"),
        ("new", &["--tenant", "other"], "is what tenants without a name are called"),
        ("revoke", &["ci"], "`ci` means 2 keys"),
        ("revoke", &["nobody"], "no key is `nobody`"),
    ];
    for (command, arguments, part) in cases {
        let ended = folder.keys(command, arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ended.said.contains(part), "`{part}` is not in: {}", ended.said);
    }
    assert_eq!(folder.text(), text);
    // A slip in the file's name is told as one, and is no file without keys.
    std::fs::remove_file(folder.file()).expect("it is there");
    let ended = folder.keys("revoke", &["ci"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.said.contains("there is no such file"), "{}", ended.said);
    assert!(!folder.file().exists());
}

#[test]
fn of_commands_at_once_none_loses_what_another_wrote() {
    const COMMANDS: usize = 8;
    let folder = Folder::new();
    let command = |_| {
        Command::new(binary())
            .args(["keys", "new", "--tenant", "acme", "--file"])
            .arg(folder.file())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts")
    };
    let children: Vec<_> = (0..COMMANDS).map(command).collect();
    for mut child in children {
        assert!(child.wait().expect("it is ours").success());
    }
    assert_eq!(folder.listed().len(), COMMANDS);
}

// Faults: 75
#[test]
fn a_running_gateway_takes_new_keys_and_refuses_revoked_ones() {
    let folder = Folder::new();
    let first = folder.made(&["--tenant", "acme", "--name", "first"]);
    let config = folder.folder.path().join("overdraft.yaml");
    let worker = Server::worker(&["--backend", "echo"]);
    let text = format!(
        "workers: [{{url: 'http://{}'}}]\nkeys_file: {}\n",
        worker.address,
        folder.file().display()
    );
    std::fs::write(&config, text).expect("it is writable");
    let gateway = Server::serve(&["--config", config.to_str().expect("a path in UTF-8")]);
    assert_eq!((status(&gateway, &first), status(&gateway, "od_nobody")), (200, 401));
    let second = folder.made(&["--tenant", "bolt"]);
    until("the second is taken", || status(&gateway, &second) == 200);
    let broken = folder.text().replace("tenant: bolt", "tenent: bolt");
    let good = folder.text();
    std::fs::write(folder.file(), broken).expect("it is writable");
    until("the fault is told", || gateway.log().contains("unknown key `tenent`"));
    let log = gateway.log();
    assert!(log.contains("keys.yaml:") && log.contains("the last good one stays"), "{log}");
    assert_eq!((status(&gateway, &first), status(&gateway, &second)), (200, 200));
    std::fs::write(folder.file(), good).expect("it is writable");
    // By its own text, as who finds it somewhere does it.
    assert_eq!(folder.keys("revoke", &[&first]).code, Some(0));
    until("the first is refused", || status(&gateway, &first) == 401);
    assert_eq!(status(&gateway, &second), 200);
    assert_eq!(folder.keys("revoke", &["--", &second]).code, Some(0));
    until("the last is refused as well", || status(&gateway, &second) == 401);
    assert_eq!(status(&gateway, "anything"), 401, "nobody is let in now");
}

// Faults: 75
#[test]
fn a_key_is_revoked_over_the_store_where_no_file_says_so() {
    let (redis, folder) = (Redis::start(&[]), Folder::new());
    let inline = folder.made(&["--tenant", "acme", "--name", "ci"]);
    let other = folder.made(&["--tenant", "bolt", "--name", "spare"]);
    // The gateway has its keys from a file that nobody touches.
    let copy = folder.folder.path().join("copy.yaml");
    std::fs::copy(folder.file(), &copy).expect("it is writable");
    let config = folder.folder.path().join("overdraft.yaml");
    let worker = Server::worker(&["--backend", "echo"]);
    let text = format!(
        "workers: [{{url: 'http://{}'}}]\nkeys_file: {}\nstore: {{url: '{}', namespace: keys}}\n",
        worker.address,
        copy.display(),
        redis.url()
    );
    std::fs::write(&config, text).expect("it is writable");
    let config = config.to_str().expect("a path in UTF-8");
    let gateway = Server::serve(&["--config", config]);
    assert_eq!((status(&gateway, &inline), status(&gateway, &other)), (200, 200));
    let ended = folder.keys("revoke", &["--config", config, "ci"]);
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    assert_eq!(folder.listed().len(), 1);
    until("it is refused", || status(&gateway, &inline) == 401);
    assert_eq!(status(&gateway, &other), 200);
    // One that the file does not have, by its text; and with another way to name the store.
    let named = ["--redis", &redis.url(), "--namespace", "keys"];
    let gone = folder.keys("revoke", &["spare"]);
    assert_eq!(gone.code, Some(0), "{}", gone.said);
    let ended = folder.keys("revoke", &[&named[..], &[&other]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    until("it is refused as well", || status(&gateway, &other) == 401);
}

#[test]
fn a_store_that_cannot_be_told_leaves_the_file_as_it_was() {
    let folder = Folder::new();
    folder.made(&["--tenant", "acme", "--name", "ci"]);
    let text = folder.text();
    let closed = free_port();
    let url = format!("redis://:s3cret@127.0.0.1:{closed}");
    for (url, code, part) in [
        (url.as_str(), 1, "did not take the revocation: the store cannot be reached"),
        ("memory", 2, "no store is named"),
        ("http://x", 2, "is not a store's address"),
    ] {
        let ended = folder.keys("revoke", &["--redis", url, "ci"]);
        assert_eq!(ended.code, Some(code), "{}", ended.said);
        assert!(ended.said.contains(part) && !ended.said.contains("s3cret"), "{}", ended.said);
        assert_eq!(folder.text(), text);
    }
}
