//! Builds the paths of videos from a template such as `{participant_id}/videos/{video_id}.MP4`.
//! `{start:06}` is an integer with leading zeros, and `{label:_}` a text with underscores in place
//! of spaces. If the template ends in `.*`, the extension comes from the video file that exists in
//! the folder. A value from a list cannot contain a path separator, so no path leaves the folder
//! that the user gave.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};

use crate::column_value::{integer_of, shortened};
use crate::file_lookup::FileLookup;

/// Memory for a name before it grows: a name is built for each row of a list.
const TYPICAL_NAME_BYTES: usize = 64;

/// A path template with names in braces.
pub(crate) struct PathPattern {
    parts: Vec<PatternPart>,
    any_extension: bool,
}

enum PatternPart {
    Text(String),
    Name(String, Format),
}

/// How a value becomes a part of a path.
enum Format {
    Unchanged,
    /// An integer with at least so many digits.
    Zeros(usize),
    Underscores,
}

impl PathPattern {
    /// `known` are the names that braces may contain.
    pub(crate) fn parse(text: &str, known: &[&str]) -> Result<Self> {
        let wrong = |reason: String| Error::Argument(format!("file \"{text}\" {reason}"));
        let (mut rest, any_extension) = match text.strip_suffix(".*") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let mut parts = Vec::new();
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| wrong("has a { without a }".to_owned()))?;
            let (name, format) = name.split_once(':').unwrap_or((name, ""));
            if !known.contains(&name) {
                return Err(wrong(format!(
                    "has the unknown field {{{name}}}; available: {{{}}}",
                    known.join("}, {")
                )));
            }
            parts.push(PatternPart::Text(before.to_owned()));
            let format = match (format, format.strip_prefix('0').map(str::parse)) {
                ("", _) => Format::Unchanged,
                ("_", _) => Format::Underscores,
                (_, Some(Ok(width @ 1..=20))) => Format::Zeros(width),
                _ => {
                    return Err(wrong(format!(
                        "has the unknown format ':{format}'; write :06 or :_"
                    )));
                }
            };
            parts.push(PatternPart::Name(name.to_owned(), format));
            rest = after;
        }
        parts.push(PatternPart::Text(rest.to_owned()));
        if !parts
            .iter()
            .any(|part| matches!(part, PatternPart::Name(..)))
        {
            return Err(wrong(format!(
                "is the same for all videos; it needs {{{}}}",
                known.join("} or {")
            )));
        }
        Ok(Self {
            parts,
            any_extension,
        })
    }

    /// The names in braces.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            PatternPart::Name(name, _) => Some(name.as_str()),
            PatternPart::Text(_) => None,
        })
    }

    /// The file name of one video, without the extension if that has to be looked up. An error is a
    /// name in braces, and what is wrong with its value.
    pub(crate) fn expand<'a>(
        &self,
        value: impl Fn(&str) -> Option<Cow<'a, str>>,
    ) -> Result<String, (String, String)> {
        let mut name = String::with_capacity(TYPICAL_NAME_BYTES);
        for part in &self.parts {
            let (key, format) = match part {
                PatternPart::Text(text) => {
                    name.push_str(text);
                    continue;
                }
                PatternPart::Name(key, format) => (key, format),
            };
            let value = value(key).unwrap_or_default();
            let wrong = |reason: &str| (key.clone(), format!("'{}' {reason}", shortened(&value)));
            if value.is_empty() || value.starts_with('.') || value.contains(['/', '\\']) {
                return Err(wrong("cannot be part of a file's name"));
            }
            match format {
                Format::Unchanged => name.push_str(&value),
                Format::Underscores => {
                    name.extend(value.chars().map(|c| if c == ' ' { '_' } else { c }))
                }
                Format::Zeros(width) => {
                    let number = integer_of(&value).filter(|number| *number >= 0);
                    let number = number.ok_or_else(|| wrong("is not an integer of at least 0"))?;
                    write!(name, "{number:0width$}").unwrap_or_default();
                }
            }
        }
        Ok(name)
    }

    /// The path for a filled-in name. `None` if the extension has to be looked up and there is no
    /// such file. If the extension is given, the existence of the file is not checked.
    pub(crate) fn resolve(
        &self,
        root: &Path,
        name: &str,
        lookup: &mut FileLookup,
    ) -> Result<Option<PathBuf>> {
        let path = root.join(name);
        if !self.any_extension {
            return Ok(Some(path));
        }
        let (Some(folder), Some(stem)) = (
            path.parent(),
            path.file_name().and_then(|stem| stem.to_str()),
        ) else {
            return Ok(None);
        };
        match lookup.with_stem(folder, stem)? {
            [] => Ok(None),
            [one] => Ok(Some(folder.join(one))),
            [one, other, ..] => Err(Error::Argument(format!(
                "{} has both {} and {}; remove one, or give the extension in file=",
                folder.display(),
                one.display(),
                other.display()
            ))),
        }
    }

    /// The name of a file for messages.
    pub(crate) fn shown(&self, name: &str) -> String {
        format!("{name}{}", if self.any_extension { ".*" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    const KNOWN: [&str; 2] = ["id", "part"];

    #[test]
    fn names_are_filled_in_and_extensions_found() {
        let root = TempFolder::new();
        ["p/v_a.mp4", "p/v_b.MKV", "p/v_c.mp4", "p/v_c.webm"]
            .iter()
            .for_each(|name| drop(root.write(name, "")));
        let pattern = PathPattern::parse("{part}/v_{id}.*", &KNOWN).unwrap();
        let mut lookup = FileLookup::default();
        let mut path = |id: &str| {
            let name = pattern
                .expand(|key| Some(if key == "id" { id } else { "p" }.into()))
                .unwrap();
            pattern.resolve(&root.0, &name, &mut lookup)
        };
        assert_eq!(path("a").unwrap(), Some(root.0.join("p/v_a.mp4")));
        assert_eq!(path("b").unwrap(), Some(root.0.join("p/v_b.MKV")));
        assert_eq!(path("d").unwrap(), None);
        assert!(
            path("c")
                .unwrap_err()
                .to_string()
                .contains("both v_c.mp4 and v_c.webm")
        );
        let fixed = PathPattern::parse("{id}.mp4", &KNOWN).unwrap();
        assert_eq!(
            fixed
                .resolve(Path::new("/r"), "x.mp4", &mut FileLookup::default())
                .unwrap(),
            Some("/r/x.mp4".into())
        );
        let padded = PathPattern::parse("{part:_}/{id:06}.mp4", &KNOWN).unwrap();
        let name = padded.expand(|key| Some(if key == "id" { "12.0" } else { "a b" }.into()));
        assert_eq!(
            (name.unwrap().as_str(), pattern.shown("p/v_d").as_str()),
            ("a_b/000012.mp4", "p/v_d.*")
        );
    }

    #[test]
    fn invalid_templates_and_values_are_rejected() {
        for (text, part) in [
            ("v.mp4", "the same for all"),
            ("{id", "without a }"),
            ("{name}.mp4", "available: {id}, {part}"),
            ("{id:6}", "unknown format ':6'"),
        ] {
            let error = PathPattern::parse(text, &KNOWN)
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default();
            assert!(error.contains(part), "{text}: {error}");
        }
        let pattern = PathPattern::parse("{id}.mp4", &KNOWN).unwrap();
        for value in ["", "..", "a/b", "a\\b", ".a"] {
            assert!(pattern.expand(|_| Some(value.into())).is_err(), "{value}");
        }
        assert_eq!(pattern.expand(|_| None).unwrap_err().0, "id");
        let padded = PathPattern::parse("{id:06}", &KNOWN).unwrap();
        for value in ["-1", "1.5", "one"] {
            assert!(
                padded
                    .expand(|_| Some(value.into()))
                    .unwrap_err()
                    .1
                    .contains("not an integer"),
                "{value}"
            );
        }
    }
}
