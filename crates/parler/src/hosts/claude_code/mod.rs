//! Claude Code: an MCP server entry, a permission, two hooks, and the inbox of a running session.

pub mod configure;
pub mod detect;
pub mod hook;
pub mod hooks;
pub mod inbox;
mod turns;
