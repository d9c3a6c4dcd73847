//! Closed-loop load on an engine: tokens per second at a number of concurrent streams.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use overdraft_engine::{
    EngineHandle, EngineStats, Event, Request, RequestStream, SpeculationStats,
};
use overdraft_telemetry::Clock;
use overdraft_units::Tokens;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::pair::Source;
use super::rivals::Rival;
use super::steer::Text;

/// How often it is looked whether the engine has become idle, and at most how many times.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const LOOKS_MAX: u32 = 5_000;

/// A load that stays the same for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) streams: usize,
    pub(crate) text: Text,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) tokens: u64,
    pub(crate) seconds: f64,
    /// Seconds of processor time, over all threads.
    pub(crate) cpu: f64,
    pub(crate) speculation: SpeculationStats,
}

/// A load that an engine has, and what its turns have come to.
pub(crate) struct Load<'a> {
    rival: &'a Rival,
    streams: JoinSet<Result<()>>,
    before: EngineStats,
    seconds: f64,
    cpu: f64,
}

/// Sends loads, one at a time.
pub(crate) struct Loader {
    runtime: Runtime,
    clock: Clock,
}

impl Window {
    /// Tokens a second.
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    pub(crate) fn rate(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }

    /// Tokens a second of processor time.
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    pub(crate) fn cpu_rate(&self) -> f64 {
        self.tokens as f64 / self.cpu
    }
}

impl Phase {
    pub(crate) fn name(self) -> String {
        format!("{:>2} {}", self.streams, self.text.name())
    }
}

impl Loader {
    pub(crate) fn new(clock: Clock) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Self { runtime, clock })
    }

    /// Begins a load: each stream asks again when it is answered. It is the engine's turn until each has had its first
    /// token, and first answers are cut so that they end one after the other: that all begin or end together is no load
    /// that stays the same.
    pub(crate) fn begin<'a>(
        &self,
        rival: &'a Rival,
        phase: Phase,
        source: Source,
    ) -> Result<Load<'a>> {
        self.runtime.block_on(async {
            let engine = rival.engine.handle();
            idle(&engine).await?;
            let (begun, source) = (Arc::default(), Arc::new(Mutex::new(source)));
            let mut streams = JoinSet::new();
            for place in 1..=phase.streams {
                let (begun, source) = (Arc::clone(&begun), Arc::clone(&source));
                let first = first(&source, phase, place)?;
                streams.spawn(ask(engine.clone(), (first, source), phase.text, begun));
            }
            while_running(&mut streams, until_begun(&begun, phase.streams)).await??;
            while_running(&mut streams, rival.gate.close()).await??;
            let before = engine.stats();
            Ok(Load { rival, streams, before, seconds: 0.0, cpu: 0.0 })
        })
    }

    /// The engine computes for so long, and to the end of the step it is in then.
    pub(crate) fn turn(&self, load: &mut Load<'_>, time: Duration) -> Result<()> {
        self.runtime.block_on(async {
            let (began, spent) = (self.clock.now(), processor());
            load.rival.gate.open();
            while_running(&mut load.streams, tokio::time::sleep(time)).await?;
            let ended = while_running(&mut load.streams, load.rival.gate.close()).await??;
            load.seconds += to_seconds(ended.since(began).get());
            load.cpu += processor() - spent;
            Ok(())
        })
    }

    /// What came of all turns; what is unfinished is taken back.
    pub(crate) fn end(&self, load: Load<'_>) -> Result<Window> {
        self.runtime.block_on(async {
            let Load { rival, mut streams, before, seconds, cpu } = load;
            // What the last step brought is not told yet; nor was it when the load began.
            let after = rival.engine.handle().stats();
            rival.gate.open();
            streams.shutdown().await;
            idle(&rival.engine.handle()).await?;
            let tokens = after.generation_tokens - before.generation_tokens;
            let speculation = after.speculation.since(&before.speculation);
            Ok(Window { tokens, seconds, cpu, speculation })
        })
    }

    /// A load of one turn.
    pub(crate) fn window(
        &self,
        rival: &Rival,
        phase: Phase,
        source: Source,
        time: Duration,
    ) -> Result<Window> {
        let mut load = self.begin(rival, phase, source)?;
        self.turn(&mut load, time)?;
        self.end(load)
    }

    /// The answers to these requests, so many at a time.
    pub(crate) fn answers(
        &self,
        engine: &EngineHandle,
        requests: &[Request],
        at_once: usize,
    ) -> Result<Vec<Vec<u32>>> {
        self.runtime.block_on(async {
            let mut answers = Vec::with_capacity(requests.len());
            for some in requests.chunks(at_once) {
                let mut streams = Vec::with_capacity(some.len());
                for request in some {
                    streams.push(engine.submit(request.clone()).await?);
                }
                for stream in streams {
                    answers.push(read(stream).await?);
                }
            }
            Ok(answers)
        })
    }
}

/// All tokens of an answer.
async fn read(mut stream: RequestStream) -> Result<Vec<u32>> {
    let mut answer = Vec::new();
    while let Some(event) = stream.recv().await {
        match event {
            Event::Tokens(more) => answer.extend(more.iter().map(|token| token.id.0)),
            Event::Failed(why) => bail!(why),
            Event::Started { .. } | Event::Finished { .. } => {}
        }
    }
    Ok(answer)
}

/// The first request of a stream: of sixteen, the answer to the first ends after a sixteenth, to the last at the end.
fn first(source: &Mutex<Source>, phase: Phase, place: usize) -> Result<Request> {
    let mut request = next(source, phase.text);
    let (place, streams) = (u32::try_from(place)?, u32::try_from(phase.streams)?);
    let whole = request.sampling.max_tokens.get();
    request.sampling.max_tokens = Tokens::new(whole * place / streams);
    Ok(request)
}

fn next(source: &Mutex<Source>, text: Text) -> Request {
    source.lock().unwrap_or_else(PoisonError::into_inner).next(text)
}

/// One stream: asks, reads to the end, asks again; only a fault ends it.
async fn ask(
    engine: EngineHandle,
    (first, source): (Request, Arc<Mutex<Source>>),
    text: Text,
    streams_begun: Arc<AtomicUsize>,
) -> Result<()> {
    let mut begun = false;
    let mut request = first;
    loop {
        let mut stream = engine.submit(request).await?;
        while let Some(event) = stream.recv().await {
            match event {
                Event::Tokens(_) => {
                    streams_begun.fetch_add(usize::from(!begun), Ordering::Relaxed);
                    begun = true;
                }
                Event::Failed(why) => bail!(why),
                Event::Started { .. } | Event::Finished { .. } => {}
            }
        }
        request = next(&source, text);
    }
}

/// Waits, but not beyond the end of a stream: only a fault ends one.
async fn while_running<T>(
    streams: &mut JoinSet<Result<()>>,
    wait: impl Future<Output = T>,
) -> Result<T> {
    tokio::select! {
        ended = streams.join_next() => {
            let Some(ended) = ended else { bail!("a load of no streams measures nothing") };
            ended??;
            bail!("a stream ended before its time")
        }
        waited = wait => Ok(waited),
    }
}

/// Until so many streams have had a token.
async fn until_begun(begun: &AtomicUsize, streams: usize) -> Result<()> {
    for _ in 0..LOOKS_MAX {
        if streams <= begun.load(Ordering::Relaxed) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bail!("`{streams}` streams do not all begin within ten seconds")
}

/// Until nothing runs in the engine.
async fn idle(engine: &EngineHandle) -> Result<()> {
    for _ in 0..LOOKS_MAX {
        let batch = engine.stats().batch;
        if batch.running + batch.waiting == 0 {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bail!("the engine does not come to rest")
}

/// Seconds of processor time that this process has used.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of minutes")]
fn processor() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of minutes")]
fn to_seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
