//! Texts as words: what a fact is found by, and what a query looks for.
//!
//! Words are runs of letters and digits, folded: compatibility forms become plain ones, accents go,
//! case goes. Beyond that, so that whatever a person types finds what it stands in:
//!
//! - Scripts that are written without blanks are cut into pairs of neighbours.
//! - Signs within a text without blanks (`c++`, `don't`, `gb/s`, `@nasa`) are kept together with
//!   the word on either side. Sentence marks and quotes around it are not.
//! - Text of signs only (`->`) is a word; so is each sign beyond ASCII (an emoji).
//!
//! The index splits at blanks and takes everything beyond ASCII as it is. So ASCII signs are moved
//! out of ASCII, and neither the index nor its query language finds anything to interpret.

use std::borrow::Cow;
use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::Scope;

/// Letters of a word that count: longer ones are numbers and codes, and differ earlier.
const WORD_CHARS: usize = 64;
/// Different words of a fact that it is found by: far more than any text of its size has, unless it
/// was made to have them.
const MAX_WORDS: usize = 65_536;
/// How often a word counts within a fact; for the order of hits more says nothing new.
const MAX_REPEATS: u32 = 8;
/// Different words of a query that are looked for, the longest first, which are the rarest.
const MAX_QUERY_WORDS: usize = 32;
/// Where ASCII signs are moved to: an area for private use.
const SIGNS: u32 = 0xE000;
/// Between a scope and a word. No word contains it: it would be the sign of NUL.
const BETWEEN: char = '\u{E000}';
/// Around text these belong to the sentence, not to the text.
const SENTENCE_MARKS: &str = ".,;:!?\"'`()[]{}";

/// The words of a fact, each with how often it counts.
pub(super) struct Words(Vec<(String, u32)>);

impl Words {
    /// The words as the index takes them: of this shelf of this scope.
    pub(super) fn line(&self, scope: Scope, shelf: i64) -> String {
        let place = place(scope, shelf);
        let mut line = String::new();
        for (word, count) in &self.0 {
            for _ in 0..*count {
                line.push_str(&place);
                line.push_str(word);
                line.push(' ');
            }
        }
        line
    }
}

fn place(scope: Scope, shelf: i64) -> String {
    let (kind, id) = if scope < 0 {
        ('p', -scope)
    } else {
        ('r', scope)
    };
    format!("{kind}{id}s{shelf}{BETWEEN}")
}

/// The query that finds the facts of a shelf with a word that begins like this one.
pub(super) fn query(scope: Scope, shelf: i64, word: &str) -> String {
    format!("\"{}{word}\" *", place(scope, shelf))
}

/// What a fact is found by.
pub(super) fn of_fact(text: &str) -> Words {
    let mut counts: HashMap<String, u32> = HashMap::new();
    each(&fold(text), Of::Fact, |word| {
        if let Some(count) = counts.get_mut(&word) {
            *count = MAX_REPEATS.min(*count + 1);
        } else if counts.len() < MAX_WORDS {
            counts.insert(word, 1);
        }
    });
    Words(counts.into_iter().collect())
}

/// What a query looks for, the longest first.
pub(super) fn of_query(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each(&fold(text), Of::Query, |word| words.push(word));
    words.sort_by_cached_key(|word| (std::cmp::Reverse(word.chars().count()), word.clone()));
    words.dedup();
    words.truncate(MAX_QUERY_WORDS);
    words
}

/// Makes spellings of the same text equal.
fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Owned(text.to_ascii_lowercase());
    }
    let accents = '\u{300}'..='\u{36f}';
    let plain = text.nfkd().filter(|c| !accents.contains(c)).nfc();
    // By way of upper case, where more spellings meet (ß and ss, σ and ς).
    let folded = plain
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase);
    Cow::Owned(folded.filter(|c| !is_ignored(*c)).map(straight).collect())
}

/// Characters that nobody types: joiners, direction marks, variants of emoji.
fn is_ignored(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// What word processors make of quotes and dashes, made undone; marks of sentences without blanks
/// become blanks.
fn straight(c: char) -> char {
    match c {
        '‘' | '’' | '‚' | '‛' => '\'',
        '“' | '”' | '„' | '‟' | '«' | '»' => '"',
        '‐'..='―' | '−' => '-',
        '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}' | '・' => ' ',
        _ => c,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Fact,
    Query,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Letters and digits, with blanks between words.
    Word,
    /// Letters of a script without blanks.
    Unspaced,
    /// ASCII signs.
    Signs,
    /// One other sign.
    Sign,
}

fn kind(c: char) -> Kind {
    if is_unspaced(c) {
        Kind::Unspaced
    } else if c.is_alphanumeric() || is_combining_mark(c) {
        Kind::Word
    } else if c.is_ascii() {
        Kind::Signs
    } else {
        Kind::Sign
    }
}

/// Thai to Burmese, Khmer, kana, and all of Han.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

fn each(folded: &str, of: Of, mut found: impl FnMut(String)) {
    for text in folded.split(|c: char| c.is_whitespace() || c.is_control()) {
        unbroken(text, of, &mut found);
    }
}

/// The words of a text without blanks.
fn unbroken(text: &str, of: Of, found: &mut impl FnMut(String)) {
    let has_words = text
        .chars()
        .any(|c| matches!(kind(c), Kind::Word | Kind::Unspaced));
    let text = match has_words {
        true => text.trim_matches(|c| SENTENCE_MARKS.contains(c)),
        false => text,
    };
    let mut before: Option<&str> = None;
    let mut rest = text;
    while let Some((kind, run)) = first_run(rest) {
        rest = &rest[run.len()..];
        match kind {
            Kind::Word => found(word(run)),
            Kind::Unspaced => pairs(run, of, found),
            Kind::Sign => found(word(run)),
            Kind::Signs => {
                let after = first_run(rest).filter(|(kind, _)| *kind == Kind::Word);
                if of == Of::Fact || (before.is_none() && after.is_none()) {
                    found(word(run));
                }
                if let Some(before) = before.filter(|b| b.chars().count() < WORD_CHARS) {
                    found(word(&format!("{before}{run}")));
                }
                if let Some((_, after)) = after {
                    found(word(&format!("{run}{after}")));
                }
            }
        }
        before = (kind == Kind::Word).then_some(run);
    }
}

/// The first run of characters of one kind.
fn first_run(text: &str) -> Option<(Kind, &str)> {
    let mut chars = text.char_indices();
    let (_, first) = chars.next()?;
    let first = kind(first);
    let end = match first {
        Kind::Sign => chars.next().map(|(at, _)| at),
        _ => chars.find(|(_, c)| kind(*c) != first).map(|(at, _)| at),
    };
    Some((first, &text[..end.unwrap_or(text.len())]))
}

/// A word as the index takes it.
fn word(run: &str) -> String {
    let moved = |c: char| match c {
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => {
            char::from_u32(SIGNS + u32::from(c)).unwrap_or(c)
        }
        c => c,
    };
    run.chars().take(WORD_CHARS).map(moved).collect()
}

/// Pairs of neighbours. The last letter stands alone as well, so that each letter begins a word of
/// the fact.
fn pairs(run: &str, of: Of, found: &mut impl FnMut(String)) {
    let mut letters = run.chars().peekable();
    let mut single = true;
    while let Some(letter) = letters.next() {
        match letters.peek() {
            Some(next) => found([letter, *next].iter().collect()),
            None if of == Of::Fact || single => found(letter.into()),
            None => {}
        }
        single = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(query: &str, fact: &str) -> bool {
        let fact = of_fact(fact);
        let words = of_query(query);
        !words.is_empty()
            && words
                .iter()
                .all(|q| fact.0.iter().any(|(w, _)| w.starts_with(q.as_str())))
    }

    #[test]
    fn what_stands_in_a_fact_finds_it_wholly() {
        for (query, fact) in [
            ("C++", "we write C++, mostly"),
            ("c++", "Rust/C++"),
            ("C#", "(C#)"),
            ("don't", "Please don’t panic."),
            ("don’t", "please don't panic"),
            ("GB/s", "about 3 GB/s."),
            ("@nasa", "ask @NASA!"),
            ("\"quoted\"", "a quoted word"),
            ("quoted", "a \"quoted\" word"),
            ("->", "a -> b"),
            (":-)", "fine :-)"),
            ("AND", "this and that"),
            ("NEAR(", "near here"),
            ("café", "CAFE"),
            ("Cafe", "cafe\u{301}"),
            ("STRASSE", "Straße"),
            ("ﬁle", "file"),
            ("日本語", "日本語を話す"),
            ("本", "日本"),
            ("語", "日本語を"),
            ("한국", "한국어"),
            ("ภาษา", "พูดภาษาไทย"),
            ("हिन्दी", "हिन्दी में"),
            ("🚀", "done🎉🚀"),
            ("👩‍💻", "ask 👩‍💻 first"),
            ("❤", "❤️"),
            ("snake_case", "let snake_case_name = 1;"),
            ("--verbose", "run it with --verbose"),
            ("50%", "by 50%,"),
            ("foo.bar()", "call foo.bar()"),
            ("https://x.org/a?b=c", "see https://x.org/a?b=c."),
        ] {
            assert!(
                finds(query, fact),
                "{query} in {fact}: {:?}",
                of_query(query)
            );
        }
    }

    #[test]
    fn signs_tell_words_apart() {
        for (query, fact) in [
            ("C++", "c, plainly"),
            ("@nasa", "nasa"),
            ("日本", "本日"),
            ("don't", "don tells"),
        ] {
            assert!(!finds(query, fact), "{query} in {fact}");
        }
    }

    #[test]
    fn nothing_is_looked_for_where_nothing_is_said() {
        for query in ["", "   ", "\u{200d}", "\n\t\0"] {
            assert_eq!(of_query(query), Vec::<String>::new(), "{query:?}");
        }
    }

    #[test]
    fn no_word_has_anything_that_the_index_interprets() {
        let all: String = (1..=0x2ff_u32).filter_map(char::from_u32).collect();
        let text = format!("{all} x{all}y");
        for (word, _) in of_fact(&text).0 {
            let harmless = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii();
            assert!(word.chars().all(harmless), "{word:?}");
        }
    }

    #[test]
    fn words_are_bounded() {
        let long = "x".repeat(1000);
        assert!(finds(&long, &long));
        let many: String = (0..100_000).map(|n| format!("w{n} ")).collect();
        assert_eq!(of_fact(&many).0.len(), MAX_WORDS);
        let query = of_query(&format!("a b {many}"));
        assert_eq!(query.len(), MAX_QUERY_WORDS);
        assert!(query.iter().all(|word| word.len() == 6), "the longest");
        assert_eq!(of_fact(&"same ".repeat(100)).0, [("same".to_owned(), 8)]);
    }
}
