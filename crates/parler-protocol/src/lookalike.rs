//! Names that look the same and are not: Latin letters and what other scripts have that a person
//! cannot tell from them.
//!
//! Not the whole of Unicode's list, which is long and for ever growing: the letters that are drawn
//! alike in usual fonts. It is asked when a name that somebody gives is not plain ASCII.

/// Letters of other scripts by the Latin one that they look like, lower case.
const ALIKE: &[(char, &str)] = &[
    ('a', "аɑαａ"),
    ('b', "ЬьƄᏏｂ"),
    ('c', "сϲⅽｃ"),
    ('d', "ԁⅾɗｄ"),
    ('e', "еҽ℮ｅ"),
    ('f', "ſϝքｆ"),
    ('g', "ɡցｇ"),
    ('h', "һհнｈ"),
    ('i', "іıɩιӏⅰｉ"),
    ('j', "јϳｊ"),
    ('k', "кκᴋｋ"),
    ('l', "ⅼǀｌ"),
    ('m', "мⅿᴍｍ"),
    ('n', "ոпｎ"),
    ('o', "оοօჿｏ"),
    ('p', "рρⲣｐ"),
    ('q', "ԛգｑ"),
    ('r', "гᴦⲅｒ"),
    ('s', "ѕꜱｓ"),
    ('t', "тτᴛｔ"),
    ('u', "υսᴜцｕ"),
    ('v', "ѵνⅴᴠｖ"),
    ('w', "ԝաѡωｗ"),
    ('x', "хχⅹｘ"),
    ('y', "уүγყｙ"),
    ('z', "ᴢｚ"),
    ('-', "‐‑‒–—−﹣－"),
    ('_', "＿"),
    ('.', "․．"),
];
/// Capital letters whose lower case looks like nothing of these, but they themselves do.
const CAPITALS: &[(char, &str)] = &[
    ('a', "ΑᎪꓮ"),
    ('b', "ВΒᏴ"),
    ('c', "СϹᏟ"),
    ('d', "Ꭰꓓ"),
    ('e', "ЕΕᎬ"),
    ('g', "ԌᏀ"),
    ('h', "НΗᎻ"),
    ('i', "ІΙӀ"),
    ('j', "ЈᎫ"),
    ('k', "КΚᏦ"),
    ('l', "ᏞꓡⅬ"),
    ('m', "МΜᎷ"),
    ('n', "Νꓠ"),
    ('o', "ОΟՕ"),
    ('p', "РΡᏢ"),
    ('s', "ЅᏚՏ"),
    ('t', "ТΤᎢ"),
    ('v', "Ꮩꓦ"),
    ('w', "Ꮃꓪ"),
    ('x', "ХΧ"),
    ('y', "УΥҮ"),
    ('z', "ΖᏃ"),
];

/// What is left of a name when letters that look alike are one: compare two of them.
#[must_use]
pub fn skeleton(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match latin(c) {
            Some(plain) => out.push(plain),
            None => out.extend(c.to_lowercase().map(|c| latin(c).unwrap_or(c))),
        }
    }
    out
}

fn latin(c: char) -> Option<char> {
    if c.is_ascii() {
        return Some(c.to_ascii_lowercase());
    }
    let within = |table: &[(char, &str)]| {
        let found = table.iter().find(|(_, alike)| alike.contains(c));
        found.map(|(plain, _)| *plain)
    };
    within(ALIKE)
        .or_else(|| within(CAPITALS))
        .or_else(|| wide(c))
        .or_else(|| mathematical(c))
}

/// The full-width forms of ASCII.
fn wide(c: char) -> Option<char> {
    let code = u32::from(c);
    let plain = (0xFF01..=0xFF5E).contains(&code).then(|| code - 0xFEE0)?;
    char::from_u32(plain).map(|c| c.to_ascii_lowercase())
}

/// The mathematical alphabets: thirteen times A to Z and a to z, five times 0 to 9.
fn mathematical(c: char) -> Option<char> {
    let code = u32::from(c);
    let (first, base) = match code {
        0x1D400..=0x1D6A3 => ((code - 0x1D400) % 26, b'a'),
        0x1D7CE..=0x1D7FF => ((code - 0x1D7CE) % 10, b'0'),
        _ => return None,
    };
    u8::try_from(first).ok().map(|n| char::from(base + n))
}

/// Whether two different names cannot be told apart by eye. Names that differ only in ASCII, or
/// only in case, can.
#[must_use]
pub fn looks_like(a: &str, b: &str) -> bool {
    let plain = a.is_ascii() && b.is_ascii();
    !plain && a.to_lowercase() != b.to_lowercase() && skeleton(a) == skeleton(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_other_scripts_are_taken_for_latin_ones() {
        for (real, fake) in [
            ("planner", "pl\u{430}nner"),
            ("planner", "\u{440}lanner"),
            ("Webdev", "w\u{435}bdev"),
            ("HOST", "\u{41D}OST"),
            ("ops", "\u{3BF}ps"),
            ("admin", "\u{1D41A}dmin"),
            ("web-dev", "web\u{2010}dev"),
            ("planner", "ｐｌａｎｎｅｒ"),
            ("r2", "r\u{1D7D0}"),
        ] {
            assert!(looks_like(real, fake), "{real} {fake}");
            assert!(looks_like(fake, real));
        }
    }

    #[test]
    fn what_can_be_told_apart_is_not_alike() {
        for (a, b) in [
            ("planner", "Planner"),
            ("planner", "planer"),
            ("Zoë", "Zoe"),
            ("木", "planner"),
            ("петя", "pety"),
            ("Zoë", "ZOË"),
        ] {
            assert!(!looks_like(a, b), "{a} {b}");
        }
    }

    #[test]
    fn no_letter_stands_in_two_rows() {
        let rows = ALIKE
            .iter()
            .chain(CAPITALS)
            .flat_map(|(_, alike)| alike.chars());
        let mut seen = std::collections::BTreeSet::new();
        for c in rows {
            assert!(
                !c.is_ascii() && seen.insert(c),
                "{c:?} {:04x}",
                u32::from(c)
            );
        }
    }
}
