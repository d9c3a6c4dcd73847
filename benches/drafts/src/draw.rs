//! Random worlds: a draft, a target and their requests, as a seed draws them.

use std::fmt;

use overdraft_core::cascade::{Delivery, Evidence, Finish, LogProb, Nats, Observation, Traits};
use overdraft_sim::Draws;
use overdraft_units::{Ratio, Tokens};
use serde::Serialize;

/// Tokens of a draft that are looked at: more change no quantile by much.
const OBSERVED_MAX: u32 = 48;
/// Tokens of a first window.
pub(crate) const WINDOW: u32 = 24;

/// When the draft's own trouble begins and ends, in shares of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) enum Trouble {
    /// It has none.
    None,
    /// This share of calls fails after so many of the target's times, from half of the requests on, or from the first.
    Fails { share: f64, after: f64, from: f64 },
    /// It never answers.
    Hangs { from: f64, until: f64 },
    /// Its pool is asked this many times what it can do, if it is asked first each time.
    Overloaded { load: f64 },
    /// Half way through it is as good in another share of answers, and this many times as slow.
    Drifts { quality: f64, slower: f64 },
    /// Of one tenant in three it is as good in this share of answers.
    Tenant { quality: f64 },
}

/// How a client gets its answer, and what it is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Form {
    /// Whole.
    Whole,
    /// As a stream of which the whole draft is judged first.
    Held,
    /// As a stream that is judged by its first window.
    Windowed,
}

/// One draw.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct World {
    seed: u64,
    pub(crate) place: u64,
    pub(crate) form: Form,
    /// The share of answers that are as good.
    quality: f64,
    /// Whether it shows in its surprise which.
    has_sign: bool,
    /// Its times beside the target's.
    speed: f64,
    pub(crate) trouble: Trouble,
    /// What a draft costs beside the target.
    pub(crate) price: f64,
    /// Requests per second.
    rate: f64,
    /// The target's time to the first token of a short prompt, and for each token, in seconds.
    target: (f64, f64),
    pub(crate) loss_permille: u32,
}

/// A request with all that both models would make of it. Times are in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) at: f64,
    pub(crate) traits: Traits,
    pub(crate) target: Times,
    /// Nothing where the draft never answers.
    pub(crate) draft: Option<Times>,
    /// The draft fails after so long.
    pub(crate) fails: Option<f64>,
    pub(crate) is_worse: bool,
    /// Surprises of its tokens, from whose mean a fixed gate judges.
    surprises: Vec<f64>,
    pub(crate) dice: u64,
}

/// How long a model takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) first: f64,
    /// Until its first window is full.
    pub(crate) window: f64,
    pub(crate) end: f64,
}

impl World {
    /// Draw `place` of those that begin with `seed`.
    pub(crate) fn draw(seed: u64, place: u64) -> Self {
        let mut draws = Draws::new(seed, place);
        let mut even = |low: f64, high: f64| low + draws.share() * (high - low);
        let quality = even(0.0, 1.0);
        let has_sign = even(0.0, 1.0) < 0.5;
        let speed = (even(0.1_f64.ln(), 3.0_f64.ln())).exp();
        let form = match even(0.0, 3.0) {
            part if part < 1.0 => Form::Whole,
            part if part < 2.0 => Form::Held,
            _ => Form::Windowed,
        };
        let trouble = match even(0.0, 10.0) {
            part if part < 4.0 => Trouble::None,
            part if part < 5.2 => Trouble::Fails {
                share: even(0.2, 1.0),
                after: even(0.02, 2.0),
                from: if even(0.0, 1.0) < 0.5 { 0.0 } else { 0.15 },
            },
            part if part < 6.4 => {
                let from = even(0.0, 0.3);
                Trouble::Hangs { from, until: even(from, 1.0) }
            }
            part if part < 7.6 => Trouble::Overloaded { load: even(0.7, 3.0) },
            part if part < 8.8 => {
                Trouble::Drifts { quality: even(0.0, 1.0), slower: even(0.5, 4.0) }
            }
            _ => Trouble::Tenant { quality: even(0.0, 0.3) },
        };
        Self {
            seed,
            place,
            form,
            quality,
            has_sign,
            speed,
            trouble,
            price: even(0.03, 0.4),
            rate: even(2.0_f64.ln(), 40.0_f64.ln()).exp(),
            target: (even(0.05, 0.4), even(0.01, 0.04)),
            loss_permille: if even(0.0, 1.0) < 0.5 { 10 } else { 30 },
        }
    }

    /// Its requests.
    pub(crate) fn requests(&self, count: usize) -> Vec<Request> {
        let mut at = 0.0;
        let of = |place: usize| f64::from(u32::try_from(place).unwrap_or(0));
        (0..count)
            .map(|place| {
                let name = u64::try_from(place).unwrap_or(0) + self.place * 1_000_003;
                let mut draws = Draws::new(self.seed, name);
                at += draws.exponential(1.0 / self.rate);
                self.request(at, of(place) / of(count), &mut draws)
            })
            .collect()
    }

    fn request(&self, at: f64, part: f64, draws: &mut Draws) -> Request {
        let tenant = draws.any() % 3;
        let prompt = draws.lognormal(400.0, 1.0).clamp(16.0, 16_000.0);
        let output = draws.lognormal(80.0, 0.6).clamp(32.0, 600.0);
        let mut times = |speed: f64| {
            let mut noise = || draws.lognormal(1.0, 0.15);
            let first = speed * self.target.0 * (0.5 + prompt / 800.0) * noise();
            let pace = speed * self.target.1 * noise();
            Times { first, window: first + pace * f64::from(WINDOW), end: first + pace * output }
        };
        let (target, mut draft) = (times(1.0), Some(times(self.speed)));
        let (mut quality, mut fails) = (self.quality, None);
        match self.trouble {
            Trouble::Fails { share, after, from } if from <= part && draws.share() < share => {
                fails = Some(after * target.end);
            }
            Trouble::Hangs { from, until } if (from..until).contains(&part) => draft = None,
            Trouble::Drifts { quality: other, slower } if 0.5 <= part => {
                quality = other;
                draft = draft.map(|times| Times {
                    first: times.first * slower,
                    window: times.window * slower,
                    end: times.end * slower,
                });
            }
            Trouble::Tenant { quality: other } if tenant == 0 => quality = other,
            _ => {}
        }
        let is_worse = quality <= draws.share();
        let mean = match (self.has_sign, is_worse) {
            (true, true) => 0.8,
            (true, false) => 0.1,
            (false, _) => 0.3,
        };
        let mean = draws.lognormal(mean, 0.5);
        let tokens = usize::try_from(OBSERVED_MAX).unwrap_or(0);
        let surprises = (0..tokens).map(|_| draws.exponential(mean)).collect();
        let prompt = Tokens::new(whole(prompt));
        let delivery = if self.form == Form::Whole { Delivery::Whole } else { Delivery::Streamed };
        let traits = Traits { tenant, prompt, delivery, ..Traits::default() };
        Request { at, traits, target, draft, fails, is_worse, surprises, dice: draws.any() }
    }

    /// Workers of the draft pool: as many as all requests would keep busy, or too few.
    pub(crate) fn draft_workers(&self) -> usize {
        let busy = self.rate * self.speed * (self.target.0 + 80.0 * self.target.1);
        match self.trouble {
            Trouble::Overloaded { load } => usize::try_from(whole(busy / load)).unwrap_or(1).max(1),
            _ => usize::try_from(whole(4.0 * busy)).unwrap_or(1) + 8,
        }
    }
}

impl Request {
    /// What the draft says of its own certainty.
    pub(crate) fn evidence(&self, mut evidence: Evidence) -> Evidence {
        for surprise in &self.surprises {
            evidence.observe(Observation {
                logprob: LogProb::from_nats(-surprise),
                margin: Some(Nats::from_nats(0.5 / surprise.max(0.02))),
                entropy: Some(Nats::from_nats(*surprise)),
                digit: false,
            });
        }
        evidence.finish(Finish::Stop);
        evidence
    }

    /// What a gate with a fixed bar sees of it.
    pub(crate) fn surprise(&self, form: Form) -> f64 {
        let seen = match form {
            Form::Windowed => self.surprises.get(..usize::try_from(WINDOW).unwrap_or(0)),
            Form::Whole | Form::Held => None,
        };
        let seen = seen.unwrap_or(&self.surprises);
        seen.iter().sum::<f64>() / overdraft_claims::as_float(seen.len().max(1))
    }
}

impl Times {
    /// When it is known whether the draft is given.
    pub(crate) const fn verdict(self, form: Form) -> f64 {
        match form {
            Form::Windowed => self.window,
            Form::Whole | Form::Held => self.end,
        }
    }
}

/// The share of answers that may be worse.
pub(crate) const fn loss(world: &World) -> Ratio {
    Ratio::permille(world.loss_permille)
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quality, speed, price, rate, form, trouble, .. } = self;
        let sign = if self.has_sign { "with a sign" } else { "without a sign" };
        write!(
            f,
            "good {quality:.2} {sign}, speed {speed:.2}, price {price:.2}, {rate:.0}/s, {form:?}, {trouble:?}"
        )
    }
}

/// A positive number without its fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within bounds")]
fn whole(number: f64) -> u32 {
    number.clamp(0.0, 1e9) as u32
}
