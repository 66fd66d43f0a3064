//! Parses URLs into addresses, and derives names and cache keys without passwords and query
//! content. Makes no network requests.

use std::path::Path;
use std::sync::Arc;

use reqwest::header::HeaderValue;
use url::Url;
use xxhash_rust::xxh3::xxh3_64;

use super::address::{Address, Cloud, decoded};
use super::hugging_face;
use crate::error::{Error, Result, Site};
use crate::source::display_name;
use crate::source::url_signature::split_signature;

/// Maximum length of a URL in bytes; servers accept less.
const MAX_URL_BYTES: usize = 32 << 10;

#[derive(Clone, Debug)]
pub(super) struct ParsedUrl {
    /// Where its bytes are stored.
    pub address: Address,
    /// For messages: no password, and `?…` for any query.
    pub name: Arc<str>,
    /// Distinguishes it from other URLs, on disk too: no password, no signature, and a hash for any
    /// other query.
    pub key: Arc<str>,
    /// The server that is asked: host and port, or a bucket.
    pub host: Arc<str>,
    /// Distinguishes permissions within this process: a hash of user name, password and signature,
    /// 0 without them. Each is sent to the server before it gives access, even to blocks that are
    /// cached for another one.
    pub account: u64,
}

impl ParsedUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// `Argument` for invalid URLs, `Unsupported` for other schemes.
    pub(super) fn parse(text: &str) -> Result<Self> {
        // Text that cannot be parsed may contain a password anywhere, so messages repeat only the
        // scheme.
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let name = display_name(Path::new(text));
        let wrong = |why: &str| Error::Argument(format!("{scheme}://…: {why}"));
        if text.len() > MAX_URL_BYTES {
            return Err(wrong(&format!(
                "longer than {} KiB; give a shorter one",
                MAX_URL_BYTES >> 10
            )));
        }
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => {
                let mut url =
                    Url::parse(text).map_err(|e| wrong(&format!("not a URL: {e}; correct it")))?;
                let authorization = take_authorization(&mut url);
                url.set_fragment(None);
                let mut key = url.clone();
                let query = url.query().map(split_signature);
                let is_address = |(rest, signature): &&(String, String)| {
                    !rest.is_empty() || signature.is_empty()
                };
                // Different queries are different files; the hash keeps their content secret.
                let number = query.as_ref().filter(is_address);
                let number = number.map(|(rest, _)| format!("{:016x}", xxh3_64(rest.as_bytes())));
                key.set_query(number.as_deref());
                let signature = query.map(|(_, signature)| signature).unwrap_or_default();
                Ok(Self::web(
                    url,
                    authorization,
                    &signature,
                    name,
                    String::from(key),
                ))
            }
            "hf" => {
                let url = hugging_face::file_url(rest).map_err(|reason| wrong(&reason))?;
                Ok(Self::web(
                    url,
                    hugging_face::authorization(),
                    "",
                    name,
                    text.to_owned(),
                ))
            }
            scheme => match (Cloud::of_scheme(scheme), rest.split_once('/')) {
                (None, _) => Err(Error::Unsupported {
                    site: Site::file(&format!("{scheme}://…").into()),
                    what: format!(
                        "reading by {scheme}:// (only https://, http://, s3://, gs://, az://, abfss:// and hf://)"
                    ),
                }),
                (Some(cloud), Some((bucket, key)))
                    if cloud.is_bucket(bucket) && !key.is_empty() =>
                {
                    let host = format!("{scheme}://{bucket}");
                    let address = Address::Bucket {
                        cloud,
                        bucket: bucket.into(),
                        key: key.into(),
                    };
                    Ok(Self {
                        address,
                        key: format!("{host}/{key}").into(),
                        host: host.into(),
                        name,
                        account: 0,
                    })
                }
                _ => Err(wrong(&format!(
                    "it has no bucket and key; write {scheme}://bucket/key, and put credentials into the environment"
                ))),
            },
        }
    }

    fn web(
        url: Url,
        authorization: Option<HeaderValue>,
        signature: &str,
        name: Arc<str>,
        key: String,
    ) -> Self {
        let account = match (&authorization, signature) {
            (None, "") => 0,
            (value, _) => {
                let value = value.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
                xxh3_64(&[value, b"\n", signature.as_bytes()].concat())
            }
        };
        let host = format!(
            "{}:{}",
            url.host_str().unwrap_or_default(),
            url.port_or_known_default().unwrap_or(0)
        );
        Self {
            address: Address::Web { url, authorization },
            name,
            key: key.into(),
            host: host.into(),
            account,
        }
    }

    /// Removes the query of this URL, which may be secret, from a message of another library.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let Address::Web { url, .. } = &self.address else {
            return text.into();
        };
        match url.query().filter(|query| !query.is_empty()) {
            Some(query) => text.replace(query, "…"),
            None => text.into(),
        }
    }
}

/// Removes user name and password from a URL and returns them as a header value.
fn take_authorization(url: &mut Url) -> Option<HeaderValue> {
    use base64::Engine;
    let password = url.password().map(decoded);
    let user = decoded(url.username());
    if user.is_empty() && password.is_none() {
        return None;
    }
    // Both fail only for URLs without a host; http URLs always have one.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let pair = [user, password.unwrap_or_default()].join(&b':');
    let code = base64::engine::general_purpose::STANDARD.encode(pair);
    let mut value = HeaderValue::try_from(format!("Basic {code}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_queries_are_used_and_never_shown() {
        let text =
            "https://me:s%3Acret@host.example:8443/a%20b/c.mp4?X-Amz-Signature=abcdef&x=1#t=3";
        let parsed_url = ParsedUrl::parse(text).unwrap();
        assert_eq!(&*parsed_url.name, "https://host.example:8443/a%20b/c.mp4?…");
        assert!(
            parsed_url
                .key
                .starts_with("https://host.example:8443/a%20b/c.mp4?"),
            "{}",
            parsed_url.key
        );
        for hidden in ["cret", "abcdef", "me:"] {
            assert!(
                !parsed_url.name.contains(hidden) && !parsed_url.key.contains(hidden),
                "{hidden}"
            );
            assert!(!format!("{:?}", parsed_url.address).contains("s%3Acret"));
        }
        let Address::Web { url, authorization } = &parsed_url.address else {
            panic!("a web server's")
        };
        assert_eq!(
            url.as_str(),
            "https://host.example:8443/a%20b/c.mp4?X-Amz-Signature=abcdef&x=1"
        );
        assert_eq!(
            authorization.as_ref().unwrap().to_str().unwrap(),
            "Basic bWU6czpjcmV0"
        ); // me:s:cret
        let said =
            "error sending request for url (https://host.example/c.mp4?X-Amz-Signature=abcdef&x=1)";
        assert!(!parsed_url.scrub(said).contains("abcdef"));
        let parse = |query: &str| {
            ParsedUrl::parse(&format!(
                "https://me:s%3Acret@host.example:8443/a%20b/c.mp4?{query}"
            ))
            .unwrap()
        };
        let signed = parse("X-Amz-Signature=123456&x=1");
        assert_eq!(parsed_url.key, signed.key);
        assert_ne!(parsed_url.account, signed.account);
        assert_ne!(parsed_url.key, parse("X-Amz-Signature=abcdef&x=2").key);
        assert_eq!(
            parse("X-Amz-Signature=1").key,
            parse("X-Amz-Signature=2").key
        );
        assert_eq!(
            &*parse("X-Amz-Signature=1").key,
            "https://host.example:8443/a%20b/c.mp4"
        );
        let accounts = [
            "http://h/a",
            "http://me:1@h/a",
            "http://me:2@h/a",
            "http://you:1@h/a",
        ]
        .map(|text| ParsedUrl::parse(text).unwrap())
        .map(|parsed_url| (parsed_url.key.to_string(), parsed_url.account));
        assert!(
            accounts.iter().all(|(key, _)| key == "http://h/a"),
            "{accounts:?}"
        );
        assert!(
            (0..4).all(|a| (0..a).all(|b| accounts[a].1 != accounts[b].1)),
            "{accounts:?}"
        );
    }

    #[test]
    fn url_without_secrets_is_shown_unchanged() {
        for text in ["http://127.0.0.1:8000/v/a.mp4", "s3://bucket/a/b c%20?.mp4"] {
            let parsed_url = ParsedUrl::parse(text).unwrap();
            assert_eq!((&*parsed_url.name, &*parsed_url.key), (text, text));
        }
        for (text, expected) in [
            ("S3://b/k/%41", (Cloud::S3, "b", "k/%41")),
            ("gs://b/k?x#y", (Cloud::Google, "b", "k?x#y")),
            ("az://c/a/b", (Cloud::Azure, "c", "a/b")),
            (
                "abfss://c@a.dfs.core.windows.net/b",
                (Cloud::Azure, "c@a.dfs.core.windows.net", "b"),
            ),
        ] {
            let parsed_url = ParsedUrl::parse(text).unwrap();
            assert_eq!(*parsed_url.name, *text);
            let Address::Bucket { cloud, bucket, key } = parsed_url.address else {
                panic!("{text}")
            };
            assert_eq!((cloud, bucket.as_str(), key.as_str()), expected);
        }
    }

    #[test]
    fn rejected_url_is_shown_without_secrets() {
        for text in [
            "s3://bucket",
            "s3:///key",
            "s3://bucket/",
            "https://",
            "http://u:hush@:99999/x",
            "s3://id:hush@b/k",
            "gs://hush@b/k",
            "abfss://id:hush@b/k",
            &format!("http://u:hush@h/{}", "x".repeat(MAX_URL_BYTES)),
        ] {
            let error = ParsedUrl::parse(text).unwrap_err();
            assert!(matches!(error, Error::Argument(_)), "{text}: {error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
        for text in ["", "é", "a/b"] {
            assert!(ParsedUrl::parse(text).is_err(), "{text}");
        }
        let error = ParsedUrl::parse("ftp://bucket/key").unwrap_err();
        assert!(
            matches!(error, Error::Unsupported { .. }) && error.to_string().contains("s3://"),
            "{error}"
        );
    }
}
