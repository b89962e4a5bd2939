//! `com.parler.dispatch`: work for whoever has a role. The only part that changes what a hub does.

use serde::{Deserialize, Serialize};

use super::TypedPart;

/// Kind of [`Dispatch`].
pub const DISPATCH_KIND: &str = "com.parler.dispatch";

/// Names the worker role that should execute the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Worker role.
    pub role: String,
}

impl TypedPart for Dispatch {
    const KIND: &'static str = DISPATCH_KIND;
}
