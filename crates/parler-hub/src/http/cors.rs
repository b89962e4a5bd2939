//! Who may read our answers from a web page: anybody the public ones, nobody else's page those of
//! a room.

use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

/// Below this path answers are for the hub's own page only.
const OWN: &str = "/api/room/";

/// Puts the headers on every answer; answers preflights, which reach no budget and no route.
pub async fn layer(request: Request, next: Next) -> Response {
    let own = request.uri().path().starts_with(OWN);
    let mut response = if !own && request.method() == Method::OPTIONS {
        let headers = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "*"),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, "*"),
            (header::ALLOW, "GET,HEAD"),
        ];
        (StatusCode::OK, headers).into_response()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    if !own {
        let any = HeaderValue::from_static("*");
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
    }
    let vary = "origin, access-control-request-method, access-control-request-headers";
    headers.insert(header::VARY, HeaderValue::from_static(vary));
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}
