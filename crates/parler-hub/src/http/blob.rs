//! `GET /api/session/blob/{id}`: the bytes of a blob of a watched room, as a stream.
//!
//! Who uploaded it chose its type and its name: a browser must never show it as a page of ours.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use parler_store::BlobReader;
use serde::Deserialize;

use super::auth;
use super::client::ClientIp;
use super::error::HttpError;
use super::session::PRIVATE;
use crate::blobs::BlobError;
use crate::state::HubState;

/// Characters of a suggested file name.
const MAX_NAME: usize = 128;
/// What a type is that is none.
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// As who, and under which name.
#[derive(Deserialize)]
pub struct Asked {
    token: Option<String>,
    name: Option<String>,
}

/// The bytes.
pub async fn blob(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, HttpError> {
    let good = auth::watch(&state, ip, &headers, asked.token.as_deref()).await?;
    let room = good.row.room.ok_or_else(auth::ended)?;
    let open = state.blobs().read(&BlobReader::Room(room), &id, 0).await;
    let open = open.map_err(|error| match error {
        // An unknown one looks the same: no oracle.
        BlobError::Forbidden | BlobError::Unknown => {
            HttpError::Forbidden("this file was not exchanged in this session")
        }
        _ => HttpError::Internal,
    })?;
    let media_type = open.row.media_type.as_deref();
    let name = file_name(asked.name.as_deref(), &id, media_type);
    let kind = media_type.and_then(|kind| HeaderValue::from_str(kind).ok());
    let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let own = [
        (header::CONTENT_TYPE, kind.unwrap_or(BYTES)),
        (header::CONTENT_LENGTH, HeaderValue::from(open.row.size)),
        (
            header::CONTENT_DISPOSITION,
            disposition.map_err(|_| HttpError::Internal)?,
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("sandbox; default-src 'none'"),
        ),
    ];
    let bytes = Body::from_stream(open.bytes.into_stream());
    Ok((PRIVATE, own, bytes).into_response())
}

/// A name for the file: what was suggested, made safe; else one made of the id.
fn file_name(asked: Option<&str>, id: &str, media_type: Option<&str>) -> String {
    let last = asked.unwrap_or_default().rsplit(['/', '\\']).next();
    let plain: String = last
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || ".-_ ".contains(*c))
        .take(MAX_NAME)
        .collect();
    let plain = plain.trim_matches(|c| c == ' ' || c == '.');
    if !plain.is_empty() {
        return plain.to_owned();
    }
    let ending = match media_type {
        Some("application/x-git-bundle") => "bundle",
        Some("application/pdf") => "pdf",
        Some("application/zip") => "zip",
        Some("image/png") => "png",
        Some("image/jpeg") => "jpg",
        Some("text/plain") => "txt",
        _ => "bin",
    };
    format!("parler-{}.{ending}", id.get(..12).unwrap_or(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_name_and_nothing_else() {
        let id = "a".repeat(64);
        let name = |asked: &str| file_name(Some(asked), &id, Some("text/plain"));
        assert_eq!(name("../../etc/pass wd"), "pass wd");
        assert_eq!(name("C:\\x\\..report.txt."), "report.txt");
        assert_eq!(name("a\"\r\nSet-Cookie: b"), "aSet-Cookie b");
        assert_eq!(name("…"), "parler-aaaaaaaaaaaa.txt");
        assert_eq!(name(&"n".repeat(400)).len(), MAX_NAME);
        assert_eq!(file_name(None, &id, None), "parler-aaaaaaaaaaaa.bin");
    }
}
