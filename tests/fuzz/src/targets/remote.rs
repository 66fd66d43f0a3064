//! User-supplied URLs, and answers of broken or hostile servers: names without secrets, and exactly
//! the requested bytes of the known file state, or an error. Only this process's own server is
//! contacted.

mod server;

use std::path::Path;

use framespool::source::{as_url, display_name, fuzzing};

use super::{MIB, Target, USUAL, check_error};

pub const URLS: Target = Target {
    name: "urls",
    about: "URLs, their names and their secrets",
    seeds: |_| SEEDS.iter().map(|url| url.as_bytes().to_vec()).collect(),
    run: |input| url(&String::from_utf8_lossy(input)),
    longest: 2 << 10,
    replayed: 20_000,
    ..USUAL
};

pub const ANSWERS: Target = Target {
    name: "answers",
    about: "answers of servers to one request for a range",
    options: 3,
    seeds: |_| {
        server::answers()
            .into_iter()
            .flat_map(|answer| OPTIONS.map(|o| [&o[..], &answer].concat()))
            .collect()
    },
    run: answer,
    longest: 8 << 10,
    memory_bytes: 128 * MIB,
    seconds: 45,
    replayed: 500,
    ..USUAL
};

const SEEDS: [&str; 14] = [
    "https://host/a/b.mp4",
    "http://user:secretsecret@host:8080/a.mp4?token=hiddenhidden#part",
    "s3://bucket/key/with space.mp4",
    "s3://user@bucket/key",
    "HTTPS://[::1]:99/%41%zz.mp4?a=b&c=d",
    "https://us%65r:p%40ss@h/?",
    "http://",
    "s3://",
    "s3://b/../k//x/",
    "file:///a.mp4",
    "ftp://a/b",
    "https://h/\u{e4}\u{f6}.mp4?\u{fc}",
    "https:/one/slash.mp4",
    "http://1.2.3.4.5/\u{0}a\u{7f}?x@y:z",
];

/// Secrets of the seeds' URLs, which most mutations keep.
const SECRETS: [&str; 2] = ["secretsecret", "hiddenhidden"];

fn url(text: &str) {
    let path = Path::new(text);
    let (name, seen) = (display_name(path), as_url(path));
    let parsed = check_error(fuzzing::parse_url(text));
    let mut visible: Vec<String> = Vec::new();
    match parsed {
        Ok([name, key, host]) => {
            assert!(!name.is_empty() && !key.is_empty() && !host.is_empty());
            // A file cached on disk under the key must be found again by it.
            visible.extend([name, key, host].map(|text| text.to_string()));
            if let Err(error) = check_error(fuzzing::open_object(text)) {
                visible.push(error.to_string());
            }
        }
        Err(error) => visible.push(error.to_string()),
    }
    if let Some(seen) = seen {
        assert_eq!(
            check_error(fuzzing::parse_url(seen)).is_ok(),
            check_error(fuzzing::parse_url(text)).is_ok()
        );
        visible.push(name.to_string());
        for secret in SECRETS.iter().filter(|&&secret| is_secret(text, secret)) {
            assert!(
                visible.iter().all(|text| !text.contains(secret)),
                "'{secret}' in {visible:?}"
            );
        }
    }
}

/// Whether a word of a URL is a password, or part of a query, by the rules of URLs: after the
/// scheme's slashes either before an `@` that comes before any other slash, or after a question
/// mark that no `#` precedes.
fn is_secret(text: &str, word: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else {
        return false;
    };
    if text.matches(word).count() != 1 {
        return false;
    }
    let authority = rest
        .find(['/', '?', '#', '\\'])
        .map_or(rest, |end| &rest[..end]);
    let password = authority
        .rsplit_once('@')
        .and_then(|(user, _)| user.split_once(':'));
    // In a bucket's key, a question mark is an ordinary character.
    let bucket = text
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("s3://"));
    let query = rest
        .split_once('#')
        .map_or(rest, |(before, _)| before)
        .split_once('?');
    password.is_some_and(|(_, password)| password.contains(word))
        || !bucket && query.is_some_and(|(_, query)| query.contains(word))
}

/// The known state, another state, and the requested range.
const OPTIONS: [[u8; 3]; 3] = [[0, 0, 0], [1, 0, 3], [2, 1, 7]];
const LEN: u64 = 1000;
const TAG: &str = "\"tag\"";

fn answer(input: &[u8]) {
    let Some((&[known, unless, place], answer)) = input.split_first_chunk::<3>() else {
        return;
    };
    let state = |kind: u8| match kind % 3 {
        0 => None,
        1 => Some((LEN, TAG.into())),
        _ => Some((LEN, "".into())),
    };
    let begin = u64::from(place) * 3;
    let range = begin..(begin + 1 + u64::from(place % 5) * 50).min(LEN.max(begin + 1));
    let (known, unless) = (state(known), state(unless));
    let came = server::ask(answer, |url| {
        check_error(fuzzing::request_once(
            url,
            range.clone(),
            known.clone(),
            unless,
        ))
    });
    let Ok(came) = came.expect("a valid URL") else {
        return;
    };
    let Some((bytes, (len, tag))) = came else {
        return;
    };
    assert!(len <= i64::MAX as u64, "a file of {len} bytes");
    if let Some(known) = known {
        assert_eq!((len, tag), known, "bytes of another state of the file");
    }
    // Fewer bytes than requested are returned only at the end of the file.
    let expected = range.end.min(len).saturating_sub(range.start);
    assert_eq!(
        bytes.len() as u64,
        expected,
        "of {range:?} in a file of {len} bytes"
    );
}
