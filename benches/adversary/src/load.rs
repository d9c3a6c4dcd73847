//! Load of a drawn fleet: generators and traces with drawn parameters and arrival processes.

use std::path::Path;

use overdraft_sim::Draws;

use crate::capacity::Shape;
use crate::draw::{between, one, rounded};
use crate::figures::{whole, whole32};
use crate::table::Rows;
use crate::world::Asked;

/// Requests that a load is looked at by.
pub(crate) const REQUESTS_SEEN: u64 = 300;

/// Requests of a run, and tokens of all prompts and answers, at most: what a run may cost.
const REQUESTS_MAX: f64 = 2_000.0;
const REQUESTS_MIN: f64 = 240.0;
const PROMPT_TOKENS: f64 = 6e6;
const ANSWER_TOKENS: f64 = 5e5;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unique,
    Tenants,
    Chat,
    Documents,
    Agents,
    LongAmongShort,
    Crowd,
    Mooncake,
    AzureCode,
    AzureChat,
    ServeGen,
    Claude,
    Summaries,
}

/// How often each kind is drawn, generators before traces.
const KINDS: [(Kind, u64); 13] = [
    (Kind::Unique, 12),
    (Kind::Tenants, 20),
    (Kind::Chat, 12),
    (Kind::Documents, 10),
    (Kind::Agents, 6),
    (Kind::LongAmongShort, 9),
    (Kind::Crowd, 8),
    (Kind::Mooncake, 6),
    (Kind::AzureCode, 5),
    (Kind::AzureChat, 5),
    (Kind::ServeGen, 3),
    (Kind::Claude, 2),
    (Kind::Summaries, 2),
];
const GENERATORS: usize = 7;

/// One of the kinds that there are.
pub(crate) fn pick(dice: &mut Draws, has_traces: bool) -> Kind {
    let known = if has_traces { &KINDS[..] } else { &KINDS[..GENERATORS] };
    let all: u64 = known.iter().map(|(_, weight)| weight).sum();
    let mut left = dice.below(all);
    for (kind, weight) in known {
        if left < *weight {
            return *kind;
        }
        left -= weight;
    }
    Kind::Unique
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unique => "unique",
            Self::Tenants => "tenants",
            Self::Chat => "chat",
            Self::Documents => "documents",
            Self::Agents => "agents",
            Self::LongAmongShort => "long among short",
            Self::Crowd => "crowd amid others",
            Self::Mooncake => "mooncake",
            Self::AzureCode => "azure code",
            Self::AzureChat => "azure chat",
            Self::ServeGen => "servegen",
            Self::Claude => "claude",
            Self::Summaries => "arxiv",
        }
    }

    /// Whether somebody recorded it.
    pub(crate) const fn is_trace(self) -> bool {
        matches!(
            self,
            Self::Mooncake
                | Self::AzureCode
                | Self::AzureChat
                | Self::ServeGen
                | Self::Claude
                | Self::Summaries
        )
    }

    /// With drawn settings, at one request a second.
    pub(crate) fn asked(self, dice: &mut Draws, traces: &Path) -> Asked {
        let count = |dice: &mut Draws, least, most| whole(between(dice, least, most));
        let spread = rounded(dice.share() * 1.1);
        let (question, output) = (count(dice, 50.0, 5_000.0), count(dice, 20.0, 800.0));
        let trace = |format: &str, name: &str| {
            Asked::Named(format!("{format}:{}", traces.join(name).display()))
        };
        let made = match self {
            Self::Unique => format!("unique:question={question},output={output},spread={spread}"),
            Self::Tenants => {
                let (groups, prefix) = (count(dice, 1.0, 300.0), count(dice, 300.0, 16_000.0));
                let skew = one(dice, &[0.0, 0.0, 0.6, 1.0]);
                let question = count(dice, 30.0, 1_500.0);
                format!(
                    "tenants:groups={groups},prefix={prefix},skew={skew},question={question},\
                     output={output},spread={spread}"
                )
            }
            Self::Chat => {
                let (turns, think) = (count(dice, 2.0, 10.0), count(dice, 1.0, 20.0));
                let question = count(dice, 30.0, 600.0);
                format!(
                    "chat:turns={turns},think={think},question={question},output={output},\
                     spread={spread}"
                )
            }
            Self::Documents => {
                let (groups, prefix) = (count(dice, 8.0, 300.0), count(dice, 3_000.0, 20_000.0));
                let output = count(dice, 20.0, 200.0);
                format!("documents:groups={groups},prefix={prefix},output={output}")
            }
            Self::Agents => {
                let (groups, turns) = (count(dice, 1.0, 8.0), count(dice, 4.0, 16.0));
                format!("agents:groups={groups},turns={turns},output={}", count(dice, 40.0, 300.0))
            }
            Self::LongAmongShort | Self::Crowd => return Asked::Rows(self.rows(dice)),
            Self::Mooncake => return trace("mooncake", "mooncake_conversation.jsonl"),
            Self::AzureCode => return trace("azure", "azure2023_code.csv"),
            Self::AzureChat => return trace("azure", "azure2023_conv.csv"),
            Self::ServeGen => {
                let folder = one(dice, &["language_m-large", "reason_deepseek-r1"]);
                return trace("servegen", &format!("servegen/{folder}"));
            }
            Self::Claude => return trace("claude", "claude_code_traces"),
            Self::Summaries => return trace("azure", "arxiv_summarization_lengths.csv"),
        };
        Asked::Named(made)
    }

    fn rows(self, dice: &mut Draws) -> Rows {
        let is_crowd = self == Self::Crowd;
        let groups = if dice.share() < 0.5 { whole(between(dice, 1.0, 60.0)) } else { 0 };
        Rows {
            count: REQUESTS_SEEN,
            rate: 1.0,
            short: rounded(between(dice, 100.0, 2_000.0)),
            long: rounded(between(dice, 10_000.0, 90_000.0)),
            share: if is_crowd { 0.0 } else { rounded(between(dice, 0.003, 0.06)) },
            output: rounded(between(dice, 20.0, 500.0)),
            groups: u64::try_from(groups).unwrap_or(0),
            prefix: if groups == 0 { 0 } else { whole32(between(dice, 300.0, 8_000.0)) },
            crowd: 0,
            when: 0.0,
            dice: dice.below(1 << 20),
        }
    }
}

/// How many requests a run of such a load may have.
pub(crate) fn requests(dice: &mut Draws, seen: Shape) -> u64 {
    let by_prompt = PROMPT_TOKENS / seen.prompt.max(1.0);
    let by_answer = ANSWER_TOKENS / seen.output.max(1.0);
    let most = by_prompt.min(by_answer).clamp(REQUESTS_MIN, REQUESTS_MAX);
    u64::try_from(whole(most * (0.6 + 0.4 * dice.share()))).unwrap_or(1)
}

/// The same rows, so many.
pub(crate) fn sized(asked: &Asked, requests: u64) -> Asked {
    match asked {
        Asked::Rows(rows) => Asked::Rows(Rows { count: requests, ..*rows }),
        Asked::Named(_) => asked.clone(),
    }
}
