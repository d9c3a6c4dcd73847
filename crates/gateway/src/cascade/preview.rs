//! Preview: what a request to a cascade would ask its draft, and whether it would.
//!
//! An explanation asks nobody and teaches the cascade nothing: the arrival is decided on a copy of what was learnt.

use std::sync::Arc;

use bytes::Bytes;
use overdraft_core::cascade::Action;
use overdraft_wire::Object;

use super::CascadeLayer;
use super::call::Call;
use super::plan::Plan;
use super::rewrite;
use crate::pipeline::request_info::RequestInfo;
use crate::pipeline::{Pipeline, prompt_tokens};

/// A request as the draft of a cascade would be asked first.
#[derive(Debug)]
pub(crate) struct Preview {
    pub(crate) cascade: String,
    pub(crate) info: RequestInfo,
}

/// What would be asked first of a request that arrives now; nothing where that is the target.
pub(crate) async fn preview(
    layer: &CascadeLayer,
    plan: &Plan,
    info: &RequestInfo,
    body: &Bytes,
) -> Option<Preview> {
    let actions = plan.state.preview(plan.terms, layer.pipeline.dispatcher.clock.now());
    if !actions.iter().any(|action| matches!(action, Action::AskDraft(_))) {
        return None;
    }
    let Call { info, .. } = draft_call(&layer.pipeline, plan, info, body, false).await;
    Some(Preview { cascade: plan.state.name.clone(), info })
}

/// The client's request for the draft. With `ids` rivals are told by their ids and not by their texts.
pub(super) async fn draft_call(
    pipeline: &Arc<Pipeline>,
    plan: &Plan,
    info: &RequestInfo,
    body: &Bytes,
    ids: bool,
) -> Call {
    let object = Object::parse(body).expect("it was parsed when it was looked into");
    let model = &plan.state.settings.draft;
    let body = rewrite::draft(&object, model, plan.generation, ids);
    let endpoint = plan.generation.endpoint();
    let mut info = info.of_draft(&pipeline.routes(), model, &body, endpoint);
    prompt_tokens::count(pipeline, &mut info, &body, endpoint).await;
    Call { info, path: endpoint.path(), body }
}
