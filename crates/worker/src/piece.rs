//! Piece: one increment of a choice, independent of the API's form.
//!
//! An event of the engine becomes a piece. A stream tells each piece as it comes, a whole answer
//! tells their sum: both are made of the same pieces, so they cannot say different things.
//! **Invariant:** the texts of a choice's pieces joined are its whole text, the echo included.

use std::sync::Arc;

use overdraft_engine::{Event, FinishReason, PositionLogprobs, Tokenizer};
use overdraft_units::TokenId;
use overdraft_wire::Generation;

use crate::logprobs;
use crate::plan::{Form, Plan, PromptPlan, Told};

/// Something new about a choice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Piece {
    /// Its number.
    pub(crate) choice: u32,
    /// The prompt, in a choice's first piece.
    pub(crate) opening: Option<Arc<PromptPlan>>,
    pub(crate) text: String,
    /// New completion tokens.
    pub(crate) tokens: Vec<TokenId>,
    /// Log probabilities of what is new, if they are told.
    pub(crate) positions: Vec<Position>,
    /// Characters of the choice's tokens before this piece's.
    pub(crate) offset: u32,
    pub(crate) finish: Option<FinishReason>,
}

/// A token and what is known of its likelihood: nothing, for the first of a prompt.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    pub(crate) token: TokenId,
    pub(crate) logprobs: Option<PositionLogprobs>,
}

impl Piece {
    /// Adds the next piece of the same choice.
    pub(crate) fn append(&mut self, next: Self) {
        self.opening = self.opening.take().or(next.opening);
        self.text.push_str(&next.text);
        self.tokens.extend(next.tokens);
        self.positions.extend(next.positions);
        self.finish = next.finish.or(self.finish.take());
    }

    /// Whether it tells anything but that time has passed.
    pub(crate) fn is_idle(&self) -> bool {
        self.opening.is_none()
            && self.text.is_empty()
            && self.positions.is_empty()
            && self.finish.is_none()
    }
}

/// One choice on its way: makes pieces of events.
#[derive(Debug)]
pub(crate) struct Choice {
    index: u32,
    generation: Generation,
    form: Form,
    prompt: Arc<PromptPlan>,
    /// Characters of the tokens told with log probabilities so far.
    offset: u32,
}

/// What an event comes to.
#[derive(Debug)]
pub(crate) enum Step {
    /// More of the choice.
    Piece(Piece),
    /// The last of it.
    Last(Piece),
    /// It is lost; a sentence for the client.
    Lost(String),
}

impl Choice {
    pub(crate) fn new(plan: &Plan, index: usize) -> Self {
        Self {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            generation: plan.generation,
            form: plan.form,
            prompt: Arc::clone(plan.prompt_of(index)),
            offset: 0,
        }
    }

    /// Takes the engine's next event.
    pub(crate) fn take(&mut self, event: Event, tokenizer: &Tokenizer) -> Step {
        let mut piece = Piece { choice: self.index, offset: self.offset, ..Piece::default() };
        let told = self.form.completion == Told::Yes;
        match event {
            Event::Started { prompt_logprobs, .. } => self.open(&mut piece, prompt_logprobs),
            Event::Tokens(tokens) => {
                for token in tokens.into_iter().filter(|_| told) {
                    piece.text.push_str(&token.text);
                    piece.tokens.push(token.id);
                    if self.form.logprobs.is_some() {
                        piece
                            .positions
                            .push(Position { token: token.id, logprobs: token.logprobs });
                    }
                }
            }
            Event::Finished { reason, tail, .. } => {
                let (reason, tail) =
                    if told { (reason, tail) } else { (FinishReason::Length, String::new()) };
                piece.text = tail;
                piece.finish = Some(reason);
                return Step::Last(piece);
            }
            Event::Failed(sentence) => return Step::Lost(sentence),
        }
        if self.generation == Generation::Completion {
            self.offset += logprobs::characters(&piece.positions, tokenizer);
        }
        Step::Piece(piece)
    }

    fn open(&self, piece: &mut Piece, told: Option<Vec<Option<PositionLogprobs>>>) {
        piece.text.push_str(self.prompt.echo.as_deref().unwrap_or_default());
        if let Some(told) = told {
            // One choice of each prompt is asked for them, so they are not set yet.
            let _ = self.prompt.logprobs.set(told);
        }
        let echoes = self.generation == Generation::Completion && self.prompt.echo.is_some();
        let known = self.prompt.logprobs.get();
        if let Some(told) = known.filter(|_| echoes && self.form.logprobs.is_some()) {
            let tokens = self.prompt.tokens.iter();
            piece.positions.extend(
                tokens
                    .zip(told)
                    .map(|(&token, logprobs)| Position { token, logprobs: logprobs.clone() }),
            );
        }
        piece.opening = Some(Arc::clone(&self.prompt));
    }
}
