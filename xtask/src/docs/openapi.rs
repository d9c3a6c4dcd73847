//! `OpenAPI` description, from the tables of the HTTP reference.
//!
//! Bodies of clients' endpoints are open objects: their members are OpenAI's and Anthropic's, and the gateway passes on
//! what it does not know.

use serde_json::{Map, Value, json};

use super::tables::{Page, Row};

/// The document, as text.
pub(super) fn document(page: &Page, version: &str) -> String {
    let mut paths = Map::new();
    for row in page.rows("Endpoints") {
        let methods = paths.entry(cell(row, "path")).or_insert_with(|| json!({}));
        methods[cell(row, "method").to_lowercase()] = operation(page, row);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Overdraft",
            "version": version,
            "description": "Written by `cargo xtask docs` from docs/reference/http.md.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "parameters": parameters(page),
            "headers": headers(page),
            "responses": responses(page),
            "schemas": {"Error": error(page)},
        },
    });
    let mut text = serde_json::to_string_pretty(&document).expect("its keys are strings");
    text.push('\n');
    text
}

fn cell(row: &Row, name: &str) -> String {
    row.get(name).cloned().unwrap_or_default()
}

fn operation(page: &Page, row: &Row) -> Value {
    let (path, method, audience) = (cell(row, "path"), cell(row, "method"), cell(row, "for"));
    let in_path = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let mut parameters: Vec<Value> = in_path
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let is_open = audience == "all";
    let is_clients = audience == "clients";
    if is_clients && method == "POST" {
        let names = page.rows("Request headers").iter().map(|row| cell(row, "header"));
        // OpenAPI describes the key as a security scheme.
        parameters.extend(
            names.filter(|name| name != "authorization").map(|name| reference("parameters", &name)),
        );
    }
    let mut operation = json!({
        "summary": cell(row, "what it does"),
        "tags": [audience],
        "parameters": parameters,
        "responses": {
            "200": reference("responses", if is_clients { "Answer" } else { "Document" }),
            "default": reference("responses", "Error"),
        },
    });
    if !is_open {
        operation["security"] = json!([{}, {"key": []}]);
    }
    if method == "POST" && !path.contains('{') {
        operation["requestBody"] = json!({"content": {"application/json": {
            "schema": {"type": "object", "additionalProperties": true}}}});
    }
    operation
}

fn reference(room: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{room}/{name}")})
}

fn parameters(page: &Page) -> Map<String, Value> {
    let one = |row: &Row| {
        let name = cell(row, "header");
        let description = format!("{} Values: {}.", cell(row, "meaning"), cell(row, "values"));
        let schema = json!({"type": "string"});
        (
            name.clone(),
            json!({"name": name, "in": "header", "description": description, "schema": schema}),
        )
    };
    page.rows("Request headers")
        .iter()
        .map(one)
        .filter(|(name, _)| name != "authorization")
        .collect()
}

fn headers(page: &Page) -> Map<String, Value> {
    let one = |row: &Row| {
        let value = json!({"description": cell(row, "meaning"), "schema": {"type": "string"}});
        (cell(row, "header"), value)
    };
    page.rows("Response headers").iter().map(one).collect()
}

fn responses(page: &Page) -> Value {
    let names = page.rows("Response headers").iter().map(|row| cell(row, "header"));
    let headers: Map<String, Value> =
        names.map(|name| (name.clone(), reference("headers", &name))).collect();
    json!({
        "Answer": {"description": "An answer; each header where the reference says so", "headers": headers},
        "Document": {"description": "A view, a probe's answer or a page"},
        "Error": {"description": "An error", "content": {"application/json": {
            "schema": reference("schemas", "Error")}}},
    })
}

fn error(page: &Page) -> Value {
    let mut codes: Vec<Value> =
        page.column("Errors", "code").into_iter().map(Value::from).collect();
    codes.push(Value::Null);
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string", "enum": page.column("Errors", "type")},
                "param": {"type": ["string", "null"]},
                "code": {"enum": codes},
            },
        }},
    })
}
