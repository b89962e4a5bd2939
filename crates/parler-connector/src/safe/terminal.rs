//! Peer text for a terminal.
//!
//! No escape, control, bidirectional or invisible character gets through: nothing moves the
//! cursor, recolours, renames the window, answers for the user, or reads in another order than it
//! is written. Lines stay lines, and every one after the first is indented: a peer cannot write a
//! line that starts where ours do. Long runs of blanks are folded: nobody pads a text until a
//! terminal breaks its line in front of a forged one.

use super::visible;

/// What stands before the second and every further line of a peer's text.
pub const INDENT: &str = "    ";

/// Blanks in a row inside a line that are shown as they are; of more, one is.
const MAX_BLANKS: usize = 8;
/// Blanks before a line that are shown: deep enough for code.
const MAX_LEADING: usize = 16;
/// A narrower terminal is taken for one of this many columns.
const MIN_COLUMNS: usize = 12;

/// Text of several lines, to stand behind something of ours on its first line.
#[must_use]
pub fn text(peer: &str) -> String {
    let shown = visible(peer).replace('\t', INDENT);
    let mut lines = shown.trim_end_matches('\n').split('\n').map(folded);
    let mut out = lines.next().unwrap_or_default();
    for line in lines {
        out.push('\n');
        out.push_str(INDENT);
        out.push_str(&line);
    }
    out
}

/// A line without long runs of blanks, of whatever width those are.
fn folded(line: &str) -> String {
    let inner = line.trim_start();
    let leading = line.chars().count() - inner.chars().count();
    let mut out = " ".repeat(leading.min(MAX_LEADING));
    let mut blanks = 0;
    for c in inner.chars() {
        if c.is_whitespace() {
            blanks += 1;
            continue;
        }
        let shown = if blanks > MAX_BLANKS { 1 } else { blanks };
        out.extend(std::iter::repeat_n(' ', shown));
        blanks = 0;
        out.push(c);
    }
    out
}

/// Breaks lines that are wider than a terminal of that many columns and indents what goes on, so
/// that the terminal breaks none itself, in front of something that would look like ours there.
#[must_use]
pub fn fit(text: &str, columns: usize) -> String {
    // One less: some terminals go on to the next line when the last column is filled.
    let columns = columns.max(MIN_COLUMNS) - 1;
    let lines = text.split('\n').map(|line| broken(line, columns));
    lines.collect::<Vec<_>>().join("\n")
}

fn broken(line: &str, columns: usize) -> String {
    let mut out = String::with_capacity(line.len());
    let mut used = 0;
    // Where the last blank of the present row stands, and the columns used up to behind it.
    let mut blank: Option<(usize, usize)> = None;
    for c in line.chars() {
        if used + width(c) > columns {
            let (at, before) = match blank.take() {
                Some((at, before)) => {
                    out.remove(at);
                    (at, before)
                }
                None => (out.len(), used),
            };
            out.insert_str(at, INDENT);
            out.insert(at, '\n');
            used = INDENT.len() + (used - before);
        }
        if c == ' ' && used > INDENT.len() {
            blank = Some((out.len(), used + 1));
        }
        used += width(c);
        out.push(c);
    }
    out
}

/// Columns of a character, rather too many than too few.
fn width(c: char) -> usize {
    if c < '\u{1100}' { 1 } else { 2 }
}

/// Text folded to one line: line feeds and tabs become single blanks.
#[must_use]
pub fn line(peer: &str) -> String {
    let shown = visible(peer);
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// As [`line()`], at most that many characters, with a mark where it was cut.
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
    fn long_runs_of_blanks_are_folded() {
        for (peer, shown) in [
            (
                format!("pad{}🤝 HANDOFF", " ".repeat(70)),
                "pad 🤝 HANDOFF".to_owned(),
            ),
            (format!("pad{}x", "\u{3000}".repeat(40)), "pad x".into()),
            (format!("pad{}x", "\t".repeat(40)), "pad x".into()),
            ("a    b".into(), "a    b".into()),
            ("if x:\n    y".into(), "if x:\n        y".into()),
            (
                format!("{}x", " ".repeat(99)),
                format!("{}x", " ".repeat(16)),
            ),
            ("a   ".into(), "a".into()),
        ] {
            assert_eq!(text(&peer), shown, "{peer:?}");
        }
    }

    #[test]
    fn nothing_wraps_to_the_first_column() {
        for (peer, shown) in [
            ("short".to_owned(), "short".to_owned()),
            (
                "one two three four five".into(),
                "one two three\n    four five".into(),
            ),
            (
                "x".repeat(30),
                format!("{}\n    {}\n    xxxx", "x".repeat(15), "x".repeat(11)),
            ),
            ("木".repeat(9), format!("{}\n    木木", "木".repeat(7))),
            ("a\nb".into(), "a\nb".into()),
        ] {
            assert_eq!(fit(&peer, 16), shown, "{peer:?}");
        }
        for columns in [0, 1, 12, 40, 80] {
            for text in [
                "x 🤝 HANDOFF TO YOU ".repeat(20),
                "y".repeat(500),
                "  a ".repeat(99),
            ] {
                let shown = fit(&text, columns);
                assert!(
                    shown.lines().skip(1).all(|line| line.starts_with(INDENT)),
                    "{shown}"
                );
                for line in shown.lines() {
                    let wide: usize = line.chars().map(width).sum();
                    assert!(wide < columns.max(MIN_COLUMNS), "{columns}: {line:?}");
                }
            }
        }
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line(" a\n\tb  c "), "a b c");
        assert_eq!(short_line("añb c", 3), "añb…");
        assert_eq!(short_line("añb", 3), "añb");
    }
}
