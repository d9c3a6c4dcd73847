//! Engine metrics: normalises the metrics of vLLM, `SGLang` and llama-server into one report.
//!
//! One table, `field_of`, maps the names of vLLM 0.6 to 0.33, `SGLang` and llama-server to the fields
//! of a [`WorkerReport`]. Names have changed over time and some releases print old and new ones, so
//! each name has a rank, and of one field the best ranked name counts. Engine processes with several
//! data-parallel ranks print a sample per rank: counts are added up, use is averaged.
//!
//! **Invariant:** a report always says how many requests run and how many wait; a page that does not
//! say so is refused, with the name that is missing, so that a renamed metric never reads as idle.

use std::collections::BTreeMap;

use overdraft_units::{BlockSize, Tokens};

use super::{Labels, PageError, Sample, lines};

/// Most data-parallel ranks that one page may report.
pub const RANKS_MAX: usize = 256;

/// Most draft positions whose acceptance is kept.
pub const POSITIONS_MAX: usize = 16;

/// Our own worker's metric of its KV fetch rate.
const KV_FETCH_RATE: &str = "overdraft_kv_fetch_tokens_per_second";

/// Our own worker's metrics of the depth of its drafts.
const DRAFT_DEPTH: &str = "overdraft_speculation_depth";
const DRAFT_POLICY: &str = "overdraft_speculation_policy";
const DRAFT_REASON: &str = "overdraft_speculation_last_change";

/// Why a page of metrics gives no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// It cannot be read.
    #[error(transparent)]
    Page(#[from] PageError),
    /// Readable, and none of the names is an engine's.
    #[error(
        "the metrics name no known engine; expected names that begin with `vllm:`, `sglang:` or \
         `llamacpp:`"
    )]
    NoEngine,
    /// A gauge that every release has is not there, or not a count.
    #[error("the metrics lack a usable `{name}`; is this release newer than ours?")]
    Missing {
        /// Its name.
        name: &'static str,
    },
    /// More ranks than an engine can have.
    #[error("the metrics report more than {RANKS_MAX} engine ranks")]
    RanksTooMany,
}

/// Whose names a page uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// vLLM, and whoever speaks like it, as our own worker does.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// llama.cpp's server.
    LlamaServer,
}

/// An engine's state, in our words. Counters count since the engine started.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerReport {
    /// Whose names were read.
    pub dialect: Dialect,
    /// The model's name, as the engine labels its samples.
    pub model: Option<String>,
    /// Requests being computed.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Share of the cache that requests hold, in thousandths; what is merely cached counts as free.
    pub kv_use_permille: Option<u16>,
    /// Tokens that fit into the cache.
    pub kv_capacity: Option<Tokens>,
    /// Tokens to a page of the cache.
    pub block_size: Option<BlockSize>,
    /// Prompt tokens that were looked up in the prefix cache.
    pub prefix_queries: Option<u64>,
    /// Those that were found.
    pub prefix_hits: Option<u64>,
    /// Requests that lost their pages and had to be computed again.
    pub preemptions: Option<u64>,
    /// Prompt tokens taken in.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub generation_tokens: Option<u64>,
    /// Steps computed, of prompts and of answers.
    pub steps: Option<u64>,
    /// Tokens of prefixes that it fetched from other workers in a second, when it last did.
    pub kv_fetch_rate: Option<u64>,
    /// Drafts made by speculative decoding.
    pub drafts: Option<u64>,
    /// Tokens drafted.
    pub draft_tokens: Option<u64>,
    /// Drafted tokens accepted.
    pub accepted_tokens: Option<u64>,
    /// Accepted tokens by their position in the draft; empty if not told.
    pub accepted_by_position: Vec<u64>,
    /// The depth of drafts in force, the rule that set it, and why it last changed.
    pub draft_depth: Option<u64>,
    /// See [`draft_depth`](Self::draft_depth).
    pub draft_policy: Option<String>,
    /// See [`draft_depth`](Self::draft_depth).
    pub draft_reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Running,
    Waiting,
    KvUse,
    KvCapacity,
    CacheConfig,
    PrefixQueries,
    PrefixHits,
    Preemptions,
    PromptTokens,
    GenerationTokens,
    Steps,
    Drafts,
    DraftTokens,
    AcceptedTokens,
    AcceptedAt,
    KvFetchRate,
    DraftDepth,
    DraftPolicy,
    DraftReason,
}

/// How good a name is among those of one field: lower is better.
type Rank = u8;

/// The field behind a name, without the engine's prefix.
fn field_of(dialect: Dialect, name: &str) -> Option<(Field, Rank)> {
    match dialect {
        Dialect::Vllm => vllm(name),
        Dialect::Sglang => sglang(name).map(|field| (field, 0)),
        Dialect::LlamaServer => llama_server(name).map(|field| (field, 0)),
    }
}

fn vllm(name: &str) -> Option<(Field, Rank)> {
    let (field, rank) = match name {
        KV_FETCH_RATE => (Field::KvFetchRate, 0),
        DRAFT_DEPTH => (Field::DraftDepth, 0),
        DRAFT_POLICY => (Field::DraftPolicy, 0),
        DRAFT_REASON => (Field::DraftReason, 0),
        "num_requests_running" => (Field::Running, 0),
        "num_requests_waiting" => (Field::Waiting, 0),
        "kv_cache_usage_perc" => (Field::KvUse, 0),
        "gpu_cache_usage_perc" => (Field::KvUse, 1), // to 0.11
        "gpu_kv_cache_usage_perc" => (Field::KvUse, 2), // as the write-ups spell it
        "cache_config_info" => (Field::CacheConfig, 0),
        "prefix_cache_queries_total" => (Field::PrefixQueries, 0),
        "gpu_prefix_cache_queries_total" => (Field::PrefixQueries, 1), // 0.8 to 0.11
        "prefix_cache_hits_total" => (Field::PrefixHits, 0),
        "gpu_prefix_cache_hits_total" => (Field::PrefixHits, 1),
        "num_preemptions_total" => (Field::Preemptions, 0),
        "prompt_tokens_total" => (Field::PromptTokens, 0),
        "generation_tokens_total" => (Field::GenerationTokens, 0),
        "iteration_tokens_total_count" => (Field::Steps, 0),
        "spec_decode_num_drafts_total" => (Field::Drafts, 0),
        "spec_decode_num_draft_tokens_total" => (Field::DraftTokens, 0),
        "spec_decode_num_accepted_tokens_total" => (Field::AcceptedTokens, 0),
        "spec_decode_num_accepted_tokens_per_pos_total" => (Field::AcceptedAt, 0),
        _ => return vllm_without_total(name),
    };
    Some((field, rank))
}

/// Counters as `OpenMetrics` pages and 0.8 print them.
fn vllm_without_total(name: &str) -> Option<(Field, Rank)> {
    let field = match name {
        "prefix_cache_queries" | "gpu_prefix_cache_queries" => Field::PrefixQueries,
        "prefix_cache_hits" | "gpu_prefix_cache_hits" => Field::PrefixHits,
        "spec_decode_num_drafts" => Field::Drafts,
        "spec_decode_num_draft_tokens" => Field::DraftTokens,
        "spec_decode_num_accepted_tokens" => Field::AcceptedTokens,
        "spec_decode_num_accepted_tokens_per_pos" => Field::AcceptedAt,
        _ => return None,
    };
    Some((field, 2))
}

fn sglang(name: &str) -> Option<Field> {
    Some(match name {
        "num_running_reqs" => Field::Running,
        "num_queue_reqs" => Field::Waiting,
        "token_usage" => Field::KvUse,
        "max_total_num_tokens" => Field::KvCapacity,
        "prompt_tokens_total" => Field::PromptTokens,
        "cached_tokens_total" => Field::PrefixHits,
        "generation_tokens_total" => Field::GenerationTokens,
        "num_retracted_requests_total" => Field::Preemptions,
        _ => return None,
    })
}

fn llama_server(name: &str) -> Option<Field> {
    Some(match name {
        "n_decode_total" => Field::Steps,
        "requests_processing" => Field::Running,
        "requests_deferred" => Field::Waiting,
        "kv_cache_usage_ratio" => Field::KvUse,
        "prompt_tokens_total" => Field::PromptTokens,
        "tokens_predicted_total" => Field::GenerationTokens,
        "spec_decode_num_drafts_total" => Field::Drafts,
        "spec_decode_num_draft_tokens_total" => Field::DraftTokens,
        "spec_decode_num_accepted_tokens_total" => Field::AcceptedTokens,
        "spec_decode_num_accepted_tokens_per_pos_total" => Field::AcceptedAt,
        _ => return None,
    })
}

/// The engine whose prefix a name has, and the rest of it.
fn dialect_of(name: &str) -> Option<(Dialect, &str)> {
    if matches!(name, KV_FETCH_RATE | DRAFT_DEPTH | DRAFT_POLICY | DRAFT_REASON) {
        return Some((Dialect::Vllm, name));
    }
    let (prefix, rest) = name.split_once(':')?;
    match prefix {
        "vllm" => Some((Dialect::Vllm, rest)),
        "sglang" => Some((Dialect::Sglang, rest)),
        "llamacpp" => Some((Dialect::LlamaServer, rest)),
        _ => None,
    }
}

/// Reads a page of metrics into a report.
///
/// # Errors
/// Says why the page gives none; what was known before is then still the best there is.
pub fn report(page: &[u8]) -> Result<WorkerReport, ReportError> {
    report_of(page, None)
}

/// Reads what a page says of one data-parallel rank, or of all of them.
///
/// # Errors
/// As [`report`].
pub fn report_of(page: &[u8], rank: Option<u32>) -> Result<WorkerReport, ReportError> {
    let only = rank.map(|rank| rank.to_string());
    let mut tally: Option<Tally> = None;
    for line in lines(page)? {
        let line = line?;
        let Some((dialect, name)) = dialect_of(line.name()) else { continue };
        // One engine to a page: what comes first has named it.
        let tally = tally.get_or_insert_with(|| Tally::new(dialect));
        if tally.dialect != dialect {
            continue;
        }
        if let Some((field, rank)) = field_of(dialect, name) {
            let sample = line.read()?;
            let engine = engine_of(sample.labels);
            // Samples without a rank are of all.
            if only.as_ref().is_none_or(|only| engine.is_empty() || engine == *only) {
                tally.note(field, rank, &sample)?;
            }
        }
    }
    tally.ok_or(ReportError::NoEngine)?.finish()
}

/// What has been read so far.
#[derive(Debug)]
struct Tally {
    dialect: Dialect,
    model: Option<String>,
    /// Per field and engine rank: the name's rank, and the value. The same sample twice is one.
    values: BTreeMap<(Field, String), (Rank, f64)>,
    capacity: BTreeMap<String, u64>,
    block_size: Option<BlockSize>,
    /// It was started without a prefix cache, whose counters it has all the same.
    is_uncached: bool,
    /// The rule that sets the depth of drafts, and why it last changed.
    draft_policy: Option<String>,
    draft_reason: Option<String>,
}

impl Tally {
    const fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            model: None,
            values: BTreeMap::new(),
            capacity: BTreeMap::new(),
            block_size: None,
            is_uncached: false,
            draft_policy: None,
            draft_reason: None,
        }
    }

    fn note(&mut self, field: Field, rank: Rank, sample: &Sample<'_>) -> Result<(), ReportError> {
        if !sample.value.is_finite() || sample.value < 0.0 {
            return Ok(());
        }
        if self.model.is_none() {
            self.model = sample.labels.value("model_name").map(Into::into);
        }
        let engine = engine_of(sample.labels);
        if field == Field::CacheConfig {
            self.note_cache(engine, sample.labels);
            return Ok(());
        }
        // Of the words that a label may have, the one in force has the value 1.
        let in_force = |label| sample.labels.value(label).map(Into::into);
        match field {
            Field::DraftPolicy if sample.value > 0.0 => self.draft_policy = in_force("policy"),
            Field::DraftReason if sample.value > 0.0 => self.draft_reason = in_force("reason"),
            _ => {}
        }
        if matches!(field, Field::DraftPolicy | Field::DraftReason) {
            return Ok(());
        }
        let key = match field {
            // Positions add up over engines, so both make the key.
            Field::AcceptedAt => {
                let position = sample.labels.value("position").unwrap_or_default();
                format!("{position}/{engine}")
            }
            _ => engine,
        };
        if self.values.len() > RANKS_MAX * (POSITIONS_MAX + 16) {
            return Err(ReportError::RanksTooMany);
        }
        let (best, value) = self.values.entry((field, key)).or_insert((rank, sample.value));
        if rank <= *best {
            (*best, *value) = (rank, sample.value);
        }
        Ok(())
    }

    /// vLLM tells the size of its cache in labels; which ones, differs between releases.
    fn note_cache(&mut self, engine: String, labels: Labels<'_>) {
        let count = |name| labels.value(name).and_then(|text| text.parse::<u64>().ok());
        let size = count("block_size").and_then(|size| u32::try_from(size).ok());
        self.block_size = size.and_then(BlockSize::new).or(self.block_size);
        self.is_uncached |= labels.value("enable_prefix_caching").as_deref() == Some("False");
        let pages = count("num_gpu_blocks")
            .zip(size)
            .map(|(blocks, size)| blocks.saturating_mul(u64::from(size)));
        if let Some(tokens) = count("kv_cache_size_tokens").or(pages).filter(|&tokens| tokens > 0)
            && self.capacity.len() < RANKS_MAX
        {
            self.capacity.insert(engine, tokens);
        }
    }

    fn finish(self) -> Result<WorkerReport, ReportError> {
        let [running_name, waiting_name] = match self.dialect {
            Dialect::Vllm => ["vllm:num_requests_running", "vllm:num_requests_waiting"],
            Dialect::Sglang => ["sglang:num_running_reqs", "sglang:num_queue_reqs"],
            Dialect::LlamaServer => ["llamacpp:requests_processing", "llamacpp:requests_deferred"],
        };
        let running = self.sum(Field::Running);
        let waiting = self.sum(Field::Waiting);
        let running = running.ok_or(ReportError::Missing { name: running_name })?;
        let waiting = waiting.ok_or(ReportError::Missing { name: waiting_name })?;
        let configured: u64 = self.capacity.values().fold(0, |sum, &more| sum.saturating_add(more));
        let capacity = self.sum(Field::KvCapacity).or((configured > 0).then_some(configured));
        let hits = self.sum(Field::PrefixHits);
        let prompt_tokens = self.sum(Field::PromptTokens);
        // SGLang looks up every prompt and does not count that apart.
        let queries = match self.dialect {
            Dialect::Sglang => hits.and(prompt_tokens),
            Dialect::Vllm if self.is_uncached => None,
            Dialect::Vllm | Dialect::LlamaServer => self.sum(Field::PrefixQueries),
        };
        Ok(WorkerReport {
            dialect: self.dialect,
            running: u32::try_from(running).unwrap_or(u32::MAX),
            waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
            kv_use_permille: self.kv_use_permille(),
            kv_capacity: capacity.map(|it| Tokens::new(u32::try_from(it).unwrap_or(u32::MAX))),
            block_size: self.block_size,
            prefix_queries: queries,
            prefix_hits: hits,
            preemptions: self.sum(Field::Preemptions),
            kv_fetch_rate: self.sum(Field::KvFetchRate),
            prompt_tokens,
            generation_tokens: self.sum(Field::GenerationTokens),
            steps: self.sum(Field::Steps),
            drafts: self.sum(Field::Drafts),
            draft_tokens: self.sum(Field::DraftTokens),
            accepted_tokens: self.sum(Field::AcceptedTokens),
            accepted_by_position: self.accepted_by_position(),
            draft_depth: self.sum(Field::DraftDepth),
            draft_policy: self.draft_policy,
            draft_reason: self.draft_reason,
            model: self.model,
        })
    }

    /// The values of a field by engine rank.
    fn of(&self, field: Field) -> impl Iterator<Item = (&str, f64)> {
        let from = (field, String::new());
        let all = self.values.range(from..).take_while(move |((found, _), _)| *found == field);
        all.map(|((_, key), &(_, value))| (key.as_str(), value))
    }

    fn sum(&self, field: Field) -> Option<u64> {
        self.of(field).map(|(_, value)| count(value)).reduce(u64::saturating_add)
    }

    fn kv_use_permille(&self) -> Option<u16> {
        let (sum, ranks) = self.of(Field::KvUse).fold((0, 0), |(sum, ranks), (_, value)| {
            (sum + count(value.min(1.0) * 1_000.0), ranks + 1)
        });
        (sum + ranks / 2).checked_div(ranks).and_then(|mean| u16::try_from(mean).ok())
    }

    fn accepted_by_position(&self) -> Vec<u64> {
        let mut accepted = Vec::new();
        for (key, value) in self.of(Field::AcceptedAt) {
            let position = key.split('/').next().and_then(|text| text.parse::<usize>().ok());
            let Some(position) = position.filter(|&position| position < POSITIONS_MAX) else {
                continue;
            };
            if accepted.len() <= position {
                accepted.resize(position + 1, 0);
            }
            accepted[position] += count(value);
        }
        accepted
    }
}

/// Which of several engines behind one page a sample is of.
fn engine_of(labels: Labels<'_>) -> String {
    let engine = labels.value("engine").or_else(|| labels.value("dp_rank"));
    engine.map_or_else(String::new, Into::into)
}

/// A value that is finite and not negative as a count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and negative values were dropped"
)]
fn count(value: f64) -> u64 {
    value.round() as u64
}
