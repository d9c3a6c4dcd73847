//! `overdraft serve`: the gateway, before embedded workers or remote ones.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use overdraft_config::{Config, Loaded, Loader, Speculation, WorkerSource};
use overdraft_core::route::Policy;
use overdraft_engine::EngineHandle;
use overdraft_gateway::{GatewayError, GatewaySettings, Listeners, Pool, WorkerSettings};
use overdraft_telemetry::{AccessWriter, Clock};
use overdraft_worker::{KvEventsSettings, MetricNames};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::embedded::{self, Drafter, Embedded, Face, Source};
use crate::engine_options::EngineOptions;
use crate::fault::Fault;
use crate::listen_options::{ListenOptions, address, bind};
use crate::log_options::LogOptions;
use crate::remote_workers::RemoteOptions;
use crate::service_manager::{self, State};
use crate::speculation_options::SpeculationOptions;
use crate::{open_files, parity, ready, reload, settings, signals};

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A configuration file, YAML or TOML by its name; flags override it
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    listen: ListenOptions,
    #[command(flatten)]
    remote: RemoteOptions,
    /// A GGUF file for the embedded target worker, instead of the demo model
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// A GGUF file for an embedded draft worker
    #[arg(long, value_name = "FILE")]
    draft: Option<PathBuf>,
    /// How a request's worker is chosen, instead of `cost` or what the file says for all models
    #[arg(long, value_name = "POLICY", value_parser = policies())]
    policy: Option<Policy>,
    /// Access lines name the beginnings of prompts, by hashes of their text, so that
    /// `overdraft simulate --access-log` knows what prompts share; takes `--log-format json`
    #[arg(long)]
    log_prefixes: bool,
    /// Seconds that streams may go on after a SIGTERM; by default as the file says, or 30
    #[arg(long, value_name = "SECONDS")]
    shutdown_timeout: Option<u64>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    speculation: SpeculationOptions,
    #[command(flatten)]
    log: LogOptions,
}

/// The policies by their names.
fn policies() -> impl TypedValueParser<Value = Policy> {
    PossibleValuesParser::new(Policy::ALL.map(Policy::name))
        .map(|name| name.parse().expect("the parser lets only names of policies through"))
}

const EXAMPLES: &str = "\
Examples:
  overdraft serve
      demo models on 127.0.0.1:8080; `overdraft-target` and `overdraft-draft`
  overdraft serve --listen 0.0.0.0:8080 --model llama-3-8b-q4_k_m.gguf
      your model on this machine; its name is the file's, without `.gguf`
  overdraft serve --worker http://10.0.0.5:8000 --worker http://10.0.0.6:8000
      before a fleet of vLLM, SGLang or llama-server
  overdraft serve --listen 0.0.0.0:8443 --ssl-certfile tls.crt --ssl-keyfile tls.key
      the demo by https
  overdraft serve --config overdraft.yaml --listen 0.0.0.0:8080
      as the file says, but on another address; `overdraft check` checks the file";

/// Whether workers are found while serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Later,
    Never,
}

impl Found {
    fn of(config: &Config) -> Self {
        if config.discovery.is_empty() { Self::Never } else { Self::Later }
    }
}

/// How a configuration becomes settings, the first time and after every change of it.
struct Settle {
    /// Workers elsewhere that the command line names.
    remote: RemoteOptions,
    embedded: Vec<WorkerSettings>,
    policy: Option<Policy>,
    /// How long streams may go on at the end, where a flag says it.
    drain: Option<Duration>,
    /// Whether access lines name the beginnings of prompts.
    names_prefixes: bool,
    example: Option<String>,
    /// What flags say of guessing, and the engines that follow.
    speculation: SpeculationOptions,
    engines: Vec<EngineHandle>,
    /// What the file last said of guessing.
    said: Mutex<Speculation>,
    /// How many files this process may open.
    files: u64,
}

impl Settle {
    /// Has the embedded engines guess as the file says, where it says something new: what an operator
    /// ordered since counts until then.
    fn guess(&self, config: &Config) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said == config.speculation {
            return;
        }
        said.clone_from(&config.speculation);
        match self.speculation.or(&config.speculation) {
            Ok(speculation) => {
                self.engines.iter().for_each(|engine| speculation.put_in_force(engine));
            }
            // The file was checked.
            Err(fault) => tracing::error!(?fault, "`speculation` is not in force"),
        }
    }

    /// Refuses what the gateway could not serve by.
    fn judge(&self, config: &Config) -> Result<(), String> {
        self.settings(config).check().map_err(|error| error.to_string())
    }

    fn settings(&self, config: &Config) -> GatewaySettings {
        let mut workers = self.remote.beside(config);
        workers.extend_from_slice(&self.embedded);
        let mut settings = settings::gateway(config, workers);
        settings.listen.drain = self.drain.unwrap_or(settings.listen.drain);
        // A client's, the gateway's to the worker, and the worker's own where that runs here.
        let each = if self.embedded.is_empty() { 2 } else { 3 };
        open_files::bound(&mut settings.listen, self.files, each);
        settings.routing.names_prefixes = self.names_prefixes;
        if let Some(policy) = self.policy {
            settings.routing.route.policy = policy;
            for (name, model) in &mut settings.routing.models {
                let says = config.models.get(name).is_some_and(|own| own.policy.is_some());
                if let (false, Some(route)) = (says, &mut model.route) {
                    route.policy = policy;
                }
            }
        }
        if settings.model_default.is_none() {
            settings.model_default.clone_from(&self.example);
        }
        settings
    }
}

/// What stands behind the gateway.
struct Fleet {
    workers: Vec<WorkerSettings>,
    /// One line per embedded model, for the banner.
    models: Vec<String>,
    /// The model that the printed example asks.
    example: Option<String>,
    engines: Vec<EngineHandle>,
}

/// Serves until a signal says stop.
pub(crate) fn run(arguments: Arguments) -> Result<(), Fault> {
    arguments.log.install()?;
    crate::runtime::runtime()?.block_on(serve(arguments))
}

async fn serve(mut arguments: Arguments) -> Result<(), Fault> {
    let clock = Clock::start();
    let (loader, loaded) = arguments.read()?;
    let mut config = loaded.config.clone();
    config.tls = arguments.listen.tls(&config)?;
    let flags = arguments.speculation.clone();
    arguments.speculation = flags.or(&config.speculation)?;
    flags.check(&arguments.speculation)?;
    let listeners = arguments.listen.open(&config).await?;
    let is_json = arguments.log.is_json();
    let places = Places::of(&listeners, &config)?;
    places.tell_scaler(is_json);
    let mut tasks = JoinSet::new();
    let stop = signals::watch(&mut tasks)?;
    let mut embedded = JoinSet::new();
    // The embedded workers outlive the gateway's drain: its last streams come from them.
    let (release, released) = tokio::sync::watch::channel(false);
    let remote = arguments.remote.beside(&config);
    let remote_count = remote.len();
    let fleet = fleet(&arguments, remote, &config, clock, &mut embedded, &released).await?;
    if fleet.engines.is_empty() {
        refuse_unused(&arguments.engine, &flags)?;
    }
    refuse_mismatches(&config, &fleet.workers).await?;
    let settle = Settle {
        remote: arguments.remote.clone(),
        embedded: fleet.workers.iter().skip(remote_count).cloned().collect(),
        policy: arguments.policy,
        drain: arguments.shutdown_timeout.map(Duration::from_secs),
        names_prefixes: arguments.log_prefixes,
        example: fleet.example.clone(),
        speculation: flags,
        engines: fleet.engines.clone(),
        said: Mutex::new(config.speculation.clone()),
        files: open_files::raise(open_files::needed(&config)),
    };
    let first = settle.settings(&config);
    // Nobody is greeted where nothing will be served.
    first.check().map_err(|error| refused(&error))?;
    let (keep, settings) = tokio::sync::watch::channel(first);
    // Without a file, only the keys that the environment names can change.
    if arguments.config.is_some() || config.keys_file.is_some() {
        let settle = Arc::new(settle);
        let judging = Arc::clone(&settle);
        let judge = move |config: &Config| judging.judge(config);
        let changed = move |config: &Config| {
            settle.guess(config);
            drop(keep.send_replace(settle.settings(config)));
        };
        tasks.spawn(reload::watch(loader, loaded, reload::hangups()?, judge, changed));
    }
    tasks.spawn(greet(places, fleet, is_json));
    service_manager::tell(State::Ready);
    let drained = overdraft_gateway::run_reloading(listeners, settings, stop.asked()).await;
    release.send_replace(true);
    while embedded.join_next().await.is_some() {}
    tasks.abort_all();
    let drained = drained.map_err(|error| refused(&error))?;
    if drained.connections_cut > 0 {
        let cut = drained.connections_cut;
        return Err(Fault::running(format!("{cut} streams outlived the drain and were cut"))
            .hint("give them more time with `--shutdown-timeout`"));
    }
    Ok(())
}

impl Arguments {
    /// What the configuration file says, if one is named, and the environment.
    fn read(&self) -> Result<(Loader, Loaded), Fault> {
        let elsewhere = self.remote.is_given() || self.model.is_some() || self.draft.is_some();
        let workers =
            if elsewhere { WorkerSource::Elsewhere } else { WorkerSource::FileOrEmbedded };
        let loader = self.config.as_ref().map_or_else(Loader::of_environment, Loader::new);
        let loader = loader.with_workers(workers);
        let loaded = loader.load()?;
        // Embedded workers are started now or never: a later file without workers is a slip.
        let later = match workers {
            WorkerSource::FileOrEmbedded if loaded.config.names_workers() => WorkerSource::File,
            _ => WorkerSource::Elsewhere,
        };
        Ok((loader.with_workers(later), loaded))
    }

    /// How long streams may go on at the end.
    fn drain(&self, config: &Config) -> Duration {
        self.shutdown_timeout.map_or(config.shutdown.drain.duration(), Duration::from_secs)
    }
}

/// Where the gateway is found.
#[derive(Clone, Copy)]
struct Places {
    /// How clients' URLs begin.
    scheme: &'static str,
    clients: SocketAddr,
    admin: SocketAddr,
    scaler: Option<SocketAddr>,
}

impl Places {
    fn of(listeners: &Listeners, config: &Config) -> Result<Self, Fault> {
        let clients = address(&listeners.clients)?;
        Ok(Self {
            scheme: if config.tls.is_some() { "https" } else { "http" },
            clients,
            admin: listeners.admin.as_ref().map_or(Ok(clients), address)?,
            scaler: listeners.scaler.as_ref().map(address).transpose()?,
        })
    }

    /// Whether probes are answered without encryption.
    fn is_asked_plainly(self) -> bool {
        self.scheme == "http" || self.admin != self.clients
    }

    /// Where KEDA asks, if anywhere; known before there is a worker.
    #[expect(clippy::print_stderr, reason = "a greeting for the person at the terminal")]
    fn tell_scaler(self, is_json: bool) {
        let Some(address) = self.scaler else { return };
        if is_json {
            tracing::info!("overdraft scaler listens on grpc://{address}");
        } else {
            eprintln!("overdraft scaler listens on grpc://{address}");
        }
    }

    /// Where clients connect while no worker is up; the log says of each why.
    #[expect(clippy::print_stderr, reason = "a greeting for the person at the terminal")]
    fn tell_waiting(self, is_json: bool) {
        let (Self { scheme, clients, .. }, version) = (self, env!("CARGO_PKG_VERSION"));
        let said = format!(
            "overdraft {version} listens on {scheme}://{clients} and waits until workers are up"
        );
        if is_json {
            tracing::info!("{said}");
        } else {
            eprintln!("{said}");
        }
    }
}

/// Remote workers when there are any, embedded ones otherwise or as well when a file is named.
async fn fleet(
    arguments: &Arguments,
    mut workers: Vec<WorkerSettings>,
    config: &Config,
    clock: Clock,
    tasks: &mut JoinSet<()>,
    released: &tokio::sync::watch::Receiver<bool>,
) -> Result<Fleet, Fault> {
    let mut sources = Vec::new();
    let alone = workers.is_empty() && Found::of(config) == Found::Never;
    match &arguments.model {
        Some(file) => sources.push((Source::File(file.clone()), Pool::Target)),
        None if alone => sources.push((Source::Target, Pool::Target)),
        None => {}
    }
    match &arguments.draft {
        Some(file) => sources.push((Source::File(file.clone()), Pool::Draft)),
        None if alone && arguments.model.is_none() => sources.push((Source::Draft, Pool::Draft)),
        None => {}
    }
    let (mut models, mut example, mut engines) = (Vec::new(), None, Vec::new());
    let drafter = sources.iter().find(|(_, pool)| *pool == Pool::Draft);
    let drafter = drafter.map(|(source, _)| source.clone());
    let guesses = arguments.speculation.is_wanted();
    for (source, pool) in sources {
        let face = Face {
            names: Vec::new(),
            metrics: MetricNames::Current,
            drain: arguments.drain(config),
            // Found by the gateway at `/kv_event_sources`.
            kv_events: Some(KvEventsSettings::loopback()),
            kv_share: None,
            fault_injection: None,
            crash_on_oom: false,
            access_writer: AccessWriter::Inner,
            admin_token: config.admin.token.as_ref().map(|token| token.reveal().to_owned()),
            guessing: arguments.speculation.with_lookups()?,
            // What is served as a draft guesses for the target as well, where that is wanted and can be.
            drafter: drafter
                .clone()
                .filter(|_| guesses && pool == Pool::Target)
                .map(Drafter::Possible),
        };
        let opened = embedded::open(source, &arguments.engine, face, clock).await?;
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0)), "--listen").await?;
        let mut worker = WorkerSettings::new(url(&listener)?);
        // A file may be called anything; a worker's name is told in headers.
        let printable = |letter: char| if letter.is_ascii_graphic() { letter } else { '_' };
        let name: String = opened.name.chars().map(printable).collect();
        (worker.pool, worker.name) = (pool, format!("embedded-{name}"));
        // Known before the first probe, so that an early request is told to come back.
        worker.model = Some(opened.name.clone());
        workers.push(worker);
        models.push(opened.summary.clone());
        engines.push(opened.handle());
        example.get_or_insert_with(|| opened.name.clone());
        spawn(tasks, opened, listener, released.clone());
    }
    Ok(Fleet { workers, models, example, engines })
}

fn spawn(
    tasks: &mut JoinSet<()>,
    worker: Embedded,
    listener: TcpListener,
    mut released: tokio::sync::watch::Receiver<bool>,
) {
    tasks.spawn(async move {
        let released = async move {
            // The sender's end means the same as its word.
            let _ = released.wait_for(|released| *released).await;
        };
        worker.serve(listener, released).await;
    });
}

fn url(listener: &TcpListener) -> Result<String, Fault> {
    Ok(format!("http://{}", address(listener)?))
}

/// Refuses what says how an engine computes, where none is in this process.
fn refuse_unused(engine: &EngineOptions, speculation: &SpeculationOptions) -> Result<(), Fault> {
    let Some(flag) = engine.given().chain(speculation.given()).next() else { return Ok(()) };
    let why = format!("{flag} would change nothing: all workers run elsewhere");
    Err(Fault::input(why).hint("give it to the workers, or embed a model with `--model`"))
}

/// Refuses cascades whose models make different tokens, as far as that can be told before anybody asks.
async fn refuse_mismatches(config: &Config, workers: &[WorkerSettings]) -> Result<(), Fault> {
    let asked: Vec<parity::Asked> = workers.iter().map(parity::Asked::of).collect();
    match parity::differing(config, &asked).await.first() {
        None => Ok(()),
        Some(parity::Mismatch { cascade, message }) => {
            let why = format!("the cascade `{cascade}` cannot run: {message}");
            Err(Fault::input(why).hint(parity::HINT))
        }
    }
}

fn refused(error: &GatewayError) -> Fault {
    Fault::input(error.to_string()).hint("`overdraft serve --help` ends with examples")
}

/// How long workers may take to come up before it is told that they are waited for.
const QUIET: Duration = Duration::from_secs(1);

/// Tells whoever started it where it serves, once it can; before, where it listens, if that takes long.
async fn greet(places: Places, fleet: Fleet, is_json: bool) {
    // Those that run elsewhere may be down for long; our own come up together. What is encrypted may ask for a
    // certificate, so nobody waits there.
    if places.is_asked_plainly() {
        let mut up = pin!(ready::healthy(places.admin, fleet.models.len().max(1)));
        if tokio::time::timeout(QUIET, up.as_mut()).await.is_err() {
            places.tell_waiting(is_json);
            up.await;
        }
    }
    if !is_json {
        return banner(places, &fleet);
    }
    let Places { scheme, clients: address, .. } = places;
    let (version, models) = (env!("CARGO_PKG_VERSION"), fleet.models.join(","));
    tracing::info!(models, "overdraft {version} serves on {scheme}://{address}");
}

#[expect(clippy::print_stderr, reason = "a greeting for the person at the terminal")]
fn banner(places: Places, fleet: &Fleet) {
    let Places { scheme, clients: address, .. } = places;
    eprintln!("\noverdraft {} serves on {scheme}://{address}", env!("CARGO_PKG_VERSION"));
    for model in &fleet.models {
        eprintln!("  model    {model}");
    }
    for worker in fleet.workers.iter().filter(|worker| !worker.name.starts_with("embedded-")) {
        eprintln!("  worker   {}", worker.url);
    }
    let Some(model) = &fleet.example else { return };
    eprintln!("  client   OpenAI(base_url=\"{scheme}://{address}/v1\", api_key=\"unused\")");
    let operators = if places.is_asked_plainly() { "http" } else { scheme };
    eprintln!("  metrics  {operators}://{}/metrics", places.admin);
    eprintln!(
        "  try      curl -N {scheme}://{address}/v1/chat/completions -H 'content-type: application/json' \\"
    );
    eprintln!(
        "             -d '{{\"model\":\"{model}\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"What is a KV cache?\"}}]}}'\n"
    );
}
