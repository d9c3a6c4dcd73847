//! The reference of the configuration file, from its JSON Schema: one table per section with every
//! key, its type, its default and its meaning.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

/// How deep keys may be nested; deeper ones would mean that the schema goes round in circles.
const DEPTH_MAX: usize = 8;

const INTRODUCTION: &str = "\
# Configuration

Written by `cargo xtask docs` from the schema (`overdraft config schema`, also in `config.schema.json`).

`overdraft serve --config FILE` reads YAML (`.yaml`, `.yml`) or TOML (`.toml`). `overdraft check` names the faults of a
file, and `overdraft config show` fills in the defaults. Begin with `examples/overdraft.yaml`.

- Keys: `a.b` is the key `b` in the table `a`; `[]` is each entry of a list, and `NAME` a name of your own. Unknown keys are refused.
- Strings may contain `${NAME}` or `${NAME:-default}` from the environment; `$${` is a plain `${`.
- The variable `OVERDRAFT__SECTION__KEY=value` in the environment replaces `section.key`, and `OVERDRAFT__WORKERS__0__URL` the
  address of the first worker. A value that begins with `[` or `{` is read as YAML. Flags of `overdraft serve` take precedence
  over the file and the variables. The variables apply without a file, too.
- `LLM_ENDPOINT` is a worker if no other is named. `REDIS_ADDR` (`host:port`) with `REDIS_PASS` is the store if `store.url` is
  `memory`. OpenTelemetry's `OTEL_…` variables apply where `tracing` says nothing.
- Spans of time have a unit: `200ms`, `2s`, `1m`, `1h`. Shares are `10%` or `0.1`. Sizes are bytes or `512KiB`, `64MiB`.
- While `overdraft serve` runs, it watches the file. A faulty file is logged with the place of the fault, and the earlier
  configuration stays in force.
";

/// One key.
struct Row {
    key: String,
    kind: String,
    default: String,
    meaning: String,
}

/// The whole page.
pub(super) fn page(schema: &str, defaults: &str) -> Result<String> {
    let schema: Value = serde_json::from_str(schema).context("the schema is not JSON")?;
    let defaults: Value = serde_json::from_str(defaults).context("the defaults are not JSON")?;
    let reference = Reference { schema: &schema, defaults: &defaults };
    let sections = schema["properties"].as_object().context("the schema has no properties")?;
    let mut page = String::from(INTRODUCTION);
    let mut general = Vec::new();
    let mut rest = String::new();
    for (name, section) in sections {
        let mut rows = Vec::new();
        reference.walk(name, section, 0, &mut rows);
        if let [only] = rows.as_mut_slice()
            && only.key == *name
        {
            general.append(&mut rows);
            continue;
        }
        rows.retain(|row| row.key != *name);
        write!(rest, "\n## {name}\n\n{}\n\n", meaning(section))?;
        table(&mut rest, &rows)?;
    }
    page.push_str("\n## At the top\n\n");
    table(&mut page, &general)?;
    page.push_str(&rest);
    Ok(page)
}

fn table(page: &mut String, rows: &[Row]) -> Result<()> {
    page.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
    for Row { key, kind, default, meaning } in rows {
        let cell = |text: &str| text.replace('|', "\\|");
        writeln!(page, "| `{key}` | {} | {} | {} |", cell(kind), cell(default), cell(meaning))?;
    }
    Ok(())
}

struct Reference<'a> {
    schema: &'a Value,
    defaults: &'a Value,
}

impl Reference<'_> {
    /// Adds the key itself and all keys below it.
    fn walk(&self, key: &str, node: &Value, depth: usize, rows: &mut Vec<Row>) {
        if DEPTH_MAX < depth {
            return;
        }
        let (target, name) = self.resolved(node);
        let default = self.default(key, node);
        let own = meaning(node);
        let meaning = if own.is_empty() { meaning(target) } else { own };
        rows.push(Row { key: key.to_owned(), kind: self.kind(target, name), default, meaning });
        let first = rows.len();
        for (below, node) in self.below(key, target) {
            self.walk(&below, node, depth + 1, rows);
        }
        for required in self.required(key, target) {
            for row in rows[first..].iter_mut().filter(|row| row.key == required) {
                "required".clone_into(&mut row.default);
            }
        }
    }

    /// The keys right below that must be given.
    fn required(&self, key: &str, target: &Value) -> Vec<String> {
        let mut keys = Vec::new();
        if target["properties"].is_object() && target["oneOf"].is_null() {
            let names = target["required"].as_array().into_iter().flatten();
            keys.extend(names.filter_map(Value::as_str).map(|name| format!("{key}.{name}")));
        }
        for (step, inside) in [("[]", "items"), (".NAME", "additionalProperties")] {
            let (item, _) = self.resolved(&target[inside]);
            if item["oneOf"].is_null() && item.is_object() {
                keys.extend(self.required(&format!("{key}{step}"), item));
            }
        }
        for form in target["anyOf"].as_array().into_iter().flatten() {
            keys.extend(self.required(key, self.resolved(form).0));
        }
        keys
    }

    /// What is in a table, in a list, or in one of several forms.
    fn below<'a>(&'a self, key: &str, target: &'a Value) -> Vec<(String, &'a Value)> {
        let mut below = Vec::new();
        for (name, node) in target["properties"].as_object().into_iter().flatten() {
            below.push((format!("{key}.{name}"), node));
        }
        for (step, inside) in [("[]", "items"), (".NAME", "additionalProperties")] {
            if target[inside].is_object() {
                let (item, _) = self.resolved(&target[inside]);
                below.extend(self.below(&format!("{key}{step}"), item));
            }
        }
        for form in ["anyOf", "oneOf"].iter().filter_map(|word| target[*word].as_array()).flatten()
        {
            let (form, _) = self.resolved(form);
            below.extend(self.below(key, form));
        }
        below
    }

    /// The definition behind a reference, past an optional one's `null`, and its name.
    fn resolved<'a>(&'a self, node: &'a Value) -> (&'a Value, Option<&'a str>) {
        if let Some(name) = node["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            return (&self.schema["$defs"][name], Some(name));
        }
        let forms = node["anyOf"].as_array().map(Vec::as_slice).unwrap_or_default();
        match forms {
            [one, null] if null["type"] == "null" => self.resolved(one),
            _ => (node, None),
        }
    }

    fn kind(&self, target: &Value, name: Option<&str>) -> String {
        match name {
            Some("TimeSpan") => return "span of time".to_owned(),
            Some("Share") => return "share".to_owned(),
            Some("Factor") => return "factor".to_owned(),
            Some("ByteSize") => return "size".to_owned(),
            _ => {}
        }
        let forms = target["oneOf"].as_array().or_else(|| target["anyOf"].as_array());
        let words = words(target);
        match (forms, words.is_empty()) {
            (_, false) => return words.join(" | "),
            (Some(forms), true) => {
                let kinds = forms.iter().map(|form| {
                    let (form, name) = self.resolved(form);
                    self.kind(form, name)
                });
                let mut kinds: Vec<String> = kinds.collect();
                kinds.dedup();
                return kinds.join(" | ");
            }
            (None, true) => {}
        }
        if target["items"].is_object() {
            let (item, name) = self.resolved(&target["items"]);
            return format!("list of {}", plural(&self.kind(item, name)));
        }
        let kinds = match &target["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.as_str().into_iter().collect::<Vec<&str>>(),
        };
        let kinds = kinds.into_iter().filter(|kind| *kind != "null").map(plain);
        kinds.collect::<Vec<&str>>().join(" | ")
    }

    /// The default at `key`, as YAML writes it; empty where a value must be given or is not there.
    fn default(&self, key: &str, node: &Value) -> String {
        let known = if key.contains("[]") || key.contains("NAME") {
            node.get("default")
        } else {
            let set = key.split('.').try_fold(self.defaults, |value, step| value.get(step));
            set.or_else(|| node.get("default"))
        };
        match known {
            None | Some(Value::Null | Value::Object(_)) => String::new(),
            Some(Value::Array(items)) if items.is_empty() => "`[]`".to_owned(),
            Some(Value::String(text)) => format!("`{text}`"),
            Some(other) => format!("`{other}`"),
        }
    }
}

/// The words that a value may be, where it may be nothing else.
fn words(target: &Value) -> Vec<String> {
    let quoted = |word: &Value| word.as_str().map(|word| format!("`{word}`"));
    if let Some(words) = target["enum"].as_array() {
        return words.iter().filter_map(quoted).collect();
    }
    let forms = target["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let constants: Vec<String> = forms.iter().filter_map(|form| quoted(&form["const"])).collect();
    if constants.len() == forms.len() { constants } else { Vec::new() }
}

fn plain(kind: &str) -> &str {
    match kind {
        "string" => "text",
        "integer" => "whole number",
        "object" => "table",
        "boolean" => "`true` | `false`",
        other => other,
    }
}

fn plural(kind: &str) -> String {
    match kind {
        "text" => kind.to_owned(),
        other => format!("{other}s"),
    }
}

fn meaning(node: &Value) -> String {
    let text = node["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}
