//! What `overdraft top` shows in 80 columns and 24 lines, one sentence per test.

use overdraft_dash::conditions::{Condition, Severity};
use overdraft_dash::views::{
    Candidate, Decision, FleetView, NowView, RequestDetail, RequestRow, RequestsView, WorkerRow,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::frame;
use super::link::{Answer, Shown};
use super::screen::{Page, Screen};

fn shown(page: Page, shown: Shown) -> Screen {
    let mut screen = Screen::new(page);
    screen.take(Answer { now: NowView { serving: 41, ..NowView::default() }, shown });
    screen
}

fn worker(name: &str, used: u64) -> WorkerRow {
    WorkerRow {
        worker: name.to_owned(),
        state: "up".to_owned(),
        breaker: "closed".to_owned(),
        kv_capacity_tokens: Some(100),
        kv_used_tokens: Some(used),
        kv_peak_tokens: Some(used + 10),
        age_ms: Some(200),
        ..WorkerRow::default()
    }
}

fn press(screen: &mut Screen, code: KeyCode) -> bool {
    screen.handle_key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[track_caller]
fn check(screen: &mut Screen, expected: &[&str]) {
    let text = frame(screen, 80, 24);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for words in expected {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
}

#[test]
fn the_worst_workers_come_first() {
    let workers = vec![
        worker("calm", 20),
        WorkerRow { state: "connect".to_owned(), ..worker("gone", 0) },
        worker("full", 96),
    ];
    let view = FleetView { workers, ..FleetView::default() };
    let mut screen = shown(Page::Fleet, Shown::Fleet(view));
    check(
        &mut screen,
        &["41 in flight", "! connect", "96% > 106%", "#.|..... 20% > 30%", "f fleet"],
    );
    let text = frame(&mut screen, 80, 24);
    let places = ["gone", "full", "calm"].map(|name| text.find(name).unwrap());
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn conditions_stand_above_the_page() {
    let mut screen = shown(Page::Fleet, Shown::Fleet(FleetView::default()));
    let condition = Condition {
        severity: Severity::Act,
        text: "w1 down: a probe or a request failed".to_owned(),
        ..Condition::default()
    };
    screen.now.conditions = vec![condition];
    check(&mut screen, &["! 1 to act on", "! w1 down: a probe"]);
}

#[test]
fn a_request_leads_to_its_decision() {
    let row = RequestRow {
        id: "req_7".to_owned(),
        end: "--".to_owned(),
        status: 200,
        ended_ms: 43_200_000,
        total_ms: 1_500.0,
        ..RequestRow::default()
    };
    let view = RequestsView { rows: vec![row.clone()], ..RequestsView::default() };
    let mut screen = shown(Page::Requests, Shown::Requests(view));
    check(&mut screen, &["12:00:00", "-- 200", "1.5 s"]);
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.page(), &Page::Why("req_7".to_owned()));
    assert!(screen.wants_news());
    let candidate = |worker: &str, reason: &str, score| Candidate {
        worker: worker.to_owned(),
        reason: reason.to_owned(),
        score,
        ..Candidate::default()
    };
    let decision = Decision {
        choice: "send".to_owned(),
        worker: Some("w1".to_owned()),
        policy: "cost".to_owned(),
        prefix: Some("holder_busy".to_owned()),
        out_of_turn: true,
        candidates: vec![
            candidate("w1", "chosen", Some(42_000)),
            candidate("w2", "outscored", None),
            candidate("w3", "circuit_open", Some(0)),
        ],
        candidates_left_out: 7,
        ..Decision::default()
    };
    let trial = Decision {
        choice: "send".to_owned(),
        worker: Some("w4".to_owned()),
        by: "trial".to_owned(),
        candidates: vec![candidate("w4", "chosen", None)],
        ..Decision::default()
    };
    let detail = RequestDetail { row, refusal: None, decisions: vec![decision, trial] };
    screen.take(Answer { now: NowView::default(), shown: Shown::Why(Box::new(detail)) });
    let expected = [
        "sent to w1 by cost; prefix holder busy; before its turn",
        "42 ms",
        "circuit open",
        "and 7 more",
        "sent to w4 to find out whether it still fails",
    ];
    check(&mut screen, &expected);
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.page(), &Page::Requests);
}

#[test]
fn names_cannot_move_the_cursor() {
    let view = FleetView { workers: vec![worker("\u{1b}[2Jevil\r\n", 1)], ..FleetView::default() };
    let mut screen = shown(Page::Fleet, Shown::Fleet(view));
    let text = frame(&mut screen, 80, 24);
    assert!(!text.contains('\u{1b}') && !text.contains('\r') && text.contains("evil"), "{text}");
}

#[test]
fn a_gateway_that_is_gone_is_told_and_keys_still_work() {
    let mut screen = shown(Page::Fleet, Shown::Fleet(FleetView::default()));
    screen.lose("no answer within 2s".to_owned());
    check(&mut screen, &["these figures are old: no answer within 2s"]);
    assert!(press(&mut screen, KeyCode::Char('p')) && screen.is_held());
    assert!(!press(&mut screen, KeyCode::Char('q')));
}
