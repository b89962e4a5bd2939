//! Waking: which message may start a turn of this agent, and that it does so once.
//!
//! [`policy`] is the decision, a pure function; [`ledger`] is what the hub's ledger of turns adds to it. [`once`] remembers across processes and restarts
//! what an identity was woken for and which messages it has seen. [`consumer`] sees to it that
//! one host session acts for an identity in a room. [`words`] is what the model is told. All that rings is in
//! [`crate::doorbell`].

pub mod consumer;
pub mod ledger;
pub mod once;
pub mod policy;
pub mod words;
