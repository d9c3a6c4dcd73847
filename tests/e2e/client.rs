//! The official OpenAI client for Python, pinned, in a virtual environment under the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::harness::{Server, root};

/// The interpreter with the client; installed on first use, then kept.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| python_with("requirements.txt", "openai-client"))
}

/// An interpreter with what a file beside the tests lists, in a folder called `name`; installed on
/// first use, then kept.
pub(crate) fn python_with(requirements: &str, name: &str) -> PathBuf {
    let wanted = root().join("tests/e2e").join(requirements);
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (python, stamp) = (home.join("bin/python"), home.join("requirements.txt"));
    let text = std::fs::read_to_string(&wanted).expect("the requirements are in the repository");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == text) {
        return python;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home));
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&wanted));
    std::fs::write(&stamp, text).expect("the environment is writable");
    python
}

/// Runs a command to its good end, and says what it wrote.
pub(crate) fn run(command: &mut Command) -> String {
    let out = command.output().expect("Python 3 with venv is installed (README: what you need)");
    let (shown, errors) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?}\n{shown}\n{errors}");
    shown.into_owned()
}

#[test]
fn the_official_client_finds_what_it_expects_at_the_gateway() {
    let server = Server::serve(&[]);
    run(Command::new(python())
        .arg(root().join("tests/e2e/openai_client.py"))
        .args([&format!("http://{}", server.address), "overdraft-target"]));
}

#[test]
fn the_official_client_finds_the_same_at_a_worker() {
    let model = root().join("models/overdraft-target.q8_0.gguf");
    let server = Server::worker(&["--model", model.to_str().expect("a path in UTF-8")]);
    run(Command::new(python())
        .arg(root().join("tests/e2e/openai_client.py"))
        .args([&format!("http://{}", server.address), "overdraft-target.q8_0"]));
}
