//! Every format is read, every fault is told with its place, and everything is decided by the seed.

use std::fs;
use std::path::PathBuf;

use overdraft_units::{Instant, Micros, Tokens};
use tempfile::TempDir;

use super::*;
use crate::float_conversion::{float, length};

/// A folder with one file.
fn file(name: &str, text: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn open(kind: &str, text: &str) -> Result<Vec<Session>, String> {
    let (_folder, path) = file("trace", text);
    let source = Source::parse(&format!("{kind}:{}", path.display())).unwrap();
    let told = |error: WorkloadError| error.to_string();
    source.open(1).map_err(told)?.sessions.map(|session| session.map_err(told)).collect()
}

fn at(session: &Session) -> u64 {
    session.at.since(Instant::ORIGIN).get()
}

fn lengths(session: &Session) -> (u32, u32) {
    (session.turns[0].prompt_tokens().get(), session.turns[0].answer.tokens.get())
}

/// A trace is refused, and the message says these things.
#[track_caller]
fn refused(kind: &str, text: &str, says: &[&str]) {
    let message = open(kind, text).expect_err("the trace has a fault");
    for part in says {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

const MOONCAKE: &str = r#"{"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 0, "input_length": 600, "output_length": 7, "hash_ids": [0, 9]}
{"timestamp": 3000, "input_length": 512, "output_length": 1, "hash_ids": [0]}
"#;

#[test]
fn mooncake_blocks_are_shared_by_name_and_ticks_are_spread() {
    let sessions = open("mooncake", MOONCAKE).unwrap();
    assert_eq!(sessions.iter().map(lengths).collect::<Vec<_>>(), [(1030, 5), (600, 7), (512, 1)]);
    let front = |session: &Session| session.turns[0].prompt[0];
    assert_eq!(front(&sessions[0]), front(&sessions[1]));
    assert_ne!(sessions[0].turns[0].prompt[1].content, sessions[1].turns[0].prompt[1].content);
    // Not both at zero, none in the next tick, in order.
    assert!(at(&sessions[0]) < at(&sessions[1]) && at(&sessions[1]) < 3_000_000);
    assert_eq!(at(&sessions[2]), 3_000_000);
}

#[test]
fn times_of_mooncake_count_from_the_first_line() {
    let since = |first: u64| {
        let text = MOONCAKE.replace("3000", &(first + 3_000).to_string());
        let text = text.replace("\"timestamp\": 0", &format!("\"timestamp\": {first}"));
        open("mooncake", &text).unwrap()
    };
    let from_zero = since(0);
    // A part of a trace, and milliseconds since 1970.
    assert_eq!(since(1_000_000), from_zero);
    assert_eq!(since(1_700_000_000_000), from_zero);
}

#[test]
fn a_bad_line_is_told_with_file_line_and_what_was_expected() {
    let fewer = r#"{"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [0]}"#;
    refused("mooncake", fewer, &["line 1", "1 `hash_ids` for 1030 tokens", "expected 3 of them"]);
    let second = MOONCAKE.replace("\"output_length\": 7", "\"output\": 7");
    refused(
        "mooncake",
        &second,
        &["trace` line 2", "missing field `output_length`", "expected JSON"],
    );
    refused("mooncake", "", &["has no requests", "expected JSON lines"]);
    refused(
        "mooncake",
        &format!("{MOONCAKE}{MOONCAKE}"),
        &["line 4", "earlier than the line above"],
    );
    let back = MOONCAKE.replace("3000", "-5");
    refused("mooncake", &back, &["line 3", "earlier than the line above"]);
    refused("azure", "TIMESTAMP,Tokens\n", &["line 1", "names no column `prompt_tokens`"]);
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,374,44\n";
    refused("azure", &format!("{azure}soon,1,1\n"), &["line 3", "`soon` is no time"]);
    let first = "TIMESTAMP,ContextTokens,GeneratedTokens\nsoon,1,1\n";
    refused("azure", first, &["line 2", "`soon` is no time"]);
    refused("jsonl", "[{\"conversations\": []}]\n", &["line 1", "is no object"]);
    refused("mooncake", &MOONCAKE.replace("1030", "1030.5"), &["line 1", "1030.5"]);
    refused("csv", "prompt_tokens,output_tokens\n10,20\n-3,4\n", &["line 3", "`-3`"]);
    refused("jsonl", "{\"prompt_tokens\": 3}\n", &["line 1", "has no `output_tokens`"]);
    refused("claude", "{\"block_size\": 64}", &["line 1", "missing field `requests`"]);
    let long = "{\"block_size\":64,\"requests\":[{\"in\":4000000000,\"out\":1,\"hash_ids\":[]}]}";
    refused("claude", long, &["line 1", "`\"in\":4000000000` of request 0 is too long"]);
    let missing = Source::parse("csv:/nowhere/at/all.csv").unwrap().open(1).unwrap_err();
    assert!(missing.to_string().starts_with("`/nowhere/at/all.csv` cannot be read: "), "{missing}");
}

#[test]
fn requests_for_answers_are_read_from_a_log_in_every_dialect() {
    let asked = [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/completions"),
        ("POST", "/v1/messages"),
        ("POST", "/v1/responses"),
        ("POST", "/v1/responses/compact"),
    ];
    let others = [
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/responses/input_tokens"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("GET", "/v1/responses/compact"),
        ("DELETE", "/v1/responses/resp_1"),
        ("GET", "/v1/responses"),
        ("POST", "/v1/embeddings"),
    ];
    let line = |(place, (method, path)): (u32, (&str, &str))| {
        format!(
            "{{\"timestamp\":\"2025-11-22T10:00:{:02}Z\",\"method\":\"{method}\",\"path\":\"{path}\",\
             \"status\":200,\"model\":\"m\",\"tokens_prompt\":{place},\"tokens_out\":1,\
             \"total_us\":1000,\"target\":\"access\"}}\n",
            10 + place
        )
    };
    let text: String = (1..).zip(asked.into_iter().chain(others)).map(line).collect();
    let (_folder, path) = file("access.jsonl", &text);
    let log = AccessLog::read(&path).unwrap();
    let prompts: Vec<u32> = log.entries().iter().map(|entry| entry.prompt.get()).collect();
    assert_eq!((prompts, log.unanswered()), (vec![1, 2, 3, 4, 5], 0));
}

#[test]
fn tables_of_every_kind_give_times_and_lengths() {
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,374,44\n\
                 2023-11-16 18:15:50.0,396,109\n";
    let sessions = open("azure", azure).unwrap();
    assert_eq!(sessions.iter().map(at).collect::<Vec<_>>(), [0, 3_500_000]);
    assert_eq!(lengths(&sessions[1]), (396, 109));
    let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                 5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,0,1087,API log\n\
                 118,ChatGPT,417,276,693,Conversation log\n";
    let sessions = open("burstgpt", burst).unwrap();
    // The one that failed when it was recorded is left out.
    assert_eq!(sessions.iter().map(at).collect::<Vec<_>>(), [0, 113_000_000]);
    let quoted = "at,name,prompt_tokens,output_tokens\n0,\"a, b\",100,5\n1,c,90,5\n";
    let sessions = open("csv", quoted).unwrap();
    assert_eq!(sessions.iter().map(lengths).collect::<Vec<_>>(), [(100, 5), (90, 5)]);
    assert!(open("mooncake", &MOONCAKE.replace("1030", "1030.0")).is_ok());
    let plain = "{\"at\": 1, \"prompt_tokens\": 30, \"output_tokens\": 4, \"prefix\": \"a\", \
                 \"prefix_tokens\": 20}\n{\"at\": 2, \"prompt_tokens\": 25, \"output_tokens\": 4, \
                 \"prefix\": \"a\", \"prefix_tokens\": 20}\n";
    let sessions = open("jsonl", plain).unwrap();
    assert_eq!(sessions[0].turns[0].prompt[0], sessions[1].turns[0].prompt[0]);
    assert_ne!(sessions[0].turns[0].prompt[1], sessions[1].turns[0].prompt[1]);
    let (_folder, path) = file("untimed.csv", "num_prefill_tokens,num_decode_tokens\n3772,54\n");
    let source = Source::parse(&format!("csv:{}", path.display())).unwrap();
    assert_eq!(source.open(1).unwrap().times, Times::Untold);
}

#[test]
fn tables_are_read_as_tools_write_them() {
    let lines = "\u{feff}Arrived At,Prompt-Tokens,\"Output Tokens\"\r\n\r\n0,100,5\r\n2.5,90,5\r\n";
    let sessions = open("csv", lines).unwrap();
    assert_eq!(sessions.iter().map(at).collect::<Vec<_>>(), [0, 2_500_000]);
    // Clocks were set forward between the first two, and the third is of another zone.
    let zones = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-03-31T00:59:59+01:00,374,44\n\
                 2024-03-31 02:00:00+02:00,396,109\n2024-03-30 17:00:01.5-0700,396,109\n";
    let sessions = open("azure", zones).unwrap();
    assert_eq!(sessions.iter().map(at).collect::<Vec<_>>(), [0, 1_000_000, 2_500_000]);
    let nothing = "{\"at\": 1, \"promptTokens\": 30, \"output_tokens\": 4, \"prefix\": null}\n\
                   {\"at\": 2, \"promptTokens\": 30, \"output_tokens\": 4, \"prefix\": null}\n";
    let sessions = open("jsonl", nothing).unwrap();
    assert_ne!(sessions[0].turns[0].prompt, sessions[1].turns[0].prompt, "nothing is shared");
}

#[test]
fn times_that_are_no_seconds_are_refused() {
    let table = |time: &str| format!("timestamp,prompt_tokens,output_tokens\n{time},10,20\n");
    for time in ["nan", "inf", "-inf"] {
        refused("csv", &table(time), &["line 2", "is no time"]);
    }
    let says = ["line 2", "`1699000000000` is no time in seconds", "divide milliseconds by 1,000"];
    refused("csv", &table("1699000000000"), &says);
    // Mooncake's members have names of a plain table, and other times.
    refused("jsonl", MOONCAKE, &["line 1", "has `hash_ids`", "`mooncake:PATH`"]);
}

#[test]
fn coding_sessions_share_tools_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let text = r#"{"block_size": 64, "tool_tokens": 100, "system_tokens": 30, "requests": [
        {"in": 200, "out": 5, "hash_ids": [1, 2, 3]},
        {"in": 260, "out": 6, "hash_ids": [1, 2, 3, 4], "think_time": 1.5}]}"#;
    for name in ["a.json", "b.json"] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let source = Source::parse(&format!("claude:{}", folder.path().display())).unwrap();
    let sessions: Vec<Session> = source.open(1).unwrap().sessions.map(Result::unwrap).collect();
    let [one, other] = sessions.as_slice() else { panic!("two files, two sessions") };
    assert_eq!(one.turns[1].think, Micros::new(1_500_000));
    assert_eq!(one.turns[1].prompt_tokens(), Tokens::new(260));
    assert_eq!(one.turns[0].prompt[..3], one.turns[1].prompt[..3], "a session keeps its blocks");
    assert_eq!(one.turns[0].prompt[..2], other.turns[0].prompt[..2], "tools are shared");
    assert_ne!(one.turns[0].prompt[2], other.turns[0].prompt[2], "the rest is not");
}

#[test]
fn clients_ask_at_their_rates_and_in_order() {
    let folder = TempDir::new().unwrap();
    let lengths = r#"{"0": {"input_tokens": "{}", "output_tokens": "{}"},
        "600": {"input_tokens": "{40: 0.5, 60: 0.5}", "output_tokens": "{7: 1.0}"}}"#;
    for (name, rate) in [("one", 2.0), ("two", 0.5)] {
        let rows = format!("0,0,0,,0,0\n600,{rate},1.5,Gamma,0.4,1\n1200,{rate},2,Weibull,0.6,1\n");
        fs::write(folder.path().join(format!("{name}-trace.csv")), rows).unwrap();
        fs::write(folder.path().join(format!("{name}-dataset.json")), lengths).unwrap();
    }
    let source = Source::parse(&format!("servegen:{}", folder.path().display())).unwrap();
    let sessions: Vec<Session> = source.open(3).unwrap().sessions.map(Result::unwrap).collect();
    assert!(sessions.is_sorted_by_key(|session| session.at));
    assert!((2_400..3_600).contains(&sessions.len()), "{} of 3,000", sessions.len());
    let prompts = |tokens: u32| {
        sessions.iter().filter(|one| one.turns[0].prompt_tokens().get() == tokens).count()
    };
    assert_eq!(prompts(40) + prompts(60), sessions.len());
    assert!(sessions.iter().all(|one| one.turns[0].answer.tokens == Tokens::new(7)));
}

#[test]
fn a_generator_keeps_rate_lengths_and_sharing() {
    let source = Source::parse("tenants:groups=3,prefix=50,question=10,turns=2,rate=20").unwrap();
    let of = |seed| -> Vec<Session> {
        source.open(seed).unwrap().sessions.take(2_000).map(Result::unwrap).collect()
    };
    let sessions = of(5);
    assert_eq!(sessions, of(5), "equal seeds are equal loads");
    assert_ne!(sessions, of(6));
    let requests = sessions.iter().map(|session| length(session.turns.len())).sum::<u64>();
    let rate = float(requests) / (float(at(sessions.last().unwrap())) / 1e6);
    assert!((19.0..21.0).contains(&rate), "{rate} requests a second");
    let mut prefixes: Vec<u64> =
        sessions.iter().map(|session| session.turns[0].prompt[0].content).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    assert_eq!(prefixes.len(), 3);
    let [first, second] = sessions[0].turns.as_slice() else { panic!("two turns") };
    assert_eq!(second.prompt[..2], first.prompt[..]);
    assert_eq!(second.prompt[2], first.answer, "what was answered is part of what is asked next");
}

#[test]
fn a_group_is_asked_as_many_questions_as_was_said_whatever_the_seed() {
    let prompts = |workload: &str, seed| -> std::collections::BTreeSet<Vec<u64>> {
        let sessions = Source::parse(workload).unwrap().open(seed).unwrap().sessions.take(1_000);
        let prompt =
            |session: Session| session.turns[0].prompt.iter().map(|one| one.content).collect();
        sessions.map(|session| prompt(session.unwrap())).collect()
    };
    let known = "documents:common=0,groups=10,skew=0,questions=5";
    assert_eq!(prompts(known, 1).len(), 50, "ten groups with five questions each");
    assert_eq!(prompts(known, 1), prompts(known, 2), "caches are warm whatever the seed");
    assert_eq!(prompts("documents:groups=10", 1).len(), 1_000, "each question is new");
}

#[test]
fn what_is_asked_again_is_word_for_word_what_was_asked() {
    let source = Source::parse("tenants:groups=9,spread=0.5,turns=2,repeat=0.38").unwrap();
    let sessions: Vec<Session> =
        source.open(3).unwrap().sessions.take(4_000).map(Result::unwrap).collect();
    let mut seen = std::collections::BTreeSet::new();
    let asked = |session: &Session| {
        named(&session.turns.iter().map(|t| t.answer.content).collect::<Vec<_>>())
    };
    let again = sessions.iter().filter(|session| !seen.insert(asked(session))).count();
    let share = float(length(again)) / 4_000.0;
    assert!((0.36..0.40).contains(&share), "{share}");
    assert!(sessions.windows(2).all(|pair| pair[0].at <= pair[1].at), "times go on");
    let names: std::collections::BTreeSet<u64> = sessions.iter().map(|one| one.name).collect();
    assert_eq!(names.len(), sessions.len(), "each session has a name of its own");
}

fn sessions_of(workload: &str, count: usize) -> Vec<Session> {
    let source = Source::parse(workload).unwrap();
    source.open(4).unwrap().sessions.take(count).map(Result::unwrap).collect()
}

/// The value at a share of a list.
fn quantile(mut values: Vec<u64>, percent: usize) -> f64 {
    values.sort_unstable();
    float(values[values.len() * percent / 100]) / 1e6
}

#[test]
fn coding_agents_call_tools_between_questions_and_pause_as_recorded_ones_do() {
    let sessions = sessions_of("coding", 4_000);
    let requests = sessions.iter().map(|session| length(session.turns.len())).sum::<u64>();
    let mean = float(requests) / 4_000.0;
    assert!((39.0..47.0).contains(&mean), "ten questions with 3.3 rounds after each: {mean}");
    let rate = float(requests) / (float(at(sessions.last().unwrap())) / 1e6);
    assert!((0.93..1.07).contains(&rate), "{rate} requests a second, however long sessions are");
    // With lengths that do not spread, every fourth turn is a question.
    let sessions = sessions_of("coding:spread=0,calls=3", 1_000);
    let pauses = |is_question: bool| -> Vec<u64> {
        let turns = sessions.iter().flat_map(|session| session.turns.iter().enumerate().skip(1));
        turns
            .filter(|(number, _)| (number % 4 == 0) == is_question)
            .map(|(_, turn)| turn.think.get())
            .collect()
    };
    // Recorded: tools 13 s, nine in ten within 65 s; people 89 s and 320 s.
    let (median, tail) = (quantile(pauses(false), 50), quantile(pauses(false), 90));
    assert!((11.0..16.0).contains(&median) && (50.0..80.0).contains(&tail), "{median} {tail}");
    let (median, tail) = (quantile(pauses(true), 50), quantile(pauses(true), 90));
    assert!((65.0..95.0).contains(&median) && (280.0..440.0).contains(&tail), "{median} {tail}");
}

#[test]
fn a_history_grows_until_it_is_summed_up_behind_what_all_agents_of_a_kind_share() {
    let sessions = sessions_of("coding:window=40000", 300);
    let mut summed_up = 0;
    for session in &sessions {
        let tools = session.turns[0].prompt[0];
        assert_eq!((tools.tokens, tools.voice), (Tokens::new(14_300), Voice::System));
        for pair in session.turns.windows(2) {
            let [before, after] = pair else { unreachable!("windows of two") };
            assert_eq!(after.prompt[0], tools, "tools are told in every prompt");
            let grows = after.prompt.starts_with(&before.prompt);
            assert_eq!(grows, after.prompt.contains(&before.answer), "all of it or a summary");
            summed_up += usize::from(!grows);
            let kept = after.prompt_tokens() <= Tokens::new(40_000) || after.prompt.len() == 3;
            assert!(kept, "{:?}", after.prompt);
        }
    }
    assert!(100 < summed_up, "{summed_up}");
    let kinds: std::collections::BTreeSet<u64> =
        sessions.iter().map(|session| session.turns[0].prompt[0].content).collect();
    assert_eq!(kinds.len(), 4);
    assert_eq!(sessions_of("coding", 50), sessions_of("coding", 50), "equal seeds, equal loads");
}

#[test]
fn tools_that_are_called_at_once_are_waited_for_together_and_all_tell_something() {
    let plain = "coding:spread=0,pauses=0,window=0,turns=2,calls=2,result=100,question=10,output=5";
    let sessions = sessions_of(&format!("{plain},parallel=4"), 2_000);
    let added: Vec<u32> =
        sessions[0].turns.iter().map(|turn| turn.prompt.last().unwrap().tokens.get()).collect();
    assert_eq!(added, [10, 400, 400, 10, 400, 400]);
    let mean = |sessions: &[Session]| {
        let pauses = sessions.iter().map(|session| float(session.turns[1].think.get()) / 1e6);
        pauses.sum::<f64>() / float(length(sessions.len()))
    };
    let ratio = mean(&sessions) / mean(&sessions_of(plain, 2_000));
    // The longest of four exponential times is 1 + 1/2 + 1/3 + 1/4 of one on average.
    assert!((1.95..2.2).contains(&ratio), "{ratio}");
}

#[test]
fn bursts_come_in_waves_at_the_same_mean_rate() {
    let source = Source::parse("bursts:rate=50,swing=5,period=10").unwrap();
    let sessions = source.open(1).unwrap().sessions.take(20_000).map(Result::unwrap);
    let times: Vec<u64> = sessions.map(|session| at(&session)).collect();
    assert!(times.is_sorted());
    assert!(times.iter().all(|time| time % 10_000_000 <= 2_000_000), "only in a wave");
    let rate = 20_000.0 / (float(*times.last().unwrap()) / 1e6);
    assert!((47.0..53.0).contains(&rate), "{rate}");
}

#[test]
fn pacing_scales_time_and_never_lengths() {
    let source = Source::parse("unique:rate=10").unwrap();
    let paced = |pacing: Pacing| -> Vec<Session> {
        pacing.apply(source.open(1).unwrap().sessions, 1).map(Result::unwrap).collect()
    };
    let all = paced(Pacing { requests_max: Some(500), ..Pacing::default() });
    assert_eq!(all.len(), 500);
    let arrivals = Arrivals::Own { speed: 2.0 };
    let fast = paced(Pacing { arrivals, requests_max: Some(500), ..Pacing::default() });
    for (slow, fast) in all.iter().zip(&fast) {
        assert_eq!((slow.name, lengths(slow)), (fast.name, lengths(fast)));
        assert!(at(slow).abs_diff(2 * at(fast)) <= 1);
    }
    let arrivals = Arrivals::Rate { per_second: 100.0, burstiness: 1.0 };
    let random = paced(Pacing { arrivals, requests_max: Some(500), ..Pacing::default() });
    let rate = 500.0 / (float(at(random.last().unwrap())) / 1e6);
    assert!((85.0..115.0).contains(&rate), "{rate}");
    let from = Micros::new(10_000_000);
    let later = paced(Pacing { from, span: Some(from), ..Pacing::default() });
    assert!((70..130).contains(&later.len()), "ten seconds at ten a second: {}", later.len());
    let span = Some(Micros::new(at(&all[7])));
    let before = paced(Pacing { span, ..Pacing::default() });
    assert_eq!(before, all[..7], "what would begin at the end itself is left out");
}

#[test]
fn a_name_that_nobody_has_is_refused_with_one_that_is_near() {
    let told = |text: &str| Source::parse(text).unwrap_err().to_string();
    assert!(told("monncake:x").contains("did you mean `mooncake`?"), "{}", told("monncake:x"));
    assert!(told("tenants:group=3").contains("did you mean `groups`?"));
    assert!(told("tenants:groups=many").contains("a number from 1 to 1000000"));
    assert!(told("azure").contains("`azure:PATH`"));
}

#[test]
fn equal_names_are_equal_text_from_the_first_word_on() {
    let long = words(7, 40);
    assert!(long.starts_with(&words(7, 25)));
    assert_ne!(words(8, 40), long);
    assert_eq!(long.split(' ').count(), 40);
    let piece = Piece::said(7, Tokens::new(80));
    let mut text = String::new();
    Wording { tokens_per_word: 2.0 }.write(piece, &mut text);
    assert_eq!(text, long);
}
