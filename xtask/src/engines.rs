//! Standing check: the conformance suite against real engines.
//!
//! Installs vLLM for processors into `target/engines`, converts the demo models and SmolLM2-135M, and runs
//! `tests/engines`, which asks each engine directly and through the gateway. The table of what holds is written to
//! `docs/engines.md`. It takes minutes and the network, and is therefore no part of the gate.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A virtual environment with vLLM and `gguf` in it, instead of one in target/engines
    #[arg(long, env = "OVERDRAFT_VLLM_VENV")]
    venv: Option<PathBuf>,
    /// The Python that makes the environment; vLLM needs 3.12
    #[arg(long, default_value = "python3.12")]
    python: String,
    /// llama.cpp's server, if it is not on the path
    #[arg(long, env = "OVERDRAFT_LLAMA_SERVER", default_value = "llama-server")]
    llama_server: String,
    /// The `overdraft` to check, instead of one that is built first
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Runs these parts only and leaves the others' rows: one, ranks, lora, cascade, real,
    /// dialects, takeover, llama
    #[arg(long)]
    part: Vec<String>,
    /// Runs only checks whose engine and promise contain this, and writes no table
    #[arg(long)]
    only: Option<String>,
}

/// Prepares what is missing, runs the suite, and fails where a promise of the gateway's is broken.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let binary = match &arguments.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => shell::built()?,
    };
    let (suite, folder) = (shell::root().join("tests/engines"), shell::target().join("engines"));
    let mut prepare = vec![text(&suite.join("prepare.py")), text(&folder), text(&shell::root())];
    let venv = match &arguments.venv {
        Some(venv) => {
            prepare.extend(["--venv".to_owned(), text(venv)]);
            std::path::absolute(venv)?
        }
        None => folder.join("venv"),
    };
    shell::run(Path::new(&arguments.python), &strs(&prepare))?;
    let vllm = venv.join("bin").join("vllm");
    let mut check = vec![
        text(&suite.join("conformance.py")),
        format!("--vllm={}", vllm.display()),
        format!("--overdraft={}", binary.display()),
        format!("--models={}", folder.join("models").display()),
        format!("--work={}", folder.join("run").display()),
        format!("--report={}", shell::root().join("docs/engines.md").display()),
    ];
    if shell::output(&arguments.llama_server, &["--version"]).is_ok() {
        check.push(format!("--llama-server={}", arguments.llama_server));
    }
    check.extend(arguments.part.iter().map(|part| format!("--part={part}")));
    check.extend(arguments.only.iter().map(|only| format!("--only={only}")));
    shell::run(&vllm.with_file_name("python"), &strs(&check))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}
