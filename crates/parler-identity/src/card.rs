//! Signing an agent's card and checking it again: over the card's canonical bytes, with the key
//! that the card itself names. A hub's word that it checked is not enough; whoever acts on a card
//! checks it again.

use parler_protocol::AgentCard;
use parler_protocol::canonical::card_bytes;

use crate::keypair::{KeyPair, verify};

/// Signs a card, for the `sig` of `register`.
///
/// The card's `id` should be that of the keys: with any other it verifies for nobody.
#[must_use]
pub fn sign_card(keys: &KeyPair, card: &AgentCard) -> String {
    keys.sign(&card_bytes(card))
}

/// Whether the signature is that of the agent whose card it is (`card.id`).
#[must_use]
pub fn verify_card(card: &AgentCard, sig: &str) -> bool {
    verify(&card.id, &card_bytes(card), sig)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: &str = r#"{"description":"Plans the work","id":"UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK","kind":"agent","meta":{"depth":2,"zone":"eu-1"},"name":"planner","protocolVersion":"0.2","role":"planner","skills":[{"id":"plan","name":"Planning"}],"tags":["planning","roadmap"]}"#;
    const SIG: &str =
        "2qqrkhTe9kOYVOrj6xzZaU+cFGIOPcGigGiZ7KTNHgmIQof+5gA+z5xLtAH1y2e5AdIBKXx9rJ+buf2leE7RCg==";

    fn keys() -> KeyPair {
        KeyPair::from_seed_bytes(std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    #[test]
    fn the_vector_of_the_contract_holds() {
        // Read from another order of keys, and with a field that no signature covers.
        let card: AgentCard = serde_json::from_str(
            r#"{"id":"UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK","name":"planner",
                "kind":"agent","role":"planner","description":"Plans the work","future":true,
                "tags":["planning","roadmap"],"skills":[{"name":"Planning","id":"plan"}],
                "meta":{"zone":"eu-1","depth":2},"protocolVersion":"0.2"}"#,
        )
        .unwrap();
        assert_eq!(String::from_utf8(card_bytes(&card)).unwrap(), BYTES);
        assert_eq!(BYTES.len(), 275);
        assert_eq!(sign_card(&keys(), &card), SIG);
        assert!(verify_card(&card, SIG));
    }

    #[test]
    fn a_changed_card_or_owner_does_not_verify() {
        let card: AgentCard = serde_json::from_str(BYTES).unwrap();
        let mut renamed = card.clone();
        renamed.name = "Planner".into();
        assert!(!verify_card(&renamed, SIG));
        let mut bare = card.clone();
        bare.tags = None;
        assert!(!verify_card(&bare, SIG));
        let mut stolen = card;
        stolen.id = KeyPair::from_seed_bytes([9; 32]).id().to_string();
        assert!(!verify_card(&stolen, SIG));
        assert!(!verify_card(&stolen, &sign_card(&keys(), &stolen)));
    }
}
