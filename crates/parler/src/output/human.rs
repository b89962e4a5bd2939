//! Output for people: cleaned, and coloured where colours are welcome.

use anstyle::{AnsiColor, Style};
use parler_connector::safe::{self, terminal};
use parler_protocol::clean;

use crate::os;

/// Our own sentences, in which a hub's or a peer's words may stand: line feeds stay, escapes and
/// what hides go.
pub fn text(text: &str) -> String {
    clean::text(text)
}

/// The name, role or status that somebody claims, in a row of ours: cut, and without what would
/// pass for a mark of ours.
pub fn name(claim: &str) -> String {
    safe::name(claim)
}

/// A sentence of somebody's in a row of ours: as [`name`], longer.
pub fn words(claim: &str) -> String {
    safe::words(claim, 120)
}

/// Text with peer text in it, broken for the terminal that it goes to.
pub fn fit(text: String) -> String {
    match os::columns() {
        Some(columns) => terminal::fit(&text, columns),
        None => text,
    }
}

/// Rooms and other single words of others.
pub fn line(peer: &str) -> String {
    terminal::line(peer)
}

/// Puts a gutter before every line but the first, so that no line of a peer's text can pass for
/// one of ours.
pub fn hang(text: &str, gutter: &str) -> String {
    text.replace('\n', &format!("\n{gutter}"))
}

/// The room as people are told of it: `session 'x'` for one that somebody opened, else `room 'x'`.
pub fn place(room: &str) -> String {
    let named = parler_protocol::names::DM_PREFIX;
    let service = parler_protocol::names::SERVICE_PREFIX;
    let kind = if room.starts_with(named) || room.starts_with(service) {
        "room"
    } else {
        "session"
    };
    format!("{kind} '{}'", line(room))
}

/// A path or a name as one word of a shell's command line.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if cfg!(windows) {
        format!("\"{word}\"")
    } else if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// `1 message`, `2 messages`.
pub fn count(n: usize, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub struct Paint(bool);

impl Paint {
    /// With colours or without.
    pub const fn new(on: bool) -> Paint {
        Paint(on)
    }

    fn dress(self, style: Style, text: &str) -> String {
        if self.0 {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// What to look at first.
    pub fn strong(self, text: &str) -> String {
        self.dress(Style::new().bold(), text)
    }

    /// The turn is yours.
    pub fn turn(self, text: &str) -> String {
        self.dress(AnsiColor::Green.on_default().bold(), text)
    }

    /// Something to be wary of.
    pub fn warn(self, text: &str) -> String {
        self.dress(AnsiColor::Yellow.on_default(), text)
    }

    /// Something not to be trusted.
    pub fn bad(self, text: &str) -> String {
        self.dress(AnsiColor::Red.on_default().bold(), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_there_is_no_escape() {
        assert_eq!(Paint::new(false).bad("x"), "x");
        assert!(Paint::new(true).bad("x").starts_with('\u{1b}'));
    }

    #[test]
    fn every_further_line_hangs() {
        assert_eq!(hang("a\nb\nc", "> "), "a\n> b\n> c");
    }

    #[test]
    fn a_room_is_named_by_what_it_is() {
        assert_eq!(place("auth"), "session 'auth'");
        assert_eq!(place("dm.ab12cd"), "room 'dm.ab12cd'");
        assert_eq!(place("x\u{1b}[2J'y"), "session 'x[2J'y'");
    }
}
