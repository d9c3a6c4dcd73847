//! Streaming release: how many draft tokens the client may see while the draft still runs.
//!
//! Tokens are held back until the first window passes its threshold, and then released window by
//! window while the running score stays high enough. The first window is as long as the added time
//! to first token (TTFT) allows at the draft's measured pace. Released tokens are never revoked:
//! their count only grows. `docs/design/cascade.md#r7`.

use overdraft_units::{Micros, Ratio, Tokens};

use super::evidence::Finish;
use super::threshold::{Bar, Choice};

/// Minimum length of the first window: fewer tokens carry too little evidence.
pub const FIRST_MIN: Tokens = Tokens::new(8);
/// Maximum length of the first window.
pub const FIRST_MAX: Tokens = Tokens::new(256);
/// Consecutive windows that may be held back before the target takes over the answer.
const HELD_MAX: u32 = 2;
/// Tolerance of the running score below the threshold: the score of a part varies more than that of
/// the whole.
const SLACK: Ratio = Ratio::percent(5);

/// How long the windows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Tokens before anything is released.
    pub first: Tokens,
    /// Tokens in each window after that.
    pub next: Tokens,
}

impl Windows {
    /// The longest first window that a draft of that pace fills within `budget`.
    pub fn within(budget: Micros, per_token: Micros, next: Tokens) -> Self {
        let tokens = budget.get().checked_div(per_token.get());
        let tokens = u32::try_from(tokens.unwrap_or(u64::MAX)).unwrap_or(u32::MAX);
        let first = Tokens::new(tokens).clamp(FIRST_MIN, FIRST_MAX);
        Self { first, next: next.max(Tokens::new(1)) }
    }
}

/// What is to be done with a draft that is speaking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing yet.
    Hold,
    /// Show all tokens up to this count.
    Show(Tokens),
    /// End the draft; nothing was shown, and the target answers alone.
    Refuse,
    /// End the draft; the target continues behind this many tokens, which were shown.
    HandOver(Tokens),
}

/// How far a streamed draft has been shown.
///
/// ```
/// use overdraft_core::cascade::{Finish, Release, Windows};
/// use overdraft_units::Tokens;
///
/// let windows = Windows { first: Tokens::new(8), next: Tokens::new(16) };
/// let release = Release::new(windows);
/// assert!(!release.due(Tokens::new(7), Finish::Running));
/// assert!(release.due(Tokens::new(8), Finish::Running));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    windows: Windows,
    shown: Tokens,
    /// The end of the window that is looked at next.
    next: Tokens,
    held: u32,
    over: bool,
}

/// What is known of the draft when it is asked how far it may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Tokens that it has said.
    pub tokens: Tokens,
    /// Whether it has ended.
    pub finish: Finish,
    /// The score of what it has said.
    pub score: Ratio,
    /// What that must reach.
    pub bar: Bar,
}

impl Release {
    /// Nothing shown yet.
    pub const fn new(windows: Windows) -> Self {
        Self { windows, shown: Tokens::ZERO, next: windows.first, held: 0, over: false }
    }

    /// Tokens shown so far.
    pub const fn shown(&self) -> Tokens {
        self.shown
    }

    /// Whether the draft must be judged now: a window is full, or the draft has ended.
    pub fn due(&self, tokens: Tokens, finish: Finish) -> bool {
        !self.over && (self.next <= tokens || finish != Finish::Running)
    }

    /// What the first window's judgement means. Call it once, when [`Self::due`] first says so.
    pub fn open(&mut self, running: &Running, choice: Choice) -> Step {
        if self.over || Tokens::ZERO < self.shown {
            return Step::Hold;
        }
        match choice {
            Choice::Draft => self.show(running),
            Choice::Target => {
                self.over = true;
                Step::Refuse
            }
        }
    }

    /// What a later window's score means.
    pub fn proceed(&mut self, running: &Running) -> Step {
        if self.over || !self.due(running.tokens, running.finish) {
            return Step::Hold;
        }
        let bar = match running.bar {
            Bar::At(bar) => Bar::At(Ratio::millionths(bar.get().saturating_sub(SLACK.get()))),
            other => other,
        };
        if bar.choose(running.score) == Choice::Draft {
            return self.show(running);
        }
        self.held += 1;
        self.next = running.tokens + self.windows.next;
        if self.held <= HELD_MAX && running.finish == Finish::Running {
            return Step::Hold;
        }
        self.over = true;
        Step::HandOver(self.shown)
    }

    fn show(&mut self, running: &Running) -> Step {
        self.held = 0;
        self.shown = self.shown.max(running.tokens);
        self.next = running.tokens + self.windows.next;
        self.over = running.finish != Finish::Running;
        Step::Show(self.shown)
    }
}
