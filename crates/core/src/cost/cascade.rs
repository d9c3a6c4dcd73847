//! Cascade break-even: from which share of accepted drafts on a cascade pays.
//!
//! It is computed before a route is switched on, from prices, speeds and the shape of its requests,
//! in money and in time. With it comes the share that can be accepted at all, given how often the
//! draft is worse. `overdraft check` prints both.

use overdraft_units::{Micros, Ratio, Tokens};

use super::{Money, Prices, Speed, Usage};

/// A typical request of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tokens of its prompt.
    pub prompt: Tokens,
    /// Those of them that the draft's pool has in its cache.
    pub cached_draft: Tokens,
    /// Those of them that the target's pool has in its cache.
    pub cached_target: Tokens,
    /// Tokens of its answer.
    pub completion: Tokens,
}

/// How the target comes to its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// It is not asked: the gate decides.
    None,
    /// It computes prompt and draft, whatever its cache has, as portable scoring does.
    Whole,
}

/// What is known of both pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// The draft's prices.
    pub draft: Prices,
    /// The target's prices.
    pub target: Prices,
    /// What one request sees of the draft's pool; zeros where nothing was measured.
    pub draft_speed: Speed,
    /// What one request sees of the target's pool.
    pub target_speed: Speed,
}

/// A share of requests that must be accepted; beyond all of them where it can never be enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reach(u64);

impl Reach {
    /// In millionths, a million being all requests, and more than that more than there are.
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// The share, where it can be reached at all.
    pub fn share(self) -> Option<Ratio> {
        let millionths = u32::try_from(self.0).ok()?;
        (millionths <= Ratio::WHOLE.get()).then(|| Ratio::millionths(millionths))
    }

    fn of(part: u64, whole: u64) -> Option<Self> {
        let ratio = (u128::from(part) * 1_000_000).checked_div(u128::from(whole))?;
        Some(Self(u64::try_from(ratio).unwrap_or(u64::MAX)))
    }
}

/// From which share of accepted drafts on a cascade pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakEven {
    /// In money; nothing where the target costs nothing.
    pub money: Option<Reach>,
    /// In the mean time to the whole answer; nothing where speeds are not known.
    pub time: Option<Reach>,
}

/// From which share of accepted drafts on requests of that shape cost less, and take less, than the target alone.
pub fn break_even(shape: &Shape, pools: &Pools, verification: Verification) -> BreakEven {
    BreakEven {
        money: money(shape, &pools.draft, &pools.target, verification),
        time: time(shape, pools, verification),
    }
}

fn money(shape: &Shape, draft: &Prices, target: &Prices, how: Verification) -> Option<Reach> {
    let Shape { prompt, cached_draft, cached_target, completion } = *shape;
    let drafted = draft.of(Usage { prompt, cached: cached_draft, completion });
    let none = Tokens::ZERO;
    let read = target.of(Usage { prompt, cached: cached_target, completion: none });
    let said = target.completion.of(completion);
    let verdict = match how {
        // What an accepted draft spares is the whole of the target's work.
        Verification::None => return Reach::of(drafted.get(), (read + said).get()),
        Verification::Whole => target.prompt.of(prompt) + target.prompt.of(completion),
    };
    // Here it spares the saying only: the prompt is read for the verdict.
    Reach::of((drafted + verdict).beyond(read).get(), said.get())
}

fn time(shape: &Shape, pools: &Pools, how: Verification) -> Option<Reach> {
    let left = |cached: Tokens| shape.prompt.checked_sub(cached).unwrap_or(Tokens::ZERO);
    let (draft_prompt, target_prompt) = (left(shape.cached_draft), left(shape.cached_target));
    let drafted = pools.draft_speed.time(draft_prompt, shape.completion)?;
    let read = pools.target_speed.time(target_prompt, Tokens::ZERO)?;
    let said = pools.target_speed.time(Tokens::ZERO, shape.completion)?;
    let verdict = match how {
        Verification::None => return Reach::of(drafted.get(), (read + said).get()),
        Verification::Whole => {
            pools.target_speed.time(shape.prompt + shape.completion, Tokens::ZERO)?
        }
    };
    let more = (drafted + verdict).checked_sub(read).unwrap_or(Micros::ZERO);
    Reach::of(more.get(), said.get())
}

/// What no threshold, however clever, can get around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feasibility {
    /// At least this share of requests must go to the target.
    pub abstain_least: Ratio,
    /// At most this share can be accepted.
    pub accept_most: Ratio,
}

/// What follows from how often the draft is worse (`base_risk`) for a loss that is allowed: a method that knows
/// nothing of the distribution must abstain on `(risk - loss) / (1 - loss)` of the requests.
pub fn feasibility(base_risk: Ratio, loss: Ratio) -> Feasibility {
    let over = base_risk.get().saturating_sub(loss.get());
    let abstain_least = if over == 0 {
        Ratio::NONE
    } else {
        Ratio::of(over.into(), loss.complement().get().max(1).into())
    };
    Feasibility { abstain_least, accept_most: abstain_least.complement() }
}

/// What one request cost, and what it would have cost without a draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    /// The draft's call.
    pub draft: Money,
    /// The target's verdict.
    pub verify: Money,
    /// The target's answer, or what it added.
    pub target: Money,
    /// The target alone.
    pub target_only: Money,
}

impl Bill {
    /// What was paid.
    pub fn paid(&self) -> Money {
        self.draft + self.verify + self.target
    }

    /// What was saved; nothing where it was not.
    pub fn saved(&self) -> Money {
        self.target_only.beyond(self.paid())
    }
}

impl core::ops::AddAssign for Bill {
    fn add_assign(&mut self, other: Self) {
        self.draft += other.draft;
        self.verify += other.verify;
        self.target += other.target;
        self.target_only += other.target_only;
    }
}
