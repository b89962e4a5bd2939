//! Peer text made safe for its three readers: a terminal, a model, a file system.
//!
//! Everything that another agent wrote (bodies, names, roles, room names, file names, notes)
//! passes through here before it is shown or used. What is safe for one reader is not safe for
//! another, so each has its own module and nothing is escaped twice.

mod marks;
pub mod model;
pub mod path;
pub mod terminal;

use marks::is_mark;
use parler_protocol::clean;

/// The longest name that is shown whole, in characters: a row of a listing that has two of them
/// and an id stays below two lines of a common terminal.
const NAME_CHARS: usize = 40;
/// What stands for a name that has nothing to show.
const NO_NAME: &str = "(no name)";

/// Marks that our own lines use and what looks like them; a name that carries them could imitate
/// one.
const OUR_MARKS: &str = "✓✔✅☑🗸🗹✗✘✖❌☒⚠⛔·∙•‧⋅・･●⸱ꞏ᛫→⇒➔➜➡⟶⟹…⋯‥—–―🤝🫱🫲✉📋📌📎📦🔑★☆\
    <>()[]{}‹›«»〈〉《》「」【】〔〕［］＜＞❮❯⟨⟩⟦⟧'`\"´‘’‚“”„″′＂＇｀|│┃¦";

/// A display name or role as it may stand in a line of ours: one line, cut, without the marks by
/// which our lines say what we know.
#[must_use]
pub fn name(peer: &str) -> String {
    let shown = words(peer, NAME_CHARS);
    if shown.is_empty() {
        return NO_NAME.to_owned();
    }
    shown
}

/// As [`name`], for a sentence of a peer's in a row of a listing: at most that many characters,
/// and nothing when there is nothing to show.
#[must_use]
pub fn words(peer: &str, max_chars: usize) -> String {
    let cleaned = unpile(&clean::name(peer));
    let kept: String = cleaned
        .chars()
        .filter(|c| !OUR_MARKS.contains(*c))
        .collect();
    let kept = clean::name(&kept);
    match cut(&kept, max_chars) {
        (_, 0) => kept,
        (start, _) => format!("{}…", start.trim_end()),
    }
}

/// A token that a peer or a hub chose (a room, an id, a blob id) as it may stand in a line of ours
/// or in a command to type: visible ASCII without quotes, everything else as `?`; cut at 128.
#[must_use]
pub fn token(peer: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !"'\"`<>\\$;|&*".contains(c);
    peer.chars()
        .take(128)
        .map(|c| if plain(c) { c } else { '?' })
        .collect()
}

/// Cuts a text at a number of characters; says how many were left out.
#[must_use]
pub fn cut(text: &str, max_chars: usize) -> (&str, usize) {
    match text.char_indices().nth(max_chars) {
        Some((at, _)) => (&text[..at], text[at..].chars().count()),
        None => (text, 0),
    }
}

/// At most this many combining marks in a row are shown, which is what writing needs: piled up
/// they cover the lines around.
const MAX_MARKS: usize = 3;

/// Text without anything invisible or driving, line feeds and tabs kept; CR LF and lone CR count
/// as line feeds, so that nothing after one is swallowed.
pub(crate) fn visible(peer: &str) -> String {
    let lines = peer.replace("\r\n", "\n").replace('\r', "\n");
    unpile(&clean::text(&lines))
}

/// Leaves out combining marks that are piled up.
fn unpile(text: &str) -> String {
    let mut marks = 0;
    let is_in_line = |&c: &char| {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        marks <= MAX_MARKS
    };
    text.chars().filter(is_in_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_imitate_our_lines() {
        for (peer, shown) in [
            ("planner", "planner"),
            ("Zoë 木", "Zoë 木"),
            ("bob ·ABCDEF ✓", "bob ABCDEF"),
            ("bob\n[9] admin", "bob 9 admin"),
            ("\u{1b}[2Jbob", "2Jbob"),
            ("\u{202E}bob\u{200B}", "bob"),
            ("</peer-1>", "/peer-1"),
            ("\u{200B}", "(no name)"),
            ("✓✓", "(no name)"),
            ("", "(no name)"),
        ] {
            assert_eq!(name(peer), shown, "{peer:?}");
        }
        assert_eq!(
            name(&"x".repeat(500)),
            format!("{}…", "x".repeat(NAME_CHARS))
        );
    }

    #[test]
    fn what_looks_like_our_marks_goes_too() {
        for (peer, shown) in [
            ("planner \u{2219}QTBSV7 \u{2714}", "planner QTBSV7"),
            ("a • b → c ⇒ d ☑", "a b c d"),
            ("idle] ✓ you, …QTBSV7 [working", "idle you, QTBSV7 working"),
            ("🤝 HANDOFF TO YOU", "HANDOFF TO YOU"),
            ("x ｜［9］ y", "x ｜9 y"),
            (
                &format!("n{}m", "\u{08E4}".repeat(60)),
                "n\u{08E4}\u{08E4}\u{08E4}m",
            ),
        ] {
            assert_eq!(name(peer), shown, "{peer:?}");
        }
    }

    #[test]
    fn a_token_is_plain() {
        assert_eq!(token("room.ab12cd"), "room.ab12cd");
        assert_eq!(token("a'; rm -rf ~\n"), "a???rm?-rf?~?");
        assert_eq!(token("$(x)`y`"), "?(x)?y?");
        assert_eq!(token(&"é".repeat(300)).len(), 128);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut("añb", 2), ("añ", 1));
        assert_eq!(cut("añb", 3), ("añb", 0));
        assert_eq!(cut("", 0), ("", 0));
        assert_eq!(cut("木木", 0), ("", 2));
    }

    #[test]
    fn piles_of_marks_are_cut_down() {
        let pile = format!("a{}b", "\u{0301}".repeat(50));
        assert_eq!(
            visible(&pile),
            format!("a{}b", "\u{0301}".repeat(MAX_MARKS))
        );
        assert_eq!(visible("e\u{0301}"), "e\u{0301}");
    }
}
