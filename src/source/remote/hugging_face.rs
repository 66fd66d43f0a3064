//! Addresses of files on the Hugging Face Hub: `hf://datasets/owner/name/path`, as in
//! `huggingface_hub`'s file system.

use std::env::var_os;
use std::path::PathBuf;

use reqwest::header::HeaderValue;
use url::Url;

use super::address::decoded;

/// Server of the Hub, unless `HF_ENDPOINT` names another one.
const ENDPOINT: &str = "https://huggingface.co";

/// Kinds of repositories whose addresses begin with their kind; the address of a model does not.
const KINDS: [&str; 2] = ["datasets", "spaces"];

/// The URL of a file, from the part of its address after `hf://`; the reason if the address is
/// incomplete.
pub(super) fn file_url(address: &str) -> Result<Url, String> {
    let wrong = || {
        "it has no repository and path; write hf://datasets/owner/name/path or hf://datasets/owner/name@revision/path"
            .to_owned()
    };
    let mut parts = address.split('/').peekable();
    let kind = parts.next_if(|part| KINDS.contains(part));
    let (owner, name) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let (name, revision) = name.split_once('@').unwrap_or((name, "main"));
    let path: Vec<&str> = parts.collect();
    if owner.is_empty()
        || name.is_empty()
        || revision.is_empty()
        || path.iter().all(|part| part.is_empty())
    {
        return Err(wrong());
    }
    let endpoint = var_os("HF_ENDPOINT").filter(|value| !value.is_empty());
    let endpoint = endpoint.map_or_else(
        || ENDPOINT.to_owned(),
        |value| value.to_string_lossy().into_owned(),
    );
    let mut url = Url::parse(&endpoint)
        .map_err(|error| format!("HF_ENDPOINT is not a URL: {error}; correct it"))?;
    // A branch such as refs/convert/parquet is written with %2F.
    let revision = String::from_utf8_lossy(&decoded(revision)).into_owned();
    url.path_segments_mut()
        .map_err(|()| "HF_ENDPOINT is no https:// URL; correct it".to_owned())?
        .pop_if_empty()
        .extend(kind)
        .extend([owner, name, "resolve", &revision])
        .extend(path);
    Ok(url)
}

/// The user's token, from `HF_TOKEN` or the file that `hf auth login` writes.
pub(super) fn authorization() -> Option<HeaderValue> {
    let set = |name: &str| var_os(name).filter(|value| !value.is_empty());
    let file = || {
        let home = set("HF_HOME").map(PathBuf::from).or_else(|| {
            let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
            let cache =
                cache.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")));
            cache.map(|cache| cache.join("huggingface"))
        });
        let path = set("HF_TOKEN_PATH")
            .map(PathBuf::from)
            .or_else(|| home.map(|home| home.join("token")));
        std::fs::read_to_string(path?).ok()
    };
    let token = set("HF_TOKEN")
        .map(|token| token.to_string_lossy().into_owned())
        .or_else(file)?;
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim())).ok()?;
    value.set_sensitive(true);
    Some(value).filter(|_| !token.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_urls() {
        for (address, url) in [
            (
                "datasets/me/set/a b/c.mp4",
                "https://huggingface.co/datasets/me/set/resolve/main/a%20b/c.mp4",
            ),
            (
                "me/model/a.mp4",
                "https://huggingface.co/me/model/resolve/main/a.mp4",
            ),
            (
                "datasets/me/set@refs%2Fconvert%2Fparquet/0.parquet",
                "https://huggingface.co/datasets/me/set/resolve/refs%2Fconvert%2Fparquet/0.parquet",
            ),
            (
                "spaces/me/demo@v1.0/x/y#1?.mp4",
                "https://huggingface.co/spaces/me/demo/resolve/v1.0/x/y%231%3F.mp4",
            ),
        ] {
            assert_eq!(file_url(address).unwrap().as_str(), url);
        }
        for wrong in [
            "",
            "datasets",
            "datasets/me",
            "datasets/me/set",
            "datasets/me/set/",
            "me//a.mp4",
            "datasets/me/set@/a",
        ] {
            assert!(
                file_url(wrong)
                    .unwrap_err()
                    .contains("hf://datasets/owner/name/path"),
                "{wrong}"
            );
        }
    }
}
