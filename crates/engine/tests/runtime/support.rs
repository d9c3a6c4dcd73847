//! A world for the engine's loop: an echo behind a gate, and readers that need no clock.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};

use overdraft_engine::echo::{self, Noise};
use overdraft_engine::{
    Backend, BackendError, BatchSlot, EchoBackend, EchoSettings, Engine, EngineHandle,
    EngineSettings, Event, FinishReason, ModelShape, Observation, Observer, PositionLogprobs,
    Request, RequestStream, Sampling, SubmitError, Unobserved, Usage,
};
use overdraft_engine::{ControlTokens, Tokenizer};
use overdraft_telemetry::Clock;
use overdraft_units::{BlockSize, Blocks, CacheSalt, Priority, TokenId, Tokens};

pub(crate) static TOKENIZER: LazyLock<Arc<Tokenizer>> =
    LazyLock::new(|| Arc::new(echo::tokenizer()));

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) logprobs: Vec<Option<PositionLogprobs>>,
    pub(crate) prompt_logprobs: Option<Vec<Option<PositionLogprobs>>>,
    pub(crate) reason: FinishReason,
    pub(crate) usage: Usage,
}

pub(crate) fn echo(blocks: u32, noise: Noise) -> EchoBackend {
    let block_size = BlockSize::new(4).expect("four is not zero");
    EchoBackend::new(EchoSettings {
        blocks: Blocks::new(blocks),
        block_size,
        noise,
        ..EchoSettings::default()
    })
}

pub(crate) fn settings() -> EngineSettings {
    EngineSettings { entropy: 7, ..EngineSettings::new(Clock::start()) }
}

pub(crate) fn start(backend: impl Backend + 'static, settings: EngineSettings) -> Engine {
    observed(backend, settings, Unobserved)
}

pub(crate) fn observed(
    backend: impl Backend + 'static,
    settings: EngineSettings,
    observer: impl Observer + 'static,
) -> Engine {
    Engine::start(Box::new(backend), TOKENIZER.clone(), settings, Box::new(observer))
        .expect("the settings are sound")
}

/// A greedy request for at most 32 tokens.
pub(crate) fn request(prompt: &str) -> Request {
    let sampling =
        Sampling { temperature: 0.0, max_tokens: Tokens::new(32), ..Sampling::default() };
    Request {
        prompt: TOKENIZER.encode(prompt, ControlTokens::Parsed),
        sampling,
        salt: CacheSalt(0),
        priority: Priority(0),
        prompt_logprobs: None,
    }
}

pub(crate) fn chat(message: &str) -> Request {
    request(&format!("<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n"))
}

/// A request that draws: different for each number.
pub(crate) fn drawing(prompt: &str, number: u16) -> Request {
    let mut request = request(prompt);
    request.sampling = Sampling {
        temperature: 0.8 + f32::from(number) / 16.0,
        top_p: if number.is_multiple_of(3) { 0.95 } else { 1.0 },
        top_k: (number % 4 == 1).then_some(12),
        min_p: if number % 5 == 2 { 0.05 } else { 0.0 },
        frequency_penalty: if number.is_multiple_of(2) { 0.3 } else { 0.0 },
        repetition_penalty: if number % 7 == 3 { 1.2 } else { 1.0 },
        seed: Some(u64::from(number)),
        ignore_eos: true,
        logprobs: Some(3),
        ..request.sampling
    };
    request
}

pub(crate) fn submit(
    engine: &EngineHandle,
    request: Request,
) -> Result<RequestStream, SubmitError> {
    wait(engine.submit(request))
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

pub(crate) fn ask(engine: &Engine, request: Request) -> Answer {
    read(submit(&engine.handle(), request).expect("the request is sound"))
}

/// Reads to the end; panics on a failure and on events out of order.
#[track_caller]
pub(crate) fn read(stream: RequestStream) -> Answer {
    match outcome(stream) {
        Ok(answer) => answer,
        Err(sentence) => panic!("the request failed: {sentence}"),
    }
}

/// Reads to the end, whichever it is.
#[track_caller]
pub(crate) fn outcome(mut stream: RequestStream) -> Result<Answer, String> {
    let (mut text, mut tokens, mut logprobs) = (String::new(), Vec::new(), Vec::new());
    let mut started = None;
    let last = loop {
        match stream.blocking_recv().expect("a stream ends with Finished or Failed") {
            Event::Started { cached, prompt_logprobs } => {
                assert!(started.is_none() && tokens.is_empty(), "started twice or late");
                started = Some((cached, prompt_logprobs));
            }
            Event::Tokens(more) => {
                assert!(started.is_some(), "a token before the start");
                for token in more {
                    text.push_str(&token.text);
                    tokens.push(token.id);
                    logprobs.push(token.logprobs);
                }
            }
            last => break last,
        }
    };
    assert_eq!(stream.blocking_recv(), None, "an event after the last");
    match last {
        Event::Finished { reason, tail, usage } => {
            text.push_str(&tail);
            let (cached, prompt_logprobs) = started.expect("no end without a start");
            assert_eq!(usage.cached, cached);
            assert_eq!(usize::try_from(usage.completion.get()), Ok(tokens.len()));
            Ok(Answer { text, tokens, logprobs, prompt_logprobs, reason, usage })
        }
        Event::Failed(sentence) => Err(sentence),
        other => panic!("unexpected {other:?}"),
    }
}

/// An echo whose passes come to something else.
pub(crate) struct Altered<F> {
    inner: EchoBackend,
    pass: F,
}

/// `pass` is called instead of the echo's own, with the echo, the batch and where the logits go.
pub(crate) fn altered<F>(inner: EchoBackend, pass: F) -> Altered<F>
where
    F: FnMut(&mut EchoBackend, &[BatchSlot<'_>], &mut Vec<f32>) -> Result<(), BackendError>,
{
    Altered { inner, pass }
}

impl<F> Backend for Altered<F>
where
    F: FnMut(&mut EchoBackend, &[BatchSlot<'_>], &mut Vec<f32>) -> Result<(), BackendError> + Send,
{
    fn shape(&self) -> ModelShape {
        self.inner.shape()
    }

    fn forward(
        &mut self,
        batch: &[BatchSlot<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        (self.pass)(&mut self.inner, batch, logits)
    }
}

/// The other side of [`gated`]. Dropping it opens the gate for good.
pub(crate) struct Gate {
    entered: Receiver<()>,
    permits: Sender<()>,
}

/// A backend that computes a step only when it is let.
pub(crate) fn gated(inner: EchoBackend) -> (impl Backend + 'static, Gate) {
    let (enter, entered) = channel();
    let (permit, permits) = channel();
    let pass = move |echo: &mut EchoBackend, batch: &[BatchSlot<'_>], logits: &mut Vec<f32>| {
        let _ = enter.send(());
        // An error means that the gate is open for good.
        let _ = permits.recv();
        echo.forward(batch, logits)
    };
    (altered(inner, pass), Gate { entered, permits: permit })
}

impl Gate {
    /// Waits until the engine is inside a step; the step does not go on.
    pub(crate) fn await_step(&self) {
        self.entered.recv().expect("the engine runs");
    }

    /// Lets the step go on.
    pub(crate) fn permit(&self) {
        self.permits.send(()).expect("the engine runs");
    }

    /// Lets whole steps pass.
    pub(crate) fn steps(&self, count: usize) {
        for _ in 0..count {
            self.await_step();
            self.permit();
        }
    }

    /// Steps begun that were not waited for.
    pub(crate) fn begun(&self) -> usize {
        self.entered.try_iter().count()
    }
}

/// Keeps what it observes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(pub(crate) Arc<Mutex<Vec<Observation>>>);

impl Observer for Notes {
    fn observe(&mut self, observation: &Observation) {
        self.0.lock().expect("nobody panics with it").push(*observation);
    }
}
