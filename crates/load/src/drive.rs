//! Session driver: sends turns when they are due and records the answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use overdraft_sim::report::{Belongs, Fate, Recorder, Sample};
use overdraft_sim::workload::{Session, Sessions, Turn, WorkloadError};
use overdraft_telemetry::Clock;
use overdraft_units::{Instant, Micros, Tokens};
use overdraft_wire::answer::UsageTold;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::answer::{self, Answer, Wrong};
use crate::body::{Answers, Asking};
use crate::pacemaker::Pacemaker;
use crate::pool::Pool;
use crate::progress::Progress;
use crate::target::Target;

/// Sessions under way at most; more wait, and their lag is told.
pub const FLYING_MAX: usize = 16_384;

/// What is sent, where, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The endpoint.
    pub target: Target,
    /// How turns are asked.
    pub asking: Asking,
    /// Who decides when sessions begin.
    pub pace: Loop,
    /// Requests under way at most; those that wait for it count from when they were due.
    pub concurrency_max: Option<usize>,
    /// A header that carries the session's name.
    pub session_header: Option<HeaderName>,
    /// How long a whole answer may take.
    pub patience: Duration,
}

/// Who decides when sessions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// The workload: they come whether the endpoint keeps up or not.
    Open,
    /// So many users: each begins one when the one before is through.
    Closed {
        /// How many.
        users: usize,
    },
}

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The workload has a fault.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The system gives no thread.
    #[error("no thread for the arrivals: {0}")]
    Thread(std::io::Error),
    /// A task of ours panicked.
    #[error("a request's task failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// What the tasks of a run share.
struct Shared {
    plan: Plan,
    uri: Uri,
    pool: Pool,
    clock: Clock,
    room: Option<Semaphore>,
    recorder: Mutex<Recorder>,
    progress: Arc<Progress>,
}

/// Sends all sessions and waits for all answers.
///
/// # Errors
/// When the workload has a fault; what was under way then is given up.
pub async fn run(
    plan: Plan,
    sessions: Sessions,
    progress: Arc<Progress>,
) -> Result<Recorder, LoadError> {
    let resource = plan.target.path(plan.asking.interface.resource());
    let shared = Arc::new(Shared {
        uri: resource.parse().unwrap_or_default(),
        pool: Pool::new(plan.target.clone()),
        clock: Clock::start(),
        room: plan.concurrency_max.map(Semaphore::new),
        recorder: Mutex::new(Recorder::new()),
        progress,
        plan,
    });
    match shared.plan.pace {
        Loop::Open => open(&shared, sessions).await?,
        Loop::Closed { users } => closed(&shared, sessions, users).await?,
    }
    let mut recorder = shared.recorder.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut *recorder))
}

async fn open(shared: &Arc<Shared>, sessions: Sessions) -> Result<(), LoadError> {
    let mut pacemaker = Pacemaker::start(sessions, shared.clock).map_err(LoadError::Thread)?;
    let mut flying = JoinSet::new();
    while let Some(session) = pacemaker.due.recv().await {
        let session = session?;
        let at = session.at;
        flying.spawn(Arc::clone(shared).visit(session, at));
        while let Some(ended) = flying.try_join_next() {
            ended?;
        }
        if FLYING_MAX <= flying.len()
            && let Some(ended) = flying.join_next().await
        {
            ended?;
        }
    }
    while let Some(ended) = flying.join_next().await {
        ended?;
    }
    Ok(())
}

async fn closed(shared: &Arc<Shared>, sessions: Sessions, users: usize) -> Result<(), LoadError> {
    let sessions = Arc::new(Mutex::new(sessions));
    let mut flying = JoinSet::new();
    for _ in 0..users.clamp(1, FLYING_MAX) {
        let (shared, sessions) = (Arc::clone(shared), Arc::clone(&sessions));
        flying.spawn(async move {
            loop {
                let next = sessions.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(session) = next.transpose()? else { return Ok(()) };
                let now = shared.clock.now();
                Arc::clone(&shared).visit(session, now).await;
            }
        });
    }
    while let Some(ended) = flying.join_next().await {
        let ended: Result<(), WorkloadError> = ended?;
        ended?;
    }
    Ok(())
}

impl Shared {
    /// One session, from its first turn, which is due at `at`, to its last.
    async fn visit(self: Arc<Self>, session: Session, at: Instant) {
        let mut answers = Answers::new();
        let mut due = at;
        for turn in &session.turns {
            due = due + turn.think;
            let wait = due.since(self.clock.now());
            if Micros::ZERO < wait {
                sleep(Duration::from_micros(wait.get())).await;
            }
            self.progress.begin();
            let answer = self.ask(turn, &answers, session.name, due).await;
            self.progress.end();
            // Who got no answer does not go on talking.
            let Some(answer) = answer else { return };
            answers.insert(turn.answer.content, answer);
            due = self.clock.now();
        }
    }

    /// Asks for a turn and records what came; the answer's text if it came to its end.
    async fn ask(&self, turn: &Turn, answers: &Answers, name: u64, due: Instant) -> Option<String> {
        let body = self.plan.asking.body(turn, answers);
        let _room = match &self.room {
            Some(room) => room.acquire().await.ok(),
            None => None,
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.plan.target.headers.clone();
        if let Some(header) = &self.plan.session_header {
            request.headers_mut().insert(header.clone(), HeaderValue::from(name));
        }
        let sent = self.clock.now();
        let answering = answer::stream(&self.pool, request, self.clock);
        let answered = match timeout(self.plan.patience, answering).await {
            Ok(answered) => answered,
            Err(_elapsed) => {
                let patience = self.plan.patience;
                Err(Wrong::Failed(format!("no whole answer within {patience:?}")))
            }
        };
        let sample = Sample {
            intended: due,
            sent,
            first_token: None,
            ended: self.clock.now(),
            prompt: turn.prompt_tokens(),
            cached: None,
            output: Tokens::ZERO,
            fate: Fate::Completed,
            belongs: Belongs::default(),
        };
        self.record(sample, answered)
    }

    fn record(&self, sample: Sample, answered: Result<Answer, Wrong>) -> Option<String> {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match answered {
            Ok(answer) if !answer.pieces.is_empty() => answer,
            Ok(_) => {
                self.progress.note("the answer has no text");
                recorder.sample(Sample { fate: Fate::Failed, ..sample });
                return None;
            }
            Err(wrong) => {
                let (fate, why) = match &wrong {
                    Wrong::Refused(why) => (Fate::Refused, why),
                    Wrong::Failed(why) => (Fate::Failed, why),
                };
                self.progress.note(why);
                recorder.sample(Sample { fate, ..sample });
                return None;
            }
        };
        for at in &answer.pieces {
            recorder.tokens(*at, 1);
        }
        for pair in answer.pieces.windows(2) {
            recorder.gap(pair[1].since(pair[0]));
        }
        let pieces = u32::try_from(answer.pieces.len()).unwrap_or(u32::MAX);
        let usage = answer.usage.as_ref();
        let told = |of: fn(&UsageTold) -> u32| usage.map(of).filter(|&count| 0 < count);
        let cached = usage.and_then(|usage| usage.cached);
        recorder.sample(Sample {
            first_token: answer.pieces.first().copied(),
            ended: answer.pieces.last().copied().unwrap_or(sample.ended),
            prompt: told(|usage| usage.prompt).map_or(sample.prompt, Tokens::new),
            cached: cached.map(Tokens::new),
            output: Tokens::new(told(|usage| usage.completion).unwrap_or(pieces)),
            ..sample
        });
        Some(answer.text)
    }
}
