//! Upstream body: the request as the worker gets it, mostly without a copy.

use bytes::Bytes;
use overdraft_core::admit::Priority;
use overdraft_wire::json::{Object, Patch, Prelude};

use crate::pipeline::extras::{Extras, IDS, Tracked};
use crate::pipeline::request_info::RequestInfo;
use crate::pipeline::tenant_salt::SALT;
use crate::pipeline::usage;
use crate::settings::SaltPolicy;
use crate::settings::WorkerSettings;
use crate::upstream::Pieces;

/// The member by which vLLM ranks requests. What clients write there is never passed on.
pub(crate) const RANK: &str = "priority";

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
    /// Nobody looked.
    Unknown,
}

impl Content {
    /// Whether an error that names a full memory may only repeat what the client wrote, perhaps in escapes.
    pub(crate) fn may_name_out_of_memory(&self) -> bool {
        let lower = self.body.to_ascii_lowercase();
        [&b"memory"[..], br"\u00"].iter().any(|part| memchr::memmem::find(&lower, part).is_some())
    }

    /// The body for one worker: with a rank where it ranks requests itself, with the salt of whose
    /// it is where it is told salts, and without any where it is not; and with what the gateway asks for itself.
    pub(crate) fn addressed(
        &self,
        info: &RequestInfo,
        worker: &WorkerSettings,
        extras: Extras,
    ) -> Pieces {
        if info.is_chore {
            return self.body.clone().into();
        }
        let rank = worker.priority_scheduling.then(|| rank(info.priority));
        let salt = info.salt.as_ref().filter(|_| worker.cache_salt == SaltPolicy::Told);
        let counts = match self.front {
            Front::Open { counts } if counts || !extras.counts => counts,
            Front::Open { .. } | Front::Unknown => {
                let is_untold = worker.cache_salt == SaltPolicy::Untold;
                return self.patched(rank, salt.map(String::as_str), is_untold, extras).into();
            }
        };
        let mut prelude = Prelude::new();
        if let Some(rank) = rank {
            prelude = prelude.with(RANK, &rank);
        }
        if let Some(salt) = salt {
            prelude = prelude.with(SALT, salt);
        }
        if counts {
            prelude = if extras.counts { usage::told_often(prelude) } else { usage::told(prelude) };
        }
        if extras.ids {
            prelude = prelude.with(IDS, &true);
        }
        if prelude.is_empty() {
            return self.body.clone().into();
        }
        prelude.before(&self.body).map_or_else(|| self.body.clone().into(), Pieces::from)
    }

    fn patched(
        &self,
        rank: Option<i8>,
        salt: Option<&str>,
        is_untold: bool,
        extras: Extras,
    ) -> Bytes {
        let is_plain = rank.is_none() && salt.is_none() && !is_untold;
        if is_plain && extras == Extras::default() {
            return self.body.clone();
        }
        let Ok(object) = Object::parse(&self.body) else { return self.body.clone() };
        let mut patch = Patch::new();
        if extras.ids {
            patch = patch.set(IDS, &true);
        }
        if extras.counts {
            patch = usage::asked_often(patch, &object);
        }
        if let Some(rank) = rank {
            patch = patch.set(RANK, &rank);
        }
        match salt {
            Some(salt) => patch = patch.set(SALT, &salt),
            None if is_untold => patch = patch.remove(SALT),
            None => {}
        }
        patch.apply(&object).into()
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
