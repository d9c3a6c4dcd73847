//! Embedded workers in this process: open a model, start its engine, serve it on a listener.
//!
//! The demo pair ships inside the binary, so that `overdraft serve` needs no file and no download.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use overdraft_engine::backend::Backend;
use overdraft_engine::echo::{self, EchoBackend, EchoSettings};
use overdraft_engine::gguf::OpenError;
use overdraft_engine::model::{KvBudget, Model, ModelInfo, ModelSettings};
use overdraft_engine::simulated::{self, SimulatedBackend};
use overdraft_engine::{
    ChatTemplate, Engine, EngineHandle, Speculation, TextCodec, Tokenizer, tokenizer,
};
use overdraft_telemetry::{AccessWriter, Clock};
use overdraft_tokenizer::TokenizerDocument;
use overdraft_wire::kv_blocks::KvModel;
use overdraft_worker::{
    EngineMetrics, FaultSettings, KvEvents, KvEventsSettings, KvPublisher, KvShare,
    KvShareSettings, MetricNames, Served, Settings,
};
use tokio::net::TcpListener;

use crate::engine_options::EngineOptions;
use crate::fault::Fault;
use crate::simulated::{Mortal, Simulated};
use crate::speculation_options::Guessing;
use crate::{kv_event_options, kv_room, kv_share_options};

/// The larger demo model, 8-bit.
static TARGET: &[u8] = include_bytes!("../../../models/overdraft-target.q8_0.gguf");

/// The smaller demo model, 8-bit, with the same tokenizer.
static DRAFT: &[u8] = include_bytes!("../../../models/overdraft-draft.q8_0.gguf");

/// How often the spinner turns while a file is read.
const SPIN_EVERY: Duration = Duration::from_millis(100);

/// What a worker computes.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The demo target.
    Target,
    /// The demo draft.
    Draft,
    /// A GGUF file of the user's.
    File(PathBuf),
    /// No model: it repeats what it is told.
    Echo,
    /// No GPU: it takes the time that one would.
    Simulated(Box<Simulated>),
}

/// How a worker shows itself.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    /// Names clients may use; none: the one the source has.
    pub(crate) names: Vec<String>,
    /// Which names its metrics have.
    pub(crate) metrics: MetricNames,
    /// How long streams may go on after a stop.
    pub(crate) drain: Duration,
    /// Where it tells what its cache holds; `None` is nowhere.
    pub(crate) kv_events: Option<KvEventsSettings>,
    /// With whom it shares the blocks of its cache; `None` is nobody.
    pub(crate) kv_share: Option<KvShareSettings>,
    /// What it does wrong on purpose; `None` is nothing.
    pub(crate) fault_injection: Option<FaultSettings>,
    /// Whether the process dies where a running request finds no page.
    pub(crate) crash_on_oom: bool,
    /// Whether its access lines are those of the process, or a gateway before it writes them.
    pub(crate) access_writer: AccessWriter,
    /// Who may give orders; `None` is whoever comes from this machine.
    pub(crate) admin_token: Option<String>,
    /// How deep to guess, and by lookups.
    pub(crate) guessing: Guessing,
    /// The model that guesses.
    pub(crate) drafter: Option<Drafter>,
}

/// A model that guesses for another.
#[derive(Clone, Debug)]
pub(crate) enum Drafter {
    /// It was asked for: if it cannot, that is an error.
    Wanted(Source),
    /// It is there: if it cannot, it does not.
    Possible(Source),
}

/// An engine that computes, and all it takes to serve it.
pub(crate) struct Embedded {
    /// The name clients use.
    pub(crate) name: String,
    /// One line for a person.
    pub(crate) summary: String,
    engine: Engine,
    served: Served,
    publisher: Option<KvPublisher>,
    settings: Settings,
}

/// What a source turned out to be.
struct Opened {
    backend: Box<dyn Backend>,
    tokenizer: Arc<Tokenizer>,
    template: Arc<ChatTemplate>,
    document: TokenizerDocument,
    about: String,
    root: Option<String>,
    /// The texts of the tokens, by id.
    tokens: Vec<String>,
}

/// Opens a source and starts its engine.
///
/// # Errors
/// When the file cannot be used, or the engine cannot start.
pub(crate) async fn open(
    source: Source,
    options: &EngineOptions,
    face: Face,
    clock: Clock,
) -> Result<Embedded, Fault> {
    let mut names = face.names;
    if names.is_empty() {
        names.push(source.name());
    }
    let (asked, model) = (options.clone(), options.model()?);
    let settings = options.engine(clock, &source);
    let spinner = spinner(&source);
    let (drafter, shares) = (face.drafter.clone(), face.kv_share.is_some());
    let opening = tokio::task::spawn_blocking(move || {
        let model = match &drafter {
            Some(drafter) => beside(drafter, &source, model)?,
            None => model,
        };
        let opened = open_source(&source, &asked, &model, clock)?;
        tell_small(&source, &opened, &model);
        let draft = drafter.map(|drafter| open_drafter(drafter, &opened, &asked, &model, clock));
        let layout = opened.backend.block_layout();
        let blocks = shares.then(|| kv_share_options::model(&source, layout.as_ref()));
        Ok::<_, Fault>((opened, draft.transpose()?.flatten(), blocks.transpose()?))
    });
    let opened = opening.await.map_err(|error| Fault::running(error.to_string()))?;
    spinner.finish_and_clear();
    let (opened, draft, blocks) = opened?;
    let Opened { backend, tokenizer, template, document, about, root, tokens: _ } = opened;
    let Guessing { policy, depth_max, lookup } = face.guessing;
    let speculation = Speculation { policy, depth_max, lookup, draft };
    let sharing = face.kv_share.clone().zip(blocks);
    let (metrics, kv_share) =
        counting(&names[0], backend.as_ref(), face.metrics, &speculation, sharing, clock);
    let codec: Arc<dyn TextCodec> = tokenizer.clone();
    let (mut observer, mut kv_events, mut publisher) = (metrics.observer(), None, None);
    if let Some(share) = &kv_share {
        observer = share.observer(observer);
    }
    if let Some(settings) = &face.kv_events {
        let bound = KvEvents::bind(settings, backend.shape().block_size).await;
        let (events, runs) = bound.map_err(|error| kv_event_options::refused(&error))?;
        observer = events.observer(observer);
        (kv_events, publisher) = (Some(events), Some(runs));
    }
    if face.crash_on_oom {
        observer = Box::new(Mortal(observer));
    }
    let engine = Engine::start_guessing(backend, codec, settings, observer, speculation)
        .map_err(|error| Fault::input(error.to_string()))?;
    let summary = format!("{}  ({about})", names.join(", "));
    let served = Served {
        engine: engine.handle(),
        tokenizer,
        template,
        document,
        names: names.clone(),
        root,
        metrics,
        kv_events,
        kv_share,
    };
    let mut settings = Settings::new(clock);
    settings.limits.drain = face.drain;
    settings.fault_injection = face.fault_injection;
    settings.admin_token = face.admin_token;
    settings.access_writer = face.access_writer;
    Ok(Embedded { name: names.swap_remove(0), summary, engine, served, publisher, settings })
}

/// The catalogue of what this worker can do, and the blocks it shares.
fn counting(
    name: &str,
    backend: &dyn Backend,
    names: MetricNames,
    speculation: &Speculation,
    sharing: Option<(KvShareSettings, KvModel)>,
    clock: Clock,
) -> (EngineMetrics, Option<KvShare>) {
    let (shape, guesses) = (backend.shape(), speculation.guesses());
    if let Some(((settings, model), layout)) = sharing.zip(backend.block_layout()) {
        let (metrics, shared) = EngineMetrics::sharing(name, shape, names, guesses);
        let share = KvShare::new(settings, model, shape.block_size, &layout, clock, shared);
        return (metrics, Some(share));
    }
    if guesses {
        (EngineMetrics::speculating(name, shape, names), None)
    } else {
        (EngineMetrics::new(name, shape, names), None)
    }
}

fn open_source(
    source: &Source,
    options: &EngineOptions,
    model: &ModelSettings,
    clock: Clock,
) -> Result<Opened, Fault> {
    match source {
        Source::Target => demo(TARGET, model),
        Source::Draft => demo(DRAFT, model),
        Source::File(path) => file(path, model),
        Source::Echo => echo_of(options),
        Source::Simulated(simulated) => simulation(simulated, options, clock),
    }
}

/// Warns of a cache in which no request of full length has room.
fn tell_small(source: &Source, opened: &Opened, model: &ModelSettings) {
    // Its blocks could be made, so how large they are can be told.
    let block_bytes =
        || source.block_bytes(model).map_or(0, |own| own.saturating_add(model.draft_block_bytes));
    if let Some(wrong) = kv_room::too_small(opened.backend.shape(), block_bytes) {
        tracing::warn!(model = source.name(), "{wrong}");
    }
}

/// The settings of a model beside one that guesses for it: they share threads, and the memory for
/// keys and values.
fn beside(
    drafter: &Drafter,
    source: &Source,
    model: ModelSettings,
) -> Result<ModelSettings, Fault> {
    let sharing = model.sharing_threads().map_err(|error| refused(&source.name(), &error))?;
    let (Drafter::Wanted(draft) | Drafter::Possible(draft)) = drafter;
    let draft_block_bytes = draft.block_bytes(&sharing)?;
    Ok(ModelSettings { draft_block_bytes, ..sharing })
}

/// Opens the model that guesses, with pages as large and as many as the target's.
fn open_drafter(
    drafter: Drafter,
    target: &Opened,
    options: &EngineOptions,
    model: &ModelSettings,
    clock: Clock,
) -> Result<Option<Box<dyn Backend>>, Fault> {
    let shape = target.backend.shape();
    let same_pages = ModelSettings {
        kv: KvBudget::Blocks(shape.blocks),
        block_size: shape.block_size,
        ..model.clone()
    };
    let (Drafter::Wanted(source) | Drafter::Possible(source)) = &drafter;
    let draft = open_source(source, options, &same_pages, clock)?;
    let fits = tokenizer::check_same(&target.tokens, &draft.tokens);
    let words = draft.backend.shape().vocabulary;
    match (fits, drafter) {
        (Ok(()), Drafter::Possible(_)) if words != shape.vocabulary => Ok(None),
        (Ok(()), _) => Ok(Some(draft.backend)),
        (Err(error), Drafter::Wanted(_)) => Err(Fault::input(format!("`--draft`: {error}"))
            .hint("take a smaller model of the same family, or `--speculative-ngram`")),
        (Err(error), Drafter::Possible(_)) => {
            tracing::info!(%error, "the draft does not guess for the target");
            Ok(None)
        }
    }
}

impl Source {
    /// Memory that it takes for each page of its cache; none where it is no model.
    fn block_bytes(&self, settings: &ModelSettings) -> Result<u64, Fault> {
        let bytes = match self {
            Self::Target => Model::block_bytes(TARGET, settings),
            Self::Draft => Model::block_bytes(DRAFT, settings),
            Self::File(path) => Model::block_bytes(path.as_path(), settings),
            Self::Echo | Self::Simulated(_) => Ok(0),
        };
        bytes.map_err(|error| match self {
            Self::File(path) => refused(&format!("`{}`", path.display()), &error),
            _ => refused("the demo model", &error),
        })
    }

    /// What decides its keys and values, where it is no file.
    pub(crate) fn weights(&self) -> &'static [u8] {
        match self {
            Self::Target => TARGET,
            Self::Draft => DRAFT,
            _ => b"no weights",
        }
    }

    /// What clients call it when nobody says otherwise.
    fn name(&self) -> String {
        match self {
            Self::Target => "overdraft-target".to_owned(),
            Self::Draft => "overdraft-draft".to_owned(),
            Self::Echo => "echo".to_owned(),
            Self::Simulated(simulated) => simulated.name().to_owned(),
            Self::File(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                name.strip_suffix(".gguf").unwrap_or(&name).to_owned()
            }
        }
    }
}

impl Embedded {
    /// A way to the engine.
    pub(crate) fn handle(&self) -> EngineHandle {
        self.engine.handle()
    }

    /// Serves until `stop`, lets streams finish, and ends the engine.
    pub(crate) async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send) {
        let serving = overdraft_worker::run(listener, self.served, self.settings, stop);
        let drained = match self.publisher {
            Some(publisher) => publisher.beside(serving).await,
            None => serving.await,
        };
        if drained.connections_cut > 0 {
            tracing::warn!(cut = drained.connections_cut, model = self.name, "streams were cut");
        }
        let engine = self.engine;
        // Joining the engine's thread may take a step.
        let _ = tokio::task::spawn_blocking(move || engine.shutdown()).await;
    }
}

fn demo(bytes: &'static [u8], settings: &ModelSettings) -> Result<Opened, Fault> {
    let model = Model::open(bytes, settings).map_err(|error| refused("the demo model", &error))?;
    dress("the demo model", model)
}

fn file(path: &Path, settings: &ModelSettings) -> Result<Opened, Fault> {
    let shown = format!("`{}`", path.display());
    let model = Model::open(path, settings).map_err(|error| refused(&shown, &error))?;
    let opened = dress(&shown, model)?;
    Ok(Opened { root: Some(path.display().to_string()), ..opened })
}

fn dress(shown: &str, model: Model) -> Result<Opened, Fault> {
    let source = tokenizer::source_from_metadata(&model.metadata)
        .map_err(|error| Fault::input(format!("{shown}: {error}")).hint(error.hint()))?;
    let usual = tokenizer::template_text(&model.metadata);
    let of_tools = tokenizer::tool_template_text(&model.metadata);
    let document = TokenizerDocument::with_tools(&source, usual, of_tools);
    let tokens = source.tokens.clone();
    let tokenizer = Tokenizer::new(source)
        .map_err(|error| Fault::input(format!("{shown}: {error}")).hint(error.hint()))?;
    let template = tokenizer::template_from_metadata(&model.metadata, &tokenizer)
        .map_err(|error| Fault::input(format!("{shown}: {error}")).hint(NO_TEMPLATE))?;
    Ok(Opened {
        tokenizer: Arc::new(tokenizer),
        template: Arc::new(template),
        document,
        about: about(&model.info),
        backend: model.backend,
        root: None,
        tokens,
    })
}

const NO_TEMPLATE: &str = "take another conversion of the model; llama.cpp's converter keeps the \
                           chat template in `tokenizer.chat_template`";

/// A file that cannot be used, with its name before the sentence.
fn refused(shown: &str, error: &OpenError) -> Fault {
    Fault::input(format!("{shown}: {error}")).hint(error.hint())
}

fn echo_of(options: &EngineOptions) -> Result<Opened, Fault> {
    let mut settings = EchoSettings::default();
    options.shape_echo(&mut settings)?;
    let document = TokenizerDocument::new(&echo::tokenizer_source(), Some(echo::ECHO_TEMPLATE));
    let tokenizer = echo::tokenizer();
    let template = ChatTemplate::new(Some(echo::ECHO_TEMPLATE), &tokenizer)
        .map_err(|error| Fault::running(error.to_string()))?;
    Ok(Opened {
        backend: Box::new(EchoBackend::new(settings)),
        tokenizer: Arc::new(tokenizer),
        template: Arc::new(template),
        document,
        about: "no model: it repeats what it is told".to_owned(),
        root: None,
        tokens: echo::tokenizer_source().tokens,
    })
}

fn simulation(
    simulated: &Simulated,
    options: &EngineOptions,
    clock: Clock,
) -> Result<Opened, Fault> {
    let (block_size, blocks, context) = options.cache(&simulated.profile)?;
    let settings = simulated.settings(block_size, blocks, context, clock)?;
    let source = simulated::tokenizer_source();
    let tokenizer = simulated::tokenizer();
    let template = ChatTemplate::new(Some(echo::ECHO_TEMPLATE), &tokenizer)
        .map_err(|error| Fault::running(error.to_string()))?;
    Ok(Opened {
        about: simulated.about(&settings),
        backend: Box::new(SimulatedBackend::new(settings)),
        tokenizer: Arc::new(tokenizer),
        template: Arc::new(template),
        document: TokenizerDocument::new(&source, Some(echo::ECHO_TEMPLATE)),
        root: None,
        tokens: source.tokens,
    })
}

/// `5.4M parameters, Q8_0, 2048 tokens of context`.
fn about(info: &ModelInfo) -> String {
    let parameters = match info.parameters {
        1_000_000_000.. => format!("{:.1}B", to_f64(info.parameters) / 1e9),
        _ => format!("{:.1}M", to_f64(info.parameters) / 1e6),
    };
    let (kind, context) = (&info.file_type, info.context.get());
    format!("{}, {parameters} parameters, {kind}, context {context}", info.architecture)
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

/// Shows that something happens while a large file is packed; silent without a terminal.
fn spinner(source: &Source) -> ProgressBar {
    let Source::File(path) = source else { return ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]");
    let bar = ProgressBar::new_spinner()
        .with_message(format!("loading {}", path.display()))
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(SPIN_EVERY);
    bar
}
