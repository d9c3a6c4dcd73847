//! Upstream body: the request as the worker gets it, mostly without a copy.

use bytes::Bytes;
use overdraft_core::admit::Priority;
use overdraft_core::resume::Extra;
use overdraft_wire::json::{Object, Patch, Prelude};
use overdraft_wire::refuses_member;

use crate::dispatch::{Member, OwnField};
use crate::pipeline::extras::{Extras, IDS, Tracked};
use crate::pipeline::request_info::{RequestInfo, Work};
use crate::pipeline::tenant_salt::SALT;
use crate::pipeline::usage;
use crate::settings::{SaltPolicy, StreamOptions};
use crate::upstream::Pieces;

/// The member by which vLLM ranks requests. What clients write there is never passed on.
pub(crate) const RANK: &str = "priority";

/// The member by which a request says how much is to be thought.
const EFFORT: &str = "reasoning_effort";

/// Bytes of a body that are searched for words at most.
const SEARCHED_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a body that is copied to be kept: half of what a connection reads at once.
const COPIED_BYTES_MAX: usize = 4 * 1024;

/// A request's body, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) body: Bytes,
    pub(crate) front: Front,
    /// What is added to it, where its stream may be resumed.
    pub(crate) tracked: Option<Tracked>,
}

/// What may be put before all of a body's own members without another look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// A rank and a salt: it has neither.
    Open {
        /// Whether its stream is still to be asked for its counts; it has no options of a stream
        /// then.
        counts: bool,
    },
    /// Nothing: it has a salt, or nobody looked.
    Unknown {
        /// As above.
        counts: bool,
    },
    /// Nothing at all: its dialect has no such fields.
    Shut,
}

impl Front {
    const fn counts(self) -> bool {
        match self {
            Self::Open { counts } | Self::Unknown { counts } => counts,
            Self::Shut => false,
        }
    }
}

impl Content {
    /// The same for as long as its answer lasts. A short body is copied: it may be a slice of the buffer that its
    /// connection reads into, which could not be used again as long as a slice of it is there.
    pub(crate) fn kept(&self) -> Self {
        let body = &self.body;
        let body = if body.len() <= COPIED_BYTES_MAX {
            Bytes::copy_from_slice(body)
        } else {
            body.clone()
        };
        Self { body, ..self.clone() }
    }

    /// Whether an error that names a full memory may only repeat what the client wrote, perhaps in escapes.
    pub(crate) fn may_name_out_of_memory(&self) -> bool {
        // What is this long may say anything.
        if SEARCHED_BYTES_MAX < self.body.len() {
            return true;
        }
        let lower = self.body.to_ascii_lowercase();
        [&b"memory"[..], br"\u00"].iter().any(|part| memchr::memmem::find(&lower, part).is_some())
    }

    /// What the gateway asks of one worker for itself, but for what that refuses of this request.
    pub(crate) fn extras(&self, worker: &Member, refused: &[Extra]) -> Extras {
        let is_told = worker.settings.traits.stream_options == StreamOptions::Asked
            && !worker.refusals().include(OwnField::StreamOptions);
        let mut ability = *worker.resume_ability();
        for extra in refused {
            ability.refuses(*extra);
        }
        let extras = self.tracked.map(|tracked| tracked.extras(ability)).unwrap_or_default();
        Extras { counts: extras.counts && is_told, ..extras }
    }

    /// What the gateway adds to it for one worker: to what is only read a salt alone.
    pub(crate) fn added<'a>(&self, info: &'a RequestInfo, worker: &Member) -> Added<'a> {
        if info.work == Work::Chore || self.front == Front::Shut {
            return Added::default();
        }
        let is_refused = |field| worker.refusals().include(field);
        let traits = &worker.settings.traits;
        let is_salted = traits.cache_salt == SaltPolicy::Told;
        let salt = info.salt.as_deref().filter(|_| is_salted);
        let salted = Added { salt, is_unsalted: !is_salted, ..Added::default() };
        if info.work == Work::Reading {
            return salted;
        }
        let ranks = traits.priority_scheduling && !is_refused(OwnField::Rank);
        let options = traits.stream_options == StreamOptions::Asked;
        Added {
            rank: ranks.then(|| rank(info.priority)),
            counts: self.front.counts() && options && !is_refused(OwnField::StreamOptions),
            extras: self.extras(worker, &[]),
            effort: if info.is_translated { Effort::Hint } else { Effort::Asked },
            ..salted
        }
    }

    /// The body for a worker that is told `added`.
    pub(crate) fn with(&self, added: Added<'_>) -> Pieces {
        // Counts with every chunk change the options that the client gave.
        let changes_options = added.extras.counts && !added.counts;
        let is_edited = changes_options || added.lacks_effort();
        if is_edited || matches!(self.front, Front::Unknown { .. }) {
            return self.patched(added).into();
        }
        let mut prelude = Prelude::new();
        if let Some(rank) = added.rank {
            prelude = prelude.with(RANK, &rank);
        }
        if let Some(salt) = added.salt {
            prelude = prelude.with(SALT, &salt);
        }
        if added.counts {
            let often = added.extras.counts;
            prelude = if often { usage::told_often(prelude) } else { usage::told(prelude) };
        }
        if added.extras.ids {
            prelude = prelude.with(IDS, &true);
        }
        if prelude.is_empty() {
            return self.body.clone().into();
        }
        prelude.before(&self.body).map_or_else(|| self.body.clone().into(), Pieces::from)
    }

    fn patched(&self, added: Added<'_>) -> Bytes {
        if added.is_nothing() {
            return self.body.clone();
        }
        let Ok(object) = Object::parse(&self.body) else { return self.body.clone() };
        let mut patch = Patch::new();
        if added.extras.ids {
            patch = patch.set(IDS, &true);
        }
        if added.extras.counts {
            patch = usage::asked_often(patch, &object);
        } else if added.counts {
            patch = usage::asked_anew(patch);
        }
        if let Some(rank) = added.rank {
            patch = patch.set(RANK, &rank);
        }
        match added.salt {
            Some(salt) => patch = patch.set(SALT, &salt),
            None if added.is_unsalted => patch = patch.remove(SALT),
            None => {}
        }
        if added.lacks_effort() {
            patch = patch.remove(EFFORT);
        }
        patch.apply(&object).into()
    }
}

/// What the gateway adds to a request of its own accord: with a rank where the worker ranks requests itself,
/// with the salt of whose it is where it is told salts, and without any where it is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Added<'a> {
    rank: Option<i8>,
    salt: Option<&'a str>,
    counts: bool,
    is_unsalted: bool,
    extras: Extras,
    effort: Effort,
}

/// Whose word the request's effort is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Effort {
    /// The client's own: what a worker says of it is the client's to know.
    #[default]
    Asked,
    /// A hint in the client's dialect, where chat is stricter.
    Hint,
    /// A hint that the worker has refused.
    LeftOut,
}

/// A field that a request can do without where its worker refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    /// One that the gateway adds.
    Own(OwnField),
    /// The effort of a translated request. A worker may refuse one word for it and take another, so nothing is learnt.
    Effort,
}

impl Spare {
    const fn name(self) -> &'static str {
        match self {
            Self::Own(field) => field.name(),
            Self::Effort => EFFORT,
        }
    }
}

/// Mark of an answer to a request whose effort was left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffortLeftOut;

/// Says once which field of the gateway's own a worker refuses.
pub(super) fn tell_refused(member: &Member, field: Spare, so: &'static str) {
    let Spare::Own(field) = field else { return };
    if member.refusals().note(field) {
        tracing::warn!(
            worker = member.upstream.name(),
            field = field.name(),
            setting = field.remedy(),
            "it refuses a field that the gateway adds to requests; {so}"
        );
    }
}

impl Added<'_> {
    /// What is asked for itself, to be able to resume.
    pub(crate) const fn extras(self) -> Extras {
        self.extras
    }

    /// The same, asking these for itself.
    pub(crate) const fn with_extras(self, extras: Extras) -> Self {
        Self { extras, ..self }
    }

    fn is_nothing(self) -> bool {
        !self.lacks_effort() && Self { effort: Effort::default(), ..self } == Self::default()
    }

    /// Whether the worker is not told the effort that its client hinted at.
    pub(crate) fn lacks_effort(self) -> bool {
        self.effort == Effort::LeftOut
    }

    /// The field that a worker's refusal names, if it names one that the client did not write: then the refusal may be no
    /// fault of the client's. A refusal that repeats the request names none.
    pub(crate) fn named_in(self, refusal: &[u8]) -> Option<Spare> {
        let all = [
            (Spare::Own(OwnField::StreamOptions), self.counts || self.extras.counts),
            (Spare::Own(OwnField::Salt), self.salt.is_some()),
            (Spare::Own(OwnField::Rank), self.rank.is_some()),
            (Spare::Effort, self.effort == Effort::Hint),
        ];
        let added = all.into_iter().filter(|(_, is_added)| *is_added).map(|(field, _)| field);
        added.into_iter().find(|field| refuses_member(refusal, field.name()))
    }

    /// The same without one of them, where it can be done without.
    pub(crate) const fn without(self, field: Spare) -> Option<Self> {
        match field {
            Spare::Own(OwnField::StreamOptions) => {
                let extras = Extras { counts: false, ..self.extras };
                Some(Self { counts: false, extras, ..self })
            }
            Spare::Own(OwnField::Rank) => Some(Self { rank: None, ..self }),
            // What keeps tenants apart is given up by nobody but the operator.
            Spare::Own(OwnField::Salt) => None,
            Spare::Effort => Some(Self { effort: Effort::LeftOut, ..self }),
        }
    }
}

/// The priority as vLLM has it: the lower goes first, and zero is who says nothing.
const fn rank(priority: Priority) -> i8 {
    match priority {
        Priority::Flex => 10,
        Priority::Default => 0,
        Priority::Priority => -10,
    }
}
