//! Commands of README and guides, run as a reader would: in order, in an empty folder, with what they print compared.
//!
//! One `bash` for each page types its commands. Addresses become free ports of this machine, and the fleet of the
//! examples two simulated workers. A server that keeps its terminal runs until the next one, and gets a request as from
//! a client. `cargo` and `xdg-open` have stand-ins: what they would build is the binary under test, and a page that
//! they would open is fetched. Every server ends with its page, and by itself after [`PAGE_SECONDS`].

mod page;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::Mutex;

use self::page::{Command, Step, squeezed, steps};
use crate::harness::{Server, binary, root};

/// Ports of a page: an address `HOST:PORT` becomes the port's last two digits from its room on.
const ROOM: u16 = 100;

/// The first room, below the ports that systems hand out.
const ROOM_FIRST: u16 = 20_000;

/// Rooms that are looked at.
const ROOMS: u16 = 100;

/// The ports of a room that pages use.
const USED: [u16; 15] = [0, 1, 2, 5, 6, 57, 58, 59, 67, 68, 80, 81, 90, 91, 92];

/// No page, and no server of one, takes longer.
const PAGE_SECONDS: u32 = 180;

/// Pages that are run at once: each has servers of its own, some of which compute.
const PAGES_AT_ONCE: usize = 2;

/// Fewer commands than this would mean that pages are not read any more.
const COMMANDS_MIN: usize = 20;

/// What answers before the first command of a page: its addresses and names as the page has them.
struct Scene {
    room: u16,
    folder: tempfile::TempDir,
    /// Ended with the scene.
    servers: Vec<Server>,
    swaps: Vec<(String, String)>,
}

#[test]
fn every_command_of_readme_and_guides_runs() {
    let pages = pages();
    let rooms = free_rooms(pages.len());
    let left = Mutex::new(pages.iter().zip(rooms));
    let next = || left.lock().expect("nobody panics with it").next();
    let turn = || -> Vec<Result<usize, String>> {
        std::iter::from_fn(next).map(|(page, room)| run(page, room)).collect()
    };
    let results: Vec<Result<usize, String>> = std::thread::scope(|scope| {
        let turns: Vec<_> = (0..PAGES_AT_ONCE).map(|_| scope.spawn(turn)).collect();
        let ended = turns.into_iter().map(|turn| turn.join().expect("it says why a page fails"));
        ended.flatten().collect()
    });
    let faults: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let commands: usize = results.iter().flatten().sum();
    assert!(commands >= COMMANDS_MIN, "only {commands} commands in {pages:?}");
}

fn pages() -> Vec<PathBuf> {
    let guide = fs::read_dir(root().join("docs/guide")).expect("the guide");
    let mut pages: Vec<PathBuf> = guide.flatten().map(|entry| entry.path()).collect();
    pages.push(root().join("README.md"));
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

fn free_rooms(count: usize) -> Vec<u16> {
    let first = u16::try_from(std::process::id() % u32::from(ROOMS)).expect("below ROOMS");
    let rooms = (0..ROOMS).map(|room| ROOM_FIRST + (first + room) % ROOMS * ROOM);
    let free = |room: &u16| {
        USED.iter().all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, room + port)).is_ok())
    };
    let rooms: Vec<u16> = rooms.filter(free).take(count).collect();
    assert_eq!(rooms.len(), count, "this machine has too few free ports");
    rooms
}

/// Types the commands of a page; how many there were, or what went wrong.
fn run(page: &Path, room: u16) -> Result<usize, String> {
    let name = page.strip_prefix(root()).unwrap_or(page).display().to_string();
    let text = fs::read_to_string(page).expect("a page that was just listed");
    let steps = steps(&text).map_err(|fault| format!("{name}: {fault}"))?;
    let commands: Vec<&Command> = steps
        .iter()
        .filter_map(|step| if let Step::Run(run) = step { Some(run) } else { None })
        .collect();
    if commands.is_empty() {
        return Ok(0);
    }
    let scene = Scene::of(&name, &text, room);
    let state = scene.folder.path();
    fs::write(state.join("script"), scene.script(&steps)).expect("a script");
    let done = Process::new("timeout")
        .args([&PAGE_SECONDS.to_string(), "bash"])
        .arg(state.join("script"))
        .current_dir(state.join("home"))
        .env("HOME", state.join("home"))
        .env("TOKEN", TOKEN)
        .stdin(Stdio::null())
        .output()
        .expect("bash starts");
    let kept = |file: &str| fs::read_to_string(state.join(file)).unwrap_or_default();
    if !done.status.success() {
        let line = kept("failed");
        let printed = kept(line.trim());
        let shell = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{name}:{line} failed ({}): {printed} {shell}", done.status));
    }
    for command in &commands {
        let printed = kept(&command.line.to_string());
        let squeezed = squeezed(&printed);
        if let Some(missing) = command.constants().find(|text| !squeezed.contains(text)) {
            return Err(format!("{name}:{} prints no `{missing}`: {printed}", command.line));
        }
    }
    Ok(commands.len())
}

/// What operators show the scene's gateway.
const TOKEN: &str = "a-token-of-this-test";

/// The functions of a page's script: waits for a server, ends the one that keeps its terminal, tells which line failed.
const PRELUDE: &str = r#"
set -m -o pipefail
PATH="$STATE/bin:$PATH"
ready() {
  for _ in $(seq 500); do curl -s -o /dev/null "$1" && return; sleep 0.05; done
  echo "nothing answers at $1"; return 1
}
stop() {
  [ -e "$STATE/foreground" ] || return 0
  kill "$(cat "$STATE/foreground")"
  while kill -0 "$(cat "$STATE/foreground")" 2>/dev/null; do sleep 0.05; done
  rm "$STATE/foreground"
}
failed() { printf %s "$1" >"$STATE/failed"; exit 1; }
ended() { stop; for job in $(jobs -p); do kill -- "-$job" || kill "$job"; done; }
trap ended EXIT
"#;

impl Scene {
    /// The scene of a page.
    fn of(name: &str, text: &str, room: u16) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for inner in ["bin", "home"] {
            fs::create_dir(folder.path().join(inner)).expect("a new folder");
        }
        let local = |port: u16| format!("127.0.0.1:{}", room + port);
        let tour = folder.path().join("home/tour").display().to_string();
        let mut swaps = vec![
            ("10.0.0.5:8000".to_owned(), local(5)),
            ("10.0.0.6:8000".to_owned(), local(6)),
            ("10.0.0.5:5557".to_owned(), local(57)),
            ("10.0.0.5:5558".to_owned(), local(67)),
            ("gateway:9091".to_owned(), local(91)),
            ("workers/NAME".to_owned(), "workers/gpu-a".to_owned()),
            ("0.0.0.0:8080".to_owned(), local(80)),
            ("/tmp/tour".to_owned(), tour),
        ];
        let ports = [(8080, 80), (8001, 1), (8002, 2), (5557, 57)];
        swaps.extend(ports.map(|(port, near)| (format!("127.0.0.1:{port}"), local(near))));
        let mut scene = Self { room, folder, servers: Vec::new(), swaps };
        scene.stand_ins();
        if text.contains("10.0.0.5:8000") || name.ends_with("operating.md") {
            scene.fleet();
        }
        if name.ends_with("operating.md") {
            scene.gateway();
        }
        scene
    }

    fn address(&self, port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.room + port).into()
    }

    /// Programs that pages call and that are others here.
    fn stand_ins(&self) {
        let gateway = self.address(80);
        let binary = binary().display().to_string();
        let overdraft = format!(
            r#"case "$1" in
  serve) case "$*" in *--listen*) ;; *) set -- "$@" --listen {gateway} ;; esac ;;
  bench|explain|top|tail) case "$*" in *http:*|*--log*) ;; *) set -- "$@" http://{gateway} ;; esac ;;
esac
exec timeout {PAGE_SECONDS} {binary} "$@""#
        );
        let programs = [
            ("overdraft", overdraft.as_str()),
            ("cargo", "case \"$1\" in xtask) exec overdraft serve ;; build) ;; *) exit 1 ;; esac"),
            ("xdg-open", "exec curl -o /dev/null \"$1\""),
            (
                "curl",
                "PATH=${PATH#*:}; exec curl --fail-with-body --max-time 30 --noproxy '*' \"$@\"",
            ),
        ];
        for (name, text) in programs {
            let path = self.folder.path().join("bin").join(name);
            fs::write(&path, format!("#!/usr/bin/env bash\n{text}\n")).expect("a stand-in");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
    }

    /// The two workers of the examples, simulated.
    fn fleet(&mut self) {
        let endpoint = |port: u16| format!("tcp://{}", self.address(port));
        let (events, replay) = (endpoint(57), endpoint(67));
        let arguments = [
            &["--simulate", "h100-tp1/llama-3-8b-bf16", "--workers", "2"][..],
            &["--kv-events-endpoint", &events, "--kv-replay-endpoint", &replay],
        ];
        self.servers.push(Server::worker_at(self.address(5), &arguments.concat()));
    }

    /// A gateway before them with an operators' listener, and the file of one like it.
    fn gateway(&mut self) {
        let file = |admin: SocketAddr| {
            format!(
                "model_default: llama-3-8b\nadmin: {{listen: \"{admin}\", token: {TOKEN}}}\n\
                 prices: {{workers: {{gpu-a: 4.10}}}}\n\
                 workers: [{{url: \"http://{}\", name: gpu-a, model: llama-3-8b, kv_events: off}}]\n",
                self.address(5)
            )
        };
        let home = self.folder.path().join("home");
        fs::write(home.join("overdraft.yaml"), file(self.address(92))).expect("a file");
        let own = self.folder.path().join("gateway.yaml");
        fs::write(&own, file(self.address(91))).expect("a file");
        let own = own.display().to_string();
        self.servers.push(Server::serve(&["--config", &own]));
    }

    /// A page's text with this machine's addresses.
    fn placed(&self, text: &str) -> String {
        self.swaps.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// What `bash` runs: each step, its output into a file that is named by its line.
    fn script(&self, steps: &[Step]) -> String {
        let typed = steps.iter().map(|step| match step {
            Step::Leave { line, reason } => format!("# line {line}: {reason}\n"),
            Step::Save { name, text } => {
                format!("cat >{name} <<'END OF FILE'\n{}END OF FILE\n", self.placed(text))
            }
            Step::Run(command) => self.typed(command),
        });
        let head = format!("STATE={}{PRELUDE}", self.folder.path().display());
        std::iter::once(head).chain(typed).collect()
    }

    fn typed(&self, command: &Command) -> String {
        let Command { line, .. } = command;
        let kept = format!(">\"$STATE/{line}\" 2>&1 || failed {line}\n");
        if !command.serves() {
            return format!("{{\n{}\n}} {kept}", self.placed(&command.text));
        }
        let text = self.placed(command.bare());
        let address = match text.split_once("--listen ") {
            Some((_, rest)) => rest.split_whitespace().next().unwrap_or_default().to_owned(),
            None => self.address(80).to_string(),
        };
        let path = if text.starts_with("overdraft worker") { "health" } else { "readyz" };
        let ready = format!("ready http://{address}/{path} {}", kept.replacen('>', ">>", 1));
        if !command.keeps_terminal() {
            return format!("stop\n{{\n{text}\n}} {kept}{ready}");
        }
        // A client of a server that has a log to write.
        let asked = if text.contains("2>") {
            let body = r#"{"max_tokens":4,"messages":[{"role":"user","content":"Hello"}]}"#;
            let ask = format!("curl -s http://{address}/v1/chat/completions -d '{body}'");
            format!("{ask} -H 'content-type: application/json' >/dev/null || failed {line}\n")
        } else {
            String::new()
        };
        format!("stop\n(\n{text} &\necho $! >\"$STATE/foreground\"\n) {kept}{ready}{asked}")
    }
}
