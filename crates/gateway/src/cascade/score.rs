//! Draft scoring: asks a target worker for the log probabilities of a draft's tokens.
//!
//! Each worker is asked over the cheapest API that it has (`core::cascade::Abilities`): its metrics
//! say which engine it runs, and vLLM's `/version`, read in the background, says which release. If
//! a worker refuses an API or answers it with something else, that API is not tried again with the
//! worker for a while, and the request is scored over the portable API at once: the verdict is the
//! same, except for what an API cannot prove.

use bytes::Bytes;
use overdraft_core::cascade::{
    Finish, LogProb, Path, Rejected, TargetRow, Verified, verify, verify_told,
};
use overdraft_core::fleet::{Failure, WorkerId};
use overdraft_core::route::Strictness;
use overdraft_core::route::{Tried, Verdict};
use overdraft_telemetry::Delivery;
use overdraft_units::{TokenId, Tokens};
use overdraft_wire::scoring::{GenerateAsk, SglangAsk, SglangRow, read_generate, read_sglang};
use overdraft_wire::{Endpoint, Object};

use super::call::{Call, CallError};
use super::driver::Driver;
use super::rewrite;
use crate::pipeline::tenant_salt::SALT;
use crate::settings::SaltPolicy;

const GENERATE: &str = "/inference/v1/generate";
const SGLANG: &str = "/generate";

/// Maximum alternative tokens of the draft that are scored at one position.
const RIVALS_MAX: usize = 8;

/// What the target makes of a draft.
#[derive(Clone, Copy, Debug)]
pub(super) struct Score {
    pub(super) verified: Verified,
    /// Whether it would end behind the last token.
    pub(super) ends: bool,
}

/// What is to be scored.
struct Drafted {
    /// Prompt and draft.
    tokens: Vec<u32>,
    /// How many of the last tokens are to be scored.
    last: usize,
    /// For each of those its own id and those of its rivals.
    rows: Vec<Vec<u32>>,
    finish: Finish,
}

impl Drafted {
    fn own(&self) -> &[u32] {
        &self.tokens[self.tokens.len() - self.last..]
    }

    fn ids(&self) -> Vec<TokenId> {
        self.own().iter().copied().map(TokenId).collect()
    }
}

/// What an answer to a question for a score is worth.
enum Read {
    Scored(Score, Option<[Tokens; 3]>),
    /// It tells nothing of this draft, as may happen.
    Blank,
    /// It is none.
    Strange,
}

impl Read {
    const fn name(&self) -> &'static str {
        match self {
            Self::Scored(..) => "scored",
            Self::Blank => "blank",
            Self::Strange => "strange",
        }
    }
}

impl Driver {
    /// Has the target score the last `drafted` tokens of those that the draft said.
    pub(super) async fn score(
        &mut self,
        drafted: usize,
        finish: Finish,
    ) -> Result<Score, Rejected> {
        let drafted = self.drafted(drafted, finish);
        let mut info = self.info.clone();
        (info.limit, info.delivery) = (Some(1), Delivery::Whole);
        let mut call = Call { info, path: Endpoint::Completions.path(), body: Bytes::new() };
        let mut tried = Tried::default();
        let mut strictness = Strictness::Judged;
        // Once another way was of no use.
        let mut portable = false;
        loop {
            let lease = self
                .calls
                .place(&call, &tried, strictness)
                .map_err(|error| Rejected::Failed(error.name()))?;
            let worker = lease.worker();
            let path = if portable { Path::Completions } else { self.way(worker, &drafted) };
            (call.path, call.body) = self.question(path, worker, &drafted);
            self.account.scoring(drafted.tokens.len());
            let answer = self.calls.whole(lease, &call).await;
            let was_read = answer.as_ref().map(|answer| read(path, answer, &drafted));
            self.book(worker, path, &was_read);
            match was_read {
                Ok(Read::Scored(scored, _)) => return Ok(scored),
                Ok(Read::Blank | Read::Strange) if path != Path::Completions => portable = true,
                Ok(_) => return Err(Rejected::Failed("strange")),
                Err(CallError::Refused) if path != Path::Completions => portable = true,
                Err(CallError::Failed(failed))
                    if path != Path::Completions && failed.failure == Failure::Faulty =>
                {
                    portable = true;
                }
                Err(CallError::Failed(failed)) => {
                    tried.add(worker);
                    strictness = Strictness::after(failed.failure);
                    if let Verdict::GiveUp(_) =
                        self.calls.layer.pipeline.dispatcher.retry(&call.info.model, &tried)
                    {
                        return Err(Rejected::Failed("unscored"));
                    }
                }
                Err(error) => return Err(Rejected::Failed(error.name())),
            }
        }
    }

    fn drafted(&self, last: usize, finish: Finish) -> Drafted {
        let prompt = self.prompt.as_deref().unwrap_or_default();
        let ids = self.transcript.ids().unwrap_or_default();
        let first = ids.len().saturating_sub(last);
        let rivals = self.transcript.rivals().get(first..).unwrap_or_default();
        let row = |(place, &own): (usize, &u32)| {
            let mut row = vec![own];
            for &rival in rivals.get(place).into_iter().flatten().take(RIVALS_MAX) {
                if !row.contains(&rival) {
                    row.push(rival);
                }
            }
            row
        };
        Drafted {
            tokens: prompt.iter().chain(ids).copied().collect(),
            last: ids.len() - first,
            rows: ids[first..].iter().enumerate().map(row).collect(),
            finish,
        }
    }

    /// How this worker is asked.
    fn way(&self, worker: WorkerId, drafted: &Drafted) -> Path {
        let layer = &self.calls.layer;
        let wanted = self.state().settings.scoring;
        let path = layer
            .pipeline
            .dispatcher
            .member(worker)
            .abilities()
            .path(wanted, layer.pipeline.dispatcher.clock.now());
        // What stands first of all is predicted by nothing.
        if drafted.last < drafted.tokens.len() { path } else { Path::Completions }
    }

    fn question(&self, path: Path, worker: WorkerId, drafted: &Drafted) -> (&'static str, Bytes) {
        let object = Object::parse(&self.body).expect("it was parsed when it was looked into");
        let model = &self.state().settings.target;
        let tokens = &drafted.tokens;
        let salt = self.salt(&object, worker);
        let salt = salt.as_deref();
        match path {
            Path::Completions => {
                (Endpoint::Completions.path(), rewrite::score(&object, model, tokens))
            }
            Path::Generate => {
                let ask = GenerateAsk { model, tokens, rows: &drafted.rows, salt };
                (GENERATE, ask.to_json().into())
            }
            Path::Sglang => {
                let ask = SglangAsk { tokens, last: drafted.last, salt };
                (SGLANG, ask.to_json().into())
            }
        }
    }

    /// The salt of the request's part of the worker's cache.
    fn salt(&self, object: &Object<'_>, worker: WorkerId) -> Option<String> {
        if self.calls.layer.pipeline.dispatcher.member(worker).settings.traits.cache_salt
            == SaltPolicy::Untold
        {
            return None;
        }
        let sent = || serde_json::from_str(object.raw(SALT)?).ok();
        self.info.salt.clone().or_else(sent)
    }

    /// Takes note of what came of asking `worker` that way.
    fn book(&mut self, worker: WorkerId, path: Path, was_read: &Result<Read, &CallError>) {
        let layer = &self.calls.layer;
        let now = layer.pipeline.dispatcher.clock.now();
        let member = layer.pipeline.dispatcher.member(worker);
        let outcome = match was_read {
            Ok(read) => read.name(),
            Err(CallError::Refused) => "refused",
            Err(_) => "failed",
        };
        layer.metrics.scored(&self.plan.state.name, path.name(), outcome);
        match was_read {
            Ok(Read::Scored(_, told)) => {
                member.abilities().answers(path, true, now);
                self.account.scored(path, *told);
            }
            Ok(Read::Blank) => member.abilities().answers(path, false, now),
            Ok(Read::Strange) => member.abilities().refuses(path, now),
            Err(CallError::Refused) => {
                member.abilities().refuses(path, now);
                self.account.unscored();
            }
            // One that breaks over it may break over it again.
            Err(CallError::Failed(failed)) if breaks(failed.failure) => {
                member.abilities().refuses(path, now);
            }
            Err(_) => {}
        }
    }
}

const fn breaks(failure: Failure) -> bool {
    matches!(failure, Failure::Broken | Failure::Faulty | Failure::Silent)
}

fn read(path: Path, answer: &[u8], drafted: &Drafted) -> Read {
    let ids = drafted.ids();
    let scored = |verified, ends, told| Read::Scored(Score { verified, ends }, told);
    let by_rows = |rows: &[TargetRow], ends, told| {
        verify(&ids, rows, drafted.finish)
            .map_or(Read::Strange, |verified| scored(verified, ends, told))
    };
    match path {
        Path::Completions => match rewrite::read_score(answer, drafted.own()) {
            Some(score) => by_rows(&score.rows, score.ends, None),
            None => Read::Strange,
        },
        Path::Sglang => match read_sglang(answer, drafted.own()) {
            Ok(score) => {
                let rows: Vec<TargetRow> = score.rows.iter().map(target_row).collect();
                by_rows(&rows, score.ends, score.used)
            }
            Err(error) => strange(path, &error),
        },
        Path::Generate => {
            let columns = drafted.rows.iter().map(Vec::len).max().unwrap_or_default();
            let found = match read_generate(answer, drafted.last, columns) {
                Ok(found) => found,
                Err(error) => return strange(path, &error),
            };
            let Some(matrix) = found.matrix else { return Read::Blank };
            let told: Vec<Vec<(TokenId, LogProb)>> =
                drafted.rows.iter().zip(matrix.rows()).map(|(ids, row)| told(ids, row)).collect();
            match verify_told(&ids, &told, drafted.finish) {
                Ok(verified) => scored(verified, found.ends, None),
                Err(error) => strange(path, &error),
            }
        }
    }
}

fn strange(path: Path, error: &dyn std::fmt::Display) -> Read {
    tracing::warn!(path = path.name(), %error, "a worker scores in another way than it should; it is asked the portable way");
    Read::Strange
}

fn target_row(row: &SglangRow) -> TargetRow {
    TargetRow {
        best: TokenId(row.best),
        best_logprob: LogProb::from_nats(row.best_logprob.into()),
        logprob: LogProb::from_nats(row.logprob.into()),
    }
}

fn told(ids: &[u32], row: &[f32]) -> Vec<(TokenId, LogProb)> {
    let one = |(&id, &number): (&u32, &f32)| (TokenId(id), LogProb::from_nats(number.into()));
    ids.iter().zip(row).map(one).collect()
}
