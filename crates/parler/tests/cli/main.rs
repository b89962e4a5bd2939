//! The built binary, as a user runs it: a temporary HOME, nothing else in the environment.

// A test that cannot go on should stop right there.
#![allow(clippy::unwrap_used)]

mod connect;
mod demo;
mod env;
mod gates;
mod hook;
mod hub;
mod mcp;
mod misc;
mod output;
mod recv;
mod services;
mod session;
mod turns;
