//! Agent hosts: how each one is configured, and how its next turn is started. One folder a host.
//!
//! A host adapter does two things. *Configure* edits the host's own files so that it starts
//! `parler mcp` ([`edit`] keeps everything else in them as it was). *Wake* opens a turn in a
//! session that sits idle, by whatever seam the host has.

pub mod claude_code;
pub mod edit;
pub mod undo;
