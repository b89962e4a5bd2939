//! `com.parler.bundle`: code that changes hands, by reference to a blob.

use serde::{Deserialize, Serialize};

use super::TypedPart;

/// Kind of [`BundleRef`].
pub const BUNDLE_KIND: &str = "com.parler.bundle";

/// Points at a bundle of commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleRef {
    /// Content id.
    pub blob: String,
    /// `git`, `patch`, `tar`, …
    pub vcs: String,
    /// Commit at the tip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<String>,
    /// Commit that the receiver must already have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// One line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Bytes.
    pub size: u64,
    /// `application/x-git-bundle` for git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

impl TypedPart for BundleRef {
    const KIND: &'static str = BUNDLE_KIND;
}
