//! Output for programs: one JSON object a line.
//!
//! JSON escapes only the first control characters by itself. Here every character that could drive
//! a terminal or hide in a line is written as an escape too, so that the line is safe to look at
//! and still says exactly the same to a program.

use parler_protocol::clean;
use serde::Serialize;

/// A value as one line.
pub fn line(value: &impl Serialize) -> String {
    // Everything that is printed consists of strings, numbers and maps with string keys.
    escape(&serde_json::to_string(value).unwrap_or_default())
}

/// Escapes what terminals act upon. In JSON text such characters stand only inside strings.
pub fn escape(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() || clean::is_invisible(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_drives_a_terminal_and_nothing_is_lost() {
        let value = serde_json::json!({"t": "a\u{1b}[31m\u{9b}\u{7f}\u{202e}\u{e0041}é\n☃"});
        let text = line(&value);
        assert!(
            text.chars()
                .all(|c| !c.is_control() && !clean::is_invisible(c)),
            "{text}"
        );
        assert!(text.contains("é") && text.contains("☃"));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}
