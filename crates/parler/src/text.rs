//! The few sentences that clients post into a room by themselves, and recognise in it.

use parler_connector::render::CONTEXT_MARK;

/// The first message of a session.
pub fn session_context(name: &str, context: &str) -> String {
    format!("{CONTEXT_MARK} (from {name}):\n{context}")
}

/// Said on arrival.
pub fn joined(name: &str) -> String {
    format!("{name} joined the session")
}

/// Said on leaving.
pub fn left(name: &str) -> String {
    format!("{name} left the session")
}
