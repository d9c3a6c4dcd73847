//! Tests: what is read of an access log, and what is a part of it.

use super::*;

fn line(second: u32, more: &str) -> String {
    format!(
        "{{\"timestamp\":\"2025-11-22T10:00:{second:02}.500000Z\",\"level\":\"INFO\",\"request\":\"r\",\
         \"path\":\"/v1/chat/completions\",\"status\":200,\"model\":\"m\",\"stream\":true,\
         \"total_us\":1500000,\"target\":\"access\"{more}}}\n"
    )
}

fn log(text: &str) -> Result<AccessLog, WorkloadError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    AccessLog::read(file.path())
}

#[test]
fn requests_are_put_in_the_order_in_which_they_came() {
    let late = line(9, r#","tokens_prompt":7,"tokens_out":2"#);
    let early = line(4, r#","tokens_prompt":5,"tokens_out":1,"ttft_us":300,"tokens_cached":4"#);
    let failed = line(5, "").replace("200", "503");
    let text =
        format!("overdraft serves on …\n{late}{early}{failed}{{\"target\":\"overdraft\"}}\n");
    let log = log(&text).unwrap();
    let told: Vec<_> = log.entries().iter().map(|one| (one.at, one.prompt.get())).collect();
    let at = |micros| Instant::ORIGIN + Micros::new(micros);
    assert_eq!(told, [(at(0), 5), (at(5_000_000), 7)]);
    assert_eq!(log.entries()[0].cached, Some(Tokens::new(4)));
    assert_eq!((log.unanswered(), log.names_prefixes()), (1, false));
}

#[test]
fn beginnings_with_one_name_are_one_piece_whatever_follows() {
    let asked = |prefix: &str, tokens: u32| {
        let more = format!(
            ",\"tokens_prompt\":{tokens},\"tokens_out\":1,\"prompt_bytes\":{},\"prefix\":\"{prefix}\"",
            tokens * 4
        );
        line(9, &more)
    };
    let text =
        asked("512:a 1024:b", 300) + &asked("512:a 1024:b 1536:c", 500) + &asked("512:d", 200);
    let log = Arc::new(log(&text).unwrap());
    let prompts: Vec<_> =
        Arc::clone(&log).sessions().map(|one| one.unwrap().turns[0].prompt.clone()).collect();
    let lengths: Vec<Vec<u32>> = prompts
        .iter()
        .map(|prompt| prompt.iter().map(|piece| piece.tokens.get()).collect())
        .collect();
    assert_eq!(lengths, [vec![128, 128, 44], vec![128, 128, 128, 116], vec![128, 72]]);
    assert_eq!(prompts[0][..2], prompts[1][..2]);
    assert_ne!(prompts[0][2].content, prompts[1][3].content);
    assert_ne!(prompts[0][0].content, prompts[2][0].content);
}

#[test]
fn tenants_and_priorities_are_those_of_the_log() {
    let asked =
        |second, more: &str| line(second, &format!(r#","tokens_prompt":5,"tokens_out":1{more}"#));
    let text = asked(1, r#","tenant":"acme","priority":"flex""#)
        + &asked(2, r#","tenant":"globex","priority":"priority""#)
        + &asked(3, r#","tenant":"acme""#)
        + &asked(4, "");
    let read = Arc::new(log(&text).unwrap());
    assert_eq!(read.tenants(), ["acme", "globex"]);
    let senders: Vec<_> = Arc::clone(&read).sessions().map(|one| one.unwrap().sender).collect();
    let sender = |priority, tenant| Sender { priority, tenant };
    assert_eq!(senders[0], sender(Some(Priority::Flex), Some(0)));
    assert_eq!(senders[1], sender(Some(Priority::Priority), Some(1)));
    assert_eq!(senders[2..], [sender(None, Some(0)), Sender::default()]);
    let wrong = log(&asked(1, r#","priority":"batch""#)).unwrap_err().to_string();
    assert!(wrong.contains("has `priority` `batch`") && wrong.contains("`flex`"), "{wrong}");
}

#[test]
fn requests_are_found_by_the_name_that_their_client_gave() {
    let asked = |more: &str| line(9, &format!(r#","tokens_prompt":5,"tokens_out":1{more}"#));
    let named = r#","model_named":"fast""#;
    let failed = line(5, named).replace("200", "503");
    let log = log(&(asked("") + &asked(named) + &failed)).unwrap();
    for (model, requests, unanswered) in [("m", 2, 1), ("fast", 1, 1), ("none", 0, 0)] {
        let part = log.of_model(model);
        assert_eq!((part.entries().len(), part.unanswered()), (requests, unanswered), "{model}");
        assert_eq!(log.asks_for(model), 0 < requests, "{model}");
    }
    assert_eq!(log.models(), ["m"]);
}

#[test]
fn whose_answer_it_was_is_told_apart() {
    let hit = r#","cache":"hit","tokens_prompt_reused":9,"tokens_out_reused":3"#;
    let joined = r#","cache":"coalesced","tokens_prompt":9,"tokens_out":3"#;
    let draft = r#","served_by":"draft","tokens_prompt":9,"tokens_out":3,
                   "cost_microusd":10,"cost_target_only_microusd":40"#;
    let draft = draft.replace('\n', "");
    let target = r#","served_by":"target","tokens_prompt":9,"tokens_out":3"#;
    let stood_in = r#","served_by":"fallback","stand_in":"other","tokens_prompt":9,"tokens_out":3"#;
    let lines = [hit, joined, &draft, target, stood_in];
    let text: String = lines.iter().map(|more| line(9, more)).collect();
    let log = log(&text).unwrap();
    let sources: Vec<_> = log.entries().iter().map(|one| one.source).collect();
    let cascade = AnswerSource::Cascade { cost_share: Some(0.25) };
    let (reused, worker) = (AnswerSource::Reused, AnswerSource::Worker);
    assert_eq!(sources, [reused, reused, cascade, worker, worker]);
    assert_eq!((log.models(), log.priced_as()), (vec!["m"], vec!["m", "other"]));
}

#[track_caller]
fn refuses(text: &str, parts: &[&str]) {
    let error = log(text).unwrap_err().to_string();
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn a_bad_line_of_a_log_is_told_with_what_was_expected() {
    refuses("a plain line\n", &["has no requests", "--log-format json"]);
    let good = line(9, r#","tokens_prompt":5,"tokens_out":1"#);
    refuses(&format!("{good}{{\"target\":\n"), &["line 2", "is no line of the log"]);
    let untimed = good.replace("timestamp", "time");
    refuses(&untimed, &["line 1", "has no `timestamp`"]);
    refuses(&good.replace("2025-11", "2025-13"), &["is no time", "2025-11-22T18:15"]);
    let unordered = line(9, r#","tokens_prompt":5,"tokens_out":1,"prefix":"512:a 512:b""#);
    refuses(&unordered, &["`512:b` is no beginning", "`512:9f3c21aa`"]);
}
