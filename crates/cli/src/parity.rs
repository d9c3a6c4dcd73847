//! Tokenizer parity check: whether the models of a cascade use the same tokens (A8).
//!
//! The check runs before anything is served: it compares the tokenizers that are configured or that
//! workers publish, else the tokens that workers make of fixed texts. A model without such
//! information is not known, which is no error; the gateway then goes on checking, and leaves the
//! draft out once it finds a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, StatusCode, request};
use overdraft_config::{Cascade, CascadeMode, CascadeTokenizers, Config, Tokenizer};
use overdraft_core::cascade::{Difference, Parity};
use overdraft_gateway::WorkerSettings;
use overdraft_tls::ClientSettings;
use overdraft_tokenizer::{PieceCache, Prompter, TOKENIZER_DOCUMENT_BYTES_MAX};
use overdraft_units::TokenId;
use serde_json::{Value, json};

use crate::ask::{self, Address, Want};

/// Maximum workers that are asked what they serve.
const WORKERS_MAX: usize = 64;

/// Bytes of a list of models or of tokens.
const LIST_BYTES_MAX: usize = 1024 * 1024;

/// Texts that tokenizers of different models cut differently.
const PROBES: [&str; 4] = [
    "The quick brown fox, 1234567890, doesn't jump.",
    "  two spaces\n\n\ttab",
    "fn main() { println!(\"{:?}\", vec![1_000; 3]); }",
    "Größe, naïve, 東京, привет, 🙂",
];

/// A cascade whose models make different tokens.
#[derive(Clone, Debug)]
pub(crate) struct Mismatch {
    /// Its name.
    pub(crate) cascade: String,
    /// Both models, and in what they differ.
    pub(crate) message: String,
}

/// What refuses such a cascade says of the way out.
pub(crate) const HINT: &str = "serve both models with one tokenizer and chat template, or say `tokenizers: any` at the cascade";

/// A worker that may serve a model of a cascade.
pub(crate) struct Asked {
    /// `http://host:port`.
    pub(crate) url: String,
    /// The header by which it knows us, if it asks for a key.
    pub(crate) key: Option<(HeaderName, HeaderValue)>,
    /// Whom it is believed where its address is encrypted.
    pub(crate) tls: ClientSettings,
}

impl Asked {
    /// Of a worker.
    pub(crate) fn of(worker: &WorkerSettings) -> Self {
        let WorkerSettings { url, traits, .. } = worker;
        Self { url: url.clone(), key: traits.key_header(), tls: traits.tls.clone() }
    }
}

/// Where a model is served, and what is shown there.
#[derive(Clone)]
struct Place {
    address: Address,
    key: Option<(HeaderName, HeaderValue)>,
}

impl Place {
    fn of(asked: &Asked) -> Option<Self> {
        let address = Address::with_tls(&asked.url, asked.tls.clone()).ok()?;
        Some(Self { address, key: asked.key.clone() })
    }

    async fn get(&self, path: &str, want: Want) -> Answer {
        self.ask(Request::get(path), Bytes::new(), want).await
    }

    async fn ask(&self, request: request::Builder, body: Bytes, want: Want) -> Answer {
        let request = match &self.key {
            Some((name, key)) => request.header(name, key),
            None => request,
        };
        ask::ask(&self.address, request, body, want).await
    }
}

type Answer = Result<(StatusCode, Bytes), ask::AskError>;

/// What is known of a model's tokenizer.
#[derive(Default)]
struct Facts {
    prompter: Option<Arc<Prompter>>,
    /// The text of the chat template and, behind it, of that for requests with tools.
    template: Option<String>,
    probes: Option<Vec<Value>>,
}

/// The cascades that may not run, judging by these workers.
pub(crate) async fn differing(config: &Config, workers: &[Asked]) -> Vec<Mismatch> {
    let pairs: Vec<(&str, [&str; 2])> =
        config.cascades.iter().filter_map(|(name, cascade)| pair(name, cascade)).collect();
    if pairs.is_empty() {
        return Vec::new();
    }
    let wanted: BTreeSet<&str> = pairs.iter().flat_map(|(_, models)| *models).collect();
    let places = places(&wanted, workers).await;
    let mut known = BTreeMap::new();
    for model in wanted {
        known.insert(model, facts(config, model, places.get(model)).await);
    }
    let differing = pairs.into_iter().filter_map(|(name, [draft, target])| {
        let Parity::Different(difference) = compare(&known[draft], &known[target]) else {
            return None;
        };
        let message = format!("`{draft}` before `{target}`: {difference}");
        Some(Mismatch { cascade: name.to_owned(), message })
    });
    differing.collect()
}

/// Draft and target of a cascade that needs the same tokens.
fn pair<'a>(name: &'a str, cascade: &'a Cascade) -> Option<(&'a str, [&'a str; 2])> {
    let is_meant =
        cascade.mode != CascadeMode::Off && cascade.tokenizers == CascadeTokenizers::Same;
    let target = cascade.target.as_deref().unwrap_or(name);
    is_meant.then_some((name, [cascade.draft.as_str(), target]))
}

/// The first worker that serves each of these models.
async fn places(wanted: &BTreeSet<&str>, workers: &[Asked]) -> BTreeMap<String, Place> {
    let mut places = BTreeMap::new();
    for place in workers.iter().take(WORKERS_MAX).filter_map(Place::of) {
        if wanted.iter().all(|model| places.contains_key(*model)) {
            break;
        }
        let Some(list) = read(place.get("/v1/models", Want::Body(LIST_BYTES_MAX)).await) else {
            continue;
        };
        let cards = list["data"].as_array().into_iter().flatten();
        for name in cards.filter_map(|card| card["id"].as_str()) {
            if wanted.contains(name) {
                places.entry(name.to_owned()).or_insert_with(|| place.clone());
            }
        }
    }
    places
}

async fn facts(config: &Config, model: &str, place: Option<&Place>) -> Facts {
    let configured = config.models.get(model).map(|own| own.tokenizer.clone());
    let pieces = Arc::new(PieceCache::new(0));
    if let Some(Tokenizer::Path(path)) = configured {
        let reading = tokio::task::spawn_blocking(move || Prompter::from_folder(&path, pieces));
        let prompter = reading.await.ok().and_then(Result::ok).map(Arc::new);
        return Facts { prompter, ..Facts::default() };
    }
    let Some(place) = place else { return Facts::default() };
    let want = Want::Body(TOKENIZER_DOCUMENT_BYTES_MAX);
    let document = match place.get("/tokenizer_source", want).await {
        Ok((StatusCode::OK, document)) => Some(document),
        _ => None,
    };
    let probes = probes(model, place).await;
    let Some(document) = document else { return Facts { probes, ..Facts::default() } };
    let reading = tokio::task::spawn_blocking(move || {
        let written: Option<Value> = serde_json::from_slice(&document).ok();
        let template = written.and_then(|it| {
            let of_tools = it["tool_template"].as_str().unwrap_or_default();
            it["chat_template"].as_str().map(|usual| format!("{usual}\0{of_tools}"))
        });
        let prompter = Prompter::from_document(&document, pieces).ok().map(Arc::new);
        (prompter, template)
    });
    let (prompter, template) = reading.await.unwrap_or_default();
    Facts { prompter, template, probes }
}

/// What a worker makes of the probes, if it tokenises.
async fn probes(model: &str, place: &Place) -> Option<Vec<Value>> {
    let mut tokens = Vec::with_capacity(PROBES.len());
    for text in PROBES {
        let body = Bytes::from(json!({ "model": model, "prompt": text }).to_string());
        let request = Request::post("/tokenize").header("content-type", "application/json");
        let answer = place.ask(request, body, Want::Body(LIST_BYTES_MAX)).await;
        tokens.push(read(answer)?.get("tokens")?.clone());
    }
    Some(tokens)
}

fn read(answer: Answer) -> Option<Value> {
    match answer {
        Ok((StatusCode::OK, body)) => serde_json::from_slice(&body).ok(),
        _ => None,
    }
}

fn compare(draft: &Facts, target: &Facts) -> Parity {
    if let (Some(one), Some(other)) = (&draft.prompter, &target.prompter) {
        let (words, special) = (texts(one), controls(one));
        let (other_words, other_special) = (texts(other), controls(other));
        let (one, other) = (words.iter(), other_words.iter());
        let parity = Parity::of_vocabularies(one.map(String::as_str), other.map(String::as_str));
        if matches!(parity, Parity::Different(_)) {
            return parity;
        }
        if special != other_special {
            return Parity::Different(Difference::Special);
        }
        let templates = draft.template.as_ref().zip(target.template.as_ref());
        if templates.is_some_and(|(one, other)| one != other) {
            return Parity::Different(Difference::Template);
        }
    }
    match (&draft.probes, &target.probes) {
        (Some(one), Some(other)) if one != other => Parity::Different(Difference::Probes),
        (Some(_), Some(_)) => Parity::Same,
        _ if draft.prompter.is_some() && target.prompter.is_some() => Parity::Same,
        _ => Parity::NotKnown,
    }
}

fn texts(prompter: &Prompter) -> Vec<String> {
    let tokenizer = prompter.tokenizer();
    ids(prompter).map(|id| tokenizer.token_text(id).into_owned()).collect()
}

fn controls(prompter: &Prompter) -> Vec<TokenId> {
    ids(prompter).filter(|id| prompter.tokenizer().is_control(*id)).collect()
}

fn ids(prompter: &Prompter) -> impl Iterator<Item = TokenId> {
    let words = u32::try_from(prompter.tokenizer().vocabulary()).unwrap_or(u32::MAX);
    (0..words).map(TokenId)
}
