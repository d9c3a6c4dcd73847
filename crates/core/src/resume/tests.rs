//! Tests of stream resume: the decision, and a seam at every place of an answer.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::fleet::Failure;

fn part(text: &str, ids: Option<&[u32]>) -> Part {
    Part { text: text.into(), ids: ids.map(<[u32]>::to_vec), is_token: true, ..Part::default() }
}

fn profile(traits: &[Trait], draws: Draws) -> Profile {
    let traits = traits.iter().fold(Traits::default(), |all, one| all.with(*one));
    Profile { traits, draws, prompt: PromptForm::Messages, limit: None, least: 0 }
}

fn vllm() -> Ability {
    let mut ability = Ability::default();
    ability.runs(Engine::Vllm);
    ability
}

/// A ledger after `words`, each a token; with ids where `ids` says so.
fn told(words: &[&str], ids: bool) -> Ledger {
    let mut ledger = Ledger::default();
    if ids {
        ledger.prompt(vec![1, 2]);
    }
    for (id, word) in (10..).zip(words) {
        ledger.tell(&part(word, ids.then_some(&[id][..])));
    }
    ledger
}

#[track_caller]
fn check(profile: &Profile, ledger: &Ledger, ability: Ability, expected: &str) {
    let chosen = way(profile, ledger, ability, Closed::default());
    let said = chosen.map_or_else(|why| format!("no: {}", why.name()), |way| way.name().into());
    assert_eq!(said, expected);
}

#[test]
fn the_best_way_that_is_exact_is_taken() {
    let (free, greedy) = (profile(&[], Draws::Free), profile(&[], Draws::Greedy));
    let unknown = Ability::default();
    check(&free, &Ledger::default(), unknown, "anew");
    check(&free, &told(&["a"], true), vllm(), "ids");
    check(&free, &told(&["a"], false), vllm(), "text");
    check(&free, &told(&[" ", "\n"], false), vllm(), "no: capability");
    check(&free, &told(&["a"], true), unknown, "no: capability");
    check(&greedy, &told(&["a"], true), unknown, "replay");
    check(&profile(&[], Draws::Seeded(7)), &told(&["a"], false), unknown, "replay");
    let mut redrawn = told(&["a"], false);
    redrawn.redrawn();
    check(&profile(&[], Draws::Seeded(7)), &redrawn, unknown, "no: capability");
    check(&greedy, &redrawn, unknown, "replay");
}

#[test]
fn who_was_told_ids_is_told_all_of_them_or_an_error() {
    let (free, greedy) = (profile(&[], Draws::Free), profile(&[], Draws::Greedy));
    let mut ids = Ledger::of(View::Ids);
    ids.prompt(vec![1, 2]);
    ids.tell(&part("a", Some(&[3])));
    let mut closed = Closed::default();
    closed.close(Way::Ids);
    assert_eq!(way(&greedy, &ids, vllm(), closed), Ok(Way::Replay));
    assert_eq!(way(&free, &ids, vllm(), closed), Err(Refusal::Capability));
    // Its worker tells none: there is nothing to miss.
    let mut none = Ledger::of(View::Ids);
    none.tell(&part("a", None));
    assert_eq!(way(&free, &none, vllm(), closed), Ok(Way::Text));
}

// Faults: 42
#[test]
fn what_a_way_cannot_carry_over_closes_it() {
    let rows = [
        (Trait::Tools, "no: tool_call"),
        (Trait::Grammar, "no: grammar"),
        (Trait::Logprobs, "no: logprobs"),
        (Trait::Presence, "no: penalty"),
        (Trait::Frequency, "ids"),
        (Trait::Media, "text"),
        (Trait::Unknown, "text"),
        (Trait::Prefilled, "ids"),
    ];
    for (one, expected) in rows {
        check(&profile(&[one], Draws::Free), &told(&["a"], true), vllm(), expected);
        let greedy = if expected.starts_with("no") { "replay" } else { expected };
        check(&profile(&[one], Draws::Greedy), &told(&["a"], true), vllm(), greedy);
    }
    check(
        &profile(&[Trait::Frequency], Draws::Free),
        &told(&["a"], false),
        vllm(),
        "no: capability",
    );
}

#[test]
fn reasoning_is_left_only_where_it_is_over() {
    let free = profile(&[], Draws::Free);
    let mut ledger = told(&[], true);
    ledger.tell(&Part { reasoning: "hm".into(), text: String::new(), ..part("", Some(&[7])) });
    check(&free, &ledger, vllm(), "no: reasoning");
    ledger.tell(&part("so", Some(&[8])));
    check(&free, &ledger, vllm(), "ids");
    assert_eq!(ledger.ids_of_text(), [8]);
    ledger.forget_ids();
    check(&free, &ledger, vllm(), "no: capability");
}

#[test]
fn limits_bound_what_one_request_may_cost() {
    let settings = ResumeSettings { attempts_max: 2, tokens_max: 10, ..ResumeSettings::default() };
    let ledger = told(&["a", "b"], true);
    let within = |attempts, tokens| is_within(&settings, Spent { attempts, tokens }, &ledger);
    assert_eq!(within(0, 0), Ok(()));
    assert_eq!(within(2, 0), Err(Refusal::Budget));
    assert_eq!(within(1, 6), Ok(()));
    assert_eq!(within(1, 7), Err(Refusal::Budget));
}

/// What a client has in the end when the answer is cut after `cut` of `words` and goes on this way.
fn spliced(way: Way, words: &[String], cut: usize, rules: &StopRules) -> Result<String, Diverged> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // The worker holds back what may become a stop, as engines do.
    let mut worker = Stops::new(rules.clone(), "");
    let mut ledger = Ledger::default();
    ledger.prompt(vec![1]);
    for (id, word) in (10..).zip(&words[..cut]) {
        let (text, stopped) = worker.take(word, true)?;
        ledger.tell(&part(&text, Some(&[id])));
        if stopped.is_some() {
            return Ok(ledger.text().into());
        }
    }
    let kept: usize = match way {
        Way::Ids => cut,
        Way::Text => usize::try_from(ledger.solid_tokens()).unwrap(),
        Way::Replay | Way::Anew => 0,
    };
    let mut splice = Splice::new(way, &ledger, rules.clone(), 0);
    let mut out = ledger.text().to_string();
    if way == Way::Ids {
        let all: String = words[..cut].concat();
        let withheld = Part { text: all[out.len()..].into(), ..Part::default() };
        out.push_str(&splice.take(withheld, false)?.part.text);
    }
    let mut second = Stops::new(rules.clone(), "");
    let is_replay = way == Way::Replay;
    for (at, word) in words.iter().enumerate().skip(kept) {
        let is_last = at + 1 == words.len();
        let (text, ended) =
            if is_replay { second.take(word, true)? } else { ((*word).into(), None) };
        let text = if is_last && ended.is_none() { text + &second.finish() } else { text };
        let told = splice.take(part(&text, None), is_last || ended.is_some())?;
        out.push_str(&told.part.text);
        if told.stop.is_some() || ended.is_some() {
            return Ok(out);
        }
    }
    Ok(out)
}

fn expected(words: &[String], rules: &StopRules) -> String {
    let mut stops = Stops::new(rules.clone(), "");
    let mut out = String::new();
    for word in words {
        let (text, stopped) = stops.take(word, true).unwrap();
        out.push_str(&text);
        if stopped.is_some() {
            return out;
        }
    }
    out + &stops.finish()
}

#[test]
fn a_stop_that_straddles_the_seam_ends_the_answer() {
    let words = ["one", " t", "wo", " three"].map(String::from);
    for is_included in [false, true] {
        let rules = StopRules { strings: vec![" two".into(), "zz".into()], is_included };
        let expected = if is_included { "one two" } else { "one" };
        for cut in 0..=2 {
            assert_eq!(spliced(Way::Ids, &words, cut, &rules).as_deref(), Ok(expected), "{cut}");
        }
    }
}

#[test]
fn a_stop_before_the_least_length_is_passed() {
    let rules = StopRules { strings: vec!["ab".into()], is_included: false };
    let mut stops = Stops::new(rules, "");
    assert_eq!(stops.take("ab", false), Ok(("ab".into(), None)));
    assert_eq!(stops.take("x", true), Ok(("x".into(), None)));
    let (text, stopped) = stops.take("yab", true).unwrap();
    assert_eq!((text.as_str(), stopped.is_some()), ("y", true));
}

#[test]
fn a_replay_that_differs_or_ends_early_has_diverged() {
    let ledger = told(&["one", " two"], false);
    let splice = || Splice::new(Way::Replay, &ledger, StopRules::default(), 0);
    assert_eq!(splice().take(part("one tw0", None), false), Err(Diverged));
    assert_eq!(splice().take(part("one", None), true), Err(Diverged));
    let told = splice().take(part("one two three", None), true).unwrap();
    assert_eq!(told.part.text, " three");
}

#[test]
fn a_call_keeps_its_first_id_and_is_told_once() {
    let mut ledger = Ledger::default();
    let call = |id: Option<&str>, name: Option<&str>, arguments: &str| CallPart {
        index: 0,
        id: id.map(String::from),
        name: name.map(String::from),
        arguments: arguments.into(),
    };
    let of = |call: CallPart| Part { calls: vec![call], is_token: true, ..Part::default() };
    ledger.tell(&of(call(Some("first"), Some("get"), "{\"a")));
    let mut splice = Splice::new(Way::Replay, &ledger, StopRules::default(), 0);
    let again = splice.take(of(call(Some("second"), Some("get"), "")), false).unwrap();
    assert_eq!(again.part.calls, []);
    let rest = splice.take(of(call(None, None, "{\"a\":1}")), true).unwrap();
    assert_eq!(rest.part.calls, [call(None, None, "\":1}")]);
    let mut other = Splice::new(Way::Replay, &ledger, StopRules::default(), 0);
    assert_eq!(other.take(of(call(Some("x"), Some("set"), "")), false), Err(Diverged));
}

#[test]
fn tokens_add_up_over_a_seam() {
    let ledger = told(&["a", "b", " "], true);
    let mut by_ids = Splice::new(Way::Ids, &ledger, StopRules::default(), 0);
    let told = by_ids.take(part("c", Some(&[9, 8])), false).unwrap();
    assert_eq!((by_ids.tokens(), told.part.ids), (5, Some(vec![9, 8])));
    let mut by_text = Splice::new(Way::Text, &ledger, StopRules::default(), 0);
    let told = by_text.take(part(" c", None), false).unwrap();
    assert_eq!((by_text.tokens(), told.part.text.as_str()), (3, "c"));
    let mut replay = Splice::new(Way::Replay, &ledger, StopRules::default(), 0);
    let told = replay.take(part("ab c", Some(&[10, 11, 12, 13])), false).unwrap();
    assert_eq!((replay.tokens(), told.part.ids), (4, Some(vec![13])));
}

#[test]
fn frequencies_count_each_token() {
    let mut ledger = told(&[], true);
    ledger.tell(&part("aba", Some(&[5, 6, 5])));
    assert_eq!(ledger.frequencies(), [(5, 2), (6, 1)]);
}

proptest! {
    // Faults: 43
    #[test]
    fn a_cut_anywhere_leaves_no_trace(
        words in prop::collection::vec("[ab \u{e4}\n]{0,4}", 1..10),
        strings in prop::collection::vec("[ab\u{e4}]{1,4}", 0..3),
        is_included in any::<bool>(),
    ) {
        let rules = StopRules { strings, is_included };
        let undisturbed = expected(&words, &rules);
        for cut in 0..words.len() {
            for way in [Way::Ids, Way::Replay] {
                let told = spliced(way, &words, cut, &rules);
                prop_assert_eq!(told.as_deref(), Ok(undisturbed.as_str()), "{:?} {}", way, cut);
            }
        }
    }

    #[test]
    fn white_space_at_a_cut_is_neither_lost_nor_doubled(
        words in prop::collection::vec("[ab \n]{0,4}", 1..10),
    ) {
        let rules = StopRules::default();
        for cut in 0..words.len() {
            let told = spliced(Way::Text, &words, cut, &rules);
            prop_assert_eq!(told, Ok(words.concat()), "{}", cut);
        }
    }
}

#[test]
fn an_answer_of_four_thousand_tokens_takes_less_than_64_kib() {
    let mut ledger = Ledger::default();
    ledger.prompt((0..1_000).collect());
    for id in 0..4_000 {
        // As long as tokens of English are in the mean, with their space.
        ledger.tell(&part(" word", Some(&[id])));
    }
    let memory = ledger.memory();
    assert!(memory < 64 * 1024, "{memory}");
}

#[test]
fn tokens_are_counted_at_the_least_by_ids_and_else_by_what_says_anything() {
    let mut ledger = Ledger::default();
    ledger.tell(&part("a", Some(&[1, 2])));
    ledger.tell(&part("", Some(&[])));
    assert_eq!(ledger.tokens_least(), 2);
    ledger.tell(&part("b", None));
    ledger.tell(&part("", None));
    ledger.tell_text("c", None);
    assert_eq!(ledger.tokens_least(), 4);
    ledger.restart();
    assert_eq!(ledger.tokens_least(), 0);
}

#[test]
fn a_worker_that_fell_silent_is_asked_again_once_it_computes() {
    let silent = Cause::Broken(Failure::Silent);
    assert!(!silent.allows_again(true) && silent.allows_again(false));
    assert!(Cause::Broken(Failure::Broken).allows_again(true), "it may be another process by now");
}
