//! Doors for the fuzz targets into decoders that nobody else calls directly. Not part of the
//! library's interface.

use crate::transport;

/// Whether a client takes the text for something that a hub may say, known or not.
#[must_use]
pub fn server_frame(text: &str) -> bool {
    transport::decode(text).is_ok()
}

/// The host that a dial URL leads to; `None` where it is refused before dialling.
#[must_use]
pub fn dialled_host(url: &str) -> Option<String> {
    let upgrade = transport::upgrade(url).ok()?;
    upgrade.uri().host().map(str::to_owned)
}
