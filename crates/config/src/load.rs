//! Configuration loader: from a file, or the environment alone, to a typed, validated configuration.
//!
//! The steps are read, parse, override, interpolate, deserialize and validate. Each step knows the
//! place of every value, and the first step that fails ends the load, because later ones would
//! report consequential errors.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::check;
use crate::environment::{self, Variables};
use crate::error::{ConfigError, ConfigErrors, Wrong};
use crate::keys_file::KeysFile;
use crate::node::{Node, Value};
use crate::place::Source;
use crate::tree::Config;
use crate::worker_source::WorkerSource;
use crate::{read, secrets, toml_file, yaml};

/// Maximum bytes of a configuration file.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// What errors name where there is no file.
const ENVIRONMENT: &str = "the environment";

/// How a configuration is read: from a file and the environment, or from the environment alone.
#[derive(Clone, Debug)]
pub struct Loader {
    /// None where the environment alone says something.
    path: Option<PathBuf>,
    variables: Variables,
    workers: WorkerSource,
}

/// A configuration in force, or ready to be.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// The file it came from; `the environment` where there is none.
    pub path: PathBuf,
    /// The file's text, to see whether it has changed.
    pub(crate) text: String,
    /// That of the file that `keys_file` names.
    pub(crate) keys_text: Option<String>,
}

impl Loader {
    /// Reads `path` with this process's environment; the file must name workers.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::of_environment() }
    }

    /// Reads no file: the defaults, and what this process's environment says. It must name workers.
    pub fn of_environment() -> Self {
        Self { path: None, variables: Variables::of_process(), workers: WorkerSource::File }
    }

    /// With another environment.
    #[must_use]
    pub fn with_variables(self, variables: Variables) -> Self {
        Self { variables, ..self }
    }

    /// With workers from elsewhere.
    #[must_use]
    pub fn with_workers(self, workers: WorkerSource) -> Self {
        Self { workers, ..self }
    }

    /// What errors name.
    fn place(&self) -> &Path {
        self.path.as_deref().unwrap_or_else(|| Path::new(ENVIRONMENT))
    }

    /// Reads the file, everything in it and the environment.
    ///
    /// # Errors
    /// Every fault that could be found, with its place.
    pub fn load(&self) -> Result<Loaded, ConfigErrors> {
        self.parse(self.text()?)
    }

    /// The file's bytes as text; empty where there is no file.
    pub(crate) fn text(&self) -> Result<String, ConfigErrors> {
        let missing = "name another one with `--config`; `examples/overdraft.yaml` is a start";
        self.path
            .as_deref()
            .map_or_else(|| Ok(String::new()), |path| text_of(path, FILE_BYTES_MAX, missing))
    }

    /// Where workers come from, now that it is known whether the file names any.
    fn needed(&self, config: &Config) -> WorkerSource {
        match self.workers {
            WorkerSource::FileOrEmbedded if config.names_workers() => WorkerSource::File,
            WorkerSource::FileOrEmbedded => WorkerSource::Elsewhere,
            said => said,
        }
    }

    /// The tree of a text that stands in the file.
    fn tree(&self, source: &Source) -> Result<Node, ConfigErrors> {
        if self.path.is_none() {
            return Ok(Node::empty());
        }
        let root = notation(source)?;
        let is_empty = source.text.lines().all(|line| {
            let line = line.trim();
            line.is_empty() || line.starts_with('#')
        });
        if is_empty && self.workers != WorkerSource::Elsewhere {
            let expected = "expected at least `workers` with a `url` each, or `discovery`";
            let wrong = Wrong::new("the file is empty", expected);
            return Err(ConfigError::of_file(&source.path, wrong).into());
        }
        Ok(if root.value == Value::Null { Node::empty() } else { root })
    }

    /// What a text says that stands in the file, and the environment.
    pub(crate) fn parse(&self, text: String) -> Result<Loaded, ConfigErrors> {
        let source = Source::new(self.place(), text);
        let mut root = self.tree(&source)?;
        let source = source.hiding(secrets::stretches(&root));
        environment::override_values(&mut root, &source, &self.variables)?;
        let unset = environment::fill_in(&mut root, &source, &self.variables);
        if !unset.is_empty() {
            return Err(ConfigErrors::new(unset));
        }
        let mut config: Config = read::read(&root, &source)?;
        config.stand_in(&self.variables).map_err(|message| {
            let wrong =
                Wrong::new(message, "expected as in `http://10.0.0.5:8000` and `redis:6379`");
            ConfigError::of_file(&source.path, wrong)
        })?;
        let keys_text = take_keys_file(&mut config)?;
        let faults = check::check(&config, &root, &source, self.needed(&config));
        if !faults.is_empty() {
            return Err(ConfigErrors::new(faults));
        }
        Ok(Loaded { config, path: source.path, text: source.text, keys_text })
    }
}

/// Reads the file that `keys_file` names into the configuration; its text.
fn take_keys_file(config: &mut Config) -> Result<Option<String>, ConfigErrors> {
    let Some(path) = config.keys_file.clone() else { return Ok(None) };
    let file = KeysFile::read_beside(path, &config.keys)?;
    config.file_keys = file.keys().to_vec();
    Ok(Some(file.text().to_owned()))
}

fn notation(source: &Source) -> Result<Node, ConfigErrors> {
    let ending = source.path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("yaml" | "yml") => yaml::parse(source),
        Some("toml") => toml_file::parse(source),
        _ => {
            let wrong = Wrong::new(
                "the file's name does not say what is in it",
                "expected a name that ends with `.yaml`, `.yml` or `.toml`",
            );
            Err(ConfigError::of_file(&source.path, wrong).into())
        }
    }
}

/// A file's bytes as text, at most so many; `missing` says what to do where there is no file.
pub(crate) fn text_of(
    path: &Path,
    bytes_max: usize,
    missing: &str,
) -> Result<String, ConfigErrors> {
    let fault = |wrong| ConfigErrors::from(ConfigError::of_file(path, wrong));
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(|error| fault(unreadable(&error, missing)))?;
    if bytes_max < bytes.len() {
        let expected = format!("expected at most {bytes_max} bytes");
        return Err(fault(Wrong::new("the file is too long", expected)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        fault(Wrong::new(
            format!("the file is not text: its byte {at} is not UTF-8"),
            "expected YAML or TOML in UTF-8",
        ))
    })
}

fn unreadable(error: &std::io::Error, missing: &str) -> Wrong {
    match error.kind() {
        std::io::ErrorKind::NotFound => Wrong::new("there is no such file", missing),
        _ => Wrong::new(format!("the file cannot be read: {error}"), "expected a readable file"),
    }
}

impl Config {
    /// Reads `path` with this process's environment; the file must name workers.
    ///
    /// # Errors
    /// Every fault that could be found, with its place.
    pub fn load(path: impl Into<PathBuf>) -> Result<Loaded, ConfigErrors> {
        Loader::new(path).load()
    }
}
