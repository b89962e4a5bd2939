//! The JSON schema of a tool's arguments, in the plain form that every host takes.
//!
//! Schemas are derived from the argument types, so that what is described is what is read. What
//! the derive adds beyond the common denominator goes: `$schema`, titles, `null` beside another
//! type, number formats that no standard knows, `default: null`. Some hosts reject a tool, or the
//! whole list, over any of these.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Keys that say nothing to a model or that hosts stumble over.
const DROPPED: &[&str] = &["$schema", "title", "format", "minimum"];

/// The schema of `T`: `type: object`, `properties`, and `required` where something is.
pub(crate) fn plain<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft07().with(|s| s.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut value = schema.to_value();
    flatten(&mut value);
    let Value::Object(mut object) = value else {
        return Map::new();
    };
    object.remove("description");
    object
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    object
}

/// Makes one schema and all below it plain.
fn flatten(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for key in DROPPED {
                object.remove(*key);
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            words_of(object);
            single_type(object);
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                properties.values_mut().for_each(flatten);
            }
            for key in ["items", "additionalProperties"] {
                if let Some(below) = object.get_mut(key) {
                    flatten(below);
                }
            }
            unwrap_nullable(object);
        }
        Value::Array(list) => list.iter_mut().for_each(flatten),
        _ => {}
    }
}

/// `oneOf` of documented words → one `enum` of them.
fn words_of(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get("oneOf") else {
        return;
    };
    let words: Option<Vec<_>> = choices.iter().map(|c| c.get("const").cloned()).collect();
    if let Some(words) = words {
        object.remove("oneOf");
        object.insert("type".into(), "string".into());
        object.insert("enum".into(), Value::Array(words));
    }
}

/// `["integer", "null"]` → `"integer"`: an optional argument is left out, not null.
fn single_type(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get("type") {
        let kept = types.iter().find(|t| t.as_str() != Some("null")).cloned();
        if let Some(kept) = kept {
            object.insert("type".into(), kept);
        }
    }
    if let Some(Value::Array(words)) = object.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
}

/// `anyOf: [X, null]` → `X`.
fn unwrap_nullable(object: &mut Map<String, Value>) {
    let Some(Value::Array(mut choices)) = object.remove("anyOf") else {
        return;
    };
    choices.retain(|c| c.get("type").and_then(Value::as_str) != Some("null"));
    if let [only] = choices.as_mut_slice() {
        flatten(only);
        if let Value::Object(only) = only {
            for (key, value) in std::mem::take(only) {
                object.entry(key).or_insert(value);
            }
        }
    } else {
        object.insert("anyOf".into(), Value::Array(choices));
    }
}

/// What in a schema a strict host would stumble over, as paths; empty when it is plain.
#[cfg(test)]
pub(crate) fn complaints(schema: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let Value::Object(object) = schema else {
        return vec![format!("{path} is no object")];
    };
    const KNOWN: &[&str] = &[
        "type",
        "properties",
        "required",
        "description",
        "enum",
        "items",
        "default",
    ];
    for key in object.keys() {
        if !KNOWN.contains(&key.as_str()) {
            found.push(format!("{path} has `{key}`"));
        }
    }
    if !object.get("type").is_some_and(Value::is_string) {
        found.push(format!("{path} has no single type"));
    }
    if let Some(Value::Object(properties)) = object.get("properties") {
        for (name, below) in properties {
            found.extend(complaints(below, &format!("{path}.{name}")));
        }
    }
    if let Some(items) = object.get("items") {
        found.extend(complaints(items, &format!("{path}[]")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code)]
    enum Word {
        One,
        Two,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code)]
    enum Told {
        /// The first.
        One,
        /// The second.
        Two,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Sample {
        /// Words.
        text: String,
        count: Option<u64>,
        flag: Option<bool>,
        word: Option<Word>,
        told: Option<Told>,
        list: Option<Vec<String>>,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Nothing {}

    #[test]
    fn an_optional_argument_has_a_single_type_and_no_odd_format() {
        let schema = Value::Object(plain::<Sample>());
        assert_eq!(
            schema,
            json!({"type": "object", "required": ["text"], "properties": {
                "text": {"type": "string", "description": "Words."},
                "count": {"type": "integer"},
                "flag": {"type": "boolean"},
                "word": {"type": "string", "enum": ["one", "two"]},
                "told": {"type": "string", "enum": ["one", "two"]},
                "list": {"type": "array", "items": {"type": "string"}},
            }})
        );
        assert_eq!(complaints(&schema, "s"), Vec::<String>::new());
    }

    #[test]
    fn no_arguments_are_an_object_without_properties() {
        let schema = Value::Object(plain::<Nothing>());
        assert_eq!(schema, json!({"type": "object", "properties": {}}));
    }

    #[test]
    fn the_check_of_the_check_finds_what_it_is_for() {
        let bad = json!({"type": "object", "$schema": "x", "properties": {
            "a": {"type": ["integer", "null"]}, "b": {"type": "integer", "format": "uint64"}}});
        assert_eq!(complaints(&bad, "s").len(), 3);
    }
}
