//! One file a command: its arguments, whose comments are its help, and what it does.

pub mod completions;
pub mod connect;
pub mod demo;
pub mod demo_agent;
pub mod directory;
pub mod exit_codes;
pub mod handoff;
pub mod hook;
pub mod hub;
pub mod init;
pub mod invite;
pub mod join;
pub mod leave;
pub mod mcp;
pub mod members;
pub mod memory;
pub mod presence;
pub mod recv;
pub mod rooms;
pub mod roster;
pub mod send;
pub mod serve;
pub mod session;
pub mod target;
pub mod task;
pub mod whoami;
