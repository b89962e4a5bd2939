//! The two signatures of a login: the agent's over the hub's challenge, and the hub's over its
//! own key proof. Both are given to a peer that chose part of the text, so both refuse whatever
//! has not exactly the shape of its kind.
//!
//! 1. The client's first `hello` may carry a random `hubNonce`.
//! 2. The hub answers with a challenge, `parler-auth:v1:<hub>:<expiry>:<uuid>`, and, if asked,
//!    with [`prove_hub`] over `parler-hub:v1:<hubNonce>:<challenge>`.
//! 3. The client checks the proof where it knows the hub's key ([`check_hub`]), then signs the
//!    challenge ([`answer`]) and says `hello` again.
//!
//! Why so strict: the key that answers challenges also signs cards and messages. A hub whose
//! "challenge" is the canonical JSON of a message would otherwise get that message signed. Cards
//! and messages start with `{`, a hub's proof with `parler-hub:`, a challenge with
//! `parler-auth:`; no text is two of these.

use parler_protocol::canonical::{hub_proof, is_challenge};

use crate::error::IdentityError;
use crate::keypair::{KeyPair, verify};

/// Longest `hubNonce` that a hub signs; four times what a random 256-bit number takes in base32.
pub const MAX_HUB_NONCE_BYTES: usize = 128;

/// Signs a hub's challenge for the second `hello`: the bytes of the text exactly as received.
///
/// # Errors
/// [`IdentityError::NotAChallenge`] when the text has another shape; then nothing is signed.
pub fn answer(keys: &KeyPair, nonce: &str) -> Result<String, IdentityError> {
    if is_challenge(nonce) {
        Ok(keys.sign(nonce.as_bytes()))
    } else {
        Err(IdentityError::NotAChallenge)
    }
}

/// Whether the holder of `id` answered this challenge.
#[must_use]
pub fn check_answer(id: &str, nonce: &str, sig: &str) -> bool {
    is_challenge(nonce) && verify(id, nonce.as_bytes(), sig)
}

/// Signs, with a hub's own key, the proof that it is that hub: over the client's random
/// `hub_nonce` (1 to [`MAX_HUB_NONCE_BYTES`] ASCII letters and digits) and the challenge that it
/// is about to send.
///
/// # Errors
/// [`IdentityError::UnsafeHubNonce`] for a `hub_nonce` of another shape,
/// [`IdentityError::NotAChallenge`] for a `nonce` that is none; then nothing is signed.
pub fn prove_hub(keys: &KeyPair, hub_nonce: &str, nonce: &str) -> Result<String, IdentityError> {
    if !is_hub_nonce(hub_nonce) {
        return Err(IdentityError::UnsafeHubNonce);
    }
    if !is_challenge(nonce) {
        return Err(IdentityError::NotAChallenge);
    }
    Ok(keys.sign(hub_proof(hub_nonce, nonce).as_bytes()))
}

/// Whether the hub with that key proved it for this `hub_nonce` and this challenge.
#[must_use]
pub fn check_hub(hub_id: &str, hub_nonce: &str, nonce: &str, sig: &str) -> bool {
    is_hub_nonce(hub_nonce)
        && is_challenge(nonce)
        && verify(hub_id, hub_proof(hub_nonce, nonce).as_bytes(), sig)
}

/// Without a separator in it the text that is signed can be split in one way only.
fn is_hub_nonce(text: &str) -> bool {
    (1..=MAX_HUB_NONCE_BYTES).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str =
        "parler-auth:v1:22879f9aaa3a:1760000060000:0b8f6b1e-3f0a-4b52-9d55-6a6f2f1c9a10";

    fn keys() -> KeyPair {
        KeyPair::from_seed_bytes(std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    #[test]
    fn the_vector_of_the_contract_holds() {
        let sig = answer(&keys(), NONCE).unwrap();
        assert_eq!(
            sig,
            "sWAkUpY/qNP1n6EUpkS3dIbiqW+/9e12Lk/MYcQeY5zH2QIqK2HoqVY+bnnNdlx30eBxxin+0KfM41UIDwjYDA=="
        );
        assert!(check_answer(keys().id().as_str(), NONCE, &sig));
        assert!(!check_answer(keys().id().as_str(), &NONCE[..77], &sig));
    }

    #[test]
    fn nothing_but_a_challenge_is_signed_for_a_hub() {
        let card = r#"{"id":"UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK"}"#;
        let proof = hub_proof("c2VjcmV0", NONCE);
        for bad in [
            "",
            "x",
            card,
            &proof,
            r#"{"from":"U","parts":[],"target":{"kind":"room","room":"r"},"ts":1,"uid":"u","v":1}"#,
            "[]",
            "parler-auth:v1:22879f9aaa3a:1760000060000",
            "parler-auth:v1:22879f9aaa3a:1760000060000:0b8f6b1e:more",
            "parler-auth:v1:22879f9aaa3a::0b8f6b1e",
            "parler-auth:v2:22879f9aaa3a:1760000060000:0b8f6b1e",
            "parler-hub:v1:22879f9aaa3a:1760000060000:0b8f6b1e",
            "other:v1:22879f9aaa3a:1760000060000:0b8f6b1e",
            "Parler-auth:v1:22879f9aaa3a:1760000060000:0b8f6b1e",
            &format!(" {NONCE}"),
            &format!("{NONCE}\n"),
            &format!("{NONCE}\0"),
            &format!("{{\"a\":1}}{NONCE}"),
        ] {
            let refused = answer(&keys(), bad);
            assert!(
                matches!(refused, Err(IdentityError::NotAChallenge)),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_hub_proves_its_key_for_one_nonce_and_one_challenge() {
        let (hub, id) = (keys(), keys().id().to_string());
        let sig = prove_hub(&hub, "Rj4kQ9", NONCE).unwrap();
        assert!(check_hub(&id, "Rj4kQ9", NONCE, &sig));
        assert!(!check_hub(&id, "Rj4kQ8", NONCE, &sig));
        assert!(!check_hub(&id, "Rj4kQ9", &NONCE.replace('7', "8"), &sig));
        let other = KeyPair::from_seed_bytes([9; 32]);
        assert!(!check_hub(other.id().as_str(), "Rj4kQ9", NONCE, &sig));
    }

    #[test]
    fn a_hub_signs_no_text_of_a_clients_making() {
        let long = "a".repeat(MAX_HUB_NONCE_BYTES + 1);
        for bad in ["", "a:b", "a b", "a\n", "{}", "a-b", "ä", "a=", &long] {
            let refused = prove_hub(&keys(), bad, NONCE);
            assert!(
                matches!(refused, Err(IdentityError::UnsafeHubNonce)),
                "{bad:?}"
            );
            // Even a signature over exactly that text is no proof.
            let forged = keys().sign(hub_proof(bad, NONCE).as_bytes());
            assert!(!check_hub(keys().id().as_str(), bad, NONCE, &forged));
        }
        assert!(prove_hub(&keys(), &long[1..], NONCE).is_ok());
        assert!(prove_hub(&keys(), "a", "free text").is_err());
    }
}
