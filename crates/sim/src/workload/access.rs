//! Access log reader: the workload that a gateway served.
//!
//! `overdraft serve --log-format json` writes a line for each request when it has ended: when, for how long, how many
//! tokens, and with `--log-prefixes` names of the prompt's beginnings. Lines are put in the order in which requests came.
//! Equal names become equal pieces. Their ends are told in bytes, so one ratio of tokens to bytes is taken for the
//! whole log: pieces of a name have one length, whatever prompt they stand in.
//!
//! **Invariant:** a request's prompt and answer have the lengths that the log says, whatever its names say.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use overdraft_core::admit::Priority;
use overdraft_units::{Instant, Micros, Tokens};
use serde::Deserialize;

use super::error::{Fault, WorkloadError};
use super::lines::Lines;
use super::table::calendar_seconds;
use super::{
    PROMPT_TOKENS_MAX, Piece, Sender, Session, Sessions, Stage, TENANTS_MAX, Turn, Voice, named,
};
use crate::float_conversion::{float, length, whole};

/// Requests of a log at most: they are put in order in memory.
pub const REQUESTS_MAX: usize = 1_000_000;

const EXPECTED: &str = "an access log of `overdraft serve --log-format json`, JSON lines with \
                        `\"target\":\"access\"`, `timestamp`, `total_us`, `tokens_prompt` and `tokens_out`";

/// Ends of paths whose requests are answered with tokens, in every dialect. Counts of tokens and kept answers have others.
const GENERATING: [&str; 4] = ["/completions", "/messages", "/responses", "/responses/compact"];

/// The requests of a log that were answered, in the order in which they came.
#[derive(Clone, Debug)]
pub struct AccessLog {
    entries: Vec<Entry>,
    /// Generating requests of the log that got no answer, by model; nobody knows how long it would have been.
    unanswered: BTreeMap<Asked, u64>,
    /// Tokens to a byte of prompts whose beginnings are named.
    tokens_per_byte: f64,
    /// Names of tenants, in the order in which they came.
    tenants: Arc<[Arc<str>]>,
}

/// What a request asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    model: Arc<str>,
    /// The name that its client gave it, where that is another.
    named: Option<Arc<str>>,
}

/// A request that was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When it came, from the first on.
    pub at: Instant,
    /// How long until the first token, where it was streamed.
    pub first_token: Option<Micros>,
    /// How long it waited for a worker.
    pub queued: Micros,
    /// How long until the end.
    pub total: Micros,
    /// The model asked for.
    pub model: Arc<str>,
    /// The name that its client gave it, where that is another: of an alias, a cascade or a canary.
    pub named: Option<Arc<str>>,
    /// The model whose prices its tokens have: the one asked for, or the one that stood in.
    pub priced_as: Arc<str>,
    /// Who answered last, where the log says.
    pub worker: Option<Arc<str>>,
    /// Tokens of the prompt.
    pub prompt: Tokens,
    /// Those of them that a worker found in its cache.
    pub cached: Option<Tokens>,
    /// Tokens of the answer.
    pub output: Tokens,
    /// Whose answer it got.
    pub source: AnswerSource,
    /// Who asked, and how much it mattered, where the log says.
    pub sender: Sender,
    /// Bytes of the prompt, where its beginnings are named.
    bytes: u64,
    /// Ends in bytes and names of beginnings, shortest first.
    beginnings: Vec<(u64, u32)>,
}

/// Whose answer a request got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnswerSource {
    /// A worker's.
    Worker,
    /// One that was given again, or made for another at the same time.
    Reused,
    /// That of a cascade in which a small model was asked first and had a part.
    Cascade {
        /// What it cost over what the target alone would have cost, where prices were known.
        cost_share: Option<f64>,
    },
}

/// Who wrote a line.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(default, borrow)]
    target: Cow<'a, str>,
}

/// An access line, as far as it is of interest.
#[derive(Deserialize)]
struct Line {
    timestamp: Option<String>,
    status: Option<u16>,
    model: Option<String>,
    model_named: Option<String>,
    worker: Option<String>,
    tokens_prompt: Option<u32>,
    tokens_out: Option<u32>,
    tokens_cached: Option<u32>,
    tokens_prompt_reused: Option<u32>,
    tokens_out_reused: Option<u32>,
    ttft_us: Option<u64>,
    queued_us: Option<u64>,
    total_us: Option<u64>,
    served_by: Option<String>,
    stand_in: Option<String>,
    cost_microusd: Option<u64>,
    cost_target_only_microusd: Option<u64>,
    cache: Option<String>,
    prompt_bytes: Option<u64>,
    prefix: Option<String>,
    method: Option<String>,
    path: Option<String>,
    tenant: Option<String>,
    priority: Option<String>,
}

impl Line {
    /// Whether it is of a request for an answer.
    fn generates(&self) -> bool {
        let is_post = self.method.as_deref().is_none_or(|method| method == "POST");
        let path = self.path.as_deref().unwrap_or_default();
        is_post && GENERATING.iter().any(|end| path.ends_with(*end))
    }
}

/// What a line turned out to be.
enum Read {
    /// When the request began, in microseconds since 1970, and the request.
    Answered(u64, Box<Entry>),
    /// A request for that model.
    Unanswered(Asked),
    /// Nobody's request for an answer.
    Other,
}

impl AccessLog {
    /// Reads a log. Lines that are no JSON objects, as other programs write them into the same file, are left out.
    ///
    /// # Errors
    /// A file that cannot be read, an access line that lacks something, or no request at all.
    pub fn read(file: &Path) -> Result<Self, WorkloadError> {
        let mut lines = Lines::open(file, EXPECTED)?;
        let (mut entries, mut unanswered) = (Vec::new(), BTreeMap::new());
        let mut names = Names::default();
        while let Some(line) = lines.next_line() {
            let line = line?;
            if !line.starts_with('{') {
                continue;
            }
            match read(&line, &mut names).map_err(|fault| lines.fault(fault))? {
                Read::Answered(began, entry) => entries.push((began, *entry)),
                Read::Unanswered(asked) => *unanswered.entry(asked).or_default() += 1,
                Read::Other => {}
            }
            if REQUESTS_MAX < entries.len() {
                let wrong = format!("is request {} of the log", entries.len());
                let expected = format!("{REQUESTS_MAX} or fewer; take a part of the log");
                return Err(lines.fault(Fault::new(&line, wrong, expected)));
            }
        }
        if entries.is_empty() {
            return Err(WorkloadError::Empty { file: file.to_owned(), expected: EXPECTED });
        }
        Ok(Self::of(entries, unanswered, names.tenants.into()))
    }

    fn of(
        mut entries: Vec<(u64, Entry)>,
        unanswered: BTreeMap<Asked, u64>,
        tenants: Arc<[Arc<str>]>,
    ) -> Self {
        entries.sort_by_key(|(began, _)| *began);
        let first = entries.first().map_or(0, |(began, _)| *began);
        let at = |(began, entry): (u64, Entry)| Entry {
            at: Instant::ORIGIN + Micros::new(began - first),
            ..entry
        };
        let entries: Vec<Entry> = entries.into_iter().map(at).collect();
        let (mut tokens, mut bytes) = (0, 0);
        for entry in entries.iter().filter(|entry| 0 < entry.bytes) {
            tokens += u64::from(entry.prompt.get());
            bytes += entry.bytes;
        }
        let tokens_per_byte = float(tokens) / float(bytes.max(1));
        Self { entries, unanswered, tokens_per_byte, tenants }
    }

    /// All that were answered.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Generating requests that got no answer.
    pub fn unanswered(&self) -> u64 {
        self.unanswered.values().sum()
    }

    /// Whether it says what prompts share.
    pub fn names_prefixes(&self) -> bool {
        self.entries.iter().any(|entry| 0 < entry.bytes)
    }

    /// The models asked for, each once.
    pub fn models(&self) -> Vec<&str> {
        self.each_once(|entry| &entry.model)
    }

    /// The models whose prices its tokens have, each once.
    pub fn priced_as(&self) -> Vec<&str> {
        self.each_once(|entry| &entry.priced_as)
    }

    fn each_once(&self, of: impl Fn(&Entry) -> &Arc<str>) -> Vec<&str> {
        let mut models: Vec<&str> = self.entries.iter().map(|entry| &**of(entry)).collect();
        models.sort_unstable();
        models.dedup();
        models
    }

    /// Names of tenants, by their places.
    pub fn tenants(&self) -> Vec<String> {
        self.tenants.iter().map(ToString::to_string).collect()
    }

    /// Whether it has an answer to a request for a model, by any name.
    pub fn asks_for(&self, model: &str) -> bool {
        self.entries.iter().any(|entry| entry.is_for(model))
    }

    /// Only the requests for a model, by its own name or by the one that clients gave it.
    #[must_use]
    pub fn of_model(&self, model: &str) -> Self {
        let unanswered = self.unanswered.iter();
        let unanswered = unanswered
            .filter(|(asked, _)| is_for(&asked.model, asked.named.as_deref(), model))
            .map(|(asked, count)| (asked.clone(), *count))
            .collect();
        Self { unanswered, ..self.only(self.entries.iter().filter(|entry| entry.is_for(model))) }
    }

    /// Only the requests of these places, at the times that they have in the whole log.
    #[must_use]
    pub fn part(&self, places: Range<usize>) -> Self {
        self.only(self.entries.get(places).unwrap_or_default().iter())
    }

    fn only<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Self {
        Self {
            entries: entries.cloned().collect(),
            unanswered: self.unanswered.clone(),
            tokens_per_byte: self.tokens_per_byte,
            tenants: Arc::clone(&self.tenants),
        }
    }

    /// The same load again: sessions are named by the places of their entries.
    pub fn sessions(self: Arc<Self>) -> Sessions {
        Box::new((0..self.entries.len()).map(move |place| Ok(self.session(place))))
    }

    fn session(&self, place: usize) -> Session {
        let entry = &self.entries[place];
        let name = length(place);
        let mut prompt = Vec::new();
        let mut told = 0;
        for (end, beginning) in &entry.beginnings {
            let end = u32::try_from(whole(float(*end) * self.tokens_per_byte)).unwrap_or(u32::MAX);
            // The last token is the prompt's own: an answer needs one that is computed.
            if entry.prompt.get() <= end {
                break;
            }
            if told < end {
                let content = named(&[0x6163_6365, u64::from(*beginning), u64::from(end)]);
                let tokens = Tokens::new(end - told);
                prompt.push(Piece { content, tokens, voice: Voice::User });
                told = end;
            }
        }
        let own = Tokens::new(entry.prompt.get() - told);
        prompt.push(Piece::said(named(&[0x6f77_6e65, name]), own));
        let answer = Piece::said(named(&[0x616e_7377, name]), entry.output);
        let turn = Turn { think: Micros::ZERO, prompt, answer };
        let (sender, stage) = (entry.sender, Stage::default());
        Session { at: entry.at, name, sender, stage, turns: vec![turn] }
    }
}

impl Entry {
    /// Whether it was for a model, by its own name or by the one that its client gave it.
    pub fn is_for(&self, model: &str) -> bool {
        is_for(&self.model, self.named.as_deref(), model)
    }
}

fn is_for(own: &str, named: Option<&str>, model: &str) -> bool {
    own == model || named == Some(model)
}

/// Names that come again and again, each kept once.
#[derive(Default)]
struct Names {
    all: BTreeSet<Arc<str>>,
    tenants: Vec<Arc<str>>,
    places: BTreeMap<Arc<str>, u16>,
}

impl Names {
    fn of(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.all.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.all.insert(Arc::clone(&name));
        name
    }

    /// A tenant's place; nothing for those beyond [`TENANTS_MAX`].
    fn tenant(&mut self, name: &str) -> Option<u16> {
        if let Some(place) = self.places.get(name) {
            return Some(*place);
        }
        let place = u16::try_from(self.tenants.len()).ok()?;
        if self.tenants.len() == TENANTS_MAX {
            return None;
        }
        let name = self.of(name);
        self.tenants.push(Arc::clone(&name));
        self.places.insert(name, place);
        Some(place)
    }

    /// Who asked, and how much it mattered.
    fn sender(&mut self, line: &Line, text: &str) -> Result<Sender, Fault> {
        let priority = line.priority.as_deref().map(|name| {
            name.parse::<Priority>().map_err(|_| {
                let known = Priority::ALL.map(Priority::name).join("`, `");
                Fault::new(text, format!("has `priority` `{name}`"), format!("`{known}`"))
            })
        });
        let tenant = line.tenant.as_deref().and_then(|name| self.tenant(name));
        Ok(Sender { priority: priority.transpose()?, tenant })
    }
}

fn read(text: &str, names: &mut Names) -> Result<Read, Fault> {
    let broken = |error| Fault::new(text, format!("is no line of the log ({error})"), EXPECTED);
    let written: Written<'_> = serde_json::from_str(text).map_err(broken)?;
    if written.target != "access" {
        return Ok(Read::Other);
    }
    let line: Line = serde_json::from_str(text).map_err(broken)?;
    if !line.generates() {
        return Ok(Read::Other);
    }
    let model = names.of(line.model.as_deref().unwrap_or_default());
    let named = line.model_named.as_deref().map(|name| names.of(name));
    let lacks = |what: &str| Fault::new(text, format!("has no `{what}`"), EXPECTED);
    let prompt = line.tokens_prompt_reused.or(line.tokens_prompt).filter(|&tokens| 0 < tokens);
    let output = line.tokens_out_reused.or(line.tokens_out).filter(|&tokens| 0 < tokens);
    let (Some(prompt), Some(output), Some(200)) = (prompt, output, line.status) else {
        return Ok(Read::Unanswered(Asked { model, named }));
    };
    if PROMPT_TOKENS_MAX < u64::from(prompt) {
        let expected = format!("up to {PROMPT_TOKENS_MAX}");
        return Err(Fault::new(text, format!("has {prompt} `tokens_prompt`"), expected));
    }
    let total = line.total_us.ok_or_else(|| lacks("total_us"))?;
    let ended = line.timestamp.as_deref().ok_or_else(|| lacks("timestamp"))?;
    let ended = calendar_seconds(ended).ok_or_else(|| {
        Fault::new(ended, "is no time", "a date and time as `2025-11-22T18:15:46.680590Z`")
    })?;
    let reused = matches!(line.cache.as_deref(), Some("hit" | "coalesced"));
    let source = match line.served_by.as_deref() {
        _ if reused => AnswerSource::Reused,
        // A model that stood in had no small one before it.
        None | Some("target" | "fallback") => AnswerSource::Worker,
        Some(_) => AnswerSource::Cascade {
            cost_share: line
                .cost_microusd
                .zip(line.cost_target_only_microusd.filter(|&alone| 0 < alone))
                .map(|(cost, alone)| float(cost) / float(alone)),
        },
    };
    let entry = Entry {
        at: Instant::ORIGIN,
        first_token: line.ttft_us.map(Micros::new),
        queued: Micros::new(line.queued_us.unwrap_or_default()),
        total: Micros::new(total),
        priced_as: line.stand_in.as_deref().map_or_else(|| Arc::clone(&model), |own| names.of(own)),
        model,
        named,
        worker: line.worker.as_deref().map(|worker| names.of(worker)),
        prompt: Tokens::new(prompt),
        cached: line.tokens_cached.map(|cached| Tokens::new(cached.min(prompt))),
        output: Tokens::new(output),
        source,
        sender: names.sender(&line, text)?,
        bytes: line.prompt_bytes.unwrap_or(0),
        beginnings: beginnings(line.prefix.as_deref().unwrap_or_default())?,
    };
    Ok(Read::Answered(whole(ended * 1e6).saturating_sub(total), Box::new(entry)))
}

/// Reads `512:9f3c21aa 1024:00c0ffee`.
fn beginnings(text: &str) -> Result<Vec<(u64, u32)>, Fault> {
    let mut before = 0;
    let mut one = |word: &str| {
        let (end, name) = word.split_once(':')?;
        let end = end.parse().ok().filter(|&end| before < end)?;
        before = end;
        let digits = Some(name).filter(|name| !name.starts_with('+'))?;
        Some((end, u32::from_str_radix(digits, 16).ok()?))
    };
    let read = |word: &str| {
        one(word).ok_or_else(|| {
            let expected = "ends in bytes that grow, and names of eight digits, as `512:9f3c21aa`";
            Fault::new(word, "is no beginning of a prompt", expected)
        })
    };
    text.split_whitespace().map(read).collect()
}
