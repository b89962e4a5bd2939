//! Tokens: taken from a request, looked up by their hash, never logged.

use axum::http::{HeaderMap, header};
use parler_store::{CodeHash, TokenKind, TokenRow};

use super::client::ClientIp;
use super::error::HttpError;
use crate::now_ms;
use crate::ops::invite::hash;
use crate::state::HubState;

/// What the holder of no watch token is told.
const NO_WATCH: &str =
    "a watch token is required — ask the session's owner for a watch link (parler session watch)";
/// What the holder of another one is told.
const BAD_WATCH: &str = "invalid or expired watch token";
/// What the holder of a token for the summary only is told.
const NOT_FULL: &str =
    "this token opens the summary only: ask the owner for one with parler session watch --full";

/// A token that is good.
#[derive(Debug)]
pub struct Good {
    /// Its hash: names it to the store.
    pub hash: CodeHash,
    /// What it is.
    pub row: TokenRow,
}

/// What a request brought.
enum Brought {
    Nothing,
    Wrong,
    Good(Good),
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(str::trim)
}

/// Looks a token up. A wrong one spends the address's strikes.
async fn look(state: &HubState, ip: ClientIp, token: Option<&str>) -> Result<Brought, HttpError> {
    let Some(token) = token.filter(|token| !token.is_empty()) else {
        return Ok(Brought::Nothing);
    };
    let hash = hash(token);
    if let Some(row) = state.store().token(hash, now_ms()).await? {
        return Ok(Brought::Good(Good { hash, row }));
    }
    let strike = state.budgets().bad_tokens.spend(&ip.key(), now_ms());
    strike.map_err(|_| HttpError::TooMany("wrong tokens"))?;
    Ok(Brought::Wrong)
}

/// Whether the request brings a directory token.
pub async fn directory(
    state: &HubState,
    ip: ClientIp,
    headers: &HeaderMap,
) -> Result<bool, HttpError> {
    match look(state, ip, bearer(headers)).await? {
        Brought::Good(good) => Ok(good.row.kind == TokenKind::Directory),
        Brought::Nothing | Brought::Wrong => Ok(false),
    }
}

/// The request's watch token, full or not. The header wins over the query.
pub async fn watch(
    state: &HubState,
    ip: ClientIp,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Good, HttpError> {
    match look(state, ip, bearer(headers).or(query)).await? {
        Brought::Good(good) if matches!(good.row.kind, TokenKind::Watch | TokenKind::WatchFull) => {
            Ok(good)
        }
        Brought::Nothing => Err(HttpError::Unauthorized(NO_WATCH)),
        Brought::Wrong | Brought::Good(_) => Err(HttpError::Unauthorized(BAD_WATCH)),
    }
}

/// A token that is not good any more, found out after it was.
pub fn ended() -> HttpError {
    HttpError::Unauthorized(BAD_WATCH)
}

/// The request's token for the whole room. By header only.
pub async fn full(state: &HubState, ip: ClientIp, headers: &HeaderMap) -> Result<Good, HttpError> {
    match look(state, ip, bearer(headers)).await? {
        Brought::Good(good) if good.row.kind == TokenKind::WatchFull => Ok(good),
        Brought::Good(_) => Err(HttpError::Forbidden(NOT_FULL)),
        Brought::Nothing => Err(HttpError::Unauthorized(NO_WATCH)),
        Brought::Wrong => Err(HttpError::Unauthorized(BAD_WATCH)),
    }
}

/// The request's token of a room's owner. By header only.
pub async fn admin(state: &HubState, ip: ClientIp, headers: &HeaderMap) -> Result<Good, HttpError> {
    match look(state, ip, bearer(headers)).await? {
        Brought::Good(good) if good.row.kind == TokenKind::Admin => Ok(good),
        Brought::Good(_) => Err(HttpError::Forbidden("this token only reads")),
        Brought::Nothing => Err(HttpError::Unauthorized(
            "an admin token is required: parler session admin makes one",
        )),
        Brought::Wrong => Err(HttpError::Unauthorized("invalid or expired admin token")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_bearer_is_taken_as_it_is() {
        for (value, token) in [
            ("Bearer ABC", Some("ABC")),
            ("Bearer   ABC  ", Some("ABC")),
            ("bearer ABC", None),
            ("BearerABC", None),
            ("ABC", None),
            ("Bearer ", Some("")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            assert_eq!(bearer(&headers), token, "{value:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
