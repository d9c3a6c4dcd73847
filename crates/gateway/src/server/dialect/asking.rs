//! Asking: a dialect's request is read, and asked of the fleet as a chat completion.
//!
//! The question owns all that it needs, so that it can go on behind an answer that has begun, and without any
//! client. Dropping it cancels it.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use overdraft_core::admit::Priority;
use overdraft_http::{Body, Exchange, RequestBody, reply};
use overdraft_telemetry::Delivery;
use overdraft_wire::dialect::Dialect;
use overdraft_wire::{ApiError, Endpoint};

use super::super::Gateway;
use super::super::forward::{Intake, enter, forward, full, refuse};
use super::paced::Paced;
use super::stream::Question;
use crate::pipeline::context::RequestContext;
use crate::pipeline::inspect::{check_name, unknown_model};
use crate::pipeline::keys::Caller;
use crate::pipeline::passed::Passed;
use crate::pipeline::queue::{first_look, is_expected};
use crate::pipeline::refusal::Refused;
use crate::pipeline::request_guard::RequestGuard;
use crate::pipeline::uploads::read_body;

/// A request as it comes from the listener.
#[derive(Debug)]
pub(in crate::server) struct Incoming {
    pub(in crate::server) exchange: Exchange,
    pub(in crate::server) head: Parts,
    pub(in crate::server) guard: RequestGuard,
}

impl Incoming {
    /// It is answered so, and over.
    pub(super) fn answer_with(mut self, response: Response<Body>) -> Response<Body> {
        self.guard.answered(response.status());
        response
    }

    /// It is refused.
    pub(super) fn refuse(self, error: &ApiError) -> Response<Body> {
        self.answer_with(reply::error(error))
    }

    /// It is answered with a kept object, which takes the memory of bodies until its client has read it.
    pub(super) fn answer_kept(mut self, object: impl Into<Bytes>) -> Response<Body> {
        let object = object.into();
        if let Err(no_room) = self.exchange.hold(object.len()) {
            return self.refuse(&ApiError::from(no_room));
        }
        let mut response = reply::json(StatusCode::OK, Bytes::new());
        self.guard.answered(response.status());
        *response.body_mut() = Body::wrap(Paced::new(object, self));
        response
    }

    /// Takes a place for a request that no worker sees: its answer may be large, and its client slow to read it.
    pub(super) async fn enter(
        mut self,
        gateway: &Gateway,
        delivery: Delivery,
    ) -> Result<(Self, Caller), Response<Body>> {
        let caller = match self.identify(gateway).await {
            Ok(caller) => caller,
            Err(error) => return Err(self.refuse(&error)),
        };
        if !self.guard.enter() {
            return Err(self.turn_away(gateway, full("requests")));
        }
        if delivery == Delivery::Streamed && !self.guard.stream() {
            return Err(self.turn_away(gateway, full("streams")));
        }
        Ok((self, caller))
    }

    /// It is refused for want of room.
    pub(super) fn turn_away(self, gateway: &Gateway, refused: Refused) -> Response<Body> {
        if let Some(reason) = refused.reason {
            gateway.pipeline.admission.rejected(reason, Priority::default().name());
        }
        self.answer_with(refused.into_response())
    }

    /// Who asks, of a request that no worker sees.
    pub(super) async fn identify(&self, gateway: &Gateway) -> Result<Caller, ApiError> {
        gateway.pipeline.identify(&self.head.headers).await
    }
}

/// A request whose caller is known and whose body has been read.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) incoming: Incoming,
    pub(super) caller: Caller,
    pub(super) gateway: Arc<Gateway>,
}

/// Takes a request in: its caller, its place among those in flight, its body.
pub(super) async fn read(
    gateway: &Arc<Gateway>,
    incoming: Incoming,
    body: RequestBody,
) -> Result<(Asking, Bytes), Response<Body>> {
    let Incoming { exchange, head, guard } = incoming;
    let mut context =
        RequestContext::new(&exchange, &head, Endpoint::ChatCompletions).guarded_by(guard);
    let entered = enter(gateway, &mut context).await;
    let read = match entered {
        Ok(caller) => {
            let read = read_body(&gateway.pipeline, &exchange, &caller, body).await;
            read.map(|read| (caller, read))
        }
        Err(refused) => Err(refused),
    };
    let (caller, read) = match read {
        Ok(read) => read,
        Err(refused) => return Err(refuse(gateway, context, refused)),
    };
    let guard = context.take_guard().expect("the guard is only taken along by answers");
    let incoming = Incoming { exchange, head, guard };
    Ok((Asking { incoming, caller, gateway: Arc::clone(gateway) }, read))
}

impl Asking {
    /// Refuses the request.
    pub(super) fn refuse(self, error: &ApiError) -> Response<Body> {
        self.incoming.refuse(error)
    }

    /// Refuses a model that no worker serves, before one is asked.
    pub(super) async fn known_model(&self, named: Option<&str>) -> Result<(), ApiError> {
        let judged = self.judge_model(named);
        if judged.is_err() && first_look(&self.gateway.pipeline).await {
            return self.judge_model(named);
        }
        judged
    }

    fn judge_model(&self, named: Option<&str>) -> Result<(), ApiError> {
        let pipeline = &self.gateway.pipeline;
        let Some(named) =
            named.map(str::to_owned).or_else(|| pipeline.settings().model_default.clone())
        else {
            let message = "the request names no model; expected `model`: a string";
            return Err(ApiError::invalid("model", message));
        };
        check_name(&named)?;
        let routes = pipeline.routes();
        let model = routes.model_behind(&named).unwrap_or(&named);
        let models = &self.gateway.fleet.models;
        let is_known = models.card(model).is_some() || is_expected(pipeline, model);
        if is_known && self.caller.may_ask(&routes, &named) {
            return Ok(());
        }
        Err(unknown_model(pipeline, &self.caller, &named))
    }

    /// Asks, as a chat completion or of another endpoint.
    pub(super) fn ask(self, body: Vec<u8>, endpoint: Endpoint) -> Question {
        self.put(Intake::Read(body.into()), endpoint)
    }

    /// Asks what was asked, as it came.
    pub(super) fn pass(self, body: Bytes, passed: Passed) -> Question {
        let endpoint = match passed.dialect {
            Dialect::Messages => Endpoint::Messages,
            Dialect::Responses => Endpoint::Responses,
        };
        self.put(Intake::Passed(body, passed), endpoint)
    }

    fn put(self, body: Intake, endpoint: Endpoint) -> Question {
        let Self { incoming, caller, gateway } = self;
        Box::pin(async move {
            let Incoming { exchange, head, guard } = incoming;
            let mut context = RequestContext::new(&exchange, &head, endpoint).guarded_by(guard);
            context.caller = Some(caller);
            forward(&gateway, context, body).await
        })
    }
}
