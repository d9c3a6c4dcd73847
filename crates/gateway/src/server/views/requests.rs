//! Requests view: the log of requests as page and terminal show it.

use std::sync::Arc;

use overdraft_core::route::{Cost, DecidedBy, PrefixFate};
use overdraft_dash::views::{
    Candidate, CostParts, Decision, LiveRow, RequestDetail, RequestRow, RequestsView, Saturation,
};
use overdraft_telemetry::{Phase, unix_milliseconds};
use overdraft_units::{Instant, Tokens};

use super::ms;
use super::request_filter::{Order, RequestFilter};
use crate::dispatch::{CandidateNote, DecisionNote};
use crate::pipeline::request_log::{Live, Logged};
use crate::server::Gateway;
use crate::server::history::unix_ms;

/// Requests under way that a view lists at most.
const LIVE_MAX: usize = 50;

/// The requests that `filter` asks for, and those under way.
pub(super) fn view(gateway: &Gateway, filter: &RequestFilter) -> RequestsView {
    let log = &gateway.pipeline.log;
    let now = gateway.dispatcher.clock.now();
    let (logged, next) = log.since(filter.after.unwrap_or(0));
    let mut numbered: Vec<(u64, &Arc<Logged>)> = (0..next).rev().zip(&logged).collect();
    if filter.order == Order::Oldest {
        numbered.reverse();
    }
    let (mut rows, mut left_out) = (Vec::<RequestRow>::new(), 0);
    for (number, one) in numbered {
        if !filter.takes(one) {
            continue;
        }
        if rows.len() < filter.limit() {
            rows.push(row(number, one));
        } else {
            left_out += 1;
        }
    }
    let next = match rows.last() {
        // The next page begins behind this one.
        Some(last) if filter.order == Order::Oldest && 0 < left_out => last.number + 1,
        _ => next,
    };
    let (live, live_count) = log.live(LIVE_MAX);
    RequestsView {
        at_ms: unix_milliseconds(),
        live: live.iter().map(|one| live_row(one, now)).collect(),
        live_count,
        rows,
        next,
        left_out,
        kept_max: log.kept_max(),
    }
}

/// One request with its decisions, if it is still kept.
pub(super) fn detail(gateway: &Gateway, id: &str) -> Option<RequestDetail> {
    let (number, logged) = gateway.pipeline.log.find(id)?;
    let decision = |note: &DecisionNote| decision(note, logged.begun);
    Some(RequestDetail {
        row: row(number, &logged),
        refusal: logged.refusal.as_ref().map(|(_, message)| message.to_string()),
        decisions: logged.trail.notes().iter().map(decision).collect(),
    })
}

fn row(number: u64, logged: &Logged) -> RequestRow {
    let owned = |word: &'static str| word.to_owned();
    RequestRow {
        number,
        id: logged.id.as_ref().to_owned(),
        route: logged.route.to_owned(),
        ended_ms: unix_ms(logged.ended_at),
        total_ms: ms(logged.total),
        ttft_ms: logged.first_token.map(ms),
        queued_ms: logged.queued.map(ms),
        status: logged.status,
        end: logged.end.to_string(),
        streamed: logged.is_streamed,
        model: logged.model.as_deref().map(str::to_owned),
        model_named: logged.named.as_deref().map(str::to_owned),
        tenant: logged.tenant.as_deref().map(str::to_owned),
        priority: logged.priority.map(owned),
        worker: logged.worker.as_deref().map(str::to_owned),
        prompt_tokens: logged.prompt.map(Tokens::get),
        cached_tokens: logged.cached.map(Tokens::get),
        completion_tokens: logged.completion.map(Tokens::get),
        served_by: logged.served_by.map(owned),
        cache: logged.cache.map(owned),
        cost_microusd: logged.cost,
        cost_target_only_microusd: logged.cost_alone,
        refused: logged.refusal.as_ref().map(|(reason, _)| owned(reason)),
        resumed_by: logged.resumed_by.map(owned),
        trace_id: logged.trace.as_deref().map(str::to_owned),
        attempts: logged.trail.attempts(),
    }
}

fn live_row(live: &Live, now: Instant) -> LiveRow {
    let mut row = LiveRow {
        id: live.id.as_ref().to_owned(),
        route: live.route.to_owned(),
        age_ms: ms(now.since(live.begun)),
        ..LiveRow::default()
    };
    live.facts.note(|record| {
        phase(record.end.phase).clone_into(&mut row.phase);
        row.model.clone_from(&record.model);
        row.tenant = record.tenant.as_deref().map(str::to_owned);
        row.priority = record.priority.map(str::to_owned);
        row.worker.clone_from(&record.worker);
        row.ttft_ms = record.first_token.map(ms);
    });
    row
}

const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Request => "request",
        Phase::Queue => "queue",
        Phase::Connect => "connect",
        Phase::FirstToken => "first token",
        Phase::Data | Phase::Complete => "data",
    }
}

fn decision(note: &DecisionNote, begun: Instant) -> Decision {
    let chosen = note.candidates.iter().find(|one| one.reason == "chosen");
    Decision {
        after_ms: ms(note.at.since(begun)),
        choice: note.choice.to_owned(),
        worker: chosen.map(|one| one.worker.as_ref().to_owned()),
        policy: note.policy.name().to_owned(),
        arm: note.arm.to_owned(),
        by: note.by.name().to_owned(),
        sticky: note.by == DecidedBy::Session,
        prompt_tokens: note.prompt_tokens,
        tokens: if note.is_counted { "counted" } else { "estimated" }.to_owned(),
        completion_tokens_expected: note.completion_tokens,
        prefix: note.prefix.map(PrefixFate::name).map(str::to_owned),
        out_of_turn: note.out_of_turn,
        saturation: note.saturation.map(|one| Saturation {
            asked_tokens: one.asked,
            free_tokens: one.free,
            waits_for: one.awaits.name().to_owned(),
            retry_after_ms: ms(one.retry_after),
        }),
        failed: note.failed.map(str::to_owned),
        candidates: note.candidates.iter().map(candidate).collect(),
        candidates_left_out: note.left_out,
        lower_is_better: note.policy.lower_is_better(),
    }
}

fn candidate(note: &CandidateNote) -> Candidate {
    Candidate {
        worker: note.worker.as_ref().to_owned(),
        reason: note.reason.to_owned(),
        score: note.score,
        cached_tokens: note.cached,
        queued_tokens: note.queued,
        requests: note.requests,
        free_tokens: note.free,
        cost: note.cost.map(parts),
    }
}

fn parts(cost: Cost) -> CostParts {
    CostParts {
        wait_ms: ms(cost.wait),
        behind_ms: ms(cost.behind),
        fetch_ms: ms(cost.fetch),
        slowed_ms: ms(cost.slowed),
        displaced_ms: ms(cost.displaced),
        crowded_ms: ms(cost.crowded),
    }
}
