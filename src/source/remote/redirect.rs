//! Follows redirects of range requests without sending credentials to another origin. The HTTP
//! client itself only protects the headers of HTTP authentication, not those of object stores.

use object_store::client::{HttpRequest, HttpResponse};
use reqwest::header::{self, HeaderName, LOCATION};
use url::Url;

/// Maximum number of redirects of one request.
pub(super) const MAX_REDIRECTS: u32 = 10;

/// Headers that are sent to another origin. Any other header may be a credential: `authorization`,
/// `x-amz-security-token`, a customer's encryption key.
const SENT_TO_OTHER_ORIGINS: [HeaderName; 6] = [
    header::ACCEPT,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
    header::USER_AGENT,
];

/// The request to which a response redirects; `None` if it does not redirect, or not to an http(s)
/// URL.
pub(super) fn redirected(mut request: HttpRequest, response: &HttpResponse) -> Option<HttpRequest> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let previous = Url::parse(&request.uri().to_string()).ok()?;
    let mut next = previous
        .join(location)
        .ok()
        .filter(|next| matches!(next.scheme(), "http" | "https"))?;
    next.set_username("").ok()?;
    next.set_password(None).ok()?;
    next.set_fragment(None);
    if next.origin() != previous.origin() {
        let headers = std::mem::take(request.headers_mut());
        for name in SENT_TO_OTHER_ORIGINS {
            if let Some(value) = headers.get(&name) {
                request.headers_mut().insert(name, value.clone());
            }
        }
    }
    *request.uri_mut() = next.as_str().parse().ok()?;
    Some(request)
}
