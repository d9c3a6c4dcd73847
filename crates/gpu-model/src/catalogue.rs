//! Profile catalogue: the built-in GPU profiles and those of the user's files.
//!
//! A user's profile replaces a built-in one of the same name, and a later file's replaces an
//! earlier one's.

use std::collections::BTreeMap;

use overdraft_scheduler::batch::Batching;
use overdraft_units::Tokens;

use crate::document::{Document, Entry};
use crate::engine::Engine;
use crate::error::ProfileError;
use crate::model::Model;
use crate::profile::{Hardware, MEMORY_SHARE, Profile, Scheduling};

const BUILTIN: [(&str, &str); 5] = [
    ("hardware.toml", include_str!("../profiles/hardware.toml")),
    ("models.toml", include_str!("../profiles/models.toml")),
    ("rates.toml", include_str!("../profiles/rates.toml")),
    ("experts.toml", include_str!("../profiles/experts.toml")),
    ("cards.toml", include_str!("../profiles/cards.toml")),
];

/// Maximum suggestions for an unknown name.
const SUGGESTIONS_MAX: usize = 3;

/// Formats that names may have, for what no profile knows.
const FORMATS: [Format; 5] = [
    Format::of_all("bf16", 2.0),
    Format::of_all("fp16", 2.0),
    Format::of_all("fp8", 1.0),
    Format::of_all("int4", 0.531),
    // Experts alone have four bits and a scale for 32 of them.
    Format { name: "mxfp4", bytes: 2.0, expert_bytes: 0.531 },
];

/// A format's bytes per parameter.
#[derive(Clone, Copy, Debug)]
struct Format {
    name: &'static str,
    bytes: f64,
    /// Of routed experts.
    expert_bytes: f64,
}

/// All profiles that can be asked for.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    hardware: BTreeMap<String, Hardware>,
    models: BTreeMap<String, Model>,
    /// By their names in small letters, as they are looked for.
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

impl Format {
    const fn of_all(name: &'static str, bytes: f64) -> Self {
        Self { name, bytes, expert_bytes: bytes }
    }
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
            if let Some(fault) = hardware.fault() {
                return Err(wrong(format!("hardware `{}`: {fault}", hardware.name)));
            }
            self.hardware.insert(hardware.name.clone(), hardware);
        }
        for model in document.model {
            if let Some(fault) = model.fault() {
                return Err(wrong(format!("model `{}`: {fault}", model.name)));
            }
            self.models.insert(model.name.clone(), model);
        }
        for entry in document.profile {
            let profile = self
                .resolve(&entry)
                .map_err(|reason| wrong(format!("profile `{}`: {reason}", entry.name())))?;
            profile.kv_tokens()?;
            self.profiles.insert(profile.name().to_ascii_lowercase(), profile);
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
            Some(name) => {
                let known = canonical(name).ok().and_then(|name| self.profiles.get(&name));
                Some(known.ok_or_else(|| {
                    format!("`like = \"{name}\"` names no profile above it; put that one first")
                })?)
            }
        };
        if entry.tensor_parallel == 0 {
            return Err("`tensor_parallel = 0` computes nothing; expected at least 1".to_owned());
        }
        let mut rates = entry.rates(like.map(|like| &like.rates)).map_err(|field| {
            format!("`{field}` is missing or not above zero; give it, or name another with `like`")
        })?;
        let share = rates.kv_share_beside_prompts;
        if share > 1.0 {
            return Err(format!("`kv_share_beside_prompts = {share}`; expected above 0 to 1"));
        }
        rates.host_us_per_prompt = entry.host_us_per_prompt()?.unwrap_or(rates.host_us_per_prompt);
        rates.experts = entry.expert_rates(model, &rates, like.map(|like| &like.rates))?;
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
            batching: Batching::default(),
            wake: entry.wake()?,
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
        let format = FORMATS.iter().find(|known| known.name == format)?;
        let gpus: u32 = gpus.parse().ok()?;
        let weights = model.weight_bytes(format.bytes, format.expert_bytes) / f64::from(gpus);
        let room = hardware.room(MEMORY_SHARE);
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
        // All experts count, whichever a token computes.
        refused("h100-tp8/deepseek-v3-fp8", "its weights take 84.1 GB of each GPU");
        refused("l4-tp1/gpt-oss-120b-mxfp4", "`l4-tp1/gpt-oss-120b-mxfp4` is impossible");
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

    #[test]
    fn names_are_found_in_any_case_and_without_one_gpu() {
        let text = MINE.replace("tensor_parallel = 4", "tensor_parallel = 1");
        let text = text.replace("h100-tp2/qwen-3-32b-bf16", "H100/qwen-3-32b-fp8");
        let own = "[[hardware]]\nname = \"MyGPU\"\ntitle = \"\"\nmemory_bytes = 85e9\noverhead_bytes = 2e9\n\
                   price_per_hour = 0\nprice_low = 0\nprice_source = \"bought\"\n";
        let text = own.to_owned() + &text.replace("hardware = \"h100\"", "hardware = \"MyGPU\"");
        let mut catalogue = Catalogue::builtin();
        catalogue.add("mine.toml", &text).unwrap();
        for name in ["MyGPU/qwen-3-32b-bf16", "mygpu-tp1/qwen-3-32b-bf16"] {
            assert_eq!(catalogue.find(name).unwrap().name(), "MyGPU-tp1/qwen-3-32b-bf16");
        }
        let negative = text.replace("price_per_hour = 0", "price_per_hour = -3");
        wrong(&negative, "hardware `MyGPU`: `price_per_hour = -3`; expected a number, not below");
        wrong(&text.replace("85e9", "nan"), "`memory_bytes = NaN`");
    }

    #[test]
    fn another_gpus_rates_are_scaled_by_its_datasheet() {
        let catalogue = Catalogue::builtin();
        let rates = |name: &str| catalogue.find(name).unwrap().rates;
        for model in ["llama-3-8b-bf16", "qwen-3-30b-a3b-bf16"] {
            let (h100, h20) = (rates(&format!("h100/{model}")), rates(&format!("h20/{model}")));
            let ratios = [
                (h20.weights_tb_per_s / h100.weights_tb_per_s, 1.194),
                (h20.kv_tb_per_s / h100.kv_tb_per_s, 1.194),
                (h20.elementwise_gb_per_s / h100.elementwise_gb_per_s, 1.194),
                (h20.gemm_tflops / h100.gemm_tflops, 0.15),
                (h20.prefill_attention_tflops / h100.prefill_attention_tflops, 0.15),
                (h20.kernels_us_per_layer / h100.kernels_us_per_layer, 1.0),
            ];
            assert!(ratios.iter().all(|(ratio, of)| (ratio / of - 1.0).abs() < 1e-9), "{ratios:?}");
            if let (Some(h100), Some(h20)) = (h100.experts, h20.experts) {
                assert!((h20.weights_tb_per_s / h100.weights_tb_per_s - 1.194).abs() < 1e-9);
                assert!((h20.gemm_tflops / h100.gemm_tflops - 0.15).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn experts_have_the_rates_of_the_other_weights_where_nothing_else_is_said() {
        let text = MINE
            .replace("model = \"qwen-3-32b\"", "model = \"qwen-3-30b-a3b\"")
            .replace("weights = \"bf16\"", "weights = \"mixed\"");
        let mut catalogue = Catalogue::builtin();
        catalogue.add("mine.toml", &text).unwrap();
        let rates = catalogue.find("h100-tp4/qwen-3-30b-a3b-mixed").unwrap().rates;
        let experts = rates.experts.unwrap();
        assert_eq!(experts.weights_tb_per_s.to_bits(), rates.weights_tb_per_s.to_bits());
        assert_eq!(experts.us_per_layer.to_bits(), rates.kernels_us_per_layer.to_bits());
        // What a profile says of its weights holds for experts too; else those of the one it is like do.
        let like = "like = \"h100-tp1/qwen-3-30b-a3b-bf16\"\nbytes_per_parameter = 1";
        let text = text.replace("like = \"h100-tp2/qwen-3-32b-bf16\"", like);
        let text = text.replace("host_ms", "allreduce_us = 5\nallreduce_gb_per_s = 190\nhost_ms");
        catalogue.add("mine.toml", &text).unwrap();
        let experts = catalogue.find("h100-tp4/qwen-3-30b-a3b-mixed").unwrap().rates.experts;
        assert!((experts.unwrap().bytes_per_parameter - 1.0).abs() < 1e-9);
        let like = catalogue.find("h100/qwen-3-30b-a3b-bf16").unwrap().rates.experts.unwrap();
        assert_eq!(experts.unwrap().gemm_tflops.to_bits(), like.gemm_tflops.to_bits());
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
        wrong(
            &MINE.replace("host_ms = 1.5", "host_ms = 1.5\nkv_share_beside_prompts = 1.2"),
            "`kv_share_beside_prompts = 1.2`; expected above 0 to 1",
        );
        wrong(&MINE.replace("host_ms", "host"), "unknown field `host`");
        for field in ["host_us_per_prompt", "wake_ms"] {
            let below = format!("host_ms = 1.5\n{field} = -1");
            let told = format!("`{field}` is -1; expected zero or more");
            wrong(&MINE.replace("host_ms = 1.5", &below), &told);
        }
        wrong(&MINE.replace("tensor_parallel = 4", "tensor_parallel = 0"), "expected at least 1");
        wrong("[[profile", "line 1");
        wrong(
            &MINE.replace("host_ms = 1.5", "expert_gemm_tflops = 9"),
            "`expert_gemm_tflops` is given, but `qwen-3-32b` has no experts",
        );
        let mixture = MINE
            .replace("model = \"qwen-3-32b\"", "model = \"qwen-3-30b-a3b\"")
            .replace("host_ms = 1.5", "expert_us_per_layer = -1");
        wrong(&mixture, "`expert_us_per_layer` is not above zero");
        let huge = MINE.replace("weights = \"bf16\"", "weights = \"x\"\nbytes_per_parameter = 90");
        wrong(&huge, "is impossible");
    }
}
