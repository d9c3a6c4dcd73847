//! Sessions of a coding agent, one JSON file each: long prompts that grow by little from turn to turn.
//!
//! Names of blocks count within a file only. What two agents of one kind do share is the description of
//! tools and the system prompt at the front, whose lengths every file tells; those blocks are named by the
//! kind, all others by the session. Files have clocks of their own, so the reader of the trace says when
//! sessions begin; within one, the next request follows the last answer by the recorded time to think.

use std::path::{Path, PathBuf};
use std::vec;

use overdraft_units::{Instant, Tokens};
use serde::Deserialize;

use super::error::{Fault, WorkloadError};
use super::{
    PROMPT_TOKENS_MAX, Piece, Sender, Session, Stage, TURNS_MAX, Turn, Voice, lines, named, seconds,
};

const EXPECTED: &str = "a folder with `*.json`, or one such file: `{\"block_size\": 64, \"tool_tokens\": …, \
                        \"system_tokens\": …, \"requests\": [{\"in\": …, \"out\": …, \"hash_ids\": […]}]}`";

#[derive(Deserialize)]
struct File {
    #[serde(deserialize_with = "lines::whole")]
    block_size: u32,
    #[serde(default, deserialize_with = "lines::whole")]
    tool_tokens: u32,
    #[serde(default, deserialize_with = "lines::whole")]
    system_tokens: u32,
    requests: Vec<Request>,
}

#[derive(Deserialize)]
struct Request {
    #[serde(rename = "in", deserialize_with = "lines::whole")]
    prompt: u32,
    #[serde(rename = "out", deserialize_with = "lines::whole")]
    output: u32,
    hash_ids: Vec<u64>,
    #[serde(default)]
    think_time: f64,
}

/// One session a file.
pub(super) struct Claude {
    files: vec::IntoIter<PathBuf>,
    count: u64,
}

impl Claude {
    pub(super) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let files = lines::files(path, ".json", EXPECTED)?.into_iter();
        Ok(Self { files, count: 0 })
    }
}

impl Iterator for Claude {
    type Item = Result<Session, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let file = self.files.next()?;
        let name = self.count;
        self.count += 1;
        Some(session(&file, name))
    }
}

fn session(path: &Path, name: u64) -> Result<Session, WorkloadError> {
    let text = lines::read(path, EXPECTED)?;
    let file: File = serde_json::from_str(&text).map_err(|error| {
        let line = crate::float_conversion::length(error.line());
        let shown = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
        Fault::new(shown, format!("does not fit ({error})"), EXPECTED).at(path, line)
    })?;
    if file.block_size == 0 || file.requests.is_empty() {
        return Err(WorkloadError::Empty { file: path.to_owned(), expected: EXPECTED });
    }
    let common = file.tool_tokens.saturating_add(file.system_tokens) / file.block_size;
    let front = file.requests[0].hash_ids.clone();
    let scene = Scene { file: &file, front: &front, common, name };
    let most = usize::try_from(TURNS_MAX).unwrap_or(usize::MAX);
    let mut turns = Vec::new();
    for (number, request) in (0..).zip(file.requests.iter().take(most)) {
        let turn = scene.turn(number, request).map_err(|fault| fault.at(path, 1))?;
        turns.push(turn);
    }
    let (sender, stage) = (Sender::default(), Stage::default());
    Ok(Session { at: Instant::ORIGIN, name, sender, stage, turns })
}

/// What the turns of a session have in common.
struct Scene<'a> {
    file: &'a File,
    /// The first prompt's blocks.
    front: &'a [u64],
    /// How many of them are tools and system prompt.
    common: u32,
    name: u64,
}

impl Scene<'_> {
    fn turn(&self, number: u64, request: &Request) -> Result<Turn, Fault> {
        let block = self.file.block_size;
        for (name, tokens) in [("in", request.prompt), ("out", request.output)] {
            if PROMPT_TOKENS_MAX < u64::from(tokens) {
                let found = format!("\"{name}\":{tokens}");
                let expected = format!("a number of tokens up to {PROMPT_TOKENS_MAX}");
                return Err(Fault::new(
                    &found,
                    format!("of request {number} is too long"),
                    expected,
                ));
            }
        }
        let named_tokens =
            u32::try_from(request.hash_ids.len()).unwrap_or(u32::MAX).saturating_mul(block);
        let Some(rest) = request.prompt.checked_sub(named_tokens) else {
            let found = format!("\"in\":{}", request.prompt);
            let wrong = format!(
                "of request {number} is less than its {} blocks of {block}",
                request.hash_ids.len()
            );
            return Err(Fault::new(&found, wrong, "at least the tokens of its full blocks"));
        };
        let File { tool_tokens, system_tokens, .. } = *self.file;
        let kind = [0x636c_6175, u64::from(tool_tokens), u64::from(system_tokens)];
        let piece = |(place, id): (u32, &u64)| {
            let is_common = place < self.common
                && usize::try_from(place).ok().and_then(|at| self.front.get(at)) == Some(id);
            let (content, voice) = if is_common {
                (named(&[kind[0], kind[1], kind[2], u64::from(place)]), Voice::System)
            } else {
                (named(&[0x7365_7373, self.name, *id]), Voice::User)
            };
            Piece { content, tokens: Tokens::new(block), voice }
        };
        let mut prompt: Vec<Piece> = (0..).zip(&request.hash_ids).map(piece).collect();
        if 0 < rest || prompt.is_empty() {
            let own = named(&[0x7265_7374, self.name, number]);
            prompt.push(Piece::said(own, Tokens::new(rest.max(1))));
        }
        let answer = named(&[0x616e_7377, self.name, number]);
        let answer = Piece::said(answer, Tokens::new(request.output.max(1)));
        Ok(Turn { think: seconds(request.think_time), prompt, answer })
    }
}
