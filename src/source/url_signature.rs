//! Separates the signature of a presigned URL from the parameters that identify its file. A
//! signature is recognized by a complete set of parameters, since `Expires` alone may be part of an
//! address.

use std::borrow::Cow;

/// Parameters of the shared access signatures of Azure; `versionid` and `snapshot` are not among
/// them.
const AZURE: [&str; 26] = [
    "saoid", "scid", "sdd", "sduoid", "se", "ses", "si", "sig", "sip", "ske", "skdutid", "skoid",
    "sks", "skt", "sktid", "skv", "sp", "spr", "sr", "srh", "srq", "srt", "ss", "st", "suoid",
    "sv",
];

/// The URL without the parameters of its signature, so that two signatures of one file give the
/// same text. Other text is returned unchanged.
pub fn without_signature(url: &str) -> Cow<'_, str> {
    let is_web =
        |scheme: &str| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    if !url
        .split_once("://")
        .is_some_and(|(scheme, _)| is_web(scheme))
    {
        return url.into();
    }
    let (address, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
    let Some((address, query)) = address.split_once('?') else {
        return url.into();
    };
    match split_signature(query) {
        (_, signature) if signature.is_empty() => url.into(),
        (rest, _) if rest.is_empty() => format!("{address}{fragment}").into(),
        (rest, _) => format!("{address}?{rest}{fragment}").into(),
    }
}

/// Splits a query into the parameters that identify the file and those of a signature.
pub(crate) fn split_signature(query: &str) -> (String, String) {
    let name = |parameter: &str| {
        parameter
            .split('=')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    let names: Vec<String> = query.split('&').map(name).collect();
    let has = |name: &str| names.iter().any(|other| other == name);
    let (expires, policy) = (has("expires"), has("policy"));
    let aws4 = has("x-amz-signature");
    let aws2 = has("awsaccesskeyid") && has("signature") && expires;
    let google4 = has("x-goog-signature");
    let google2 = has("googleaccessid") && has("signature") && expires;
    let cloudfront = has("key-pair-id") && has("signature") && (expires || policy);
    let azure = has("sig") && has("sv");
    let is_signature = |name: &str| {
        let common = matches!(name, "signature" | "expires");
        (aws4 && name.starts_with("x-amz-"))
            || (aws2 && (common || matches!(name, "awsaccesskeyid" | "x-amz-security-token")))
            || (google4 && name.starts_with("x-goog-"))
            || (google2 && (common || name == "googleaccessid"))
            || (cloudfront && (common || matches!(name, "key-pair-id" | "policy")))
            || (azure && AZURE.contains(&name))
    };
    let of_kind = |wanted: bool| {
        let parameters = query.split('&').zip(&names);
        let chosen: Vec<&str> = parameters
            .filter(|(_, name)| is_signature(name) == wanted)
            .map(|(parameter, _)| parameter)
            .collect();
        chosen.join("&")
    };
    (of_kind(false), of_kind(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_removed_and_other_parameters_stay() {
        let azure = "sv=2024-11-04&st=2026-01-01T00%3A00%3A00Z&se=2026-01-02&sr=b&sp=r&spr=https&sip=1.2.3.4";
        for (query, rest) in [
            (
                "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2Fb&X-Amz-Date=1&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Security-Token=t&X-Amz-Signature=0a",
                "",
            ),
            (
                "versionId=7&x-amz-signature=0a&x-amz-date=1&x-id=GetObject",
                "versionId=7&x-id=GetObject",
            ),
            (
                "AWSAccessKeyId=a&Signature=b%3D&Expires=1&versionId=7",
                "versionId=7",
            ),
            (
                "X-Goog-Algorithm=a&X-Goog-Credential=b&X-Goog-Signature=c&generation=5",
                "generation=5",
            ),
            ("GoogleAccessId=a&Expires=1&Signature=b", ""),
            ("id=1&Expires=1&Signature=b&Key-Pair-Id=c", "id=1"),
            ("Policy=a&Signature=b&Key-Pair-Id=c", ""),
            (
                &format!("{azure}&skoid=1&sktid=2&skt=3&ske=4&sks=b&skv=5&sig=c%3D&versionid=6"),
                "versionid=6",
            ),
            ("ss=b&srt=o&sig=c&sv=2024-11-04&snapshot=7", "snapshot=7"),
        ] {
            assert_eq!(split_signature(query).0, rest, "{query}");
            let shortened = if rest.is_empty() {
                "https://h/a".into()
            } else {
                format!("https://h/a?{rest}")
            };
            assert_eq!(
                without_signature(&format!("https://h/a?{query}")),
                shortened
            );
            assert_eq!(
                without_signature(&format!("https://h/a?{query}#t=3")),
                format!("{shortened}#t=3")
            );
        }
    }

    #[test]
    fn parameters_outside_a_complete_signature_stay() {
        for url in [
            "https://h/a?Expires=1",
            "https://h/a?Expires=1&Signature=b",
            "https://h/a?Signature=b&Key-Pair-Id=c",
            "https://h/a?AWSAccessKeyId=a&Signature=b",
            "https://h/a?X-Amz-Date=1",
            "https://h/a?sig=1",
            "https://h/a?sv=1&se=2&sp=r",
            "https://h/a?id=3&&x",
            "https://h/a?",
            "https://h/a#?sig=1&sv=2",
            "https://h/a",
            "s3://b/k?X-Amz-Signature=1",
            "/data/a?X-Amz-Signature=1",
            "",
        ] {
            assert_eq!(without_signature(url), url);
        }
    }
}
