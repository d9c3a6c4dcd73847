//! Profile catalogue: the built-in GPU profiles and those of the user's files.
//!
//! A user's profile replaces a built-in one of the same name, and a later file's replaces an
//! earlier one's.

use std::collections::BTreeMap;

use overdraft_units::Tokens;

use crate::document::{Document, Entry};
use crate::engine::Engine;
use crate::error::ProfileError;
use crate::profile::{Hardware, MEMORY_SHARE, Model, Profile, Scheduling};

const BUILTIN: [(&str, &str); 3] = [
    ("hardware.toml", include_str!("../profiles/hardware.toml")),
    ("models.toml", include_str!("../profiles/models.toml")),
    ("rates.toml", include_str!("../profiles/rates.toml")),
];

/// Maximum suggestions for an unknown name.
const SUGGESTIONS_MAX: usize = 3;

/// Bytes per parameter of the formats that names may have, for what no profile knows.
const FORMATS: [(&str, f64); 4] = [("bf16", 2.0), ("fp16", 2.0), ("fp8", 1.0), ("int4", 0.531)];

/// All profiles that can be asked for.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    hardware: BTreeMap<String, Hardware>,
    models: BTreeMap<String, Model>,
    profiles: BTreeMap<String, Profile>,
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// As it is asked for.
    pub name: String,
    /// Tokens its cache holds.
    pub kv_tokens: Tokens,
    /// Dollars an hour, all GPUs together.
    pub price_per_hour: f64,
    /// How far its rates are to be trusted, and why.
    pub trust: String,
}

impl Catalogue {
    /// Those that ship with the binary.
    pub fn builtin() -> Self {
        let mut catalogue = Self::default();
        for (file, text) in BUILTIN {
            catalogue.add(file, text).expect("a test reads the files that ship");
        }
        catalogue
    }

    /// Adds what a file says.
    ///
    /// # Errors
    /// [`ProfileError::File`] with what is wrong and where; [`ProfileError::TooLarge`] for a profile
    /// whose weights do not fit. What came before it in the file stays.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), ProfileError> {
        let wrong = |reason: String| ProfileError::File { file: file.to_owned(), reason };
        let document: Document =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
        for hardware in document.hardware {
            self.hardware.insert(hardware.name.clone(), hardware);
        }
        for model in document.model {
            self.models.insert(model.name.clone(), model);
        }
        for entry in document.profile {
            let profile = self
                .resolve(&entry)
                .map_err(|reason| wrong(format!("profile `{}`: {reason}", entry.name())))?;
            profile.kv_tokens()?;
            self.profiles.insert(profile.name(), profile);
        }
        Ok(())
    }

    /// The profile of that name. `-tp1` may be left out.
    ///
    /// # Errors
    /// [`ProfileError`] that says why there is none.
    pub fn find(&self, name: &str) -> Result<Profile, ProfileError> {
        let canonical = canonical(name)?;
        match self.profiles.get(&canonical) {
            Some(profile) => Ok(profile.clone()),
            None => Err(self.missing(name, &canonical)),
        }
    }

    /// All of them, by name.
    pub fn list(&self) -> Vec<Listed> {
        let line = |profile: &Profile| {
            Some(Listed {
                name: profile.name(),
                kv_tokens: profile.kv_tokens().ok()?,
                price_per_hour: profile.price_per_hour(),
                trust: format!("{}: {}", profile.confidence, profile.source),
            })
        };
        self.profiles.values().filter_map(line).collect()
    }

    fn resolve(&self, entry: &Entry) -> Result<Profile, String> {
        let hardware = self.hardware.get(&entry.hardware);
        let hardware = hardware.ok_or_else(|| {
            let known = names(&self.hardware);
            format!("`{}` is not a known hardware; expected one of {known}", entry.hardware)
        })?;
        let model = self.models.get(&entry.model);
        let model = model.ok_or_else(|| {
            let known = names(&self.models);
            format!("`{}` is not a known model; expected one of {known}", entry.model)
        })?;
        let like = match &entry.like {
            None => None,
            Some(name) => Some(self.profiles.get(name).ok_or_else(|| {
                format!("`like = \"{name}\"` names no profile above it; put that one first")
            })?),
        };
        if entry.tensor_parallel == 0 {
            return Err("`tensor_parallel = 0` computes nothing; expected at least 1".to_owned());
        }
        let rates = entry.rates(like.map(|like| &like.rates)).map_err(|field| {
            format!("`{field}` is missing or not above zero; give it, or name another with `like`")
        })?;
        let bound = |name, said: Option<u32>, like: Option<u32>| {
            said.or(like).filter(|bound| 0 < *bound).ok_or_else(|| {
                format!("`{name}` is missing or zero; give it, or name another with `like`")
            })
        };
        let step_tokens =
            bound("step_tokens", entry.step_tokens, like.map(|like| like.step_tokens.get()))?;
        let profile = Profile {
            hardware: hardware.clone(),
            model: model.clone(),
            tensor_parallel: entry.tensor_parallel,
            weights: entry.weights.clone(),
            rates,
            step_tokens: Tokens::new(step_tokens),
            running_max: bound(
                "running_max",
                entry.running_max,
                like.map(|like| like.running_max),
            )?,
            engine: Engine::default(),
            memory_share: MEMORY_SHARE,
            scheduling: Scheduling::default(),
            shared_reads: 0.0,
            confidence: entry.confidence,
            source: entry.source.clone(),
        }
        .served_by(entry.engine);
        Ok(match entry.async_scheduling {
            None => profile,
            Some(true) => Profile { scheduling: Scheduling::Asynchronous, ..profile },
            Some(false) => Profile { scheduling: Scheduling::Between, ..profile },
        })
    }

    /// Why there is no such profile: it cannot be, or nobody knows its rates.
    fn missing(&self, asked: &str, canonical: &str) -> ProfileError {
        if let Some(impossible) = self.impossible(canonical) {
            return impossible;
        }
        let mut ranked: Vec<(usize, &String)> = self
            .profiles
            .keys()
            .map(|known| (strsim::damerau_levenshtein(known, canonical), known))
            .collect();
        ranked.sort();
        let suggestions = ranked.into_iter().take(SUGGESTIONS_MAX).map(|(_, known)| known.clone());
        ProfileError::Unknown { name: asked.to_owned(), suggestions: suggestions.collect() }
    }

    /// Whether known weights do not fit known GPUs, whatever their rates are.
    fn impossible(&self, name: &str) -> Option<ProfileError> {
        let (side, rest) = name.split_once('/')?;
        let (hardware, gpus) = side.rsplit_once("-tp")?;
        let (model, format) = rest.rsplit_once('-')?;
        let (hardware, model) = (self.hardware.get(hardware)?, self.models.get(model)?);
        let (_, bytes) = FORMATS.iter().find(|(known, _)| *known == format)?;
        let gpus: u32 = gpus.parse().ok()?;
        let (weights, room) =
            (model.weight_bytes(*bytes) / f64::from(gpus), hardware.room(MEMORY_SHARE));
        let name = name.to_owned();
        (room < weights).then_some(ProfileError::TooLarge { name, weights, room })
    }
}

/// The name with its number of GPUs.
fn canonical(name: &str) -> Result<String, ProfileError> {
    let malformed = || ProfileError::Malformed { name: name.to_owned() };
    let lower = name.to_ascii_lowercase();
    let (side, model) = lower.split_once('/').ok_or_else(malformed)?;
    if side.is_empty() || !model.contains('-') {
        return Err(malformed());
    }
    let gpus = side.rsplit_once("-tp").and_then(|(_, gpus)| gpus.parse::<u32>().ok());
    match gpus {
        Some(0) => Err(malformed()),
        Some(_) => Ok(lower),
        None => Ok(format!("{side}-tp1/{model}")),
    }
}

fn names<T>(known: &BTreeMap<String, T>) -> String {
    let names: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(name: &str, sentence: &str) {
        let found = Catalogue::builtin().find(name).unwrap_err().to_string();
        assert!(found.contains(sentence), "{found}");
    }

    #[test]
    fn every_profile_that_ships_has_room_a_price_and_a_source() {
        let list = Catalogue::builtin().list();
        assert!(20 <= list.len(), "{}", list.len());
        for line in list {
            assert!(Tokens::ZERO < line.kv_tokens && 0.0 < line.price_per_hour, "{line:?}");
            assert!(10 < line.trust.len(), "{line:?}");
            assert_eq!(Catalogue::builtin().find(&line.name).unwrap().name(), line.name);
        }
    }

    #[test]
    fn one_gpu_need_not_be_said() {
        let catalogue = Catalogue::builtin();
        let short = catalogue.find("H100/llama-3-8b-bf16").unwrap();
        assert_eq!(short, catalogue.find("h100-tp1/llama-3-8b-bf16").unwrap());
    }

    #[test]
    fn an_impossible_profile_says_by_how_much() {
        refused(
            "a10g-tp1/llama-3-70b-fp8",
            "its weights take 72.7 GB of each GPU, 52.6 GB more than the 20.1 GB left",
        );
        refused("h100/llama-3-70b-bf16", "`h100-tp1/llama-3-70b-bf16` is impossible");
    }

    #[test]
    fn an_unknown_name_gets_suggestions() {
        refused("h100-tp2/lama-3-70b-fp8", "most alike: `h100-tp2/llama-3-70b-fp8`");
        refused("h100-tp2/llama-3-70b-fp9", "most alike: `h100-tp2/llama-3-70b-fp8`");
        refused("nonsense", "expected HARDWARE-tpN/MODEL-WEIGHTS");
        refused("h100-tp0/llama-3-8b-bf16", "expected HARDWARE-tpN/MODEL-WEIGHTS");
    }

    const MINE: &str = "[[profile]]
hardware = \"h100\"
tensor_parallel = 4
model = \"qwen-3-32b\"
weights = \"bf16\"
like = \"h100-tp2/qwen-3-32b-bf16\"
host_ms = 1.5
confidence = \"D\"
source = \"a guess\"
";

    #[test]
    fn a_file_adds_profiles_like_others() {
        let mut catalogue = Catalogue::builtin();
        catalogue.add("mine.toml", MINE).unwrap();
        let mine = catalogue.find("h100-tp4/qwen-3-32b-bf16").unwrap();
        let like = catalogue.find("h100-tp2/qwen-3-32b-bf16").unwrap();
        assert!((mine.rates.host_ms - 1.5).abs() < 1e-9);
        assert_eq!(mine.rates.gemm_tflops.to_bits(), like.rates.gemm_tflops.to_bits());
    }

    #[track_caller]
    fn wrong(text: &str, sentence: &str) {
        let found = Catalogue::builtin().add("mine.toml", text).unwrap_err().to_string();
        assert!(found.starts_with("mine.toml: ") || found.contains("impossible"), "{found}");
        assert!(found.contains(sentence), "{found}");
    }

    #[test]
    fn a_file_that_is_wrong_says_where() {
        wrong(
            &MINE.replace("hardware = \"h100\"", "hardware = \"h1000\""),
            "`h1000` is not a known",
        );
        wrong(
            &MINE.replace("model = \"qwen-3-32b\"", "model = \"gpt\""),
            "`gpt` is not a known model",
        );
        wrong(&MINE.replace("like", "# like"), "`bytes_per_parameter` is missing");
        wrong(&MINE.replace("host_ms = 1.5", "host_ms = 0"), "`host_ms` is missing or not above");
        wrong(&MINE.replace("host_ms", "host"), "unknown field `host`");
        wrong(&MINE.replace("tensor_parallel = 4", "tensor_parallel = 0"), "expected at least 1");
        wrong("[[profile", "line 1");
        let huge = MINE.replace("weights = \"bf16\"", "weights = \"x\"\nbytes_per_parameter = 90");
        wrong(&huge, "is impossible");
    }
}
