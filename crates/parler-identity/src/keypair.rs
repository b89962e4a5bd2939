//! The key pair of an agent or a hub: making it, its text, signing and verifying.
//!
//! The only owner of secret key bytes in memory. It signs whatever bytes it is given; the modules
//! around it decide what those may be, and nobody should sign bytes that came from a peer.

use std::fmt;
use std::sync::Arc;

use data_encoding::BASE64;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use parler_protocol::AgentId;
use zeroize::Zeroizing;

use crate::error::IdentityError;
use crate::nkey;

/// Length of a signature's text: standard base64, padding included, of 64 bytes.
pub const SIGNATURE_LEN: usize = 88;

/// An Ed25519 key pair whose public half is the id.
///
/// Clones share one copy of the secret, which is wiped when the last of them is dropped. `Debug`
/// shows the id only.
#[derive(Clone)]
pub struct KeyPair {
    secret: Arc<SigningKey>,
    id: AgentId,
}

impl KeyPair {
    /// Makes a new identity from the system's randomness.
    ///
    /// # Errors
    /// [`IdentityError::NoRandomness`] when the system gives none.
    pub fn generate() -> Result<Self, IdentityError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut_slice()).map_err(IdentityError::NoRandomness)?;
        Ok(Self::from_seed_bytes(*seed))
    }

    /// Reads an nkey seed: 58 characters, prefix `SU`, checksum. Nothing around it is allowed,
    /// not even a newline.
    ///
    /// # Errors
    /// [`IdentityError::BadSeed`] says which of these fails.
    pub fn from_seed_text(text: &str) -> Result<Self, IdentityError> {
        let seed = nkey::decode_seed(text).map_err(IdentityError::BadSeed)?;
        Ok(Self::from_seed_bytes(*seed))
    }

    /// Takes the 32 bytes of an Ed25519 seed; any will do.
    #[must_use]
    pub fn from_seed_bytes(seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        let secret = Arc::new(SigningKey::from_bytes(&seed));
        let id = nkey::encode_id(secret.verifying_key().as_bytes());
        Self { secret, id }
    }

    /// The nkey seed, by which the pair can be made again. Whoever reads it is this agent.
    #[must_use]
    pub fn seed_text(&self) -> Zeroizing<String> {
        nkey::encode_seed(self.secret.as_bytes())
    }

    /// The id: the public key in nkey text form.
    #[must_use]
    pub fn id(&self) -> &AgentId {
        &self.id
    }

    /// Signs the bytes; standard base64 with padding, [`SIGNATURE_LEN`] characters.
    ///
    /// The same bytes always give the same signature. Bytes that a peer chose must not come here:
    /// see [`crate::challenge`].
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> String {
        BASE64.encode(&self.secret.sign(bytes).to_bytes())
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Reads an id in full: length, base32, checksum, prefix `U`, and a public key that a signature
/// can be checked with. [`AgentId::parse`] looks at the shape alone.
#[must_use]
pub fn parse_id(text: &str) -> Option<AgentId> {
    public_key(text).map(|_| AgentId::trusted(text))
}

/// Whether `sig_b64` is the signature of the holder of `id` over the bytes.
///
/// Strict: [`VerifyingKey::verify_strict`], standard base64 with padding, ids of users only.
/// Anything malformed is `false`.
#[must_use]
pub fn verify(id: &str, bytes: &[u8], sig_b64: &str) -> bool {
    let Some(key) = public_key(id) else {
        return false;
    };
    let Some(signature) = signature(sig_b64) else {
        return false;
    };
    key.verify_strict(bytes, &signature).is_ok()
}

fn public_key(id: &str) -> Option<VerifyingKey> {
    let key = VerifyingKey::from_bytes(&nkey::decode_id(id)?).ok()?;
    // Under a key of small order nearly any signature is good for nearly any text.
    (!key.is_weak()).then_some(key)
}

fn signature(sig_b64: &str) -> Option<Signature> {
    if sig_b64.len() != SIGNATURE_LEN {
        return None;
    }
    let bytes = BASE64.decode(sig_b64.as_bytes()).ok()?;
    Signature::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y";
    const ID: &str = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK";

    fn keys() -> KeyPair {
        KeyPair::from_seed_bytes(std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    #[test]
    fn the_vector_of_the_contract_holds_both_ways() {
        assert_eq!(keys().id(), &ID);
        assert_eq!(keys().seed_text().as_str(), SEED);
        assert_eq!(KeyPair::from_seed_text(SEED).unwrap().id(), &ID);
        assert_eq!(
            data_encoding::HEXLOWER.encode(&nkey::decode_id(ID).unwrap()),
            "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
        );
        assert_eq!(parse_id(ID).unwrap(), ID);
    }

    #[test]
    fn debug_shows_the_id_and_no_secret() {
        assert_eq!(
            format!("{:?}", keys()),
            format!("KeyPair {{ id: {ID:?}, .. }}")
        );
    }

    #[test]
    fn a_seed_is_read_strictly() {
        let long = format!("{SEED}A");
        let newline = format!("{SEED}\n");
        let lower = SEED.to_lowercase();
        let wrong = SEED.replace("KBQ", "KBR");
        let bad = [
            "",
            "SU",
            &SEED[1..],
            &SEED[..57],
            &long,
            &newline,
            &lower,
            &wrong,
            ID,
        ];
        for text in bad {
            let error = KeyPair::from_seed_text(text).unwrap_err();
            assert!(matches!(error, IdentityError::BadSeed(_)), "{text}");
        }
    }

    #[test]
    fn an_id_is_read_strictly() {
        let long = format!("{ID}A");
        let wrong = ID.replace("RLKK", "RLKL");
        for text in ["", "U", &ID[..55], &long, &wrong, &ID.to_lowercase(), SEED] {
            assert!(parse_id(text).is_none(), "{text}");
        }
        let off_curve = nkey::encode_id(&std::array::from_fn(|i| u8::from(i == 0) * 2));
        assert!(parse_id(off_curve.as_str()).is_none(), "no such point");
        let identity = nkey::encode_id(&std::array::from_fn(|i| u8::from(i == 0)));
        assert!(parse_id(identity.as_str()).is_none(), "small order");
    }

    #[test]
    fn whatever_is_malformed_does_not_verify() {
        let sig = keys().sign(b"text");
        assert_eq!(sig.len(), SIGNATURE_LEN);
        assert!(verify(ID, b"text", &sig));
        assert!(!verify(ID, b"text ", &sig));
        assert!(!verify(&ID.to_lowercase(), b"text", &sig));
        let other = KeyPair::from_seed_bytes([9; 32]);
        assert!(!verify(other.id().as_str(), b"text", &sig));
        let url_safe = sig.replace('+', "-").replace('/', "_");
        assert_ne!(url_safe, sig, "the vector has one of the two");
        for bad in [
            "",
            &sig[..87],
            sig.trim_end_matches('='),
            &url_safe,
            &format!(" {sig}"),
            &"A".repeat(88),
        ] {
            assert!(!verify(ID, b"text", bad), "{bad}");
        }
    }

    #[test]
    fn a_signature_with_a_scalar_beyond_the_order_does_not_verify() {
        // s + l instead of s: what a lenient check lets pass as a second signature.
        const ORDER: [u8; 32] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9,
            0xde, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        ];
        let mut bytes = BASE64.decode(keys().sign(b"text").as_bytes()).unwrap();
        let mut carry = 0;
        for (byte, add) in bytes[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(add) + carry;
            *byte = sum.to_le_bytes()[0];
            carry = sum >> 8;
        }
        assert!(!verify(ID, b"text", &BASE64.encode(&bytes)));
    }

    #[test]
    fn a_signature_with_a_point_of_small_order_does_not_verify() {
        // The holder of the key can make it with R = the neutral point; a lenient check takes it.
        let sig = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADJM0aSVPrbz9UAzT+JtqjRciPVBN88IOu6dtjiSCj1Cw==";
        let lenient = public_key(ID).unwrap();
        let parsed = signature(sig).unwrap();
        assert!(ed25519_dalek::Verifier::verify(&lenient, b"text", &parsed).is_ok());
        assert!(!verify(ID, b"text", sig));
    }

    #[test]
    fn two_new_keys_differ() {
        let (a, b) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        assert_ne!(a.id(), b.id());
        assert!(parse_id(a.id().as_str()).is_some());
    }
}
