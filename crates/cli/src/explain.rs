//! `overdraft explain`: the routing decision a running gateway would make for a request, or made for one, and why.
//!
//! The gateway answers with the function that routes real requests, from its current load and
//! prefix index; nothing is sent to a worker.

use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::ask::{Address, Want, ask};
use crate::explain_request;
use crate::fault::Fault;
use crate::format::Format;
use crate::gateway_error::GatewayError;
use crate::view_client::{TOKEN_HEADER, ViewClient, token_value};

/// Where requests are explained.
const PATH: &str = "/admin/explain";

/// Maximum bytes of an explanation.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Maximum bytes of a request.
const REQUEST_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The gateway, by default `http://127.0.0.1:8080`
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// A request that has ended, by its id (`x-request-id`): why did it go there?
    #[arg(value_name = "REQUEST-ID")]
    id: Option<String>,
    // Beside a request's id, which the argument URL may be, so it conflicts with neither.
    /// The same as the argument URL
    #[arg(long = "url", value_name = "URL")]
    url_flag: Option<String>,
    /// Looks the request up in an access log of `serve --log-format json` instead of asking a gateway
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// A file with the JSON body of a request; `-` is standard input
    #[arg(long, short, value_name = "FILE", conflicts_with = "prompt")]
    request: Option<PathBuf>,
    /// The text of a chat with one message, instead of a file
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// The model, for a request that names none
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The gateway's `admin.token`, where it has one
    #[arg(long, env = "OVERDRAFT_ADMIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
    /// A header that the request would have, as `name: value`; may be given several times
    #[arg(long, short = 'H', value_name = "HEADER")]
    header: Vec<String>,
    /// How the explanation is printed
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

const EXAMPLES: &str = "\
Examples:
  overdraft explain req_5f0c9a2b7d1e                 # why did that request go there?
  overdraft explain req_5f0c9a2b7d1e --log access.jsonl
  overdraft explain --prompt \"What is a KV cache?\" --model llama-3-8b
  overdraft explain http://gateway:8080 --request chat.json --token $TOKEN
  overdraft explain -r chat.json -H \"x-session-id: 42\" --output json | jq .candidates
  curl -H \"x-overdraft-explain: 1\" …    # the same for a real request, in its answer's head

Exit codes: 0 explained, 1 the gateway cannot be asked, 2 the request cannot be used.";

/// The gateway that is asked where none is named.
const GATEWAY: &str = "http://127.0.0.1:8080";

/// Whom to ask, and about what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question<'a> {
    url: &'a str,
    /// A request that has ended; else one to come.
    id: Option<&'a str>,
}

/// Asks and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let Question { url, id } = arguments.question()?;
    if let Some(id) = id {
        return explain_ended(arguments, url, id);
    }
    let address =
        Address::of_url(url).map_err(|error| Fault::input(format!("`{url}`: {error}")))?;
    let body = body(arguments)?;
    let is_named = body.contains_key("model");
    let body = Bytes::from(Value::Object(body).to_string());
    let mut request = Request::post(PATH);
    for (name, value) in &headers(arguments)? {
        request = request.header(name, value);
    }
    let want = Want::Body(ANSWER_BYTES_MAX);
    let answered = crate::runtime::runtime()?.block_on(ask(&address, request, body, want));
    let (status, answer) = answered.map_err(|error| GatewayError::from(error).fault(url))?;
    if status != StatusCode::OK {
        return Err(refused(url, status, &answer, is_named));
    }
    let told = table(&answer)
        .map_err(|error| GatewayError::unreadable(PATH, error.to_string()).fault(url))?;
    let text = match arguments.output {
        Format::Json => String::from_utf8_lossy(&answer).into_owned() + "\n",
        Format::Table => told,
    };
    crate::config::print(&text)
}

impl Arguments {
    /// Tells the gateway's URL from a request's id: ids have letters, digits, `.`, `_` and `-`, URLs a colon.
    fn question(&self) -> Result<Question<'_>, Fault> {
        let typed = [&self.url, &self.id].into_iter().flatten().map(String::as_str);
        let (mut urls, ids): (Vec<&str>, Vec<&str>) =
            typed.partition(|word| word.contains([':', '/']));
        urls.extend(self.url_flag.as_deref());
        if let [one, other, ..] = urls[..] {
            let why = format!("`{one}` and `{other}` are two addresses; expected one gateway's");
            return Err(Fault::input(why).hint("give the argument URL or `--url`"));
        }
        if let [one, other, ..] = ids[..] {
            let why = format!("`{one}` and `{other}`: expected one request's id");
            return Err(Fault::input(why).hint(format!("a gateway is named as in `{GATEWAY}`")));
        }
        let to_come = self.request.as_ref().map(|_| "--request");
        let to_come = to_come.or(self.prompt.as_ref().map(|_| "--prompt"));
        match (ids.first().copied(), to_come, &self.log) {
            (Some(id), Some(flag), _) => {
                let why = format!("`{id}` has ended, and `{flag}` names a request to come");
                Err(Fault::input(format!("{why}; expected one of them")))
            }
            (None, _, Some(log)) => {
                let why = format!("`--log {}`: expected the id of a request", log.display());
                Err(Fault::input(why).hint("as in `overdraft explain req_7f3a --log access.jsonl`"))
            }
            (id, ..) => Ok(Question { url: urls.first().copied().unwrap_or(GATEWAY), id }),
        }
    }
}

/// The headers that were typed, and the token's: what cannot be sent is a slip here, and says nothing of the gateway.
fn headers(arguments: &Arguments) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    if let Some(token) = &arguments.token {
        headers.append(TOKEN_HEADER, token_value(token)?);
    }
    for text in &arguments.header {
        let wrong = || Fault::input(format!("`{text}` is not a header; expected `name: value`"));
        let (name, value) = text.split_once(':').ok_or_else(wrong)?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
        headers.append(name, HeaderValue::try_from(value.trim()).map_err(|_| wrong())?);
    }
    Ok(headers)
}

/// Tells why a request that has ended went where it went.
fn explain_ended(arguments: &Arguments, url: &str, id: &str) -> Result<(), Fault> {
    if let Some(file) = &arguments.log {
        let record = explain_request::of_log(file, id)?;
        return crate::config::print(&match arguments.output {
            Format::Json => record.json() + "\n",
            Format::Table => record.fields(),
        });
    }
    let client = ViewClient::new(url, arguments.token.as_deref())?;
    let told = explain_request::ask(&client, url, id)?;
    crate::config::print(&match arguments.output {
        Format::Json => format!("{told:#}\n"),
        Format::Table => explain_request::words(url, told)?,
    })
}

/// The request's body, with the model filled in where it is named here.
fn body(arguments: &Arguments) -> Result<Map<String, Value>, Fault> {
    let mut object = match (&arguments.request, &arguments.prompt) {
        (Some(path), _) => read(path)?,
        (None, Some(prompt)) => {
            let messages = serde_json::json!([{ "role": "user", "content": prompt }]);
            Map::from_iter([("messages".to_owned(), messages)])
        }
        (None, None) => {
            return Err(Fault::input("there is no request to explain")
                .hint("name one that has ended by its id, or one to come with `--request FILE` or `--prompt TEXT`"));
        }
    };
    if let Some(model) = &arguments.model {
        object.entry("model").or_insert_with(|| model.clone().into());
    }
    Ok(object)
}

fn read(path: &PathBuf) -> Result<Map<String, Value>, Fault> {
    let shown = path.display();
    let failed = |error: std::io::Error| Fault::input(format!("`{shown}`: {error}"));
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().take(REQUEST_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(REQUEST_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    }
    serde_json::from_str(&text).map_err(|error| {
        Fault::input(format!("`{shown}`: {error}; expected the JSON object of a request"))
    })
}

/// A refusal of the request that is to be explained is its user's mistake; any other says who was asked.
fn refused(url: &str, status: StatusCode, answer: &[u8], is_named: bool) -> Fault {
    let error = GatewayError::refused(status, answer);
    let GatewayError::Refused { message: Some(why), param, .. } = &error else {
        return error.fault(url);
    };
    match status {
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED => error.fault(url),
        StatusCode::BAD_REQUEST if !is_named && param.as_deref() == Some("model") => {
            Fault::input(why.as_str()).hint(
                "`--model NAME` names it; the gateway's `model_default` does for all requests that name none",
            )
        }
        status if status.is_client_error() => Fault::input(why.as_str()),
        _ => error.fault(url),
    }
}

/// What of an explanation the table tells.
#[derive(Deserialize)]
struct Explanation {
    choice: String,
    worker: Option<String>,
    model: String,
    cascade: Option<String>,
    policy: String,
    arm: String,
    #[serde(default)]
    by: String,
    sticky: bool,
    prompt_tokens: u64,
    tokens: String,
    completion_tokens_expected: u64,
    candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
struct Candidate {
    worker: String,
    reason: String,
    score: Option<u64>,
    cached_tokens: u64,
    cache_known: String,
    queued_tokens: u64,
    requests: u64,
    free_tokens: Option<u64>,
}

fn table(answer: &[u8]) -> Result<String, serde_json::Error> {
    let told: Explanation = serde_json::from_slice(answer)?;
    let mut text = String::new();
    let decided = match told.by.as_str() {
        "trial" => "whose circuit breaker is due for a trial request".to_owned(),
        _ if told.sticky => "chosen by its sticky session".to_owned(),
        _ => format!("chosen by the policy `{}`", told.policy),
    };
    let goes = told.worker.as_deref().map_or_else(
        || format!("to no worker ({})", told.choice),
        |worker| format!("to {worker}, {decided}"),
    );
    let of = told.cascade.as_deref().map(|name| format!(" (the draft of `{name}`)"));
    let of = of.unwrap_or_default();
    let Explanation { model, prompt_tokens, tokens, completion_tokens_expected, arm, .. } = &told;
    let _written = writeln!(
        text,
        "`{model}`{of}, {prompt_tokens} prompt tokens ({tokens}), about {completion_tokens_expected} \
         answer tokens expected, arm {arm}: {goes}\n"
    );
    let widest = told.candidates.iter().map(|one| one.worker.len()).max().unwrap_or(0).max(6);
    let _written = writeln!(
        text,
        "{:widest$}  {:11} {:>12} {:>8} {:9} {:>8} {:>8} {:>10}",
        "worker", "reason", "score", "cached", "known", "queued", "requests", "free"
    );
    for one in &told.candidates {
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let (free, score) = (number(one.free_tokens), number(one.score));
        let _written = writeln!(
            text,
            "{:widest$}  {:11} {:>12} {:>8} {:9} {:>8} {:>8} {:>10}",
            one.worker,
            one.reason,
            score,
            one.cached_tokens,
            one.cache_known,
            one.queued_tokens,
            one.requests,
            free
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn typed(words: &[&str]) -> Arguments {
        Typed::parse_from([&["explain"][..], words].concat()).arguments
    }

    #[test]
    fn how_a_model_is_named_is_told_where_that_is_what_the_request_lacks() {
        let of = |param: &str| {
            let body = format!(r#"{{"error":{{"message":"no","param":"{param}"}}}}"#);
            format!("{:?}", refused(GATEWAY, StatusCode::BAD_REQUEST, body.as_bytes(), false))
        };
        assert!(of("model").contains("`--model NAME` names it"), "{}", of("model"));
        // The gateway's `model_default` names it.
        assert_eq!(of("max_tokens"), format!("{:?}", Fault::input("no")));
    }

    #[test]
    fn a_gateway_and_a_request_are_told_from_each_other() {
        let of = |words: &[&str]| {
            let arguments = typed(words);
            let Question { url, id } = arguments.question().expect("one question");
            (url.to_owned(), id.map(str::to_owned))
        };
        let (there, id) = ("http://gateway:8080", Some("req_7f3a".to_owned()));
        let here = GATEWAY.to_owned();
        assert_eq!(of(&["req_7f3a"]), (here.clone(), id.clone()));
        assert_eq!(of(&["req_7f3a", "--log", "access.jsonl"]), (here.clone(), id.clone()));
        assert_eq!(of(&["--prompt", "x"]), (here, None));
        for words in [
            ["req_7f3a", "--url", there].as_slice(),
            &["--url", there, "req_7f3a"],
            &[there, "req_7f3a"],
            &["req_7f3a", there],
        ] {
            assert_eq!(of(words), (there.to_owned(), id.clone()), "{words:?}");
        }
        for words in [["--prompt", "x", "--url", there].as_slice(), &[there, "--prompt", "x"]] {
            assert_eq!(of(words), (there.to_owned(), None), "{words:?}");
        }
        // What has no scheme is an address all the same, and told to have none.
        assert_eq!(of(&["gateway:8080", "--prompt", "x"]).0, "gateway:8080");
    }

    #[test]
    fn a_table_says_what_chose_the_worker() {
        let told = |by: &str, sticky: bool| {
            let answer = serde_json::json!({
                "choice": "sent", "worker": "gpu-a", "model": "m", "policy": "cost",
                "arm": "baseline", "by": by, "sticky": sticky, "prompt_tokens": 7,
                "tokens": "counted", "completion_tokens_expected": 32, "candidates": []
            });
            table(answer.to_string().as_bytes()).expect("a whole explanation")
        };
        let head = "`m`, 7 prompt tokens (counted), about 32 answer tokens expected, arm baseline: \
                    to gpu-a, ";
        for (by, sticky, says) in [
            ("policy", false, "chosen by the policy `cost`"),
            ("session", true, "chosen by its sticky session"),
            ("trial", false, "whose circuit breaker is due for a trial request"),
        ] {
            let told = told(by, sticky);
            assert!(told.starts_with(&format!("{head}{says}\n")), "{told}");
        }
    }

    #[test]
    fn more_than_one_question_is_a_mistake() {
        let there = "http://gateway:8080";
        for words in [
            [there, "--url", there, "--prompt", "x"].as_slice(),
            &[there, "http://other:8080"],
            &["req_1", "req_2"],
            &["req_1", "--prompt", "x"],
            &[there, "req_1", "--request", "chat.json"],
            &["--log", "access.jsonl"],
            &[there, "--log", "access.jsonl"],
        ] {
            let _mistake = typed(words).question().expect_err("more than one question, or none");
        }
    }
}
