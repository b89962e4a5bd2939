//! `mint_directory_token`, `mint_watch`, `mint_admin`, `revoke_token`: who may look in over HTTP.
//!
//! A token is shown once, in the reply, and kept as a hash. It is never logged.

use parler_protocol::{
    DirectoryToken, ErrorCode, MintAdmin, MintDirectoryToken, MintWatch, RevokeToken, Revoked,
    RoomName, RoomToken, ServerFrame, limits, links, names,
};
use parler_store::{MintOutcome, NewToken, TokenKind, WhichTokens};

use super::{Caller, cap_field, cap_optional, invite::hash};
use crate::error::OpError;
use crate::{now_ms, random};

/// Length of a token's public id.
const ID_LEN: usize = 12;

/// What the minter gets to know.
struct Minted {
    token: String,
    id: String,
    expires_at: i64,
}

async fn mint(
    caller: &Caller,
    kind: TokenKind,
    room: Option<RoomName>,
    ttl: Option<u64>,
    longest: u64,
) -> Result<Minted, OpError> {
    let ttl = ttl.unwrap_or(limits::DEFAULT_TOKEN_TTL_SECS).min(longest);
    let now = now_ms();
    let minted = Minted {
        token: random::text(links::CODE_ALPHABET, links::TOKEN_LEN),
        id: random::text(names::SUFFIX_ALPHABET, ID_LEN),
        expires_at: now + i64::try_from(ttl * 1000).unwrap_or(i64::MAX - now),
    };
    let outcome = caller
        .state
        .store()
        .mint_token(NewToken {
            agent: caller.agent.id.clone(),
            kind,
            room: room.clone(),
            token: hash(&minted.token),
            id: minted.id.clone(),
            expires_at: minted.expires_at,
            max_active: caller.state.config().limits.max_active_tokens,
            now,
        })
        .await?;
    let what = match kind {
        TokenKind::Admin => "an admin token",
        _ => "a watch link",
    };
    match outcome {
        MintOutcome::Minted => Ok(minted),
        MintOutcome::TooMany => Err(OpError::new(
            ErrorCode::AtCapacity,
            "you have as many tokens as this hub allows: revoke one, or wait until one ends",
        )),
        MintOutcome::NotOwner => Err(OpError::not_owner(format!(
            "only the session owner can mint {what} for '{}'",
            room.as_ref().map_or("", RoomName::as_str)
        ))),
    }
}

/// A token for the whole directory, private cards included.
pub async fn directory(caller: Caller, op: MintDirectoryToken) -> Result<ServerFrame, OpError> {
    let longest = limits::MAX_DIRECTORY_TOKEN_TTL_SECS;
    let minted = mint(&caller, TokenKind::Directory, None, op.ttl_secs, longest).await?;
    Ok(ServerFrame::DirectoryToken(DirectoryToken {
        token: minted.token,
        expires_at: minted.expires_at,
        id: Some(minted.id),
    }))
}

/// A token for watching a room.
pub async fn watch(caller: Caller, op: MintWatch) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    let kind = match op.full {
        Some(true) => TokenKind::WatchFull,
        _ => TokenKind::Watch,
    };
    let room = Some(RoomName::new(&op.room));
    let minted = mint(&caller, kind, room, op.ttl_secs, limits::MAX_TTL_SECS).await?;
    Ok(ServerFrame::Watch(of_room(op.room, minted)))
}

/// A token that acts for a room's owner.
pub async fn admin(caller: Caller, op: MintAdmin) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    let longest = limits::MAX_ADMIN_TOKEN_TTL_SECS;
    let room = Some(RoomName::new(&op.room));
    let minted = mint(&caller, TokenKind::Admin, room, op.ttl_secs, longest).await?;
    Ok(ServerFrame::Admin(of_room(op.room, minted)))
}

fn of_room(room: String, minted: Minted) -> RoomToken {
    RoomToken {
        token: minted.token,
        room,
        expires_at: minted.expires_at,
        id: Some(minted.id),
    }
}

/// Revokes tokens: exactly one way of naming them. Open streams end with it.
pub async fn revoke(caller: Caller, op: RevokeToken) -> Result<ServerFrame, OpError> {
    for (field, value) in [("token", &op.token), ("id", &op.id), ("room", &op.room)] {
        cap_optional(field, value.as_deref())?;
    }
    let which = match (op.token, op.id, op.room) {
        (Some(token), None, None) => WhichTokens::Token(hash(token.trim())),
        (None, Some(id), None) => WhichTokens::Id(id),
        (None, None, Some(room)) => WhichTokens::Room(RoomName::new(&room)),
        _ => return Err(OpError::bad_frame("name one of `token`, `id`, `room`")),
    };
    let store = caller.state.store();
    let count = store
        .revoke_tokens(&caller.agent.id, which, now_ms())
        .await?;
    Ok(ServerFrame::Revoked(Revoked { count }))
}
