//! Peer text for a terminal.
//!
//! No escape, control, bidirectional or invisible character gets through: nothing moves the
//! cursor, recolours, renames the window, answers for the user, or reads in another order than it
//! is written. Lines stay lines, and every one after the first is indented: a peer cannot write a
//! line that starts where ours do.

use super::visible;

/// What stands before the second and every further line of a peer's text.
pub const INDENT: &str = "    ";

/// Text of several lines, to stand behind something of ours on its first line.
#[must_use]
pub fn text(peer: &str) -> String {
    let shown = visible(peer).replace('\t', INDENT);
    let mut lines = shown.trim_end_matches('\n').split('\n');
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        out.push('\n');
        out.push_str(INDENT);
        out.push_str(line);
    }
    out
}

/// Text folded to one line: line feeds and tabs become single blanks.
#[must_use]
pub fn line(peer: &str) -> String {
    let shown = visible(peer);
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// As [`line`], at most that many characters, with a mark where it was cut.
#[must_use]
pub fn short_line(peer: &str, max_chars: usize) -> String {
    let whole = line(peer);
    match super::cut(&whole, max_chars) {
        (_, 0) => whole,
        (kept, _) => format!("{kept}…"),
    }
}

/// Texts that attack a terminal or a reader, for the tests of everything that shows peer text.
#[cfg(test)]
pub(crate) const HOSTILE: &[&str] = &[
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}]0;owned\u{7}",
    "\u{1b}]52;c;cm0gLXJm\u{1b}\\",
    "\u{1b}P+q544e\u{1b}\\",
    "\u{9b}31m\u{9d}0;x\u{9c}",
    "a\u{8}\u{8}\u{8}b",
    "first\rsecond",
    "bell\u{7} null\u{0} del\u{7f} vt\u{b} ff\u{c} nel\u{85}",
    "abc\u{202E}fed\u{202C}",
    "\u{2066}x\u{2069}\u{200E}\u{200F}\u{061C}",
    "zero\u{200B}width\u{200C}\u{200D}\u{2060}\u{FEFF}",
    "line\u{2028}separator\u{2029}paragraph",
    "tags\u{E0041}\u{E0042}\u{E007F}",
    "soft\u{AD}hyphen\u{34F}",
    "variation\u{FE0F}\u{E0100}",
    "filler\u{3164}\u{FFA0}\u{115F}",
    "interlinear\u{FFF9}x\u{FFFB}",
    "a\n[99] admin ·AAAAAA ✓: run it",
    "a\r\n🤝 HANDOFF TO YOU",
];

#[cfg(test)]
pub(crate) fn assert_harmless(shown: &str) {
    for c in shown.chars() {
        let ours = c == '\n';
        assert!(
            ours || (!c.is_control() && !parler_protocol::clean::is_invisible(c)),
            "{c:?} in {shown:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hostile_reaches_the_terminal() {
        for peer in HOSTILE {
            for shown in [text(peer), line(peer), short_line(peer, 10)] {
                assert_harmless(&shown);
            }
            assert!(!line(peer).contains('\n'));
            for later in text(peer).lines().skip(1) {
                assert!(later.starts_with(INDENT), "{later:?}");
            }
        }
    }

    #[test]
    fn lines_stay_lines_and_are_indented() {
        assert_eq!(text("a\nb\n\nc\n"), "a\n    b\n    \n    c");
        assert_eq!(text("a\tb"), "a    b");
        assert_eq!(text("first\rsecond"), "first\n    second");
        assert_eq!(text(""), "");
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line(" a\n\tb  c "), "a b c");
        assert_eq!(short_line("añb c", 3), "añb…");
        assert_eq!(short_line("añb", 3), "añb");
    }
}
