//! llama-server as the peer: its speed on the same questions and files (S3).
//!
//! One stream, greedily: the shipped pair's files through our engine, without guesses and under `goodput`,
//! and through llama-server, alone and with the draft (`-md`), in turns. Of llama-server its own timings
//! count, so that HTTP is nobody's cost; its draft may be as deep as it likes best of a few depths.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use overdraft_claims::{Aim, Claim, as_float, median};
use overdraft_engine::{Policy, Request};
use overdraft_telemetry::Clock;
use overdraft_units::TokenId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::load::Loader;
use super::pair::{self, Drafters, Pair};
use super::rivals::{self, Rival};
use super::steer::Text;

/// Its depths; 3 is its own default, and 16 was.
const DEPTHS: [u32; 5] = [1, 2, 3, 4, 16];
/// How newer versions call the depth.
const DEPTH_FLAG: &str = "--spec-draft-n-max";
/// Questions of each kind, and each set is asked so many times of everybody.
const QUESTIONS: usize = 16;
const TURNS: usize = 5;
/// The same in short.
const QUESTIONS_QUICK: usize = 4;
const TURNS_QUICK: usize = 1;
/// How often it is looked whether it serves, and at most how many times.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOKS_MAX: u32 = 600;
/// No answer takes longer.
const PATIENCE: Duration = Duration::from_mins(1);
/// No answer is longer, in bytes.
const ANSWER_MAX: u64 = 1 << 20;

/// llama-server under one of its settings. It ends when this is dropped.
struct Server {
    name: String,
    process: Child,
    address: SocketAddr,
}

/// What it says of an answer.
#[derive(Deserialize)]
struct Answer {
    timings: Timings,
}

#[derive(Deserialize)]
struct Timings {
    predicted_n: f64,
    predicted_ms: f64,
    prompt_ms: f64,
}

/// Tokens a second of everybody, by turn.
pub(crate) struct Beside {
    rows: Vec<(String, Vec<f64>)>,
    version: String,
}

/// The program: as given, or the first `llama-server` on the `PATH`.
pub(crate) fn find(given: Option<&Path>) -> Option<PathBuf> {
    let name = given.unwrap_or(Path::new("llama-server"));
    if name.components().count() > 1 {
        return name.exists().then(|| name.to_owned());
    }
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|file| file.exists())
}

/// Asks everybody the same.
pub(crate) fn measure(
    program: &Path,
    quick: bool,
    loader: &Loader,
    clock: Clock,
) -> Result<Beside> {
    let (count, turns) = if quick { (QUESTIONS_QUICK, TURNS_QUICK) } else { (QUESTIONS, TURNS) };
    let requests = questions(count)?;
    let ours = [Policy::Off, Policy::Goodput];
    let ours: Vec<Rival> = ours
        .into_iter()
        .map(|policy| rivals::one(Pair::Shipped, policy, Drafters::Both, clock))
        .collect::<Result<_>>()?;
    let theirs = std::iter::once(None).chain(DEPTHS.map(Some));
    let theirs: Vec<Server> =
        theirs.map(|depth| Server::start(program, depth)).collect::<Result<_>>()?;
    let names = ours.iter().map(|rival| format!("overdraft, {}", rival.name));
    let names = names.chain(theirs.iter().map(|server| server.name.clone()));
    let mut rows: Vec<(String, Vec<f64>)> = names.map(|name| (name, Vec::new())).collect();
    // The first turn is for rules to get to know the text, and for files to be read.
    for turn in 0..=turns {
        eprintln!("beside llama-server, turn {turn} of {turns}");
        for (at, (_, rates)) in rows.iter_mut().enumerate() {
            let rate = match ours.get(at) {
                Some(rival) => our_rate(rival, &requests, loader, clock)?,
                None => theirs[at - ours.len()].rate(&requests)?,
            };
            rates.extend((0 < turn).then_some(rate));
        }
    }
    Ok(Beside { rows, version: version(program)? })
}

/// So many of each kind.
fn questions(count: usize) -> Result<Vec<Request>> {
    let mut source = Pair::Shipped.questions()?.source(1);
    let kinds = [Text::Easy, Text::Hard, Text::Copy];
    Ok(kinds
        .iter()
        .flat_map(|kind| (0..count).map(|_| source.next(*kind)).collect::<Vec<_>>())
        .collect())
}

fn our_rate(rival: &Rival, requests: &[Request], loader: &Loader, clock: Clock) -> Result<f64> {
    let began = clock.now();
    let answers = loader.answers(&rival.engine.handle(), requests, 1)?;
    let micros = usize::try_from(clock.now().since(began).get())?;
    let tokens: usize = answers.iter().map(Vec::len).sum();
    Ok(as_float(tokens) / (as_float(micros) / 1e6))
}

fn version(program: &Path) -> Result<String> {
    let told = told(program, "--version")?;
    let line = told.lines().find(|line| line.starts_with("version"));
    Ok(line.unwrap_or("of an untold version").to_owned())
}

/// What it says of itself when asked.
fn told(program: &Path, flag: &str) -> Result<String> {
    let output = Command::new(program)
        .arg(flag)
        .output()
        .with_context(|| format!("`{}` cannot be started", program.display()))?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

impl Server {
    fn start(program: &Path, depth: Option<u32>) -> Result<Self> {
        // Free a moment ago, and nobody else looks for one here.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let threads = thread::available_parallelism()?.to_string();
        let mut command = Command::new(program);
        command.arg("--model").arg(pair::demo_file("overdraft-target.q8_0.gguf"));
        command.args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--threads", &threads, "--parallel", "1", "--ctx-size", "1024"]);
        if let Some(depth) = depth {
            command.arg("--model-draft").arg(pair::demo_file("overdraft-draft.q8_0.gguf"));
            command.args(["--threads-draft", &threads]);
            if told(program, "--help")?.contains(DEPTH_FLAG) {
                command.args(["--spec-type", "draft-simple", DEPTH_FLAG, &depth.to_string()]);
            } else {
                command.args(["--draft-max", &depth.to_string(), "--draft-min", "0"]);
            }
        }
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process =
            quiet.spawn().with_context(|| format!("`{}` cannot be started", program.display()))?;
        let shown = format!("{command:?}");
        let name = depth.map_or("llama-server".to_owned(), |depth| {
            format!("llama-server -md, at most {depth} deep")
        });
        let mut server = Self { name, process, address };
        server.until_ready().with_context(|| format!("run it by hand to see why: {shown}"))?;
        Ok(server)
    }

    #[expect(clippy::disallowed_methods, reason = "nothing else is done while it starts")]
    fn until_ready(&mut self) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            if let Some(status) = self.process.try_wait()? {
                bail!("`{}` ended with {status} before it served", self.name);
            }
            if self.ask("GET /health", "").is_ok_and(|(status, _)| status == 200) {
                return Ok(());
            }
            thread::sleep(LOOK_EVERY);
        }
        bail!("`{}` does not serve after {} looks", self.name, LOOKS_MAX)
    }

    /// Tokens a second of all answers, one after the other.
    fn rate(&self, requests: &[Request]) -> Result<f64> {
        let (mut tokens, mut milliseconds) = (0.0, 0.0);
        for request in requests {
            let prompt: Vec<u32> = request.prompt.iter().map(|TokenId(id)| *id).collect();
            let body = json!({
                "prompt": prompt, "n_predict": request.sampling.max_tokens.get(), "temperature": 0,
                "cache_prompt": false, "stream": false,
            });
            let (status, told) = self.ask("POST /completion", &body.to_string())?;
            ensure!(status == 200, "`{}` answered {status}: {told}", self.name);
            let Answer { timings } = serde_json::from_str(&told)?;
            tokens += timings.predicted_n;
            milliseconds += timings.predicted_ms + timings.prompt_ms;
        }
        Ok(tokens / (milliseconds / 1e3))
    }

    fn ask(&self, what: &str, body: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        write!(
            stream,
            "{what} HTTP/1.1\r\nhost: peer\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )?;
        let mut told = String::new();
        stream.take(ANSWER_MAX).read_to_string(&mut told)?;
        let (head, body) =
            told.split_once("\r\n\r\n").context("the answer has no end of its head")?;
        let status = head.split(' ').nth(1).context("the answer has no status")?;
        Ok((status.parse()?, body.to_owned()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Beside {
    fn rate(&self, name: &str) -> f64 {
        let row = self.rows.iter().find(|(row, _)| row == name);
        row.map_or(f64::NAN, |(_, rates)| median(rates.clone()))
    }

    /// Of llama-server with the draft, at the depth that it likes best.
    fn best_peer(&self) -> f64 {
        let guessing = self.rows.iter().filter(|(name, _)| name.contains("-md"));
        guessing.map(|(_, rates)| median(rates.clone())).fold(0.0, f64::max)
    }

    pub(crate) fn print(&self) {
        println!("\nthe shipped pair's files, one stream, beside llama-server ({})", self.version);
        println!("{:<34}{:>10}{:>16}", "median of the turns", "tokens/s", "times its own");
        for (name, rates) in &self.rows {
            let plain = if name.starts_with("llama") { "llama-server" } else { "overdraft, off" };
            let rate = median(rates.clone());
            println!("{name:<34}{rate:>10.0}{:>16.2}", rate / self.rate(plain));
        }
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let claim = |figure: &str, measured: f64| Claim {
            demonstration: "S3",
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim: Aim::AtLeast(1.0),
        };
        let (off, goodput) = (self.rate("overdraft, off"), self.rate("overdraft, goodput"));
        let gain = self.best_peer() / self.rate("llama-server");
        vec![
            claim("shipped-1-over-llama-server", goodput / self.best_peer()),
            claim("shipped-1-gain-over-llama-servers-gain", goodput / off / gain),
        ]
    }

    pub(crate) fn told(&self) -> Value {
        let rows = self.rows.iter().map(|(name, rates)| json!({ "who": name, "rates": rates }));
        json!({ "beside": self.version, "rows": rows.collect::<Vec<_>>() })
    }
}
