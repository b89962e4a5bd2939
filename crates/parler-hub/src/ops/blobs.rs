//! `put_blob`, the bytes behind it, and `get_blob`.
//!
//! Checks come in the order of the protocol: the size, a place, the agent's budget, the space, the
//! target, the room's budget. Nothing happens to the target before the bytes are stored.

use std::sync::PoisonError;

use parler_protocol::{
    BlobId, BlobIncoming, BlobReady, ErrorCode, GetBlob, PutBlob, ServerFrame, clean, limits,
};
use parler_store::BlobReader;

use super::{Caller, cap};
use crate::blobs::{Download, Framing, NewUpload, Piece, Upload, storage_full};
use crate::conn::{Reply, frame_text};
use crate::error::OpError;
use crate::now_ms;

/// Prepares an upload; the connection takes its bytes from then on.
pub async fn put(caller: Caller, op: PutBlob) -> Result<ServerFrame, OpError> {
    super::send::cap_target(&op.target)?;
    cap("sha256", &op.sha256, limits::MAX_BLOB_ID_BYTES)?;
    let media_type = op.media_type.as_deref().unwrap_or_default();
    cap("mediaType", media_type, limits::MAX_MEDIA_TYPE_BYTES)?;
    let blob = BlobId::parse(&op.sha256).ok_or_else(|| {
        OpError::new(
            ErrorCode::BadFrame,
            "malformed frame: `sha256` is 64 lower-case hexadecimal digits",
        )
    })?;
    let chunks = op.chunks.unwrap_or_default();
    if op.offset.is_some() && !chunks {
        return Err(offset_without_chunks());
    }
    let state = &caller.state;
    let max = state.config().limits.max_blob_bytes;
    if op.size > max {
        return Err(OpError::new(
            ErrorCode::TooLarge,
            format!("a blob has at most {max} bytes here"),
        ));
    }
    let new = NewUpload {
        target: op.target,
        blob: blob.clone(),
        size: op.size,
        // It becomes a header of HTTP some day.
        media_type: op.media_type.map(|text| clean::name(&text)),
        chunks,
    };
    // Only a client that asks for the first byte wants it again.
    let upload = Upload::begin(&caller, new.clone(), op.offset == Some(0)).await?;
    let now = now_ms();
    state
        .budgets()
        .blobs
        .spend(&caller.agent.id, now)
        .map_err(|r| OpError::rate_limited("uploads", r))?;
    let total = state.store().blob_bytes().await?;
    if total.saturating_add(op.size) > state.config().limits.max_blob_dir_bytes
        && state.store().known_blobs(vec![blob]).await?.is_empty()
    {
        return Err(storage_full());
    }
    if let Some(room) = super::send::check(&caller, &new.target).await? {
        state
            .budgets()
            .room_blobs
            .spend(&room, now)
            .map_err(|r| OpError::rate_limited("uploads into this room", r))?;
    }
    let offset = chunks.then(|| upload.offset());
    let before = lock(&caller).replace(upload);
    drop(before);
    Ok(ServerFrame::BlobReady(BlobReady {
        id: op.sha256,
        offset,
    }))
}

/// Takes bytes of the upload that was prepared last.
pub async fn piece(caller: Caller, piece: Piece) -> Reply {
    let upload = lock(&caller).take();
    let Some(upload) = upload else {
        return Reply::Stray;
    };
    let (upload, reply) = upload.piece(&caller, piece).await;
    *lock(&caller) = upload;
    reply
}

/// Announces a blob, and the bytes follow.
pub async fn get(caller: Caller, op: GetBlob) -> Result<Reply, OpError> {
    cap("id", &op.id, limits::MAX_BLOB_ID_BYTES)?;
    let chunks = op.chunks.unwrap_or_default();
    if op.offset.is_some() && !chunks {
        return Err(offset_without_chunks());
    }
    let offset = op.offset.unwrap_or_default();
    let reader = BlobReader::Agent(caller.agent.id.clone());
    let open = caller.state.blobs().read(&reader, &op.id, offset).await?;
    if offset > open.row.size {
        return Err(OpError::new(
            ErrorCode::Protocol,
            format!("`offset` is behind the last of {} bytes", open.row.size),
        ));
    }
    let frame = ServerFrame::BlobIncoming(BlobIncoming {
        id: op.id,
        size: open.row.size,
        media_type: open.row.media_type,
        offset: chunks.then_some(offset),
    });
    let download = Download {
        bytes: open.bytes,
        framing: if chunks {
            Framing::Chunks
        } else {
            Framing::Whole
        },
    };
    Ok(Reply::Blob(frame_text(&frame), Box::new(download)))
}

fn offset_without_chunks() -> OpError {
    OpError::new(
        ErrorCode::Protocol,
        "`offset` goes with `chunks`: set both, or neither",
    )
}

fn lock(caller: &Caller) -> std::sync::MutexGuard<'_, Option<Upload>> {
    caller.upload.lock().unwrap_or_else(PoisonError::into_inner)
}
