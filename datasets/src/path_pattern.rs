//! Builds the paths of videos from a template such as `{participant_id}/videos/{video_id}.MP4`.
//! If the template ends in `.*`, the extension comes from the video file that exists in the folder.
//! A value from a list cannot contain a path separator, so no path leaves the folder that the user gave.

use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};

use crate::column_value::shortened;
use crate::file_lookup::FileLookup;

/// A path template with names in braces.
pub(crate) struct PathPattern {
    parts: Vec<PatternPart>,
    any_extension: bool,
}

enum PatternPart {
    Text(String),
    Name(String),
}

impl PathPattern {
    /// `known` are the names that braces may contain.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self> {
        let wrong = |reason: String| Error::Argument(format!("file \"{text}\" {reason}"));
        let (mut rest, any_extension) = match text.strip_suffix(".*") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let mut parts = Vec::new();
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) =
                after.split_once('}').ok_or_else(|| wrong("has a { without a }".to_owned()))?;
            if !known.contains(&name) {
                return Err(wrong(format!(
                    "has the unknown field {{{name}}}; available: {{{}}}",
                    known.join("}, {")
                )));
            }
            parts.push(PatternPart::Text(before.to_owned()));
            parts.push(PatternPart::Name(name.to_owned()));
            rest = after;
        }
        parts.push(PatternPart::Text(rest.to_owned()));
        if !parts.iter().any(|part| matches!(part, PatternPart::Name(_))) {
            return Err(wrong(format!("is the same for all videos; it needs {{{}}}", known.join("} or {"))));
        }
        Ok(Self { parts, any_extension })
    }

    /// The file name of one video, without the extension if that has to be looked up.
    pub fn expand(&self, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                PatternPart::Text(text) => name.push_str(text),
                PatternPart::Name(key) => {
                    let value = value(key).unwrap_or_default();
                    if value.is_empty() || value.starts_with('.') || value.contains(['/', '\\']) {
                        return Err(format!("{key} '{}' cannot be part of a file's name", shortened(&value)));
                    }
                    name.push_str(&value);
                }
            }
        }
        Ok(name)
    }

    /// The path for a filled-in name. `None` if the extension has to be looked up and there is no such file.
    /// If the extension is given, the existence of the file is not checked.
    pub fn resolve(&self, root: &Path, name: &str, lookup: &mut FileLookup) -> Result<Option<PathBuf>> {
        let path = root.join(name);
        if !self.any_extension {
            return Ok(Some(path));
        }
        let (Some(folder), Some(stem)) = (path.parent(), path.file_name().and_then(|stem| stem.to_str()))
        else {
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

    /// Describes the file that was looked up without success.
    pub fn not_found_message(&self, root: &Path, name: &str) -> String {
        format!("no video {}", root.join(format!("{name}.*")).display())
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
            let name = pattern.expand(|key| Some(if key == "id" { id } else { "p" }.to_owned())).unwrap();
            pattern.resolve(&root.0, &name, &mut lookup)
        };
        assert_eq!(path("a").unwrap(), Some(root.0.join("p/v_a.mp4")));
        assert_eq!(path("b").unwrap(), Some(root.0.join("p/v_b.MKV")));
        assert_eq!(path("d").unwrap(), None);
        assert!(path("c").unwrap_err().to_string().contains("both v_c.mp4 and v_c.webm"));
        let fixed = PathPattern::parse("{id}.mp4", &KNOWN).unwrap();
        assert_eq!(
            fixed.resolve(Path::new("/r"), "x.mp4", &mut FileLookup::default()).unwrap(),
            Some("/r/x.mp4".into())
        );
        assert!(pattern.not_found_message(Path::new("/r"), "p/v_d").contains("/r/p/v_d.*"));
    }

    #[test]
    fn invalid_templates_and_values_are_rejected() {
        for (text, part) in
            [("v.mp4", "the same for all"), ("{id", "without a }"), ("{name}.mp4", "available: {id}, {part}")]
        {
            let error = PathPattern::parse(text, &KNOWN).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(part), "{text}: {error}");
        }
        let pattern = PathPattern::parse("{id}.mp4", &KNOWN).unwrap();
        for value in ["", "..", "a/b", "a\\b", ".a"] {
            assert!(pattern.expand(|_| Some(value.to_owned())).is_err(), "{value}");
        }
        assert!(pattern.expand(|_| None).unwrap_err().contains("id ''"));
    }
}
