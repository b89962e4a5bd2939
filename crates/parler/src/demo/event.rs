//! What an agent of the demo tells the stage, one JSON object a line.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The moments of a turn that passes, in order; and what has to happen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The session is open; `text` is its key.
    Opened,
    /// The other agent has joined and is blocked, waiting for its turn.
    Waiting,
    /// The turn was handed over.
    Offered,
    /// It reached the process of the other agent.
    Delivered,
    /// That agent was woken; `text` is the banner that it shows.
    Woken,
    /// It did what was asked; `text` says what.
    Acted,
    /// The first agent read the report; `text` is it.
    Reported,
}

impl Step {
    /// The step as a word.
    pub fn word(self) -> &'static str {
        match self {
            Step::Opened => "opened",
            Step::Waiting => "waiting",
            Step::Offered => "offered",
            Step::Delivered => "delivered",
            Step::Woken => "woken",
            Step::Acted => "acted",
            Step::Reported => "reported",
        }
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    pub step: Step,
    /// When, microseconds since the epoch: all processes share the machine's clock.
    pub at_us: u64,
    /// Who it happened to.
    pub agent: String,
    /// In words.
    pub text: String,
}

/// The machine's clock.
pub fn now_us() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

impl Event {
    /// Tells the stage.
    ///
    /// # Errors
    /// When the stage is gone.
    pub fn tell(&self) -> std::io::Result<()> {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(line.as_bytes())?;
        stdout.flush()
    }
}
