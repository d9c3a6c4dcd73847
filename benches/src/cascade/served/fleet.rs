//! A target, a draft, and the gateway before them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::binary;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::process::Child;

use super::client;

const TARGET: &str = "overdraft-target.q8_0";
pub(super) const DRAFT: &str = "overdraft-draft.q8_0";

/// Processes that end with it.
pub(super) struct Fleet {
    pub(super) gateway: SocketAddr,
    pub(super) draft: SocketAddr,
    _children: [Child; 3],
    _settings: tempfile::NamedTempFile,
}

/// The file of a demo model.
pub(super) fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(format!("{name}.gguf"))
}

impl Fleet {
    /// Starts `draft`, a file, before the demo target, as the cascade `chat` with these further settings.
    pub(super) async fn start(binary: &Path, draft: &Path, settings: Value) -> Result<Self> {
        let (draft_process, draft) = worker(binary, draft, DRAFT).await?;
        let (target_process, target) = worker(binary, &model(TARGET), TARGET).await?;
        let mut cascade = settings;
        (cascade["draft"], cascade["target"]) = (DRAFT.into(), TARGET.into());
        let settings = json!({
            "workers": [
                {"url": format!("http://{draft}"), "model": DRAFT},
                {"url": format!("http://{target}"), "model": TARGET},
            ],
            "cascades": {"chat": cascade},
        });
        // JSON is YAML.
        let file = tempfile::Builder::new().suffix(".yaml").tempfile()?;
        std::fs::write(file.path(), settings.to_string())?;
        let path = file.path().display().to_string();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--config", &path];
        let (process, addresses) = binary::start(binary, &arguments, 1).await?;
        let [gateway] = addresses[..] else { bail!("the gateway listens on one port") };
        binary::until_healthy(gateway, "/healthz", "\"workers_up\":2,").await?;
        let same = "overdraft_cascade_parity{cascade=\"chat\",state=\"same\"} 1";
        client::until(gateway, "/metrics", same).await?;
        let children = [draft_process, target_process, process];
        Ok(Self { gateway, draft, _children: children, _settings: file })
    }
}

async fn worker(binary: &Path, file: &Path, name: &str) -> Result<(Child, SocketAddr)> {
    let file = file.display().to_string();
    let arguments =
        ["worker", "--listen", "127.0.0.1:0", "--model", &file, "--served-model-name", name];
    let (process, addresses) = binary::start(binary, &arguments, 1).await?;
    let address = *addresses.first().context("a worker listens")?;
    binary::until_healthy(address, "/health", "").await?;
    Ok((process, address))
}
