//! Prompts of llm-d's reports: groups with a system prompt each, and questions that are asked over and over.

use overdraft_sim::Draws;
use overdraft_sim::workload::{Piece, Sender, Session, Stage, Turn, Voice};
use overdraft_units::{Instant, Micros, Tokens};

/// How many there are, and how long they are in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) groups: u64,
    pub(crate) questions: u64,
    pub(crate) system: u32,
    pub(crate) question: u32,
    pub(crate) answer: u32,
}

/// All prompts, over and over in one order.
pub(crate) struct Prompts {
    shape: Shape,
    order: Vec<(u64, u64)>,
    asked: u64,
}

impl Prompts {
    pub(crate) fn new(shape: Shape, draws: &mut Draws) -> Self {
        let Shape { groups, questions, .. } = shape;
        let all = |group| (0..questions).map(move |question| (group, question));
        let mut order: Vec<(u64, u64)> = (0..groups).flat_map(all).collect();
        for (last, count) in (1..order.len()).rev().zip((2..=groups * questions).rev()) {
            let other = usize::try_from(draws.below(count)).unwrap_or(0);
            order.swap(last, other);
        }
        Self { shape, order, asked: 0 }
    }

    /// The next one, as a session of its own.
    pub(crate) fn ask(&mut self, at: Instant, stage: Stage) -> Session {
        let Shape { groups, questions, system, question: asks, answer } = self.shape;
        let place = usize::try_from(self.asked % (groups * questions)).unwrap_or(0);
        let (group, question) = self.order[place];
        self.asked += 1;
        let piece = |content, tokens, voice| Piece { content, tokens: Tokens::new(tokens), voice };
        let prompt = vec![
            piece(group, system, Voice::System),
            piece(1_000 + group * questions + question, asks, Voice::User),
        ];
        // Sampled anew each time: nobody asks with an earlier answer in the prompt.
        let answer = piece(1_000_000 + self.asked, answer, Voice::Assistant);
        let turns = vec![Turn { think: Micros::ZERO, prompt, answer }];
        Session { at, name: self.asked, sender: Sender::default(), stage, turns }
    }
}
