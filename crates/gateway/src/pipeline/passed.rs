//! Passed requests: what comes in a dialect that workers speak themselves.
//!
//! Its body goes on byte for byte, but for the name of a model behind an alias and the fields that no worker is told.
//! It is placed by its translation: whatever is said differently in both bodies, as a cache mark or a line that changes
//! each time, makes the same prompt. What cannot be translated is placed by its size alone, for it may be what the
//! worker knows and the gateway does not.

use bytes::Bytes;
use overdraft_wire::dialect::Dialect;
use overdraft_wire::json::{Object, Patch};
use overdraft_wire::{ApiError, RequestPeek};
use serde_json::Number;

use super::context::RequestContext;
use super::inspect::Subject;
use super::keys::Caller;
use super::request_info::RequestInfo;
use super::tenant_salt::SALT;
use super::upstream_body::{Content, Front, RANK};
use super::usage::Counts;
use super::{Pipeline, bounds};

/// What of a passed request is known beside its body.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    pub(crate) dialect: Dialect,
    /// As a chat completion, where it can be translated.
    pub(crate) chat: Option<Bytes>,
}

impl Passed {
    /// Looks into a request: what routing must know of it, and its body.
    ///
    /// # Errors
    /// Where it is no JSON object, or asks for what it may not have.
    pub(crate) fn inspect(
        &self,
        pipeline: &Pipeline,
        context: &RequestContext<'_>,
        caller: &Caller,
        body: &Bytes,
    ) -> Result<(RequestInfo, Content), ApiError> {
        let own = RequestPeek::parse(body)?;
        let translated = self.chat.as_ref().map(|chat| RequestPeek::parse(chat)).transpose()?;
        let peek = translated.as_ref().unwrap_or(&own);
        let (settings, routes) = (pipeline.settings(), pipeline.routes());
        // A tier is the engine's to judge: dialects have other words for it.
        let untiered = RequestPeek { service_tier: None, ..peek.clone() };
        let subject = Subject::of(pipeline, context, caller, &untiered)?;
        let mut patch = Patch::new();
        if let Some(model) = subject.renamed() {
            patch = patch.set("model", &model);
        }
        let stripped = settings.isolation.strip.iter().map(String::as_str);
        for name in stripped.chain([RANK]).filter(|name| own.object.raw(name).is_some()) {
            patch = patch.remove(name);
        }
        let asked = translated.as_ref().map_or_else(|| self.limit(&own), |peek| peek.max_tokens);
        let bounded = RequestPeek { max_tokens: asked, ..peek.clone() };
        let most = bounds::answer(settings.limits.of_request, &bounded)?;
        if let Some(most) = most {
            patch = patch.set(self.limit_name(), &most);
        }
        let salt = pipeline.salts().salt(caller, own.cache_salt.as_deref());
        let Subject { asking, priority, named, .. } = subject;
        let info = match &translated {
            Some(chat) => RequestInfo::of_text(&routes, asking, chat, salt.clone()),
            None => RequestInfo::of_size(asking, &own, asked),
        };
        let mut info = info.of(caller.clone(), priority, context.endpoint);
        (info.counts, info.salt, info.limit) = (Counts::Relayed, salt, info.limit.or(most));
        info.named = named;
        let front = self.front(&own.object);
        let patched = (!patch.is_empty()).then(|| patch.apply(&own.object).into());
        let body = patched.unwrap_or_else(|| body.clone());
        Ok((info, Content { body, front, tracked: None }))
    }

    /// What may be put before the body: the gateway's own fields are known to engines in Responses alone.
    fn front(&self, object: &Object<'_>) -> Front {
        match self.dialect {
            Dialect::Messages => Front::Shut,
            Dialect::Responses if object.raw(SALT).is_some() => Front::Unknown { counts: false },
            Dialect::Responses => Front::Open { counts: false },
        }
    }

    const fn limit_name(&self) -> &'static str {
        match self.dialect {
            Dialect::Messages => "max_tokens",
            Dialect::Responses => "max_output_tokens",
        }
    }

    /// The longest answer, in any spelling of a whole number.
    fn limit(&self, peek: &RequestPeek<'_>) -> Option<u32> {
        let number: Number = serde_json::from_str(peek.object.raw(self.limit_name())?).ok()?;
        let saturated = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and what has a fraction is no limit"
        )]
        let whole = |number: f64| (0.0 <= number && number.fract() == 0.0).then_some(number as u32);
        number.as_u64().map(saturated).or_else(|| number.as_f64().and_then(whole))
    }
}
