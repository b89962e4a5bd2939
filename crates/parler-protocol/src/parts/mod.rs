//! The `com.parler.*` extension parts, one file a kind.
//!
//! A part that fails to decode as its kind (a required field is missing or has another type) is
//! treated as an unknown extension: [`TypedPart::from_part`] answers `None`.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::types::Part;

mod bundle;
mod dispatch;
mod file;
mod observation;
mod sig;
mod task;

pub use crate::hub::{HANDOFF_KIND, HandoffRef};
pub use bundle::{BUNDLE_KIND, BundleRef};
pub use dispatch::{DISPATCH_KIND, Dispatch};
pub use file::{FILE_KIND, FileRef};
pub use observation::{OBSERVATION_KIND, Observation};
pub use sig::{Hop, SIG_KIND, SigPart};
pub use task::{TASK_KIND, Task, TaskStatus};

/// Kind of the part by which members announce commits that they have.
pub const TIPS_KIND: &str = "com.parler.tips";
/// Kind of the part that wraps a message brought over from another hub.
pub const IMPORTED_KIND: &str = "com.parler.imported";

/// The kinds that a hub advertises, in this order.
pub const ADVERTISED_KINDS: [&str; 6] = [
    HANDOFF_KIND,
    TASK_KIND,
    DISPATCH_KIND,
    BUNDLE_KIND,
    FILE_KIND,
    SIG_KIND,
];

/// A typed view of one extension kind.
pub trait TypedPart: Serialize + DeserializeOwned {
    /// The kind on the wire.
    const KIND: &'static str;

    /// Reads the part; `None` when it is of another kind or malformed.
    fn from_part(part: &Part) -> Option<Self> {
        match part {
            Part::Extension { kind, fields } if kind == Self::KIND => {
                serde_json::from_value(Value::Object(fields.clone())).ok()
            }
            _ => None,
        }
    }

    /// The first well-formed part of this kind.
    fn find(parts: &[Part]) -> Option<Self> {
        parts.iter().find_map(Self::from_part)
    }

    /// Writes the part.
    fn to_part(&self) -> Part {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => Part::Extension {
                kind: Self::KIND.to_owned(),
                fields,
            },
            // Every implementor is a struct of plain fields: it serialises, and to an object.
            _ => Part::Extension {
                kind: Self::KIND.to_owned(),
                fields: Default::default(),
            },
        }
    }
}
