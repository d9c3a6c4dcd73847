//! How is a worker of the target asked what it makes of a draft, and what did it say?
//!
//! Each is asked the cheapest way that it has (`core::cascade::Abilities`): what it runs is known from its metrics, and of
//! vLLM from its `/version`, which is looked at while nobody waits. A way that is refused, or answered with something
//! else, is not tried again with that worker for a while, and this request is scored the portable way at once: the verdict is
//! the same, but for what a way cannot prove.

use std::time::Duration;

use bytes::Bytes;
use overdraft_core::cascade::{
    Finish, LogProb, Path, Rule, Server, TargetRow, Verified, verify, verify_told,
};
use overdraft_core::fleet::{Failure, WorkerId};
use overdraft_core::route::{Tried, Verdict};
use overdraft_telemetry::Delivery;
use overdraft_units::{Instant, Micros, TokenId, Tokens};
use overdraft_wire::Object;
use overdraft_wire::prometheus::engine::Dialect;
use overdraft_wire::scoring::{
    GenerateAsk, SglangAsk, SglangRow, read_generate, read_sglang, read_version,
};
use tokio::time::timeout;

use super::ask;
use super::call::{Matter, Unheard};
use super::driver::{Driver, Turned};
use crate::fetch::fetch;
use crate::forward::COMPLETIONS;
use crate::isolation::{SALT, SaltPolicy};
use crate::shared::{Shared, Strictness};

/// How often it is looked which version a worker runs.
const LOOK_EVERY: Micros = Micros::new(60_000_000);

/// How long it may take to tell.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes that are read of it.
const LOOK_BYTES: usize = 4 * 1024;

const VERSION: &str = "/version";
const GENERATE: &str = "/inference/v1/generate";
const SGLANG: &str = "/generate";

/// What else the draft thought of is asked about, so many at one place at most.
const RIVALS_MAX: usize = 8;

/// Takes note of what a worker runs, where drafts are verified; `asked` is when that was done last.
pub(crate) async fn identify(
    shared: &Shared,
    worker: WorkerId,
    dialect: Dialect,
    asked: &mut Option<Instant>,
) {
    let now = shared.clock.now();
    if !shared.cascades.verify() || asked.is_some_and(|then| now.since(then) < LOOK_EVERY) {
        return;
    }
    *asked = Some(now);
    let member = shared.roster.member(worker);
    let server = match dialect {
        Dialect::Sglang => Server::Sglang,
        Dialect::LlamaServer => Server::Unknown,
        Dialect::Vllm => {
            let looked = timeout(LOOK_PATIENCE, fetch(&member.upstream, VERSION, LOOK_BYTES)).await;
            // Who does not answer is what it was.
            let Ok(Ok((_, page))) = looked else { return };
            read_version(&page).map_or(Server::Unknown, |(major, minor)| Server::Vllm(major, minor))
        }
    };
    member.abilities().runs(server);
}

/// What the target makes of a draft.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scored {
    pub(super) verified: Verified,
    /// Whether it would end behind the last token.
    pub(super) ends: bool,
}

/// What is to be scored.
struct Drafted {
    /// Prompt and draft.
    tokens: Vec<u32>,
    /// So many of the last ones are to be scored.
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
    Scored(Scored, Option<[Tokens; 3]>),
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
    pub(super) async fn score(&mut self, drafted: usize, finish: Finish) -> Result<Scored, Turned> {
        let drafted = self.drafted(drafted, finish);
        let mut print = self.print.clone();
        (print.limit, print.delivery) = (Some(1), Delivery::Whole);
        let mut matter = Matter { print, path: COMPLETIONS, body: Bytes::new() };
        let mut tried = Tried::default();
        let mut strictness = Strictness::Judged;
        // Once another way was of no use.
        let mut portable = false;
        loop {
            let lease = self
                .outset
                .place(&matter, &tried, strictness)
                .map_err(|unheard| Turned::broken(unheard.name()))?;
            let worker = lease.worker();
            let path = if portable { Path::Completions } else { self.way(worker, &drafted) };
            (matter.path, matter.body) = self.question(path, worker, &drafted);
            self.ledger.scoring(drafted.tokens.len());
            let answer = self.outset.whole(lease, &matter).await;
            let was_read = answer.as_ref().map(|answer| read(path, answer, &drafted));
            self.book(worker, path, &was_read);
            match was_read {
                Ok(Read::Scored(scored, _)) => return Ok(scored),
                Ok(Read::Blank | Read::Strange) if path != Path::Completions => portable = true,
                Ok(_) => return Err(Turned::broken("strange")),
                Err(Unheard::Refused) if path != Path::Completions => portable = true,
                Err(Unheard::Failed(failed))
                    if path != Path::Completions && failed.failure == Failure::Faulty =>
                {
                    portable = true;
                }
                Err(Unheard::Failed(failed)) => {
                    tried.add(worker);
                    if failed.failure != Failure::Saturated {
                        strictness = Strictness::Waived;
                    }
                    if let Verdict::GiveUp(_) =
                        self.outset.shared.retry(&matter.print.model, &tried)
                    {
                        return Err(Turned::broken("unscored"));
                    }
                }
                Err(unheard) => return Err(Turned::broken(unheard.name())),
            }
        }
    }

    fn drafted(&self, last: usize, finish: Finish) -> Drafted {
        let prompt = self.prompt.as_deref().unwrap_or_default();
        let ids = self.speech.ids().unwrap_or_default();
        let first = ids.len().saturating_sub(last);
        let rivals = self.speech.rivals().get(first..).unwrap_or_default();
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
        let shared = &self.outset.shared;
        let wanted = self.course().settings.scoring;
        let path = shared.roster.member(worker).abilities().path(wanted, shared.clock.now());
        // What stands first of all is predicted by nothing.
        if drafted.last < drafted.tokens.len() { path } else { Path::Completions }
    }

    fn question(&self, path: Path, worker: WorkerId, drafted: &Drafted) -> (&'static str, Bytes) {
        let object = Object::parse(&self.body).expect("it was parsed when it was looked into");
        let model = &self.course().settings.target;
        let tokens = &drafted.tokens;
        let salt = self.salt(&object, worker);
        let salt = salt.as_deref();
        match path {
            Path::Completions => (COMPLETIONS, ask::score(&object, model, tokens)),
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
        if self.outset.shared.roster.member(worker).settings.cache_salt == SaltPolicy::Untold {
            return None;
        }
        let sent = || serde_json::from_str(object.raw(SALT)?).ok();
        self.print.salt.clone().or_else(sent)
    }

    /// Takes note of what came of asking `worker` that way.
    fn book(&mut self, worker: WorkerId, path: Path, was_read: &Result<Read, &Unheard>) {
        let shared = &self.outset.shared;
        let now = shared.clock.now();
        let member = shared.roster.member(worker);
        let outcome = match was_read {
            Ok(read) => read.name(),
            Err(Unheard::Refused) => "refused",
            Err(_) => "failed",
        };
        shared.cascade.scored(&self.plan.course.name, path.name(), outcome);
        match was_read {
            Ok(Read::Scored(_, told)) => {
                member.abilities().answers(path, true, now);
                self.ledger.scored(path, *told);
            }
            Ok(Read::Blank) => member.abilities().answers(path, false, now),
            Ok(Read::Strange) => member.abilities().refuses(path, now),
            Err(Unheard::Refused) => {
                member.abilities().refuses(path, now);
                self.ledger.unscored();
            }
            // One that breaks over it may break over it again.
            Err(Unheard::Failed(failed)) if breaks(failed.failure) => {
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
    let scored = |verified, ends, told| Read::Scored(Scored { verified, ends }, told);
    let by_rows = |rows: &[TargetRow], ends, told| {
        verify(&ids, rows, Rule::Greedy, drafted.finish)
            .map_or(Read::Strange, |verified| scored(verified, ends, told))
    };
    match path {
        Path::Completions => match ask::read_score(answer, drafted.own()) {
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
            let found = match read_generate(answer, (drafted.last, columns)) {
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
