//! `com.parler.file`: a file that changes hands, by reference to a blob.

use serde::{Deserialize, Serialize};

use super::TypedPart;

/// Kind of [`FileRef`].
pub const FILE_KIND: &str = "com.parler.file";

/// Points at a file's bytes. The name is the sender's word: make it safe before using it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileRef {
    /// Content id.
    pub blob: String,
    /// Base name, as the sender has it.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// One line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl TypedPart for FileRef {
    const KIND: &'static str = FILE_KIND;
}
