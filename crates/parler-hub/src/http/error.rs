//! Refusals over HTTP. Their texts name no detail of the store.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parler_store::StoreError;
use serde_json::json;

/// Why a request is not answered.
#[derive(Debug)]
pub enum HttpError {
    /// The token is missing or not good.
    Unauthorized(&'static str),
    /// The token is good, and not for this.
    Forbidden(&'static str),
    /// There is no such thing, or not for this client.
    NotFound(&'static str),
    /// The request makes no sense.
    Bad(String),
    /// The request's state does not allow it.
    Conflict(String),
    /// Too many of these from one address.
    TooMany(&'static str),
    /// No room at the moment.
    Busy(&'static str),
    /// The hub's own failure, logged.
    Internal,
}

impl From<StoreError> for HttpError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store failed");
        HttpError::Internal
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let json = |status: StatusCode, text: &str| {
            (status, Json(json!({ "error": text }))).into_response()
        };
        match self {
            HttpError::Unauthorized(text) => json(StatusCode::UNAUTHORIZED, text),
            HttpError::Forbidden(text) => json(StatusCode::FORBIDDEN, text),
            HttpError::NotFound(text) => json(StatusCode::NOT_FOUND, text),
            HttpError::Bad(text) => json(StatusCode::BAD_REQUEST, &text),
            HttpError::Conflict(text) => json(StatusCode::CONFLICT, &text),
            HttpError::Busy(text) => {
                let mut response = json(StatusCode::SERVICE_UNAVAILABLE, text);
                let headers = response.headers_mut();
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
                response
            }
            HttpError::Internal => json(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the hub could not read or store that: try again",
            ),
            HttpError::TooMany(what) => {
                let text = format!(
                    "rate limit: too many {what} from this address, try again in a minute\n"
                );
                let headers = [
                    (header::RETRY_AFTER, "60"),
                    (header::CONTENT_TYPE, "text/plain"),
                ];
                (StatusCode::TOO_MANY_REQUESTS, headers, text).into_response()
            }
        }
    }
}
