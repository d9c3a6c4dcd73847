//! The shipped pair as a cascade: what the target vouches for is its own answer, and a client sees no
//! difference.

use std::process::Command;

use serde_json::{Value, json};

use crate::client::{python, run};
use crate::harness::{Server, root, until};

const TARGET: &str = "overdraft-target.q8_0";
const DRAFT: &str = "overdraft-draft.q8_0";

/// Questions of the families that the models know, some of which the draft gets wrong.
const QUESTIONS: [&str; 20] = [
    "What is the capital of France?",
    "What is the capital of Japan?",
    "Which HTTP status code means not found?",
    "What is 17 + 25?",
    "What is 348 + 77?",
    "What is 12 times 11?",
    "Convert 3 kilometres to metres.",
    "How many bytes is 4 KiB?",
    "Sort these numbers: 9, 4, 7, 1.",
    "Which is the largest of 12, 45, 8 and 31?",
    "Spell the word lantern backwards.",
    "Count from 3 to 9.",
    "List the first five multiples of 6.",
    "What is Overdraft?",
    "Who are you?",
    "Hello! How are you today?",
    "Thank you for your help.",
    "Replace every a with o in the word banana.",
    "What is the chemical symbol of gold?",
    "On which port does HTTPS listen?",
];

/// A gateway with both models and these cascades.
fn serve(cascades: &str) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("overdraft.yaml");
    std::fs::write(&file, cascades).expect("it is writable");
    let path = |name: &str| root().join("models").join(name).display().to_string();
    let (target, draft) = (path("overdraft-target.q8_0.gguf"), path("overdraft-draft.q8_0.gguf"));
    let file = file.display().to_string();
    let server = Server::serve(&["--config", &file, "--model", &target, "--draft", &draft]);
    until("both models make the same tokens", || {
        server.ask("GET", "/metrics", "").body.contains(r#",state="same"} 1"#)
    });
    (server, folder)
}

/// Who served an answer, and what it says.
fn ask(server: &Server, model: &str, question: &str, streamed: bool) -> (String, String) {
    let request = json!({"model": model, "temperature": 0, "max_tokens": 96, "stream": streamed,
        "messages": [{"role": "user", "content": question}]});
    let answer = server.ask("POST", "/v1/chat/completions", &request.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let served = answer.head.lines().find_map(|line| line.strip_prefix("x-overdraft-served-by: "));
    let text = if streamed {
        assert!(answer.body.ends_with("data: [DONE]\n\n"), "{}", answer.body);
        let datas = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let chunks = datas.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        let text = |chunk: Value| {
            let delta = chunk["choices"].get(0)?["delta"]["content"].as_str()?.to_owned();
            Some(delta)
        };
        chunks.filter_map(text).collect()
    } else {
        let whole: Value = serde_json::from_str(&answer.body).expect("an answer is JSON");
        whole["choices"][0]["message"]["content"].as_str().expect("there is text").to_owned()
    };
    (served.unwrap_or("nobody").to_owned(), text)
}

/// The sum of a counter over its labels.
fn counted(server: &Server, name: &str) -> f64 {
    let page = server.ask("GET", "/metrics", "").body;
    let lines = page.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

#[test]
fn a_verified_answer_is_the_target_s_own_token_for_token() {
    let (server, _folder) = serve(&format!(
        "cascades:\n  \
           verified: {{draft: {DRAFT}, target: {TARGET}, mode: verify, window: {{first: 8, next: 16}}}}\n"
    ));
    let (mut verified, mut other) = (0_u32, Vec::new());
    for question in QUESTIONS {
        let (nobody, own) = ask(&server, TARGET, question, false);
        assert_eq!(nobody, "nobody", "the target's own name is no cascade");
        for streamed in [false, true] {
            let (served, text) = ask(&server, "verified", question, streamed);
            verified += u32::from(served == "verified");
            if text != own {
                other.push(format!("{question}\n  target:   {own:?}\n  {served}: {text:?}"));
            }
        }
    }
    let ties = counted(&server, "overdraft_cascade_ties_total");
    let differing = u32::try_from(other.len()).expect("there are few");
    assert!(f64::from(differing) <= ties, "{ties} ties\n{}", other.join("\n"));
    let saved = counted(&server, "overdraft_cascade_target_steps_saved_total");
    println!(
        "{verified} of {} verified, {saved} target steps saved, {ties} ties",
        2 * QUESTIONS.len()
    );
    assert!(20 <= verified, "{verified} verified");
    assert!(100.0 <= saved, "{saved} steps saved");
}

#[test]
fn the_official_client_sees_no_difference_where_the_draft_answers() {
    let (server, _folder) =
        serve(&format!("cascades: {{{TARGET}: {{draft: {DRAFT}, threshold: 0%}}}}\n"));
    let (served, _) = ask(&server, TARGET, QUESTIONS[0], false);
    assert_eq!(served, "draft");
    run(Command::new(python())
        .arg(root().join("tests/e2e/openai_client.py"))
        .args([&format!("http://{}", server.address), TARGET]));
}
