//! Starts the binary, reads where it listens, talks plain HTTP to it, ends it by its own process id.
#![expect(clippy::disallowed_methods, reason = "a test that waits for a process needs a clock")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A process that is not ready or not gone by then has a fault.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often something is looked at while waiting for it, which needs the processors as well.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A free port of this machine.
const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What stands before the address of a server that can be asked.
const SERVES: &str = "serves on http://";

/// A running `overdraft`, ended with its owner.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<String>>,
}

/// One whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// The path of the binary under test.
pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_overdraft"))
}

/// The repository's root folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Server {
    /// `overdraft serve` on a free port, with nothing but `arguments`.
    pub(crate) fn serve(arguments: &[&str]) -> Self {
        Self::start("serve", ANYWHERE, arguments)
    }

    /// The same where the system lets it open so many files.
    pub(crate) fn serve_with_files(files: u32, arguments: &[&str]) -> Self {
        let mut program = Command::new("sh");
        program.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &files.to_string()]).arg(binary());
        let program = program.args(["serve", "--listen", &ANYWHERE.to_string()]);
        Self::spawn(program.args(arguments), SERVES)
    }

    /// The same with these variables in its environment.
    pub(crate) fn serve_in(variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command.envs(variables.iter().copied());
        let command = command.args(["serve", "--listen", &ANYWHERE.to_string()]);
        Self::spawn(command.args(arguments), SERVES)
    }

    /// `overdraft serve` that waits for workers.
    pub(crate) fn waiting(arguments: &[&str]) -> Self {
        let mut command = Command::new(binary());
        let command = command.args(["serve", "--listen", &ANYWHERE.to_string()]);
        Self::spawn(command.args(arguments), "listens on http://")
    }

    /// `overdraft worker` on a free port.
    pub(crate) fn worker(arguments: &[&str]) -> Self {
        Self::start("worker", ANYWHERE, arguments)
    }

    /// `overdraft worker` where another one was before.
    pub(crate) fn worker_at(address: SocketAddr, arguments: &[&str]) -> Self {
        Self::start("worker", address, arguments)
    }

    /// `overdraft supervise` on a free port.
    pub(crate) fn supervise(arguments: &[&str]) -> Self {
        Self::start("supervise", ANYWHERE, arguments)
    }

    fn start(command: &str, listen: SocketAddr, arguments: &[&str]) -> Self {
        let mut process = Command::new(binary());
        let process = process.args([command, "--listen", &listen.to_string()]);
        Self::spawn(process.args(arguments), SERVES)
    }

    /// Starts it, and waits for the line in which its address follows `mark`.
    fn spawn(command: &mut Command, mark: &'static str) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
        let log = Arc::new(Mutex::new(String::new()));
        let (found, address) = mpsc::channel();
        let (stderr, kept) = (child.stderr.take().expect("stderr is piped"), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once(mark) {
                    // In a log of JSON lines the address may end with the message.
                    let address = rest.split(['"', ' ']).next().unwrap_or(rest).trim();
                    let _ = found.send(address.parse().expect("an address after the mark"));
                }
                let mut log = kept.lock().expect("no reader panics");
                log.push_str(&line);
                log.push('\n');
            }
        });
        let Ok(address) = address.recv_timeout(PATIENCE) else {
            let _ = child.kill();
            panic!("not ready: {}", log.lock().expect("no reader panics"));
        };
        Self { child, address, log }
    }

    /// What it wrote to standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no reader panics").clone()
    }

    /// One request, one whole answer.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        ask(self.address, method, path, body)
    }

    /// Sends a request and hands over the connection.
    pub(crate) fn open(&self, method: &str, path: &str, body: &str) -> TcpStream {
        self.open_partly(method, path, body, body.len())
    }

    /// The same with only so many bytes of the body.
    pub(crate) fn open_partly(
        &self,
        method: &str,
        path: &str,
        body: &str,
        sent: usize,
    ) -> TcpStream {
        open_partly(self.address, (method, path), body, sent)
    }

    /// A chat answer as JSON; panics on anything but 200.
    pub(crate) fn chat(&self, body: &Value) -> Value {
        self.post("/v1/chat/completions", body)
    }

    /// An answer as JSON; panics on anything but 200.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask("POST", path, &body.to_string());
        assert_eq!(answer.status, 200, "{} {}", answer.body, self.log());
        serde_json::from_str(&answer.body).expect("JSON")
    }

    /// The sum of a metric over its label sets; zero when it is not there.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = self.ask("GET", "/metrics", "").body;
        let of = |line: &str| -> Option<f64> {
            let rest = line.strip_prefix(name)?;
            if !rest.starts_with(['{', ' ']) {
                return None;
            }
            rest.rsplit(' ').next()?.parse().ok()
        };
        page.lines().filter_map(of).sum()
    }

    /// Sends a signal by name, to this process alone.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Waits for the process to end by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("the process can be waited for") {
                return status;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        panic!("still running: {}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request to an address, one whole answer.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
    let mut stream = open_partly(address, (method, path), body, body.len());
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunk(body) } else { body.to_owned() };
    Answer { status, head: head.to_owned(), body }
}

/// A connection over which so many bytes of a request's body have been sent.
fn open_partly(
    address: SocketAddr,
    (method, path): (&str, &str),
    body: &str,
    sent: usize,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{}",
        body.len(),
        &body[..sent]
    );
    stream.write_all(request.as_bytes()).expect("the request is taken");
    stream
}

/// How long until `holds` does; panics when it never does.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
    begun.elapsed()
}

/// The body inside chunked transfer coding.
fn unchunk(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).expect("a chunk size");
        if size == 0 {
            return body;
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    panic!("the stream was cut after: {body}");
}

/// The content pieces of a streamed chat answer, in order; asserts the `[DONE]`.
pub(crate) fn pieces(body: &str) -> Vec<String> {
    let mut events: Vec<&str> = body.lines().filter_map(|l| l.strip_prefix("data: ")).collect();
    assert_eq!(events.pop(), Some("[DONE]"), "{body}");
    let content = |event: &&str| -> Option<String> {
        let chunk: Value = serde_json::from_str(event).expect("JSON");
        Some(chunk["choices"][0]["delta"]["content"].as_str()?.to_owned())
    };
    events.iter().filter_map(content).collect()
}
