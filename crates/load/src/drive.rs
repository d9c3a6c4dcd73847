//! Session driver: sends turns when they are due and records the answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use overdraft_sim::report::{Belongs, Cause, Fate, Recorder, Sample};
use overdraft_sim::workload::{Session, Sessions, Stage, Turn, WorkloadError};
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

/// Why a request failed whose answer came whole and has no text.
pub const NO_TEXT: &str = "the answer has no text";

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
    /// Requests that are due earlier than this are sent and not counted.
    pub warm_up: Micros,
    /// When users begin no session and no session goes on to another turn any more, where the load ever ends.
    pub until: Option<Micros>,
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
        /// Whether they begin one when the workload says, at the earliest.
        is_timed: bool,
        /// How long one who got no answer waits before beginning again.
        refused_wait: Micros,
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

/// How a user of a closed loop begins.
struct Begins {
    now: Instant,
    is_timed: bool,
    refused_wait: Micros,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Its last turn was answered.
    Answered,
    /// A turn got no answer.
    Unanswered,
    /// Its first or next turn would be due after the end of the load.
    Over,
}

/// A request beside its turn.
#[derive(Clone, Copy)]
struct Asked {
    /// Its session's number.
    name: u64,
    due: Instant,
    belongs: Belongs,
    is_counted: bool,
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
        Loop::Closed { users, .. } => closed(&shared, sessions, users).await?,
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
            while let Some(begins) = shared.begins() {
                let next = sessions.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(session) = next.transpose()? else { return Ok(()) };
                let at = begins.at(&session);
                match Arc::clone(&shared).visit(session, at).await {
                    Ended::Answered => {}
                    Ended::Unanswered => sleep(Duration::from(begins.refused_wait)).await,
                    Ended::Over => return Ok(()),
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = flying.join_next().await {
        let ended: Result<(), WorkloadError> = ended?;
        ended?;
    }
    Ok(())
}

impl Begins {
    /// When the user begins this session: now, or when the workload says.
    fn at(&self, session: &Session) -> Instant {
        if self.is_timed { self.now.max(session.at) } else { self.now }
    }
}

impl Plan {
    /// Whether nothing new is asked any more then.
    fn is_over(&self, at: Instant) -> bool {
        self.until.is_some_and(|until| until <= at.since(Instant::ORIGIN))
    }
}

impl Shared {
    /// When and how a user of a closed loop begins a session now; none when it is over.
    fn begins(&self) -> Option<Begins> {
        let Loop::Closed { is_timed, refused_wait, .. } = self.plan.pace else { return None };
        let now = self.clock.now();
        (!self.plan.is_over(now)).then_some(Begins { now, is_timed, refused_wait })
    }

    /// One session that begins at `at`, to its last turn or to the end of the load.
    async fn visit(self: Arc<Self>, session: Session, at: Instant) -> Ended {
        let mut answers = Answers::new();
        let mut due = at;
        let Session { sender, stage, name, .. } = session;
        let belongs = Belongs {
            priority: sender.priority,
            tenant: sender.tenant,
            stage: stage.place(),
            ..Belongs::default()
        };
        for (place, turn) in (1..).zip(&session.turns) {
            due = due + turn.think;
            if self.plan.is_over(due) {
                return Ended::Over;
            }
            let wait = due.since(self.clock.now());
            if Micros::ZERO < wait {
                sleep(Duration::from(wait)).await;
            }
            self.progress.begin();
            let is_counted =
                stage != Stage::WarmUp && self.plan.warm_up <= due.since(Instant::ORIGIN);
            let asked = Asked { name, due, belongs, is_counted };
            let answer = self.ask(turn, &answers, asked).await;
            self.progress.end();
            // Who got no answer does not go on talking.
            let Some(answer) = answer else {
                if is_counted {
                    let turns = session.turns.len().saturating_sub(place);
                    self.recorder().unasked(u64::try_from(turns).unwrap_or(u64::MAX));
                }
                return Ended::Unanswered;
            };
            answers.insert(turn.answer.content, answer);
            due = self.clock.now();
        }
        Ended::Answered
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a turn and records what came; the answer's text if it came to its end.
    async fn ask(&self, turn: &Turn, answers: &Answers, asked: Asked) -> Option<String> {
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
            request.headers_mut().insert(header.clone(), HeaderValue::from(asked.name));
        }
        let sent = self.clock.now();
        let answering = answer::stream(&self.pool, request, self.clock, &self.progress);
        let answered = match timeout(self.plan.patience, answering).await {
            Ok(answered) => answered,
            Err(_elapsed) => {
                let patience = self.plan.patience;
                Err(Wrong::new(Cause::TimedOut, format!("no whole answer within {patience:?}")))
            }
        };
        let sample = Sample {
            intended: asked.due,
            sent,
            first_token: None,
            ended: self.clock.now(),
            prompt: turn.prompt_tokens(),
            cached: None,
            output: Tokens::ZERO,
            fate: Fate::Completed,
            cause: None,
            belongs: asked.belongs,
        };
        self.record(sample, answered, asked.is_counted)
    }

    fn record(
        &self,
        sample: Sample,
        answered: Result<Answer, Wrong>,
        is_counted: bool,
    ) -> Option<String> {
        let mut uncounted = Recorder::new();
        let mut counted = self.recorder();
        let recorder = if is_counted { &mut *counted } else { &mut uncounted };
        let answer = match answered {
            Ok(answer) if !answer.pieces.is_empty() => answer,
            Ok(_) => {
                self.progress.note(NO_TEXT);
                let cause = Some(Cause::ErrorAnswer);
                recorder.sample(Sample { fate: Fate::Failed, cause, ..sample });
                return None;
            }
            Err(wrong) => {
                self.progress.note(&wrong.why);
                let (fate, cause) = (wrong.fate(), Some(wrong.cause));
                recorder.sample(Sample { fate, cause, ..sample });
                return None;
            }
        };
        let pieces = u32::try_from(answer.pieces.len()).unwrap_or(u32::MAX);
        let usage = answer.usage.as_ref();
        let told = |of: fn(&UsageTold) -> u32| usage.map(of).filter(|&count| 0 < count);
        let cached = usage.and_then(|usage| usage.cached);
        let output = told(|usage| usage.completion).unwrap_or(pieces);
        for (at, tokens) in answer.pieces.iter().zip(by_piece(output, pieces)) {
            recorder.tokens(*at, tokens);
        }
        for pair in answer.pieces.windows(2) {
            recorder.gap(pair[1].since(pair[0]), sample.belongs);
        }
        recorder.sample(Sample {
            first_token: answer.pieces.first().copied(),
            ended: answer.pieces.last().copied().unwrap_or(sample.ended),
            prompt: told(|usage| usage.prompt).map_or(sample.prompt, Tokens::new),
            cached: cached.map(Tokens::new),
            output: Tokens::new(output),
            ..sample
        });
        Some(answer.text)
    }
}

/// The tokens of each of so many pieces of an answer, as even as whole tokens can be: a piece may be several tokens,
/// and which ones it is nothing says.
fn by_piece(tokens: u32, pieces: u32) -> impl Iterator<Item = u64> {
    let (tokens, pieces) = (u64::from(tokens), u64::from(pieces.max(1)));
    let up_to = move |piece: u64| tokens * piece / pieces;
    (0..pieces).map(move |piece| up_to(piece + 1) - up_to(piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_all_tokens_of_their_answer() {
        let each = |tokens, pieces| by_piece(tokens, pieces).collect::<Vec<_>>();
        assert_eq!(each(4, 4), [1, 1, 1, 1]);
        assert_eq!(each(10, 4), [2, 3, 2, 3]);
        assert_eq!(each(1, 2), [0, 1]);
        assert_eq!(each(7, 1), [7]);
    }
}
