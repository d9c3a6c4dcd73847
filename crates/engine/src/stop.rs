//! Stop strings: streaming Knuth-Morris-Pratt matcher that holds back partial matches.
//!
//! Text arrives in pieces of any length. The end that could still become a stop string is held
//! back; everything before it is released at once. One Knuth-Morris-Pratt automaton per stop string
//! looks at each byte once, so where the pieces are cut makes no difference.
//!
//! The stop that *ends* first counts (no later text can change that), and of those that end
//! together the one that starts first. **Invariant:** what was released, and then held, is a prefix
//! of what was pushed; the held part is shorter than the longest stop string.

#[cfg(test)]
mod tests;

/// Whether a stop string belongs to the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopText {
    /// The answer ends before it.
    Cut,
    /// The answer ends with it.
    Kept,
}

/// Watches a text for stop strings.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    automata: Vec<Automaton>,
    stop_text: StopText,
    held: String,
}

/// What one more piece of text has made certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopStep {
    /// No stop yet; this much may be shown.
    Released(String),
    /// A stop string is complete.
    Hit {
        /// The last text to be shown.
        text: String,
        /// Which stop string, counted in the order given.
        stop: usize,
    },
}

/// One stop string, and how much of it the text's end matches.
#[derive(Clone, Debug)]
struct Automaton {
    pattern: Vec<u8>,
    /// For each length of a match, the longest shorter one that it ends with.
    shorter: Vec<usize>,
    matched: usize,
}

impl StopMatcher {
    /// Watches for `stops`; empty ones never match.
    pub fn new(stops: &[String], stop_text: StopText) -> Self {
        let automata = stops.iter().map(|stop| Automaton::new(stop.as_bytes())).collect();
        Self { automata, stop_text, held: String::new() }
    }

    /// Takes the next piece of text. After a hit the matcher has nothing more to say.
    pub fn push(&mut self, piece: &str) -> StopStep {
        if self.automata.is_empty() {
            return StopStep::Released(piece.to_owned());
        }
        self.held.push_str(piece);
        let seen = self.held.len() - piece.len();
        for (offset, &byte) in piece.as_bytes().iter().enumerate() {
            if let Some(stop) = self.advance(byte) {
                return self.hit(stop, seen + offset + 1);
            }
        }
        let certain = self.held.len() - self.longest_match();
        let rest = self.held.split_off(certain);
        StopStep::Released(core::mem::replace(&mut self.held, rest))
    }

    /// Text that is shown without being looked at: stop strings do not count yet. What was held is
    /// released too, and a stop string cannot begin in it any more.
    pub fn pass(&mut self, piece: &str) -> String {
        for automaton in &mut self.automata {
            automaton.matched = 0;
        }
        let mut text = self.finish();
        text.push_str(piece);
        text
    }

    /// The text that was held, once it is certain that nothing follows.
    pub fn finish(&mut self) -> String {
        core::mem::take(&mut self.held)
    }

    /// The stop that ends with `byte`, the longest if there are several.
    fn advance(&mut self, byte: u8) -> Option<usize> {
        let mut hit: Option<usize> = None;
        for index in 0..self.automata.len() {
            let ended = self.automata[index].advance(byte);
            let longest = |other: usize| {
                self.automata[other].pattern.len() < self.automata[index].pattern.len()
            };
            if ended && hit.is_none_or(longest) {
                hit = Some(index);
            }
        }
        hit
    }

    fn hit(&mut self, stop: usize, end: usize) -> StopStep {
        let cut = match self.stop_text {
            StopText::Cut => end - self.automata[stop].pattern.len(),
            StopText::Kept => end,
        };
        let mut text = self.finish();
        text.truncate(cut);
        StopStep::Hit { text, stop }
    }

    /// Bytes at the text's end that may be the start of a stop string. They begin at a character:
    /// a stop string does, and its bytes are equal.
    fn longest_match(&self) -> usize {
        self.automata.iter().map(|automaton| automaton.matched).max().unwrap_or(0)
    }
}

impl Automaton {
    fn new(pattern: &[u8]) -> Self {
        let mut shorter = vec![0; pattern.len() + 1];
        let mut matched = 0;
        for (index, &byte) in pattern.iter().enumerate().skip(1) {
            while matched > 0 && pattern[matched] != byte {
                matched = shorter[matched];
            }
            if pattern[matched] == byte {
                matched += 1;
            }
            shorter[index + 1] = matched;
        }
        Self { pattern: pattern.to_vec(), shorter, matched: 0 }
    }

    /// Whether the pattern ends with `byte`.
    fn advance(&mut self, byte: u8) -> bool {
        if self.pattern.is_empty() {
            return false;
        }
        while self.matched > 0 && self.pattern.get(self.matched) != Some(&byte) {
            self.matched = self.shorter[self.matched];
        }
        if self.pattern[self.matched] == byte {
            self.matched += 1;
        }
        self.matched == self.pattern.len()
    }
}
