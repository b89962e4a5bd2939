//! What a command prints: for people by default, for programs with `--json`.
//!
//! The only place that writes to standard output. Each piece is written whole and flushed; a
//! closed pipe is [`Kind::ClosedPipe`](crate::error::Kind), never a panic. No text of a peer gets
//! here without having gone through [`human`] or [`json`].

pub mod human;
pub mod json;
pub mod message;
pub mod turn;

use std::io::Write;

use serde::Serialize;

use crate::error::CliResult;
use human::Paint;

/// Standard output, as one command uses it.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    /// Print JSON.
    pub json: bool,
    /// Colours, where they are welcome.
    pub paint: Paint,
}

impl Out {
    /// For this process: colours only on a terminal that knows them and where nobody objects.
    pub fn for_stdout(json: bool) -> Out {
        let choice = anstream::AutoStream::choice(&std::io::stdout());
        Out {
            json,
            paint: Paint::new(!json && !matches!(choice, anstream::ColorChoice::Never)),
        }
    }

    /// Prints text for a person (nothing with `--json`), ending in one line feed.
    ///
    /// # Errors
    /// When nobody reads it any more.
    pub fn say(&self, text: &str) -> CliResult {
        if self.json {
            return Ok(());
        }
        write(text)
    }

    /// Prints one line of JSON (nothing without `--json`).
    ///
    /// # Errors
    /// When nobody reads it any more.
    pub fn object(&self, value: &impl Serialize) -> CliResult {
        if !self.json {
            return Ok(());
        }
        write(&json::line(value))
    }

    /// Prints the text for a person or the object for a program.
    ///
    /// # Errors
    /// When nobody reads it any more.
    pub fn both(&self, text: &str, value: &impl Serialize) -> CliResult {
        self.say(text)?;
        self.object(value)
    }
}

/// Writes the text and a line feed in one piece, to the reader and not just to a buffer.
///
/// # Errors
/// When nobody reads it any more.
pub fn write(text: &str) -> CliResult {
    let mut whole = String::with_capacity(text.len() + 1);
    whole.push_str(text);
    whole.push('\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(whole.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// As [`note`], but only where a person looks at standard error.
pub fn remark(text: &str) {
    use std::io::IsTerminal;
    if std::io::stderr().is_terminal() {
        note(text);
    }
}

/// Tells the person something beside the output proper.
pub fn note(text: &str) {
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(std::io::stderr(), "{}", human::text(text));
}
