//! What one line of standard input is: a message for the server, something to refuse, or nothing.
//!
//! The protocol library drops lines that it cannot read; a host that made a mistake then waits for
//! ever. So each line is judged here first, and what cannot be served is answered at once with
//! the code that JSON-RPC has for it. Nothing is executed here.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcRequest};
use serde_json::{Value, json};

/// JSON-RPC's codes for what is refused here.
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const INVALID_PARAMS: i64 = -32602;

/// The protocol version that a host is taken to mean when its `initialize` names none.
const OLDEST_PROTOCOL: &str = "2024-11-05";

/// Methods of the protocol whose parameters are typed: when one of them was not recognised, its
/// parameters were wrong, not its name.
const TYPED_METHODS: &[&str] = &["initialize", "tools/call", "tools/list", "server/discover"];

/// A judged line.
#[derive(Debug)]
pub(crate) enum Judged {
    /// For the server.
    Message(Box<ClientJsonRpcMessage>),
    /// To be answered with this.
    Refuse(Value),
    /// Neither: a blank line, an answer to nothing.
    Nothing,
}

/// Judges one line, with or without its line end.
pub(crate) fn judge(line: &[u8]) -> Judged {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if line.is_empty() {
        return Judged::Nothing;
    }
    match serde_json::from_slice::<Value>(line) {
        Ok(value) => judge_value(value),
        Err(error) => refuse(
            Value::Null,
            PARSE_ERROR,
            format!("this line is no JSON: {error}"),
        ),
    }
}

/// The answer to a line longer than any message may be.
pub(crate) fn too_long(limit: usize) -> Value {
    let text = format!("a message is longer than {limit} bytes; it was not read");
    error_line(Value::Null, INVALID_REQUEST, text)
}

fn judge_value(mut value: Value) -> Judged {
    let invalid = |text: &str| refuse(Value::Null, INVALID_REQUEST, text.to_owned());
    let Some(object) = value.as_object_mut() else {
        return invalid("a message is a JSON object; batches are not supported, send one a line");
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid("`jsonrpc` must be \"2.0\"");
    }
    let answer = object.contains_key("result") || object.contains_key("error");
    let method = match object.get("method") {
        None if answer => return deliver(value),
        Some(Value::String(method)) if !answer => method.clone(),
        _ => return invalid("a request has a string `method`"),
    };
    let id = object.get("id").cloned();
    if !id.as_ref().is_none_or(|id| id.is_string() || id.is_i64()) {
        return invalid("`id` must be a string or a whole number");
    }
    if object.get("params").is_some_and(Value::is_null) {
        object.remove("params");
    }
    if object
        .get("params")
        .is_some_and(|params| !params.is_object())
    {
        return match id {
            Some(id) => refuse(id, INVALID_PARAMS, "`params` must be an object".to_owned()),
            None => Judged::Nothing,
        };
    }
    if method == "initialize" {
        complete_initialize(object);
    }
    deliver(value)
}

/// Fills in what a sloppy host leaves out of its `initialize`; what it says is kept.
fn complete_initialize(message: &mut serde_json::Map<String, Value>) {
    let params = message.entry("params").or_insert_with(|| json!({}));
    let Some(params) = params.as_object_mut() else {
        return;
    };
    params
        .entry("protocolVersion")
        .or_insert_with(|| json!(OLDEST_PROTOCOL));
    params.entry("capabilities").or_insert_with(|| json!({}));
    let host = params.entry("clientInfo").or_insert_with(|| json!({}));
    if let Some(host) = host.as_object_mut() {
        host.entry("name").or_insert_with(|| json!("unknown"));
        host.entry("version").or_insert_with(|| json!("0"));
    }
}

fn deliver(value: Value) -> Judged {
    let id = value.get("id").cloned();
    let method = value
        .get("method")
        .and_then(Value::as_str)
        .map(str::to_owned);
    match serde_json::from_value::<ClientJsonRpcMessage>(value) {
        Ok(ClientJsonRpcMessage::Request(request)) if misread(&request) => {
            let text = format!("the parameters of {} are wrong", request.request.method());
            refuse(request.id.into_json_value(), INVALID_PARAMS, text)
        }
        Ok(message) => Judged::Message(Box::new(message)),
        // An answer to a question that nobody asked, or a notification of an unknown shape.
        Err(_) if method.is_none() || id.is_none() => Judged::Nothing,
        Err(error) => {
            let text = format!("the request cannot be read: {error}");
            refuse(id.unwrap_or(Value::Null), INVALID_PARAMS, text)
        }
    }
}

/// Whether a request of a known method was taken for one of an unknown kind.
fn misread(request: &JsonRpcRequest<ClientRequest>) -> bool {
    matches!(&request.request, ClientRequest::CustomRequest(custom)
        if TYPED_METHODS.contains(&custom.method.as_str()))
}

fn refuse(id: Value, code: i64, text: String) -> Judged {
    Judged::Refuse(error_line(id, code, text))
}

fn error_line(id: Value, code: i64, text: String) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (Value, i64) {
        match judge(line.as_bytes()) {
            Judged::Refuse(answer) => (
                answer["id"].clone(),
                answer["error"]["code"].as_i64().unwrap(),
            ),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_is_no_json_is_a_parse_error_without_an_id() {
        for line in ["{", "hello", "{\"a\":1} x", "\u{1}", "{'a':1}"] {
            assert_eq!(refused(line), (Value::Null, PARSE_ERROR), "{line}");
        }
        let Judged::Refuse(answer) = judge(b"\xff\xfe") else {
            panic!("not refused");
        };
        assert_eq!(answer["error"]["code"], PARSE_ERROR);
        assert_eq!(refused(&"[".repeat(5000)).1, PARSE_ERROR);
    }

    #[test]
    fn json_that_is_no_request_is_invalid_without_an_id() {
        for line in [
            "1",
            "null",
            "[]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            "{}",
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
        ] {
            assert_eq!(refused(line), (Value::Null, INVALID_REQUEST), "{line}");
        }
    }

    #[test]
    fn wrong_parameters_are_answered_to_the_request() {
        for line in [
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":1}}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":[]}}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":["x"]}"#,
        ] {
            assert_eq!(refused(line), ("a".into(), INVALID_PARAMS), "{line}");
        }
    }

    #[test]
    fn good_messages_pass_and_idle_lines_are_nothing() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"x","method":"ping","params":null}"#,
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\r\n",
            r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":null}}"#,
        ] {
            assert!(
                matches!(judge(line.as_bytes()), Judged::Message(_)),
                "{line}"
            );
        }
        for line in ["", "   \r\n"] {
            assert!(
                matches!(judge(line.as_bytes()), Judged::Nothing),
                "{line:?}"
            );
        }
    }
}
