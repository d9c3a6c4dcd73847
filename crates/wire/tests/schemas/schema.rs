//! A published schema as written by `data/published.py`, and values that it allows.

use serde_json::{Map, Value, json};

/// Objects within objects that a least value has at most: what refers to itself ends somewhere.
const DEPTH_MAX: usize = 8;

/// The types of a schema by name.
#[derive(Debug)]
pub(crate) struct Schema {
    types: Map<String, Value>,
}

/// A field of a type.
#[derive(Debug)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_required: bool,
    pub(crate) kind: &'a Value,
}

/// One of the values that a kind allows.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) value: Value,
    /// What tells it from its siblings: a word, a type's tag; nothing for plain values.
    pub(crate) label: Option<String>,
    /// The type whose least object it is.
    pub(crate) form: Option<String>,
    /// Whether it stands in a list.
    pub(crate) in_list: bool,
    /// Whether it is the only word that its field takes.
    pub(crate) is_tag: bool,
}

impl Sample {
    const fn plain(value: Value) -> Self {
        Self { value, label: None, form: None, in_list: false, is_tag: false }
    }

    /// Whether it says nothing by itself: an object of which every field may be left out, or the one word of a tag.
    pub(crate) fn is_bare(&self) -> bool {
        self.is_tag || self.element().as_object().is_some_and(Map::is_empty)
    }

    /// Itself, or the last element of the list in which it stands.
    pub(crate) fn element(&self) -> &Value {
        self.value.as_array().and_then(|list| list.last()).unwrap_or(&self.value)
    }

    /// The same sample with another value in its place.
    pub(crate) fn with(&self, value: Value) -> Self {
        let mut sample = self.clone();
        match &mut sample.value {
            Value::Array(list) => *list.last_mut().expect("the sample is in its list") = value,
            place => *place = value,
        }
        sample
    }
}

impl Schema {
    pub(crate) fn parse(text: &str) -> Self {
        let document: Value = serde_json::from_str(text).expect("the file is JSON");
        let types = document["types"].as_object().expect("it has types").clone();
        Self { types }
    }

    /// The requests of a use, as in `/create` and, of a beta, `/create.1`.
    pub(crate) fn roots(&self, purpose: &str) -> Vec<&str> {
        let names = self.types.keys().map(String::as_str);
        names
            .filter(|name| name.strip_prefix('/').is_some_and(|n| n.starts_with(purpose)))
            .collect()
    }

    pub(crate) fn fields(&self, form: &str) -> Vec<Field<'_>> {
        let fields = self.types[form].as_object().expect("a type has fields");
        let field = |(name, kind)| {
            let bare = str::trim_end_matches(name, '!');
            Field { name: bare, is_required: bare.len() < str::len(name), kind }
        };
        fields.iter().map(|(name, kind)| field((name.as_str(), kind))).collect()
    }

    /// The least object of a type: its required fields.
    fn least_object(&self, form: &str, depth: usize) -> Value {
        let fields = self.fields(form).into_iter().filter(|field| field.is_required);
        let least = |field: Field<'_>| {
            let name = format!("{form} {}", field.name);
            (field.name.to_owned(), self.least(field.kind, &name, depth))
        };
        fields.map(least).collect()
    }

    fn least(&self, kind: &Value, name: &str, depth: usize) -> Value {
        match Kind::of(kind) {
            Kind::Scalar(scalar) => plain(scalar, name),
            Kind::Any(kinds) => self.least(&kinds[0], name, depth),
            Kind::Words(words) => words[0].clone(),
            Kind::Map(kind) => map(self.least(kind, name, depth)),
            Kind::List(_) if depth == 0 => json!([]),
            Kind::List(kind) => json!([self.least(kind, name, depth - 1)]),
            Kind::Form(form) => self.least_object(form, depth.saturating_sub(1)),
        }
    }

    /// Values of the kind of a field of this name, one for each variant.
    pub(crate) fn samples(&self, kind: &Value, name: &str) -> Vec<Sample> {
        match Kind::of(kind) {
            Kind::Scalar("flag") => [false, true].map(|flag| Sample::plain(json!(flag))).into(),
            Kind::Scalar(scalar) => vec![Sample::plain(plain(scalar, name))],
            Kind::Any(kinds) => kinds.iter().flat_map(|kind| self.samples(kind, name)).collect(),
            Kind::Words(words) => {
                let is_tag = words.len() == 1;
                let label = |word: &Value| Some(text(word).to_owned());
                let sample =
                    |word| Sample { label: label(word), is_tag, ..Sample::plain(word.clone()) };
                words.iter().map(sample).collect()
            }
            Kind::Map(kind) => vec![Sample::plain(map(self.least(kind, name, DEPTH_MAX)))],
            Kind::List(kind) => {
                let listed = |sample: Sample| Sample {
                    value: json!([sample.value]),
                    in_list: true,
                    is_tag: false,
                    ..sample
                };
                self.samples(kind, name).into_iter().map(listed).collect()
            }
            Kind::Form(form) => self.forms(form),
        }
    }

    /// The least objects of a type: one for each word that tells them apart.
    fn forms(&self, form: &str) -> Vec<Sample> {
        let least = self.least_object(form, DEPTH_MAX);
        let plain = Sample { form: Some(form.to_owned()), ..Sample::plain(least) };
        let mut samples = vec![plain];
        for tag in ["type", "role"] {
            let fields = self.fields(form);
            let field = fields.iter().find(|field| field.name == tag);
            let Some(Kind::Words(words)) = field.map(|field| Kind::of(field.kind)) else {
                continue;
            };
            let is_said = tag == "type" || samples[0].label.is_none() || 1 < words.len();
            let worded = |sample: &Sample, word: &Value| {
                let mut sample = sample.clone();
                let label = sample.label.into_iter().chain(is_said.then(|| text(word).to_owned()));
                sample.label = Some(label.collect::<Vec<_>>().join("."));
                // A tag that need not be there is left to the field itself.
                if 1 < words.len() {
                    sample.value[tag] = word.clone();
                }
                sample
            };
            let each = samples
                .iter()
                .flat_map(|sample| words.iter().map(move |word| worded(sample, word)));
            samples = each.collect();
        }
        samples
    }

    /// Other objects like a sample's: another variant in a required field, or one field more.
    pub(crate) fn alternatives(&self, sample: &Sample) -> Vec<Sample> {
        let Some(form) = &sample.form else { return Vec::new() };
        let set = |field: &Field<'_>, value: Value| {
            let mut object = sample.element().clone();
            object[field.name] = value;
            sample.with(object)
        };
        let fields = self.fields(form);
        let values = |field: &Field<'_>| self.samples(field.kind, field.name).into_iter();
        let each = fields.iter().filter(|field| field.name != "role" && field.name != "type");
        each.flat_map(|field| {
            values(field).map(|value| set(field, value.value)).collect::<Vec<_>>()
        })
        .collect()
    }

    /// A value of a kind that is none of its samples.
    pub(crate) fn another(&self, kind: &Value) -> Option<Value> {
        match Kind::of(kind) {
            Kind::Scalar("flag") | Kind::Words(_) | Kind::Form(_) => None,
            Kind::Scalar("number") => Some(json!(3)),
            Kind::Scalar("text") => Some(json!("another")),
            Kind::Scalar(_) => Some(json!({"another": 1})),
            Kind::Any(kinds) => kinds.iter().find_map(|kind| self.another(kind)),
            Kind::Map(kind) => Some(json!({"another": self.least(kind, "another", DEPTH_MAX)})),
            Kind::List(_) => Some(json!([])),
        }
    }
}

/// What a field takes, in the words of the file.
#[derive(Debug)]
enum Kind<'a> {
    Scalar(&'a str),
    Any(&'a [Value]),
    Words(&'a [Value]),
    Map(&'a Value),
    List(&'a Value),
    Form(&'a str),
}

impl<'a> Kind<'a> {
    fn of(kind: &'a Value) -> Self {
        let (name, of) = match kind {
            Value::String(scalar) => return Self::Scalar(scalar),
            Value::Array(kinds) => return Self::Any(kinds),
            kind => {
                kind.as_object().and_then(|kind| kind.iter().next()).expect("a kind has one member")
            }
        };
        match name.as_str() {
            "words" => Self::Words(of.as_array().expect("words are a list")),
            "map" => Self::Map(of),
            "list" => Self::List(of),
            "type" => Self::Form(text(of)),
            other => panic!("`{other}` is no kind"),
        }
    }
}

/// A plain value of a kind; a text is one that no other field has.
fn plain(scalar: &str, name: &str) -> Value {
    match scalar {
        "text" => json!(format!("some {name}")),
        "number" => json!(1),
        "flag" => json!(false),
        "any" => json!({"type": "function", "name": "f"}),
        other => panic!("`{other}` is no kind"),
    }
}

/// A map of a value; one of any values is as `tool_choice` wants it.
fn map(value: Value) -> Value {
    if value.is_object() { value } else { json!({"some": value}) }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("names and words are texts")
}
