//! Finds the videos in a folder, in a list file, or at the path of one video, without opening them.
//! Labels are not used, so a folder may have any structure.

use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};

use crate::{annotation_file, folder, has_extension, AnnotationOptions, VIDEO_EXTENSIONS};

/// All videos in and below a folder, those of a list file, or the one video; with the folder itself, or the
/// parent folder.
pub fn find_videos(path: impl AsRef<Path>) -> Result<(Vec<PathBuf>, PathBuf)> {
    let path = path.as_ref();
    if path.is_dir() {
        let videos = folder::videos_below(path)?;
        if videos.is_empty() {
            return Err(Error::Argument(format!(
                "{} holds no videos, looked for files ending in .{}; check the folder",
                path.display(),
                VIDEO_EXTENSIONS.join(" .")
            )));
        }
        return Ok((videos, path.to_owned()));
    }
    let root = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let videos = if has_extension(path, &VIDEO_EXTENSIONS) {
        vec![path.to_owned()]
    } else {
        annotation_file(path, &AnnotationOptions::default())?.samples.into_iter().map(|e| e.path).collect()
    };
    Ok((videos, root.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    #[test]
    fn folders_lists_and_single_videos_are_found() {
        let root = TempFolder::new();
        for (name, text) in [
            ("stray.mp4", ""),
            ("a/deep/1.MKV", ""),
            ("a/notes.txt", ""),
            ("list.txt", "a/deep/1.MKV 3\nstray.mp4 4\n"),
        ] {
            root.write(name, text);
        }
        let below = |(videos, from): (Vec<PathBuf>, PathBuf)| {
            assert_eq!(from, root.0);
            videos
                .iter()
                .map(|v| v.strip_prefix(&root.0).unwrap().to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(below(find_videos(&root.0).unwrap()), ["a/deep/1.MKV", "stray.mp4"]);
        assert_eq!(below(find_videos(root.0.join("stray.mp4")).unwrap()), ["stray.mp4"]);
        assert_eq!(below(find_videos(root.0.join("list.txt")).unwrap()), ["a/deep/1.MKV", "stray.mp4"]);
        assert!(matches!(find_videos(root.0.join("none")), Err(Error::NotFound { .. })));
    }
}
