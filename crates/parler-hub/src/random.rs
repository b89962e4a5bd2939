//! Random codes, names and ids.

use uuid::Uuid;

/// Text of `len` symbols drawn evenly from an alphabet of at most 256 symbols.
///
/// # Panics
/// When the operating system has no randomness to give: nothing safe can follow.
#[must_use]
pub fn text(alphabet: &[u8], len: usize) -> String {
    // Bytes from the uneven rest of 0..256 are thrown away, so that every symbol is as likely.
    let even = 256 - 256 % alphabet.len();
    let mut out = String::with_capacity(len);
    let mut bytes = [0_u8; 64];
    while out.len() < len {
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        for byte in bytes.iter().map(|&b| usize::from(b)).filter(|&b| b < even) {
            if out.len() < len {
                out.push(char::from(alphabet[byte % alphabet.len()]));
            }
        }
    }
    out
}

/// A message id: time-ordered.
#[must_use]
pub fn message_id() -> String {
    Uuid::now_v7().to_string()
}

/// The unique part of a login challenge.
#[must_use]
pub fn challenge_id() -> String {
    Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_its_length_and_uses_the_whole_alphabet() {
        let text = text(parler_protocol::links::CODE_ALPHABET, 4000);
        assert_eq!(text.len(), 4000);
        for symbol in parler_protocol::links::CODE_ALPHABET {
            assert!(
                text.bytes().any(|b| b == *symbol),
                "{}",
                char::from(*symbol)
            );
        }
    }
}
