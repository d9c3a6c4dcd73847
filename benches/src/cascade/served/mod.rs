//! Cascade as a client sees it: the real gateway before real worker processes, with the demo
//! models.
//!
//! | subject                                   | file        |
//! |-------------------------------------------|-------------|
//! | Target, draft and gateway                 | `fleet.rs`  |
//! | Streamed chat and its timings             | `client.rs` |
//! | Time to first token of an accepted stream | `stream.rs` |
//! | Kill switch with a random-weight draft    | `random.rs` |

mod client;
mod fleet;
mod random;
mod stream;

use std::path::PathBuf;

use crate::binary;
use crate::questions::questions;
use anyhow::{Result, ensure};
use overdraft_claims::Claim;
use serde::Serialize;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Served {
    streams: stream::Streams,
    random: random::Random,
}

/// Asks `count` questions as streams, and as many as it takes before a random draft.
pub(crate) fn measure(binary: Option<PathBuf>, count: usize) -> Result<Served> {
    let binary = binary.map_or_else(binary::beside, Ok)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let streams = stream::ask(&binary, count).await?;
        let random = random::ask(&binary).await?;
        Ok(Served { streams, random })
    })
}

/// Questions of one turn, spread evenly over all families.
fn single_turns(count: usize) -> Result<Vec<String>> {
    let all = questions()?;
    let turn = |prompt: &str| {
        let (_, rest) = prompt.split_once("<|im_start|>user\n")?;
        let (text, rest) = rest.split_once("<|im_end|>")?;
        (!rest.contains("<|im_start|>user")).then(|| text.to_owned())
    };
    let single: Vec<String> = all.iter().filter_map(|question| turn(&question.prompt)).collect();
    ensure!(count <= single.len(), "`{count}` questions; there are {}", single.len());
    let step = (single.len() / count.max(1)).max(1);
    Ok(single.into_iter().step_by(step).take(count).collect())
}

impl Served {
    pub(crate) fn print(&self) {
        self.streams.print();
        self.random.print();
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let mut claims = self.streams.claims();
        claims.extend(self.random.claims());
        claims
    }
}
