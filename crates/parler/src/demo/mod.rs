//! Two agents pass a turn, each a process of its own: what the product does, in one command.
//!
//! The parts: this process starts a hub and the two agents and keeps the time ([`stage`]); an agent
//! does its part and tells what it did, one JSON line an event ([`agent`]); [`timeline`] prints it.
//! Everything lies in a temporary folder. The children end when this process does, however it
//! ends: they watch their standard input.

pub mod agent;
pub mod event;
pub mod stage;
pub mod timeline;
