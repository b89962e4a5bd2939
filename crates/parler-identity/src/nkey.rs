//! The nkey text form: a prefix, 32 bytes and a checksum, in base32.
//!
//! An encoding and nothing more; what the 32 bytes are good for is the business of
//! [`crate::keypair`]. Both directions are strict: there is exactly one text for a key.

use data_encoding::BASE32_NOPAD;
use zeroize::Zeroizing;

use parler_protocol::AgentId;

/// Prefix byte of a user's public key; makes the text start with `U`.
const USER: u8 = 20 << 3;
/// Prefix byte of any seed; makes the text start with `S`.
const SEED: u8 = 18 << 3;
/// The two prefix bytes of a user's seed: five bits `S`, the eight bits of [`USER`], three zeros.
const USER_SEED: [u8; 2] = [SEED | (USER >> 5), (USER & 31) << 3];

/// Length of a seed's text in characters.
pub(crate) const SEED_LEN: usize = 58;
/// Length of a seed before base32: prefix, key, checksum.
const SEED_BYTES: usize = 36;
/// Length of a public key before base32: prefix, key, checksum.
const ID_BYTES: usize = 35;

/// Writes a public key as an id.
pub(crate) fn encode_id(public: &[u8; 32]) -> AgentId {
    let mut raw = [0; ID_BYTES];
    raw[0] = USER;
    raw[1..33].copy_from_slice(public);
    let crc = crc16(&raw[..33]);
    raw[33..].copy_from_slice(&crc.to_le_bytes());
    AgentId::trusted(&BASE32_NOPAD.encode(&raw))
}

/// Reads an id; `None` unless length, alphabet, prefix and checksum are right.
pub(crate) fn decode_id(text: &str) -> Option<[u8; 32]> {
    let mut raw = [0; ID_BYTES];
    if text.len() != AgentId::LEN || BASE32_NOPAD.decode_mut(text.as_bytes(), &mut raw).is_err() {
        return None;
    }
    let (body, crc) = raw.split_at(33);
    if body[0] != USER || crc != crc16(body).to_le_bytes() {
        return None;
    }
    body[1..].try_into().ok()
}

/// Writes a seed as text.
pub(crate) fn encode_seed(seed: &[u8; 32]) -> Zeroizing<String> {
    let mut raw = Zeroizing::new([0; SEED_BYTES]);
    raw[..2].copy_from_slice(&USER_SEED);
    raw[2..34].copy_from_slice(seed);
    let crc = crc16(&raw[..34]);
    raw[34..].copy_from_slice(&crc.to_le_bytes());
    Zeroizing::new(BASE32_NOPAD.encode(raw.as_slice()))
}

/// Reads a seed's text; the error says what is wrong with it and never what it is.
pub(crate) fn decode_seed(text: &str) -> Result<Zeroizing<[u8; 32]>, &'static str> {
    if text.len() != SEED_LEN {
        return Err("the length is not 58 characters");
    }
    let mut raw = Zeroizing::new([0; SEED_BYTES]);
    BASE32_NOPAD
        .decode_mut(text.as_bytes(), raw.as_mut_slice())
        .map_err(|_| "the text is not upper-case base32")?;
    if raw[..2] != USER_SEED {
        return Err("the text does not start with SU");
    }
    if raw[34..] != crc16(&raw[..34]).to_le_bytes() {
        return Err("the checksum does not match");
    }
    let mut seed = Zeroizing::new([0; 32]);
    seed.copy_from_slice(&raw[2..34]);
    Ok(seed)
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, nothing reflected, no final xor.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_xmodem() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn a_public_key_has_exactly_one_text() {
        let key = [7; 32];
        let id = encode_id(&key);
        assert_eq!(decode_id(id.as_str()), Some(key));
        assert_eq!(decode_id(&id.as_str().to_lowercase()), None);
        assert_eq!(decode_id(&format!("{id}A")), None);
        assert_eq!(decode_id(&format!("{id}=")), None);
        assert_eq!(decode_id(""), None);
    }

    #[test]
    fn a_seed_has_exactly_one_text() {
        let text = encode_seed(&[7; 32]);
        assert_eq!(*decode_seed(&text).unwrap(), [7; 32]);
        // 58 characters hold two bits more than 36 bytes: they must be zero.
        let last = text.chars().last().unwrap();
        for other in "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".chars() {
            let changed = format!("{}{other}", &text[..SEED_LEN - 1]);
            assert_eq!(decode_seed(&changed).is_ok(), other == last, "{other}");
        }
    }
}
