//! Engine version check: which engine a worker runs, and which release of it.

use bytes::Bytes;
use http::{Request, StatusCode};
use overdraft_config::Worker;
use overdraft_wire::prometheus::engine::Dialect;
use serde_json::Value;

use super::finding::{Finding, Verdict};
use super::preflight::{Answer, shown_key};
use crate::ask::{self, Address, Want};

/// Bytes of an answer: `SGLang` tells all its settings with its version.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Letters of a version that are shown.
const VERSION_LETTERS_MAX: usize = 64;

/// Where vLLM tells its version, and our own worker.
pub(super) const PATH: &str = "/version";

/// Where `SGLang` tells it: its name for the same page has changed.
const SGLANG: [&str; 2] = ["/get_server_info", "/server_info"];

/// Where llama-server tells it.
const LLAMA_SERVER: &str = "/props";

/// Which engine it is, by its metrics and by what it answered at [`PATH`]; nothing where it does not tell.
pub(super) async fn finding(
    worker: &Worker,
    address: &Address,
    engine: Option<Dialect>,
    told: &Answer,
) -> Option<Finding> {
    let shown = match read(told) {
        Some(view) => known(engine, &view)?,
        None => match engine? {
            Dialect::Vllm => return None,
            Dialect::LlamaServer => llama_server(&get(worker, address, LLAMA_SERVER).await?)?,
            Dialect::Sglang => {
                let first = get(worker, address, SGLANG[0]).await;
                let view = match first {
                    Some(view) => view,
                    None => get(worker, address, SGLANG[1]).await?,
                };
                format!("SGLang {}", version(&view["version"])?)
            }
        },
    };
    Some(Finding::new("engine", Verdict::Ok, shown))
}

/// What a page of [`PATH`] says.
fn known(engine: Option<Dialect>, view: &Value) -> Option<String> {
    let version = version(&view["version"])?;
    let name = match (view["server"].as_str(), engine) {
        (Some("overdraft"), _) => "overdraft",
        (_, Some(Dialect::Vllm)) => "vLLM",
        (_, Some(Dialect::Sglang)) => "SGLang",
        (_, Some(Dialect::LlamaServer)) => "llama-server",
        (_, None) => "version",
    };
    Some(format!("{name} {version}"))
}

fn llama_server(view: &Value) -> Option<String> {
    Some(format!("llama-server {}", version(&view["build_info"])?))
}

fn version(value: &Value) -> Option<String> {
    let letters = value.as_str()?.chars().filter(|letter| !letter.is_control());
    let shown: String = letters.take(VERSION_LETTERS_MAX).collect();
    (!shown.is_empty()).then_some(shown)
}

async fn get(worker: &Worker, address: &Address, path: &str) -> Option<Value> {
    let request = shown_key(worker, Request::get(path));
    read(&ask::ask(address, request, Bytes::new(), Want::Body(ANSWER_BYTES_MAX)).await)
}

fn read(answer: &Answer) -> Option<Value> {
    match answer {
        Ok((StatusCode::OK, body)) => serde_json::from_slice(body).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn engines_are_told_apart() {
        let vllm = json!({"version": "0.32.0"});
        assert_eq!(known(Some(Dialect::Vllm), &vllm).as_deref(), Some("vLLM 0.32.0"));
        assert_eq!(known(None, &vllm).as_deref(), Some("version 0.32.0"));
        let ours = json!({"version": "0.2.0", "server": "overdraft"});
        assert_eq!(known(Some(Dialect::Vllm), &ours).as_deref(), Some("overdraft 0.2.0"));
        assert_eq!(known(Some(Dialect::Vllm), &json!({"version": 1})), None);
        let props = json!({"build_info": "b7012-1a2b3c4"});
        assert_eq!(llama_server(&props).as_deref(), Some("llama-server b7012-1a2b3c4"));
    }
}
