//! A machine and its texts in virtual time, for a controller that is told of neither.
//!
//! Steps cost what a world says, with the noise of a shared machine. New sequences bring a prompt that
//! the target reads, and the draft model too once it guesses for them; while it does not, what was said
//! piles up before it. Lookups are found now and then, and judged by every token.

use std::time::Duration;

use overdraft_scheduler::batch::DraftRoom;
use overdraft_scheduler::speculate::{
    Acceptance, Confidence, Controller, CostCurve, DEPTH_MAX, Drafter, Fate, Grant, Load, Nanos,
    Pass, Policy, Prospect, Pursuit, Ran, StepCosts, Trial,
};
use overdraft_units::{Instant, Micros, Tokens};

/// How often guesses are right, in hundredths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    /// The draft model's.
    pub(crate) model: u64,
    /// Those that were looked up.
    pub(crate) lookup: u64,
    /// How often a lookup finds anything.
    pub(crate) found: u64,
    /// How often the draft model is sure, and then nearly always right; nobody knows when where that is never.
    pub(crate) sure: u64,
}

/// A load that stays the same for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) sequences: u32,
    pub(crate) text: Text,
    pub(crate) millis: u64,
}

/// What a machine takes for so many rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) verify: fn(u32) -> Nanos,
    pub(crate) draft: fn(u32) -> Nanos,
    /// What it takes to read a token, in hundredths of what it takes to guess one.
    pub(crate) read: u32,
    /// What the first pass of a step takes besides.
    pub(crate) first: Nanos,
    /// What a guess takes, in hundredths of what another sequence does.
    pub(crate) guess: Nanos,
    /// The same for a lone sequence.
    pub(crate) guess_alone: Nanos,
    /// The same of a row of a prompt.
    pub(crate) prompt: Nanos,
    /// The same of a guess where a prompt is read in the same step.
    pub(crate) guess_beside: Nanos,
}

/// What happens on which machine.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) machine: Machine,
    pub(crate) phases: Vec<Phase>,
    /// Tokens of a prompt.
    pub(crate) prompt: u32,
    /// Tokens of an answer.
    pub(crate) answer: u64,
    /// How often who was answered asks again only after the next step has begun, in hundredths.
    pub(crate) late: u64,
    /// Whether what is measured is off, as on a shared machine.
    pub(crate) noisy: bool,
    /// By how much more than at its quickest the machine takes at times, in hundredths, the target and the
    /// draft model alike: others have it, too.
    pub(crate) drift: u64,
    /// Whether the profile is far off: it was made while others had the machine.
    pub(crate) disturbed: bool,
    /// What the machine is while others have it, for seconds at a time.
    pub(crate) crowded: Option<Machine>,
}

/// Splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

/// Rows that the draft model reads in one pass at most, as in the engine.
const READ_MAX: u32 = 256;
/// Rows of steps; what a plan leaves to guesses.
const ROWS_MAX: u32 = 2_048;
/// One step in so many is disturbed, and takes three times as long.
const DISTURBED_ONE_IN: u64 = 100;

/// How long the machine is as slow as it is.
const DRIFT_NANOS: Nanos = 150_000_000;
/// How long others have it, or do not.
const CROWDED_NANOS: Nanos = 2_000_000_000;

/// A sequence as the engine knows it.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    seen: [Acceptance; 2],
    /// Tokens of its prompt that the target has not read.
    prompt: u32,
    /// Tokens that the draft model has not read.
    backlog: u32,
    /// Tokens that a lookup found.
    lookup: usize,
    /// Tokens until another takes its place.
    left: u64,
    /// Tokens that were drafted for it, and those of them that it kept.
    kept: (u64, u64),
    /// It is not there yet.
    late: bool,
}

/// What was guessed for a sequence.
#[derive(Clone, Copy, Debug)]
struct Drafted {
    /// To be verified.
    depth: usize,
    /// One more that was not worth it.
    dropped: usize,
    chances: [(u64, Option<Confidence>); DEPTH_MAX],
}

/// A run of one policy.
struct Run<'a> {
    world: &'a World,
    controller: Controller,
    dice: Dice,
    seed: u64,
    now: Nanos,
    sequences: Vec<Sequence>,
}

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    /// How many guesses in a row are right, each with its chance.
    fn right(&mut self, chances: &[u64]) -> usize {
        chances.iter().take_while(|chance| self.below(100) < **chance).count()
    }

    /// A time as it is measured: off by up to so many hundredths, and now and then by far.
    fn measured(&mut self, time: Nanos, off: u64) -> Nanos {
        if off == 0 {
            return time;
        }
        let time = time / 100 * (100 - off + self.below(2 * off + 1));
        if self.below(DISTURBED_ONE_IN) == 0 { 3 * time } else { time }
    }
}

/// Tokens of a step of a sequence, on average, where guesses have these chances.
fn expected(chances: &[u64]) -> f64 {
    let mut survival = 1.0;
    let right = chances.iter().map(|hundredths| {
        survival *= f64::from(u32::try_from(*hundredths).expect("at most a hundred")) / 100.0;
        survival
    });
    1.0 + right.sum::<f64>()
}

impl Text {
    /// The chances of guesses, and how sure of each the draft model is, where anybody knows.
    fn chances(self, dice: &mut Dice) -> [(u64, Option<Confidence>); DEPTH_MAX] {
        core::array::from_fn(|_| match self.sure {
            0 => (self.model, None),
            sure if dice.below(100) < sure => (SURE, Some(Confidence::of(0.995))),
            sure => {
                let chance = (100 * self.model).saturating_sub(SURE * sure) / (100 - sure);
                (chance, Some(Confidence::of(0.6)))
            }
        })
    }
}

/// How often a guess is right of which the draft model is sure.
const SURE: u64 = 99;

impl World {
    /// Tokens a second in each phase.
    pub(crate) fn run(&self, policy: Policy, seed: u64) -> Vec<f64> {
        let mut dice = Dice(seed);
        let costs = self.profile(&mut dice);
        let controller = Controller::new(policy, DEPTH_MAX, costs);
        let mut run = Run { world: self, controller, dice, seed, now: 0, sequences: Vec::new() };
        self.phases.iter().map(|phase| run.phase(*phase)).collect()
    }

    /// By how many hundredths a measured time is off at most, but for what disturbs it.
    fn off(&self) -> u64 {
        match (self.noisy, self.drift) {
            (false, _) => 0,
            (true, 0) => 4,
            (true, _) => 12,
        }
    }

    /// What so much work takes at this time.
    fn drifted(&self, now: Nanos, took: Nanos) -> Nanos {
        if self.drift == 0 {
            return took;
        }
        took / 100 * (100 + Dice(now / DRIFT_NANOS).below(self.drift + 1))
    }

    /// Measured costs, each off by up to three hundredths, or up to three times what they are.
    fn profile(&self, dice: &mut Dice) -> StepCosts {
        let mut about = |cost: Nanos| match (self.noisy, self.disturbed) {
            (_, true) => cost / 100 * (100 + dice.below(200)),
            (true, false) => cost / 100 * (97 + dice.below(7)),
            (false, false) => cost,
        };
        let Machine { verify, draft, read, .. } = self.machine;
        let rows = (0..9).flat_map(|power| [2 << power, 3 << power]).map(|twice| twice / 2);
        let mut curve = |cost: fn(u32) -> Nanos| {
            CostCurve::new(rows.clone().map(|rows| (rows, about(cost(rows)))).collect())
        };
        let (verify, passes) = (curve(verify), curve(draft));
        let read = [16, 64, 256].map(|tokens| (tokens, about(draft(tokens * read / 100))));
        let read = CostCurve::new(read.to_vec());
        StepCosts { verify, draft: passes, read, ..StepCosts::default() }
    }
}

impl Run<'_> {
    /// The machine as it is just now.
    fn machine(&self) -> Machine {
        let is_crowded = Dice((self.seed << 32) | (self.now / CROWDED_NANOS)).below(2) == 0;
        self.world.crowded.filter(|_| is_crowded).unwrap_or(self.world.machine)
    }

    fn phase(&mut self, phase: Phase) -> f64 {
        let World { prompt, answer, .. } = *self.world;
        let late = false;
        let count = u64::from(phase.sequences);
        let seen = [Acceptance::default(); 2];
        let (lookup, kept) = (0, (0, 0));
        let fresh = Sequence { seen, prompt, backlog: prompt, lookup, left: answer, kept, late };
        // They begin together, and end one after the other.
        let left = |place: u64| (answer * (place + 1) / count).max(2);
        self.sequences = (0..count).map(|place| Sequence { left: left(place), ..fresh }).collect();
        let (began, mut tokens) = (self.now, 0.0);
        while self.now < began + phase.millis * 1_000_000 {
            tokens += self.step(phase.text, &fresh);
        }
        tokens / Duration::from_nanos(self.now - began).as_secs_f64()
    }

    /// One step; returns the tokens that it may be expected to emit: who is compared is judged by what
    /// was decided, and not by luck.
    fn step(&mut self, text: Text, fresh: &Sequence) -> f64 {
        let (grants, pursuits) = self.decide(text);
        let prompts = self.prompts();
        let drafted = self.draft(text, &grants, &pursuits);
        let (mut rows, mut guesses, mut tokens) = (0, 0, 0.0);
        let (mut beginning, mut said) = (0, 0);
        for (place, draft) in drafted.into_iter().enumerate() {
            let sequence = &mut self.sequences[place];
            if core::mem::take(&mut sequence.late) {
                continue;
            }
            if 0 < sequence.prompt {
                sequence.prompt = 0;
                // The last row of a prompt yields a token, too.
                tokens += 1.0;
                sequence.left -= 1;
                (beginning, said) = (beginning + 1, said + 1);
                continue;
            }
            rows += 1;
            guesses += u32::try_from(draft.depth).expect("small");
            let drafter = grants[place].drafter;
            // Behind the end of an answer no guess brings anything.
            let within = usize::try_from(sequence.left - 1).expect("small").min(draft.depth);
            let emitted = self.learn(text, place, drafter, &draft);
            said += u32::try_from(emitted).expect("small");
            let chances = match drafter {
                Drafter::Lookup => [text.lookup; DEPTH_MAX],
                Drafter::Model => draft.chances.map(|(chance, _)| chance),
            };
            tokens += expected(&chances[..within]);
            let sequence = &mut self.sequences[place];
            sequence.left = sequence.left.saturating_sub(emitted);
            if sequence.left == 0 {
                let (drafted, accepted) = sequence.kept;
                self.controller.note_answer(drafted, accepted);
                *sequence = *fresh;
                let late = self.world.late;
                sequence.late = 0 < late && self.dice.below(100) < late;
            }
        }
        let took = self.world.drifted(self.now, self.took(rows, prompts, guesses));
        let measured = self.dice.measured(took, self.world.off());
        let ran = Ran { sequences: rows, guesses, prompts, beginning, tokens: said };
        self.controller.measure(&ran, measured);
        self.now += took;
        tokens
    }

    /// What the target takes for a row of each of so many sequences, rows of prompts, and guesses.
    fn took(&self, rows: u32, prompts: u32, guesses: u32) -> Nanos {
        let Machine { verify, guess, guess_alone, prompt, guess_beside, .. } = self.machine();
        let guess = match (rows, prompts) {
            (1, 0) => guess_alone,
            (_, 0) => guess,
            (..) => guess_beside,
        };
        let base = rows + prompts;
        verify(rows)
            + (verify(base) - verify(rows)) * prompt / 100
            + (verify(base + guesses) - verify(base)) / 100 * guess
    }

    /// Rows of prompts in the next step.
    fn prompts(&self) -> u32 {
        self.sequences
            .iter()
            .filter(|sequence| !sequence.late)
            .map(|sequence| sequence.prompt)
            .sum()
    }

    /// A grant for every sequence; none for those whose prompt is read.
    fn decide(&mut self, text: Text) -> (Vec<Grant>, Vec<Option<Pursuit>>) {
        for sequence in &mut self.sequences {
            let found = self.controller.wants_lookups() && self.dice.below(100) < text.found;
            sequence.lookup = if found { DEPTH_MAX } else { 0 };
        }
        let decodes = self.sequences.iter().filter(|sequence| sequence.prompt == 0);
        let prospects: Vec<_> = decodes
            .map(|Sequence { seen, backlog, lookup, .. }| Prospect {
                class: 0,
                seen,
                lookup: *lookup,
                model: DEPTH_MAX,
                backlog: *backlog,
            })
            .collect();
        let prefill = self.prompts();
        let decodes = u32::try_from(prospects.len()).expect("few");
        let room = DraftRoom {
            decodes,
            prefill: Tokens::new(prefill),
            room: Tokens::new(ROWS_MAX.saturating_sub(decodes + prefill)),
        };
        let now = Instant::ORIGIN + Micros::new(self.now / 1_000);
        let load = Load { room, ..Load::default() };
        let decision = self.controller.decide(now, &load, &prospects);
        let mut granted = decision.grants.into_iter().zip(decision.pursuits);
        let none = Grant { drafter: Drafter::Lookup, depth: 0 };
        let grant = |sequence: &Sequence| {
            let granted = (sequence.prompt == 0).then(|| granted.next().expect("one for each"));
            granted.map_or((none, None), |(grant, pursuit)| (grant, Some(pursuit)))
        };
        self.sequences.iter().map(grant).unzip()
    }

    /// How far each draft goes, by its pursuit, were it read.
    fn pursue(&mut self, text: Text, grant: &Grant, pursuit: Option<&Pursuit>) -> Drafted {
        let none = [(text.model, None); DEPTH_MAX];
        let mut draft = Drafted { depth: grant.depth, dropped: 0, chances: none };
        let Some(mut pursuit) = pursuit.copied().filter(|_| grant.drafter == Drafter::Model) else {
            return draft;
        };
        draft.chances = text.chances(&mut self.dice);
        draft.depth = 0;
        while draft.depth < pursuit.most() {
            let (_, confidence) = draft.chances[draft.depth];
            match pursuit.follow(draft.depth, confidence, false) {
                Fate::GoOn => draft.depth += 1,
                Fate::Stop => {
                    draft.depth += 1;
                    break;
                }
                Fate::Drop => {
                    draft.dropped = 1;
                    break;
                }
            }
        }
        draft
    }

    /// The passes of the draft model; returns what was guessed for each sequence.
    fn draft(
        &mut self,
        text: Text,
        grants: &[Grant],
        pursuits: &[Option<Pursuit>],
    ) -> Vec<Drafted> {
        let pairs = grants.iter().zip(pursuits);
        let mut drafts: Vec<_> =
            pairs.map(|(grant, pursuit)| self.pursue(text, grant, pursuit.as_ref())).collect();
        let (mut pass, mut left) = (Pass::default(), READ_MAX);
        for (place, grant) in grants.iter().enumerate() {
            if grant.drafter != Drafter::Model || grant.depth == 0 {
                continue;
            }
            let backlog = &mut self.sequences[place].backlog;
            let read = if *backlog <= 2 { *backlog } else { left.min(*backlog) };
            if *backlog <= 2 {
                (pass.guessing, pass.second) = (pass.guessing + 1, pass.second + read - 1);
            } else {
                pass.reading += read;
            }
            left -= read.min(left);
            *backlog -= read;
            if 0 < *backlog {
                (drafts[place].depth, drafts[place].dropped) = (0, 0);
            }
        }
        let made = |draft: &Drafted| draft.depth + draft.dropped;
        let guess =
            |place: usize| grants[place].drafter == Drafter::Model && 0 < made(&drafts[place]);
        let modelled: Vec<usize> = (0..grants.len()).filter(|place| guess(*place)).collect();
        let later = (1..DEPTH_MAX).map(|ahead| {
            let rows = modelled.iter().filter(|place| ahead < made(&drafts[**place])).count();
            Pass { guessing: u32::try_from(rows).expect("few"), ..Pass::default() }
        });
        let all: Vec<_> =
            [pass].into_iter().chain(later).filter(|pass| *pass != Pass::default()).collect();
        let mut passes = Vec::with_capacity(all.len());
        for (place, pass) in all.into_iter().enumerate() {
            let first = if place == 0 { self.machine().first } else { 0 };
            let took = self.world.drifted(self.now, self.passed(&pass) + first);
            passes.push((pass, self.dice.measured(took, self.world.off())));
            self.now += took;
        }
        if !passes.is_empty() {
            self.controller.measure_draft(&passes);
        }
        drafts
    }

    /// What a pass of the draft model takes.
    fn passed(&self, pass: &Pass) -> Nanos {
        let Machine { draft, read, .. } = self.machine();
        draft(pass.guessing + (pass.second + pass.reading) * read / 100)
    }

    /// What a sequence emits, and what that says of whoever guessed.
    fn learn(&mut self, text: Text, place: usize, drafter: Drafter, draft: &Drafted) -> u64 {
        let Drafted { depth, dropped, chances } = *draft;
        let model = chances.map(|(chance, _)| chance);
        let right = [[text.lookup; DEPTH_MAX], model].map(|chances| self.dice.right(&chances));
        let used = right[drafter.place()].min(depth);
        let sequence = &mut self.sequences[place];
        let left = usize::try_from(sequence.left).expect("small");
        let (used, ends) = (used.min(left - 1), left <= used + 1);
        let right = right.map(|right| right.min(left - 1));
        let emitted = used + 1;
        if 0 < sequence.lookup {
            let drafted = if ends { sequence.lookup } else { sequence.lookup.min(emitted) };
            let right = right[Drafter::Lookup.place()].min(drafted);
            sequence.seen[Drafter::Lookup.place()].observe(drafted, right);
            let drafter = Drafter::Lookup;
            self.controller.learn(Trial { class: 0, drafter, drafted, right });
        }
        let made = depth + dropped;
        let guessed = drafter == Drafter::Model && 0 < made;
        if guessed {
            // What was left out stands where the target chose itself.
            let right = right[Drafter::Model.place()].min(made);
            sequence.seen[Drafter::Model.place()].observe(made, right);
            self.controller.learn(Trial { class: 0, drafter, drafted: made, right });
            for (place, (_, confidence)) in chances[..made.min(emitted)].iter().enumerate() {
                if let Some(confidence) = confidence {
                    self.controller.calibrate(0, *confidence, place < right);
                }
            }
        }
        // What was guessed was read, but for the last; else everything that was emitted is new.
        sequence.backlog = match (guessed, used == depth && dropped == 0) {
            (true, true) => 2,
            (true, false) => 1,
            (false, _) => sequence.backlog + u32::try_from(emitted).expect("small"),
        };
        if 0 < depth {
            self.controller.note_used(depth, used);
            sequence.kept.0 += depth as u64;
            sequence.kept.1 += used as u64;
        }
        emitted as u64
    }
}
