//! Our text form and signatures against the `nkeys` crate, which other peers use.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use data_encoding::BASE64;
use parler_identity::{KeyPair, parse_id, verify};
use proptest::prelude::*;

proptest! {
    #[test]
    fn both_write_the_same_texts_and_signatures(seed: [u8; 32], bytes: Vec<u8>) {
        let ours = KeyPair::from_seed_bytes(seed);
        let theirs = nkeys::KeyPair::new_from_raw(nkeys::KeyPairType::User, seed).unwrap();
        prop_assert_eq!(ours.id().as_str(), theirs.public_key());
        prop_assert_eq!(&*ours.seed_text(), &theirs.seed().unwrap());
        prop_assert_eq!(ours.sign(&bytes), BASE64.encode(&theirs.sign(&bytes).unwrap()));
    }

    #[test]
    fn each_reads_what_the_other_writes(seed: [u8; 32], bytes: Vec<u8>) {
        let ours = KeyPair::from_seed_bytes(seed);
        let theirs = nkeys::KeyPair::from_seed(&ours.seed_text()).unwrap();
        let again = KeyPair::from_seed_text(&theirs.seed().unwrap()).unwrap();
        prop_assert_eq!(again.id(), ours.id());

        let sig = BASE64.encode(&theirs.sign(&bytes).unwrap());
        prop_assert!(verify(ours.id().as_str(), &bytes, &sig));
        let public = nkeys::KeyPair::from_public_key(ours.id().as_str()).unwrap();
        let raw = BASE64.decode(ours.sign(&bytes).as_bytes()).unwrap();
        prop_assert!(public.verify(&bytes, &raw).is_ok());
    }

    #[test]
    fn a_changed_character_is_noticed(seed: [u8; 32], at in 0..58_usize, to in "[A-Z2-7]") {
        let ours = KeyPair::from_seed_bytes(seed);
        let change = |text: &str| {
            let mut changed = text.to_owned();
            changed.replace_range(at..=at, &to);
            (changed != text).then_some(changed)
        };
        if let Some(seed_text) = change(&ours.seed_text()) {
            prop_assert!(KeyPair::from_seed_text(&seed_text).is_err());
        }
        if at < 56 && let Some(id) = change(ours.id().as_str()) {
            prop_assert!(parse_id(&id).is_none());
        }
    }

    #[test]
    fn a_changed_signature_or_text_does_not_verify(
        seed: [u8; 32], bytes in prop::collection::vec(any::<u8>(), 1..200),
        at in any::<prop::sample::Index>(), bit in 0..8_u32,
    ) {
        let ours = KeyPair::from_seed_bytes(seed);
        let flip = |bytes: &[u8]| {
            let mut changed = bytes.to_vec();
            changed[at.index(bytes.len())] ^= 1 << bit;
            changed
        };
        let sig = ours.sign(&bytes);
        prop_assert!(verify(ours.id().as_str(), &bytes, &sig));
        prop_assert!(!verify(ours.id().as_str(), &flip(&bytes), &sig));
        let changed = BASE64.encode(&flip(&BASE64.decode(sig.as_bytes()).unwrap()));
        prop_assert!(!verify(ours.id().as_str(), &bytes, &changed));
    }

    #[test]
    fn no_text_makes_a_reader_panic(id in ".{0,80}", sig in ".{0,100}") {
        prop_assert!(!verify(&id, b"", &sig));
        prop_assert!(KeyPair::from_seed_text(&id).is_err());
    }
}

#[test]
fn keys_of_other_kinds_are_no_agents() {
    use nkeys::KeyPairType::{Account, Cluster, Module, Operator, Server, Service};
    for kind in [Account, Cluster, Module, Operator, Server, Service] {
        let other = nkeys::KeyPair::new_from_raw(kind, [3; 32]).unwrap();
        let id = other.public_key();
        assert!(parse_id(&id).is_none(), "{id}");
        assert!(KeyPair::from_seed_text(&other.seed().unwrap()).is_err());
        let sig = BASE64.encode(&other.sign(b"text").unwrap());
        assert!(!verify(&id, b"text", &sig), "{id}");
    }
}
