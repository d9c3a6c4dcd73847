//! Extra members: what the gateway asks of a worker for itself, to be able to resume a stream.
//!
//! Token ids, and counts with every chunk where there are none. A worker that refuses a request for such
//! a member is asked again without it; that is no attempt, for the client has not asked for it. Where the
//! worker takes the request then, it is not told the member any more.

use http::StatusCode;
use overdraft_core::resume::{Ability, Extra, PromptForm};
use overdraft_wire::refuses_member;
use overdraft_wire::request::StreamUsage;

/// A request whose stream may be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracked {
    pub(crate) prompt: PromptForm,
    pub(crate) ids: IdsFor,
    pub(crate) usage: StreamUsage,
    /// Whether counts are of use: no way goes on by text otherwise.
    pub(crate) counts: bool,
}

/// Whom an answer's token ids are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdsFor {
    /// Nobody: no way goes on by them, or the client says that it wants none.
    Nobody,
    /// The gateway.
    Gateway,
    /// The client, which asks for them itself.
    Client,
}

/// What is added to a request for one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    pub(crate) ids: bool,
    pub(crate) counts: bool,
}

impl Tracked {
    /// What is added for a worker of this ability.
    pub(crate) fn extras(self, ability: Ability) -> Extras {
        Extras {
            ids: self.ids == IdsFor::Gateway && ability.is_asked_for_ids(self.prompt),
            counts: self.counts
                && self.usage != StreamUsage::Every
                && ability.is_asked_for_counts(self.prompt, self.ids != IdsFor::Nobody),
        }
    }
}

impl Extras {
    /// The member that an answer may refuse, where it names one that was added. One that only repeats the request, as
    /// vLLM's does where a member is missing, refuses none.
    pub(crate) fn refused_by(self, status: StatusCode, answer: &[u8]) -> Option<Extra> {
        if !matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY) {
            return None;
        }
        let names = |name: &str| refuses_member(answer, name);
        match self {
            Self { ids: true, .. } if names(IDS) => Some(Extra::Ids),
            Self { counts: true, .. } if names(COUNTS) => Some(Extra::Counts),
            _ => None,
        }
    }
}

/// The member that asks for token ids.
pub(crate) const IDS: &str = "return_token_ids";
/// The option of a stream that asks for counts with every chunk.
pub(crate) const COUNTS: &str = "continuous_usage_stats";
