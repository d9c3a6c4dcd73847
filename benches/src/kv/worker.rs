//! A worker as it ships, on a model of random weights.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::model::VOCABULARY;
use anyhow::{Context, Result};
use overdraft_engine::echo::ECHO_TEMPLATE;
use overdraft_engine::model::{KvBudget, Model, ModelSettings};
use overdraft_engine::{
    ChatTemplate, Engine, EngineSettings, TextCodec, Tokenizer, TokenizerSource,
};
use overdraft_telemetry::Clock;
use overdraft_tokenizer::TokenizerDocument;
use overdraft_units::{Blocks, Tokens};
use overdraft_wire::kv_blocks::KvModel;
use overdraft_worker::{EngineMetrics, KvShare, KvShareSettings, MetricNames, Served, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The model that clients name.
pub(crate) const MODEL: &str = "random";
/// Blocks of its cache: a dozen prompts.
const BLOCKS: Blocks = Blocks::new(1_600);
/// Tokens of a step, as the binary has it.
const STEP_TOKENS: Tokens = Tokens::new(256);

/// A worker that runs until it is dropped.
pub(crate) struct Worker {
    pub(crate) address: SocketAddr,
    _engine: Engine,
    _tasks: JoinSet<()>,
}

impl Worker {
    /// Opens the file and serves it; ready when it has warmed up.
    pub(crate) async fn start(file: &Path, sharing: KvShareSettings) -> Result<Self> {
        let clock = Clock::start();
        let (engine, served) = open(file, sharing, clock)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let settings = Settings::new(clock);
            overdraft_worker::run(listener, served, settings, std::future::pending()).await;
        });
        let worker = Self { address, _engine: engine, _tasks: tasks };
        while !worker.get("/health").await?.starts_with("HTTP/1.1 200 ") {
            tokio::task::yield_now().await;
        }
        Ok(worker)
    }

    /// The sum of a metric's series.
    pub(crate) async fn count(&self, name: &str) -> Result<u64> {
        let text = self.get("/metrics").await?;
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines
            .map(|line| {
                let (_, value) = line.rsplit_once(' ').context("a series has a value")?;
                Ok(value.parse::<u64>()?)
            })
            .sum()
    }

    async fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut read = String::new();
        stream.read_to_string(&mut read).await?;
        Ok(read)
    }
}

fn open(file: &Path, sharing: KvShareSettings, clock: Clock) -> Result<(Engine, Served)> {
    let settings = ModelSettings { kv: KvBudget::Blocks(BLOCKS), ..ModelSettings::default() };
    let backend = Model::open(file, &settings)?.backend;
    let (shape, layout) = (backend.shape(), backend.block_layout());
    let layout = layout.context("a model on the processor has blocks that can be moved")?;
    let model = KvModel::read(File::open(file)?, &layout.name)?;
    let (metrics, shared) = EngineMetrics::sharing(MODEL, shape, MetricNames::Current, false);
    let share = KvShare::new(sharing, model, shape.block_size, &layout, clock, shared);
    let source = vocabulary();
    let document = TokenizerDocument::new(&source, Some(ECHO_TEMPLATE));
    let tokenizer = Arc::new(Tokenizer::new(source)?);
    let template = Arc::new(ChatTemplate::new(Some(ECHO_TEMPLATE), &tokenizer)?);
    let mut settings = EngineSettings::new(clock);
    settings.step_tokens = STEP_TOKENS;
    let codec: Arc<dyn TextCodec> = tokenizer.clone();
    let engine = Engine::start(backend, codec, settings, share.observer(metrics.observer()))?;
    let served = Served {
        engine: engine.handle(),
        tokenizer,
        template,
        document,
        names: vec![MODEL.to_owned()],
        root: None,
        metrics,
        kv_events: None,
        kv_share: Some(share),
    };
    Ok((engine, served))
}

/// As many words as the model has tokens: bytes, then names that no text is cut into.
fn vocabulary() -> TokenizerSource {
    let mut source = TokenizerSource::bytes(&[]);
    for id in source.tokens.len()..VOCABULARY {
        source.tokens.push(format!("t{id}"));
        source.token_types.get_or_insert_default().push(1);
    }
    source
}
