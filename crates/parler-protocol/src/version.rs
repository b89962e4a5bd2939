//! The protocol version and how two ends agree on it.

/// The protocol version that this library speaks.
pub const PROTOCOL_VERSION: &str = "0.2";

/// Whether a peer's protocol version can be talked to: the part before the first dot decides.
///
/// A difference is a warning, never a refusal: fields and ops are additive, and an unknown op is
/// answered by an error that a client reads as "feature not supported".
#[must_use]
pub fn compatible(theirs: &str) -> bool {
    major(theirs) == major(PROTOCOL_VERSION)
}

fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_major_part_decides() {
        assert!(compatible("0.9"));
        assert!(compatible("0"));
        assert!(!compatible("1.2"));
    }
}
