//! Tool call fragments: which call a fragment belongs to, and whether a call's arguments are whole.
//!
//! Engines open calls in one chunk or in many, tell id and name late, twice, or never, give several calls
//! in one chunk or interleave them, and reuse an index for the next call. **Invariant:** the fragments of a
//! call are joined in their order and no other call's.

use super::answer::CallFragment;

/// Calls of one answer at most.
pub(super) const CALLS_MAX: usize = 1_024;

/// A call as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Call {
    index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// Arguments that have not been given out.
    pub(super) waiting: String,
    scan: ObjectScan,
}

impl Call {
    /// Whether its arguments are a whole object.
    pub(super) const fn is_whole(&self) -> bool {
        self.scan.is_whole()
    }

    /// Whether all that has come of its arguments may still be `null`, which means none.
    pub(super) fn is_null(&self) -> bool {
        !self.scan.has_begun() && "null".starts_with(self.waiting.trim())
    }

    fn take(&mut self, fragment: CallFragment) {
        self.id = self.id.take().or(fragment.id);
        self.name = self.name.take().or(fragment.name);
        self.scan.push(&fragment.arguments);
        self.waiting.push_str(&fragment.arguments);
    }
}

/// The calls of one answer, in the order in which they were opened.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

/// There are more calls than anybody can use.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooManyCalls;

impl Calls {
    /// Adds a fragment to its call; the call's place.
    pub(super) fn take(&mut self, fragment: CallFragment) -> Result<usize, TooManyCalls> {
        let at = match self.place_of(&fragment) {
            Some(at) => at,
            None if self.0.len() < CALLS_MAX => {
                self.0.push(Call { index: fragment.index, ..Call::default() });
                self.0.len() - 1
            }
            None => return Err(TooManyCalls),
        };
        self.0[at].take(fragment);
        Ok(at)
    }

    pub(super) fn at(&mut self, at: usize) -> &mut Call {
        &mut self.0[at]
    }

    /// The call that a fragment goes on with; none where it opens one.
    fn place_of(&self, fragment: &CallFragment) -> Option<usize> {
        let with_index = |call: &Call| match fragment.index {
            Some(index) => call.index == Some(index),
            None => fragment.id.is_none() || call.id == fragment.id,
        };
        let at = self.0.iter().rposition(with_index)?;
        let call = &self.0[at];
        let is_another = match (&call.id, &fragment.id) {
            // Some proxies make up an id for every chunk; only a call that begins has a name as well.
            (Some(known), Some(told)) => known != told && fragment.name.is_some(),
            // Without ids, a name after whole arguments begins the next call.
            (None, None) => {
                fragment.name.is_some() && call.is_whole() && !fragment.arguments.is_empty()
            }
            _ => false,
        };
        (!is_another).then_some(at)
    }
}

/// Scans a text for the end of the JSON object that it is.
#[derive(Clone, Copy, Debug, Default)]
struct ObjectScan {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    state: ScanState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanState {
    /// Nothing but spaces has come.
    #[default]
    Blank,
    /// Within the object.
    Within,
    /// The object has ended.
    Whole,
    /// It is no object, so that only the answer's end shows its own.
    Other,
}

impl ObjectScan {
    const fn is_whole(&self) -> bool {
        matches!(self.state, ScanState::Whole)
    }

    const fn has_begun(&self) -> bool {
        matches!(self.state, ScanState::Within | ScanState::Whole)
    }

    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            match self.state {
                ScanState::Blank if byte == b'{' => {
                    (self.state, self.depth) = (ScanState::Within, 1);
                }
                ScanState::Blank if byte.is_ascii_whitespace() => {}
                ScanState::Blank => self.state = ScanState::Other,
                ScanState::Within => self.step(byte),
                ScanState::Whole | ScanState::Other => return,
            }
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_text {
            self.in_text = self.is_escaped || byte != b'"';
            self.is_escaped = !self.is_escaped && byte == b'\\';
            return;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.state = ScanState::Whole;
                }
            }
            _ => {}
        }
    }
}
