//! Reading the arguments that a model wrote.
//!
//! Models mix up `5` and `"5"`, send `null` for what they leave out and add fields that nobody
//! asked for. An optional argument of a wrong type counts as left out; a required one is an error
//! that says what was expected. Nothing is executed here.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::error::ToolError;

/// Reads the arguments of the tool `name`; `example` is shown when that fails.
///
/// # Errors
/// A required argument is missing or of a wrong type.
pub(crate) fn read<T: DeserializeOwned>(
    name: &str,
    example: &str,
    given: Map<String, Value>,
) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(given)).map_err(|error| ToolError::Arguments {
        tool: name.to_owned(),
        reason: error.to_string(),
        example: example.to_owned(),
    })
}

/// A whole number that is not negative, also written as text; anything else counts as left out.
pub(crate) fn whole<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    Ok(match Value::deserialize(d)? {
        Value::Number(number) => number.as_u64().or_else(|| {
            let float = number.as_f64()?;
            // Exactly representable whole numbers only: `5.0` is 5, `5.5` is nothing.
            (float >= 0.0 && float.fract() == 0.0 && float < 9e15)
                .then(|| format!("{float:.0}"))?
                .parse()
                .ok()
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    })
}

/// Text with something in it; anything else counts as left out.
pub(crate) fn words<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(d)? {
        Value::String(text) if !text.trim().is_empty() => Some(text),
        _ => None,
    })
}

/// A switch, also written as text; anything else counts as left out.
pub(crate) fn switch<'de, D: Deserializer<'de>>(d: D) -> Result<Option<bool>, D::Error> {
    Ok(match Value::deserialize(d)? {
        Value::Bool(on) => Some(on),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Some(true),
            "false" | "no" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Sample {
        text: String,
        #[serde(default, deserialize_with = "whole")]
        count: Option<u64>,
        #[serde(default, deserialize_with = "words")]
        name: Option<String>,
        #[serde(default, deserialize_with = "switch")]
        flag: Option<bool>,
    }

    fn sample(value: Value) -> Result<Sample, ToolError> {
        let Value::Object(given) = value else {
            panic!("an object")
        };
        read("parler_x", r#"{"text": "hi"}"#, given)
    }

    #[test]
    fn numbers_and_switches_are_read_as_models_write_them() {
        for (count, want) in [
            (json!(5), Some(5)),
            (json!(5.0), Some(5)),
            (json!(" 5 "), Some(5)),
            (json!(-5), None),
            (json!(5.5), None),
            (json!("five"), None),
            (json!([5]), None),
            (json!(null), None),
            (json!(1e30), None),
        ] {
            let read = sample(json!({"text": "x", "count": count})).unwrap();
            assert_eq!(read.count, want, "{count}");
        }
        for (flag, want) in [
            (json!(true), Some(true)),
            (json!("No"), Some(false)),
            (json!(2), None),
        ] {
            assert_eq!(
                sample(json!({"text": "x", "flag": flag})).unwrap().flag,
                want
            );
        }
        assert_eq!(
            sample(json!({"text": "x", "name": "  ", "more": 1}))
                .unwrap()
                .name,
            None
        );
    }

    #[test]
    fn a_missing_required_argument_is_named_with_an_example() {
        let error = sample(json!({"count": 1})).unwrap_err().to_string();
        assert!(
            error.contains("parler_x") && error.contains("`text`"),
            "{error}"
        );
        assert!(error.contains(r#"{"text": "hi"}"#), "{error}");
        assert!(sample(json!({"text": 7})).is_err());
    }
}
