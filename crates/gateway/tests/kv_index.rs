//! Streams of events as engines publish them, in both forms and with things unheard of, go through the
//! feeds into the prefix index; after each batch the index says what a literal model says.
//!
//! Batches come late, twice or never, and engines begin anew. What a subscriber makes of their numbers is in
//! `kv_events.rs`; here a count of the test's own stands for it.
//!
//! The model knows no hashes but the engine's: a name stands for the whole prefix it was stored with,
//! written out, and a prompt matches as many leading blocks as some held name spells out.

use std::collections::{BTreeMap, BTreeSet};

use overdraft_core::fleet::{Fleet, WorkerId};
use overdraft_core::prefix::{
    Chunking, Knowledge, Matches, PrefixChain, PrefixIndex, PrefixLimits,
};
use overdraft_gateway::kv_events::{Feeds, salt_of_request};
use overdraft_units::{BlockSize, TokenId};
use overdraft_wire::kv_events::{Batch, ExtraKeys, KvEvent, SaltText, decode};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Tokens to a block.
const SIZE: usize = 2;
/// Workers in play.
const WORKERS: usize = 2;
/// Salts of prompts; none is plain.
const SALTS: [Option<&str>; 3] = [None, Some("s"), Some("t")];

/// The form in which an engine writes.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// vLLM to 0.23.
    Arrays,
    /// vLLM from 0.24 on, and `SGLang`; from 0.31 on it says what kinds its extra keys are of.
    Maps { tagged: bool },
}

/// One thing an engine does.
#[derive(Clone, Debug)]
enum Act {
    /// Stores blocks `from..` of a prompt, as far as what comes before is held.
    Store { prompt: Vec<u32>, salt: usize, from: usize, medium: &'static str },
    /// Stores blocks of a prompt with an image in it.
    StoreImage { prompt: Vec<u32>, image: u32 },
    /// Drops the n-th held block, whatever follows it.
    Remove { which: usize },
    /// Drops all.
    Clear,
    /// Something that no release known to us does.
    Novelty,
}

/// One step of a stream: what is done, and what becomes of the batch that tells it.
#[derive(Clone, Debug)]
struct Step {
    worker: usize,
    acts: Vec<Act>,
    fate: Fate,
}

/// What becomes of a batch on its way.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    /// It comes a second time later on.
    Twice,
    /// It comes after the one that follows it; that one is a gap, which a replay fills.
    Late,
    /// It never comes, nor does the replay bring it.
    Lost,
    /// The engine begins anew before it.
    Restart,
}

fn prompt() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0..2_u32, 2..14)
}

fn act() -> impl Strategy<Value = Act> {
    let store = (prompt(), 0..SALTS.len(), 0..4_usize, prop::bool::weighted(0.9));
    prop_oneof![
        8 => store.prop_map(|(prompt, salt, from, on_device)| {
            let medium = if on_device { "GPU" } else { "CPU" };
            Act::Store { prompt, salt, from, medium }
        }),
        1 => (prompt(), 0..2_u32).prop_map(|(prompt, image)| Act::StoreImage { prompt, image }),
        4 => any::<usize>().prop_map(|which| Act::Remove { which }),
        1 => Just(Act::Clear),
        1 => Just(Act::Novelty),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        12 => Just(Fate::Arrives),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Late),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Restart),
    ];
    (0..WORKERS, prop::collection::vec(act(), 1..4), fate).prop_map(|(worker, acts, fate)| Step {
        worker,
        acts,
        fate,
    })
}

/// All before a block and itself, written out.
type Spelled = String;

/// An engine that really holds blocks and tells of them in its form.
struct Engine {
    form: Form,
    /// Held blocks by name: what they spell and how often they are held.
    held: BTreeMap<u64, (Spelled, u32)>,
    /// Names by what they spell: as many as were ever used.
    names: BTreeMap<Spelled, u64>,
    next: u64,
}

fn spell(salt: &str, tokens: &[u32]) -> Spelled {
    format!("{salt}|{tokens:?}")
}

impl Engine {
    fn new(form: Form) -> Self {
        Self { form, held: BTreeMap::new(), names: BTreeMap::new(), next: 0 }
    }

    fn name(&mut self, spelled: &Spelled) -> u64 {
        // Names mean nothing: they are given as they come, and seeded by the form.
        let next = 1_000_003 * (self.names.len() as u64 + 1);
        *self.names.entry(spelled.clone()).or_insert(next)
    }

    fn act(&mut self, act: &Act) -> Option<Value> {
        match act {
            Act::Store { prompt, salt, from, medium } => {
                self.store(prompt, SALTS[*salt], *from, medium)
            }
            Act::StoreImage { prompt, image } => Some(self.store_image(prompt, *image)),
            Act::Remove { which } => {
                let place = which.checked_rem(self.held.len())?;
                let name = *self.held.keys().nth(place)?;
                let held = self.held.get_mut(&name)?;
                held.1 -= 1;
                if held.1 == 0 {
                    self.held.remove(&name);
                }
                Some(self.removed(name))
            }
            Act::Clear => {
                self.held.clear();
                Some(match self.form {
                    Form::Arrays => json!(["AllBlocksCleared"]),
                    Form::Maps { .. } => json!({"type": "AllBlocksCleared", "why": ["reset"]}),
                })
            }
            Act::Novelty => Some(match self.form {
                Form::Arrays => json!(["BlockDreamtOf", [1, 2], {"deep": null}]),
                Form::Maps { .. } => json!({"type": "BlockDreamtOf", "block_hashes": "?"}),
            }),
        }
    }

    fn store(
        &mut self,
        prompt: &[u32],
        salt: Option<&str>,
        from: usize,
        medium: &str,
    ) -> Option<Value> {
        let blocks = prompt.len() / SIZE;
        let text = salt.unwrap_or("");
        let spelled: Vec<Spelled> =
            (1..=blocks).map(|block| spell(text, &prompt[..block * SIZE])).collect();
        // An engine computes a block only where it has what comes before.
        let lacking = |spelled: &Spelled| {
            self.names.get(spelled).is_none_or(|name| !self.held.contains_key(name))
        };
        let from = from.min(spelled.iter().position(lacking).unwrap_or(blocks));
        if from >= blocks {
            return None;
        }
        let parent = from.checked_sub(1).map(|before| self.name(&spelled[before]));
        let names: Vec<u64> = spelled[from..].iter().map(|spelled| self.name(spelled)).collect();
        if medium == "GPU" {
            for (name, spelled) in names.iter().zip(&spelled[from..]) {
                self.held.entry(*name).or_insert_with(|| (spelled.clone(), 0)).1 += 1;
            }
        }
        let tokens = &prompt[from * SIZE..blocks * SIZE];
        let mut extra = vec![Value::Null; names.len()];
        if let (Some(salt), None) = (salt, parent) {
            extra[0] = match self.form {
                Form::Maps { tagged: true } => json!([["cache_salt", salt]]),
                _ => json!([salt]),
            };
        }
        Some(self.stored(&names, parent, (tokens, medium), &json!(extra)))
    }

    /// The image enters the hash of the first block and, through it, all others.
    fn store_image(&mut self, prompt: &[u32], image: u32) -> Value {
        let blocks = prompt.len() / SIZE;
        let text = format!("image {image}");
        let mut names = Vec::new();
        for block in 1..=blocks {
            let spelled = spell(&text, &prompt[..block * SIZE]);
            let name = self.name(&spelled);
            self.held.entry(name).or_insert((spelled, 0)).1 += 1;
            names.push(name);
        }
        let extra = json!([[["mm", format!("hash-{image}"), 0]]]);
        self.stored(&names, None, (&prompt[..blocks * SIZE], "GPU"), &extra)
    }

    fn stored(
        &self,
        names: &[u64],
        parent: Option<u64>,
        (tokens, medium): (&[u32], &str),
        extra: &Value,
    ) -> Value {
        match self.form {
            Form::Arrays => {
                json!(["BlockStored", names, parent, tokens, SIZE, null, medium, null, extra, "?"])
            }
            Form::Maps { .. } => json!({
                "locality": {"unheard": "of"}, "block_hashes": names, "parent_block_hash": parent,
                "token_ids": tokens, "block_size": SIZE, "lora_id": null, "medium": medium,
                "lora_name": null, "extra_keys": extra, "group_idx": 0, "type": "BlockStored",
                "kv_cache_spec_kind": "full_attention",
            }),
        }
    }

    fn removed(&self, name: u64) -> Value {
        match self.form {
            Form::Arrays => json!(["BlockRemoved", [name], "GPU"]),
            Form::Maps { .. } => json!({"type": "BlockRemoved", "block_hashes": [name],
                "medium": "GPU", "group_idx": 0}),
        }
    }

    /// Does things and tells of them in a batch.
    fn batch(&mut self, acts: &[Act]) -> (u64, Vec<u8>) {
        let events: Vec<Value> = acts.iter().filter_map(|act| self.act(act)).collect();
        let batch = match self.form {
            Form::Arrays => json!([1.5, events]),
            Form::Maps { .. } => json!([1.5, events, 0, "more"]),
        };
        let number = self.next;
        self.next += 1;
        (number, rmp_serde::to_vec(&batch).expect("JSON is MessagePack"))
    }
}

/// What the literal model believes of a worker.
#[derive(Debug)]
struct Believed {
    /// What each name spells, and how often it is held.
    names: BTreeMap<u64, (Spelled, u32)>,
    knowledge: &'static str,
}

impl Believed {
    fn apply(&mut self, batch: &Batch) {
        for event in &batch.events {
            match event {
                KvEvent::Stored(stored) if stored.medium.as_deref() != Some("CPU") => {
                    let front = match &stored.parent {
                        None => Some(match stored.extra.first() {
                            None => spell("", &[]),
                            Some(extra) => format!("{extra:?}{:?}|[]", extra.as_bytes()),
                        }),
                        Some(parent) => self.names.get(&parent.name()).map(|held| held.0.clone()),
                    };
                    let Some(mut spelled) = front else {
                        self.knowledge = "stale";
                        continue;
                    };
                    for (hash, page) in stored.hashes.iter().zip(stored.tokens.chunks(SIZE)) {
                        spelled = extend(&spelled, page);
                        let entry = self.names.entry(hash.name());
                        entry.or_insert_with(|| (spelled.clone(), 0)).1 += 1;
                    }
                }
                KvEvent::Removed(removed) => {
                    removed.hashes.iter().for_each(|hash| self.remove(hash.name()));
                }
                KvEvent::Cleared => self.start(),
                KvEvent::Stored(_) | KvEvent::Unknown => {}
            }
        }
    }

    fn remove(&mut self, name: u64) {
        let Some(held) = self.names.get_mut(&name) else { return };
        held.1 -= 1;
        if held.1 == 0 {
            self.names.remove(&name);
        }
    }

    fn start(&mut self) {
        self.names.clear();
        self.knowledge = "exact";
    }

    fn forget(&mut self) {
        self.names.clear();
        self.knowledge = "stale";
    }

    /// Leading blocks of a prompt that are held.
    fn leading(&self, salt: Option<&str>, tokens: &[TokenId]) -> usize {
        let spelled: BTreeSet<&Spelled> = self.names.values().map(|held| &held.0).collect();
        let mut so_far = match salt {
            None => spell("", &[]),
            Some(salt) => {
                let extra = ExtraKeys::Salt(SaltText::new(salt));
                format!("{extra:?}{:?}|[]", extra.as_bytes())
            }
        };
        let pages = tokens.chunks_exact(SIZE);
        pages
            .take_while(|page| {
                so_far = extend(&so_far, page);
                spelled.contains(&so_far)
            })
            .count()
    }
}

fn extend(before: &Spelled, page: &[TokenId]) -> Spelled {
    format!("{before} {page:?}")
}

/// A worker's events on their way into the index, and the model beside it.
struct World {
    index: PrefixIndex,
    workers: Vec<WorkerId>,
    feeds: Vec<Feeds>,
    /// The number of each worker's next batch.
    next: Vec<u64>,
    believed: Vec<Believed>,
}

impl World {
    fn new() -> Self {
        let mut fleet = Fleet::new();
        let size = BlockSize::new(u32::try_from(SIZE).expect("small")).expect("not zero");
        let mut world = Self {
            index: PrefixIndex::new(PrefixLimits::default()),
            workers: (0..WORKERS).map(|_| fleet.join(1).expect("room for two")).collect(),
            feeds: (0..WORKERS).map(|_| Feeds::new(size)).collect(),
            next: vec![0; WORKERS],
            believed: (0..WORKERS)
                .map(|_| Believed { names: BTreeMap::new(), knowledge: "exact" })
                .collect(),
        };
        for worker in 0..WORKERS {
            world.restart(worker);
        }
        world
    }

    fn restart(&mut self, worker: usize) {
        let (index, id) = (&mut self.index, self.workers[worker]);
        self.feeds[worker].restart(|group, event| index.handle_group(id, group, event));
        self.believed[worker].start();
    }

    fn forget(&mut self, worker: usize) {
        let (index, id) = (&mut self.index, self.workers[worker]);
        self.feeds[worker].forget(|group, event| index.handle_group(id, group, event));
        self.believed[worker].forget();
    }

    /// Takes in a batch; `replay` has those that can be had again.
    fn hear(&mut self, worker: usize, (number, bytes): &(u64, Vec<u8>), replay: &[(u64, Vec<u8>)]) {
        if *number == 0 && 0 < self.next[worker] {
            self.restart(worker);
            self.next[worker] = 0;
        }
        if *number < self.next[worker] {
            return; // it has come before
        }
        for (again, bytes) in replay {
            if again < number && *again == self.next[worker] {
                self.take(worker, bytes);
                self.next[worker] += 1;
            }
        }
        if self.next[worker] < *number {
            self.forget(worker);
        }
        self.take(worker, bytes);
        self.next[worker] = *number + 1;
    }

    fn take(&mut self, worker: usize, bytes: &[u8]) {
        let batch = decode(bytes).expect("engines write batches");
        let (index, id) = (&mut self.index, self.workers[worker]);
        let mismatch =
            self.feeds[worker].apply(&batch, |group, event| index.handle_group(id, group, event));
        assert_eq!(mismatch, None);
        self.believed[worker].apply(&batch);
    }

    fn check(&self, prompt: &[u32], out: &mut Matches) {
        let tokens: Vec<TokenId> = prompt.iter().copied().map(TokenId).collect();
        let size = BlockSize::new(u32::try_from(SIZE).expect("small")).expect("not zero");
        for salt in SALTS {
            let mut chain = PrefixChain::new(salt_of_request(salt, None), Chunking::Tokens(size));
            chain.push_tokens(&tokens);
            self.index.lookup(chain.keys(), out);
            for (believed, &worker) in self.believed.iter().zip(&self.workers) {
                let leading = out.leading(worker).get() as usize;
                assert_eq!(leading, believed.leading(salt, &tokens), "{salt:?} {prompt:?}");
            }
        }
        for (believed, &worker) in self.believed.iter().zip(&self.workers) {
            let knowledge = match self.index.knowledge(worker) {
                Knowledge::Exact => "exact",
                Knowledge::Disputed { .. } => "disputed",
                Knowledge::Stale => "stale",
                Knowledge::Estimated { .. } => "estimated",
            };
            assert_eq!(knowledge, believed.knowledge);
            assert_eq!(self.index.reported(worker).get() as usize, believed.names.len());
        }
    }
}

/// The batches of one worker that the transport still holds back, and those it could replay.
#[derive(Default)]
struct Transport {
    late: Option<(u64, Vec<u8>)>,
    replay: Vec<(u64, Vec<u8>)>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_index_equals_a_literal_model_after_every_batch(
        forms in prop::array::uniform2(0..3_u8),
        steps in prop::collection::vec(step(), 1..40),
        prompts in prop::collection::vec(prompt(), 1..6),
    ) {
        let forms = forms.map(|form| match form {
            0 => Form::Arrays,
            form => Form::Maps { tagged: form == 1 },
        });
        let mut engines = forms.map(Engine::new);
        let mut transports: [Transport; WORKERS] = Default::default();
        let mut world = World::new();
        let mut out = Matches::new();
        for Step { worker, acts, fate } in &steps {
            let transport = &mut transports[*worker];
            if matches!(fate, Fate::Restart) {
                engines[*worker] = Engine::new(forms[*worker]);
                *transport = Transport::default();
            }
            let batch = engines[*worker].batch(acts);
            if !matches!(fate, Fate::Lost) {
                transport.replay.push(batch.clone());
            }
            match fate {
                Fate::Lost => {}
                Fate::Late => transport.late = Some(batch.clone()),
                Fate::Arrives | Fate::Twice | Fate::Restart => {
                    world.hear(*worker, &batch, &transport.replay);
                    if matches!(fate, Fate::Twice) && batch.0 > 0 {
                        world.hear(*worker, &batch, &transport.replay);
                    }
                    if let Some(late) = transport.late.take().filter(|late| late.0 > 0) {
                        world.hear(*worker, &late, &transport.replay);
                    }
                }
            }
            for prompt in &prompts {
                world.check(prompt, &mut out);
            }
        }
    }
}

/// The streams that engines really sent, of both forms, as bytes.
#[test]
fn recorded_batches_of_both_forms_are_believed_alike() {
    let vectors: Value =
        serde_json::from_str(include_str!("kv_events_vectors.json")).expect("it is JSON");
    let prompt: Vec<TokenId> = (1..=32).map(TokenId).collect();
    for form in ["new_schema_hex", "old_schema_hex"] {
        let hex = vectors[form].as_str().expect("bytes as text");
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("two digits"))
            .collect();
        let batch = decode(&bytes).expect("an engine wrote it");
        let worker = Fleet::new().join(1).expect("room for one");
        let size = BlockSize::new(16).expect("not zero");
        let (mut index, mut feed) = (PrefixIndex::new(PrefixLimits::default()), Feeds::new(size));
        feed.restart(|group, event| index.handle_group(worker, group, event));
        let mut chain = PrefixChain::new(salt_of_request(None, None), Chunking::Tokens(size));
        chain.push_tokens(&prompt);
        let mut out = Matches::new();
        // Two blocks stored; the first dropped, so nothing matches from the front; all cleared.
        let expected = [(2, 2), (0, 1), (0, 0)];
        assert_eq!(batch.events.len(), expected.len());
        for (event, (leading, held)) in batch.events.iter().zip(expected) {
            let one = Batch { events: vec![event.clone()], ..batch.clone() };
            assert_eq!(
                feed.apply(&one, |group, event| index.handle_group(worker, group, event)),
                None
            );
            index.lookup(chain.keys(), &mut out);
            assert_eq!((out.leading(worker).get(), index.reported(worker).get()), (leading, held));
            assert_eq!(index.knowledge(worker), Knowledge::Exact);
        }
    }
}
