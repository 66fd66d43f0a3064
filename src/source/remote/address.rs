//! Where the bytes of a URL are stored: on a web server, or in a bucket of a cloud.

use reqwest::header::HeaderValue;
use url::Url;

/// Where the bytes of a URL are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A file on a web server.
    Web {
        /// Without user name and password.
        url: Url,
        /// Made from user name and password.
        authorization: Option<HeaderValue>,
    },
    /// An object in a bucket.
    Bucket {
        /// The service that stores it.
        cloud: Cloud,
        /// Name of the bucket; for Azure of the container, also as
        /// container@account.dfs.core.windows.net.
        bucket: String,
        /// Key of the object, verbatim.
        key: String,
    },
}

/// A service that stores objects in buckets, which Azure names containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cloud {
    /// Amazon S3 and services with its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage and Data Lake Storage.
    Azure,
}

impl Cloud {
    /// The service of a lower-case URL scheme.
    pub(crate) fn of_scheme(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" => Some(Self::S3),
            "gs" => Some(Self::Google),
            "az" | "abfs" | "abfss" => Some(Self::Azure),
            _ => None,
        }
    }

    /// Whether text may name a bucket; in particular, it contains no password.
    pub(crate) fn is_bucket(self, text: &str) -> bool {
        let has_account =
            self == Self::Azure && text.matches('@').count() == 1 && !text.starts_with('@');
        !text.is_empty() && !text.contains([':', '?', '#']) && (has_account || !text.contains('@'))
    }
}

/// Decodes `%xx` escapes.
pub(super) fn decoded(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|two| std::str::from_utf8(two).ok());
        match code.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => (out, rest) = (pushed(out, byte), &tail[2..]),
            None => (out, rest) = (pushed(out, *first), tail),
        }
    }
    out
}

fn pushed(mut bytes: Vec<u8>, byte: u8) -> Vec<u8> {
    bytes.push(byte);
    bytes
}
