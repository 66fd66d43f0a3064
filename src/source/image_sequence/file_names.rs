//! Lists the names of a folder's frames in order, from a pattern or from the directory entries.
//! Does not read the files.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::path::Path;

use super::{IMAGE_EXTENSIONS, ImageSequence, MAX_FRAMES, too_many};
use crate::error::{Error, Result, Site};

/// Names by number, generated lazily; the caller stops at the first missing file.
pub(super) fn numbered_names(
    frames: &ImageSequence,
    pattern: &str,
) -> Result<impl Iterator<Item = OsString>> {
    let (before, width, after) = split_pattern(pattern)?;
    let first = frames.first;
    let last = match frames.count {
        Some(0) => {
            return Err(Error::Argument(
                "an image sequence with count=0; give at least 1".into(),
            ));
        }
        Some(count) if count > MAX_FRAMES => {
            return Err(too_many(&format!("{count} frames in an image sequence")));
        }
        Some(count) => first.checked_add(count - 1).ok_or_else(|| {
            let most = u32::MAX;
            Error::Argument(format!(
                "{count} frames from number {first} on; frames are numbered up to {most}"
            ))
        })?,
        None => u32::MAX,
    };
    let (before, after) = (before.to_owned(), after.to_owned());
    Ok((first..=last).map(move |number| format!("{before}{number:0width$}{after}").into()))
}

/// Splits a pattern into the text before the number, the width of the number, and the text after
/// it.
fn split_pattern(pattern: &str) -> Result<(&str, usize, &str)> {
    let wrong = |why: &str| {
        Error::Argument(format!(
            "pattern '{pattern}' must contain one number: '{{:05}}', '{{}}', '%05d' or '%d', as in \
             'img_{{:05}}.jpg'{why}"
        ))
    };
    let parts = || match pattern.split_once('{') {
        Some((before, rest)) => {
            let (inside, after) = rest.split_once('}')?;
            let width = match inside.strip_prefix(':') {
                Some(width) => width.strip_suffix('d').unwrap_or(width),
                None => inside.is_empty().then_some("")?,
            };
            Some((before, width, after))
        }
        None => {
            let (before, rest) = pattern.split_once('%')?;
            let (width, after) = rest.split_once('d')?;
            Some((before, width, after))
        }
    };
    let (before, width, after) = parts().ok_or_else(|| wrong(""))?;
    let one = !after.contains(['{', '%']) && !before.contains('/') && !after.contains('/');
    if !one || !width.bytes().all(|c| c.is_ascii_digit()) {
        return Err(wrong(""));
    }
    let digits = if width.is_empty() {
        Some(0)
    } else {
        width.parse().ok().filter(|&w| w <= 20)
    };
    let digits = digits.ok_or_else(|| wrong("; the width is at most 20"))?;
    if !width.is_empty() && !width.starts_with('0') {
        // It would pad numbers with spaces, which file names do not have.
        return Err(wrong(&format!(
            "; write {{:0{width}}} or %0{width}d for numbers of {width} digits"
        )));
    }
    Ok((before, digits, after))
}

/// Names of all images of a folder, in order. Directories and names that start with a dot are
/// skipped.
pub(super) fn list_images(frames: &ImageSequence, site: &Site) -> Result<Vec<OsString>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&frames.folder).map_err(|e| Error::io(site, e))? {
        let entry = entry.map_err(|e| Error::io(site, e))?;
        let name = entry.file_name();
        let extension = Path::new(&name)
            .extension()
            .and_then(|e| e.to_str())
            .map(str::to_ascii_lowercase);
        let picture = extension.is_some_and(|e| IMAGE_EXTENSIONS.contains(&e.as_str()));
        if !picture || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // Entries whose type cannot be read are kept: opening such a frame returns an error that
        // names it.
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_symlink() => {
                std::fs::metadata(entry.path()).map(|meta| meta.file_type())
            }
            kind => kind,
        };
        if kind.map_or(true, |kind| kind.is_file()) {
            files.push(name);
        }
    }
    files.sort_by_cached_key(|name| NaturalOrder(name.as_encoded_bytes().to_vec()));
    let skip = frames.first as usize;
    let count = frames.count.map_or(usize::MAX, |count| count as usize);
    Ok(files.into_iter().skip(skip).take(count).collect())
}

/// A name that compares the numbers inside it by value: `img_9` before `img_10`.
#[derive(PartialEq, Eq)]
struct NaturalOrder(Vec<u8>);

impl Ord for NaturalOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (&self.0[..], &other.0[..]);
        loop {
            let digits = |s: &[u8]| s.iter().take_while(|c| c.is_ascii_digit()).count();
            let (m, n) = (digits(a), digits(b));
            if m > 0 && n > 0 {
                let value = |s: &[u8]| {
                    s.iter()
                        .skip_while(|&&c| c == b'0')
                        .copied()
                        .collect::<Vec<u8>>()
                };
                let (x, y) = (value(&a[..m]), value(&b[..n]));
                // Of two numbers without leading zeros, the one with more digits is larger.
                match x.len().cmp(&y.len()).then_with(|| x.cmp(&y)) {
                    Ordering::Equal => (a, b) = (&a[m..], &b[n..]),
                    unequal => return unequal,
                }
            } else {
                match (a.split_first(), b.split_first()) {
                    (Some((x, c)), Some((y, d))) if x == y => (a, b) = (c, d),
                    // Names that differ only in leading zeros are compared byte by byte.
                    (None, None) => return self.0.cmp(&other.0),
                    (x, y) => return x.map(|x| x.0).cmp(&y.map(|y| y.0)),
                }
            }
        }
    }
}

impl PartialOrd for NaturalOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_contain_one_number() {
        assert_eq!(split_pattern("img_{:05}.jpg").unwrap(), ("img_", 5, ".jpg"));
        assert_eq!(
            split_pattern("img_{:05d}.jpg").unwrap(),
            ("img_", 5, ".jpg")
        );
        assert_eq!(split_pattern("{}.png").unwrap(), ("", 0, ".png"));
        assert_eq!(split_pattern("{:d}.png").unwrap(), ("", 0, ".png"));
        assert_eq!(split_pattern("f%06d").unwrap(), ("f", 6, ""));
        assert_eq!(split_pattern("%d.jpg").unwrap(), ("", 0, ".jpg"));
        let signs = [
            "%+5d", "{:+05}", "{:05dd}", "{d}", "{:0x5}", "% 5d", "%-5d", "{: 5}",
        ];
        let forms = [
            "img.jpg", "a{x}.jpg", "{}{}", "%s", "{:099}", "a/{}.jpg", "{", "%d%d", "{0}",
        ];
        for wrong in signs.into_iter().chain(forms) {
            assert!(
                matches!(split_pattern(wrong), Err(Error::Argument(_))),
                "{wrong}"
            );
        }
        for spaces in ["{:5}", "%5d", "{:5d}"] {
            let error = split_pattern(spaces).unwrap_err().to_string();
            assert!(error.contains("write {:05} or %05d"), "{error}");
        }
    }

    #[test]
    fn names_sort_by_their_numbers() {
        let mut names = ["b1", "a10", "a9", "a09", "a", "a9b2", "a9b10", "a1x"];
        names.sort_by_cached_key(|n| NaturalOrder(n.as_bytes().to_vec()));
        assert_eq!(
            names,
            ["a", "a1x", "a09", "a9", "a9b2", "a9b10", "a10", "b1"]
        );
    }
}
