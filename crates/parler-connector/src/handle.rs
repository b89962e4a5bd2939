//! Generated names: an adjective, an animal and four digits, always the same for the same text.

use crate::naming::fnv64;

const ADJECTIVES: [&str; 32] = [
    "amber", "bold", "brisk", "calm", "clever", "cosy", "deft", "eager", "fair", "fleet", "gentle",
    "glad", "hardy", "jolly", "keen", "kind", "lively", "lucid", "mellow", "merry", "nimble",
    "patient", "plucky", "quiet", "rapid", "sage", "sunny", "swift", "tidy", "vivid", "warm",
    "wry",
];

const ANIMALS: [&str; 32] = [
    "badger", "bison", "crane", "curlew", "dingo", "egret", "falcon", "ferret", "gecko", "heron",
    "ibex", "jackal", "kestrel", "lemur", "linnet", "lynx", "marten", "mole", "newt", "ocelot",
    "otter", "panda", "plover", "puffin", "quail", "raven", "seal", "stoat", "tapir", "vole",
    "walrus", "yak",
];

/// The generated name for that text, for example `keen-otter-0a1f`.
#[must_use]
pub fn handle_for(seed: &str) -> String {
    let hash = fnv64(seed.as_bytes());
    let pick = |words: &[&'static str; 32], at: u64| words[(at % 32) as usize];
    let adjective = pick(&ADJECTIVES, hash);
    let animal = pick(&ANIMALS, hash / 32);
    format!("{adjective}-{animal}-{:04x}", (hash >> 40) & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_handle_is_two_words_and_four_digits() {
        let handle = handle_for("UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK");
        let words: Vec<_> = handle.split('-').collect();
        assert_eq!(words.len(), 3);
        assert!(ADJECTIVES.contains(&words[0]) && ANIMALS.contains(&words[1]));
        assert!(words[2].len() == 4 && words[2].bytes().all(|b| b.is_ascii_hexdigit()));
    }

    #[test]
    fn the_published_hash_chooses() {
        let hash: u64 = 0xaf63_dc4c_8601_ec8c; // of "a"
        let (adjective, animal) = ((hash % 32) as usize, (hash / 32 % 32) as usize);
        let want = format!("{}-{}-63dc", ADJECTIVES[adjective], ANIMALS[animal]);
        let tag = format!("{:04x}", (hash >> 40) & 0xffff);
        assert_eq!(handle_for("a"), want.replace("63dc", &tag));
    }

    #[test]
    fn no_word_stands_twice() {
        assert_eq!(ADJECTIVES.iter().collect::<BTreeSet<_>>().len(), 32);
        assert_eq!(ANIMALS.iter().collect::<BTreeSet<_>>().len(), 32);
    }
}
