//! The walk over a schema: a request for each field and each of its variants, and what became of it.

use std::collections::BTreeSet;

use overdraft_wire::ApiError;
use serde_json::Value;

use crate::fates::Fates;
use crate::schema::{Field, Sample, Schema};

/// What a request became: everything of it that can be told by what is done with it.
pub(crate) type Outcome = Result<Value, ApiError>;

/// A sample and what became of it.
type Asked = (Sample, Outcome);

/// Where a value of the schema stands in a request.
type Place<'a> = &'a dyn Fn(Option<Value>) -> Value;

/// A walk over the requests of one schema.
pub(crate) struct Walk<'a> {
    schema: &'a Schema,
    fates: Fates,
    /// Accepted as well.
    more_hints: &'static [&'static str],
    ask: &'a dyn Fn(&Value) -> Outcome,
    /// Elements that stand before any other of a list at the top.
    before: &'a dyn Fn(&str) -> Vec<Value>,
    used: BTreeSet<&'static str>,
    faults: Vec<String>,
    fields: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        schema: &'a Schema,
        fates: Fates,
        ask: &'a dyn Fn(&Value) -> Outcome,
        before: &'a dyn Fn(&str) -> Vec<Value>,
    ) -> Self {
        let (used, faults, more_hints) = (BTreeSet::new(), Vec::new(), &[][..]);
        Self { schema, fates, more_hints, ask, before, used, faults, fields: 0 }
    }

    /// The same with more fields that are accepted.
    pub(crate) fn with_hints(mut self, more: &'static [&'static str]) -> Self {
        self.more_hints = more;
        self
    }

    /// Walks over a request whose least form is `base`.
    pub(crate) fn request(&mut self, root: &str, base: &Value) {
        let place = |object: Option<Value>| object.expect("a request is there");
        self.object(root, base, &place, &mut Trail::default());
    }

    /// How many fields were met, and those without a fate.
    pub(crate) fn faults(&self) -> (usize, BTreeSet<&str>) {
        (self.fields, self.faults.iter().map(String::as_str).collect())
    }

    /// Fates without a field.
    pub(crate) fn unmet(&self) -> Vec<&'static str> {
        let listed = self.fates.hints.iter().chain(self.fates.refused).copied();
        listed.filter(|name| !self.used.contains(name)).collect()
    }

    /// Each field of an object of type `form` that has `base` as its value.
    fn object(&mut self, form: &str, base: &Value, place: Place<'_>, trail: &mut Trail) {
        for field in self.schema.fields(form) {
            self.fields += 1;
            trail.path.push(field.name.to_owned());
            trail.names.push(field.name.to_owned());
            let within = |value: Option<Value>| {
                let mut object = base.clone();
                let members = object.as_object_mut().expect("a type is an object");
                match value {
                    Some(value) => members.insert(field.name.to_owned(), value),
                    None => members.remove(field.name),
                };
                place(Some(object))
            };
            self.field(&field, &within, trail);
            trail.path.pop();
            trail.names.pop();
        }
    }

    fn field(&mut self, field: &Field<'_>, place: Place<'_>, trail: &mut Trail) {
        let before = if trail.path.len() == 1 { (self.before)(field.name) } else { Vec::new() };
        let rest = match (field.is_required, before.is_empty()) {
            (_, false) => Some(Some(Value::from(before.clone()))),
            (true, true) => self.schema.another(field.kind).map(Some),
            (false, true) => Some(None),
        };
        let reference = rest.map(|rest| (self.ask)(&place(rest)));
        let asked: Vec<Asked> = self
            .schema
            .samples(field.kind, field.name)
            .into_iter()
            .flat_map(|sample| self.asked(behind(&before, sample), place))
            .collect();
        let carried = carried(&asked, reference.as_ref());
        for ((sample, outcome), is_carried) in asked.iter().zip(carried) {
            let is_silent = !is_carried && !is_noted(outcome, field.name) && !sample.is_bare();
            if outcome.is_err() || is_silent {
                self.judge(outcome, sample, trail);
                continue;
            }
            let is_left_out = reference.as_ref().is_some_and(|rest| is_left_out(outcome, rest));
            if let (false, Some(form)) = (is_left_out, &sample.form) {
                let depth = trail.path.len();
                trail.path.extend(sample.label.clone());
                self.within(form, sample, &before, place, trail);
                trail.path.truncate(depth);
            }
        }
    }

    /// A sample and what became of it. Of an object whose least form is refused, one that is not comes as well.
    fn asked(&self, sample: Sample, place: Place<'_>) -> Vec<Asked> {
        let ask = |sample: Sample| {
            let outcome = (self.ask)(&place(Some(sample.value.clone())));
            (sample, outcome)
        };
        let first = ask(sample);
        if first.1.is_ok() {
            return vec![first];
        }
        let others = self.schema.alternatives(&first.0).into_iter().map(ask);
        let accepted = others.into_iter().find(|(_, outcome)| outcome.is_ok());
        accepted.map_or_else(|| vec![first], |accepted| vec![accepted])
    }

    /// Goes on to the fields of a sample that is an object.
    fn within(
        &mut self,
        form: &str,
        sample: &Sample,
        before: &[Value],
        place: Place<'_>,
        trail: &mut Trail,
    ) {
        if trail.forms.iter().any(|outer| outer == form) {
            return;
        }
        trail.forms.push(form.to_owned());
        let nested = |object: Option<Value>| {
            let object = object.expect("an object stands there");
            let listed = || Value::from([before, std::slice::from_ref(&object)].concat());
            place(Some(if sample.in_list { listed() } else { object }))
        };
        self.object(form, sample.element(), &nested, trail);
        trail.forms.pop();
    }

    /// What is not carried must be listed, and what is refused be named: by its word, or by its own place.
    fn judge(&mut self, outcome: &Outcome, sample: &Sample, trail: &Trail) {
        let (path, label) = (trail.path.join("."), sample.label.as_deref());
        let variant = label.map_or_else(|| path.clone(), |label| format!("{path}.{label}"));
        let (listed, more, what) = match outcome {
            Ok(_) => {
                (self.fates.hints, self.more_hints, "accepted, and nothing tells of it".to_owned())
            }
            Err(error) => {
                let says = |label: &str| label.split('.').all(|word| error.message.contains(word));
                if !label.is_some_and(says) && !is_at(error, &trail.names) {
                    self.faults.push(format!("{variant}: refused without its name: {error}"));
                }
                (self.fates.refused, &[][..], format!("refused: {error}"))
            }
        };
        let ends = |path: &str, name: &str| {
            path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let is_of_it = |name: &&&'static str| ends(&path, name) || ends(&variant, name);
        let known: Vec<&'static str> =
            listed.iter().chain(more).filter(is_of_it).copied().collect();
        if known.is_empty() {
            self.faults.push(format!("{variant}: {what}"));
        }
        self.used.extend(known);
    }
}

/// The sample behind what stands before it in its list.
fn behind(before: &[Value], mut sample: Sample) -> Sample {
    if let (true, Value::Array(list)) = (sample.in_list, &mut sample.value) {
        list.splice(0..0, before.iter().cloned());
    }
    sample
}

/// Whether an error is about the field at the end of this way, or about one on it.
fn is_at(error: &ApiError, names: &[String]) -> bool {
    let Some(param) = &error.param else { return false };
    let bare = |name: &str| name.split('[').next().map(str::to_owned);
    let named: Vec<String> = param.split('.').filter_map(bare).collect();
    names.starts_with(&named)
}

/// Which samples of a field change what becomes of a request. Of flags and words one may be the default: they are
/// carried where any of them is.
fn carried(asked: &[Asked], reference: Option<&Outcome>) -> Vec<bool> {
    let is_choice = |sample: &Sample| sample.form.is_none() && !sample.in_list;
    let choices = asked.iter().filter(|(sample, _)| is_choice(sample));
    let choices: Vec<&Outcome> = choices.map(|(_, outcome)| outcome).collect();
    let is_chosen = match reference {
        Some(reference) => choices.iter().any(|outcome| !same(outcome, reference)),
        None => choices.len() < 2 || choices.windows(2).any(|pair| !same(pair[0], pair[1])),
    };
    let changes = |outcome| reference.is_none_or(|reference| !same(outcome, reference));
    let each = asked.iter();
    each.map(|(sample, outcome)| if is_choice(sample) { is_chosen } else { changes(outcome) })
        .collect()
}

/// The way to a field.
#[derive(Debug, Default)]
struct Trail {
    /// Names of fields, and words that tell variants apart.
    path: Vec<String>,
    names: Vec<String>,
    forms: Vec<String>,
}

/// Whether a field of this name is told as left out.
fn is_noted(outcome: &Outcome, name: &str) -> bool {
    let Ok(outcome) = outcome else { return false };
    let notes = outcome["left_out"].as_array().into_iter().flatten().filter_map(Value::as_str);
    notes.into_iter().any(|note| note.rsplit('.').next() == Some(name))
}

/// Whether what was left out is all that tells two outcomes apart: then nothing within was read.
fn is_left_out(outcome: &Outcome, reference: &Outcome) -> bool {
    let rest = |outcome: &Outcome| {
        let mut rest = outcome.as_ref().ok()?.clone();
        rest.as_object_mut()?.remove("left_out");
        Some(rest)
    };
    !same(outcome, reference) && rest(outcome).is_some() && rest(outcome) == rest(reference)
}

fn same(left: &Outcome, right: &Outcome) -> bool {
    match (left, right) {
        (Ok(left), Ok(right)) => left == right,
        (Err(_), Err(_)) => true,
        _ => false,
    }
}
