//! Characters that no name and no shown text may carry, for both ends.
//!
//! Peer text reaches terminals, models and pages. Control characters drive terminals,
//! bidirectional controls reorder what is read, invisible ones make two names look alike.

/// Whether a character is invisible or changes how its neighbours are read: bidirectional
/// controls, zero-width characters, tags, variation selectors, the byte-order mark, line and
/// paragraph separators, interlinear marks and the like.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    // The whole general category Cf, and what shows as nothing or as a blank beside it.
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{0600}'..='\u{0605}' | '\u{061C}' | '\u{06DD}' | '\u{070F}'
        | '\u{0890}'..='\u{0891}' | '\u{08E2}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
        | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{110BD}' | '\u{110CD}'
        | '\u{13430}'..='\u{1345F}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D159}'
        | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Whether a character may stand in a name, role or status.
#[must_use]
pub fn allowed_in_name(c: char) -> bool {
    !c.is_control() && !is_invisible(c)
}

/// Removes what may not stand in a name and folds white space to single blanks; trims.
#[must_use]
pub fn name(text: &str) -> String {
    let kept: String = text
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|&c| allowed_in_name(c))
        .collect();
    kept.split(' ')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Removes what may not stand in shown text; keeps line feeds and tabs.
///
/// Emoji variation selectors and joiners go too: a slightly plainer emoji is the price of text in
/// which nothing hides.
#[must_use]
pub fn text(text: &str) -> String {
    text.chars()
        .filter(|&c| c == '\n' || c == '\t' || (!c.is_control() && !is_invisible(c)))
        .collect()
}

/// Names that mean something else than a person or agent, refused for new names.
pub const RESERVED_NAMES: &[&str] = &["all", "any", "me", "system", "hub"];

/// Whether a (cleaned) name may be taken by an agent: not empty, not reserved.
#[must_use]
pub fn usable_name(name: &str) -> bool {
    !name.is_empty() && !RESERVED_NAMES.iter().any(|r| name.eq_ignore_ascii_case(r))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_loses_what_hides_or_drives() {
        assert_eq!(name("we\u{202E}bd\u{200B}ev\u{1b}[31m"), "webdev[31m");
        assert_eq!(name("  two \n words\t"), "two words");
        assert_eq!(name("\u{2066}\u{FEFF}"), "");
        assert_eq!(name("Zoë 木"), "Zoë 木");
    }

    #[test]
    fn text_keeps_lines_and_loses_escapes() {
        assert_eq!(text("a\r\n\tb\u{1b}]0;x\u{7}"), "a\n\tb]0;x");
        assert_eq!(text("\u{9b}31m"), "31m");
    }

    #[test]
    fn what_formats_or_shows_as_nothing_goes() {
        for hidden in [
            '\u{AD}',
            '\u{600}',
            '\u{605}',
            '\u{6DD}',
            '\u{70F}',
            '\u{890}',
            '\u{8E2}',
            '\u{180E}',
            '\u{200B}',
            '\u{202E}',
            '\u{2064}',
            '\u{2069}',
            '\u{2800}',
            '\u{3164}',
            '\u{FEFF}',
            '\u{FFFB}',
            '\u{110BD}',
            '\u{110CD}',
            '\u{13430}',
            '\u{1345F}',
            '\u{1BCA0}',
            '\u{1D159}',
            '\u{1D17A}',
            '\u{E0001}',
            '\u{E007F}',
        ] {
            assert!(is_invisible(hidden), "{hidden:?}");
            assert_eq!(name(&format!("a{hidden}b")), "ab");
        }
        for shown in ['a', '\u{627}', '木', '🤝', '\u{905}', '\u{13000}'] {
            assert!(!is_invisible(shown), "{shown:?}");
        }
    }

    #[test]
    fn reserved_and_empty_names_are_not_usable() {
        assert!(usable_name("planner"));
        assert!(!usable_name("HUB"));
        assert!(!usable_name(""));
    }
}
