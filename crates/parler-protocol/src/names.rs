//! How the names of rooms are made from what a person chose.

/// Alphabet of the random suffix of automatic room names (31 symbols, none look alike).
pub const SUFFIX_ALPHABET: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";
/// Length of that suffix.
pub const SUFFIX_LEN: usize = 6;
/// Prefix of automatically named channels.
pub const AUTO_PREFIX: &str = "room.";
/// Prefix of direct-message rooms.
pub const DM_PREFIX: &str = "dm.";
/// Prefix of service rooms.
pub const SERVICE_PREFIX: &str = "svc.";

/// Turns a chosen name into a stored one: trimmed, every character that is not an ASCII letter,
/// digit, `_` or `-` becomes `_`, and nothing becomes `_`. Case is kept.
///
/// So a chosen name never holds a dot, and never collides with an automatic one.
#[must_use]
pub fn token(chosen: &str) -> String {
    let trimmed = chosen.trim();
    if trimmed.is_empty() {
        return "_".to_owned();
    }
    trimmed
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

/// The stored name of a service's room.
#[must_use]
pub fn service_room(service: &str) -> String {
    format!("{SERVICE_PREFIX}{}", token(service))
}

/// Trims, lower-cases and dedups mentions, first position kept; `None` when nothing is left.
#[must_use]
pub fn normalise_mentions(mentions: Vec<String>) -> Option<Vec<String>> {
    let mut kept: Vec<String> = Vec::with_capacity(mentions.len());
    for mention in mentions {
        let mention = mention.trim().to_lowercase();
        if !mention.is_empty() && !kept.contains(&mention) {
            kept.push(mention);
        }
    }
    (!kept.is_empty()).then_some(kept)
}

/// Whether a handoff's addressee means the bearer of this name and role: trimmed, ASCII case
/// folded, equal to one of the two.
#[must_use]
pub fn addressed(to: &str, name: &str, role: Option<&str>) -> bool {
    let to = to.trim();
    to.eq_ignore_ascii_case(name.trim()) || role.is_some_and(|r| to.eq_ignore_ascii_case(r.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_holds_only_plain_characters() {
        for (chosen, stored) in [
            ("Release-Train_9", "Release-Train_9"),
            ("  a b  ", "a_b"),
            ("a.b/c", "a_b_c"),
            ("é☃x", "__x"),
            ("", "_"),
            ("   ", "_"),
            ("\u{1F600}", "_"),
            ("a\tb", "a_b"),
        ] {
            assert_eq!(token(chosen), stored, "{chosen:?}");
        }
        assert_eq!(service_room("code review"), "svc.code_review");
    }

    #[test]
    fn mentions_are_trimmed_lowered_and_unique() {
        let given = vec![" WebDev ".into(), "".into(), "ÀÉ".into(), "webdev".into()];
        assert_eq!(
            normalise_mentions(given),
            Some(vec!["webdev".into(), "àé".into()])
        );
        assert_eq!(normalise_mentions(vec!["  ".into()]), None);
    }
}
