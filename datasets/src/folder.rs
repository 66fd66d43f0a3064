//! Reads a folder with one subfolder per class, or with unlabeled videos, in sorted order.
//! Names are compared byte by byte, so labels are the same on every machine and in every locale.
//! Opens no video, skips hidden folders, and follows no cycle of links.

use std::fs;
use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};

use crate::file_lookup::check_listable;
use crate::lines::site;
use crate::{Dataset, NO_LABEL, Sample, VIDEO_EXTENSIONS, has_extension};

/// Reads `root/class/…/video.mp4`. Labels are the indices of the subfolders of `root`, sorted by
/// name.
///
/// - A subfolder without videos counts too, so that labels do not shift.
/// - If videos are directly in `root` and none in subfolders, they are unlabeled: label -1, no
///   classes. Both at once is an error, since some would be lost or mislabeled.
/// - `extensions` (with or without dot, in any case) replaces [`VIDEO_EXTENSIONS`].
/// - Hidden files and folders (`.name`) are skipped. Links to folders are followed, except to a
///   folder that contains them. A broken link counts as a file, and opening it reports what is
///   missing.
pub fn folder(root: impl AsRef<Path>, extensions: Option<&[String]>) -> Result<Dataset> {
    let root = root.as_ref();
    let extensions = normalized_extensions(extensions)?;
    check_listable(root)?;
    let kind = fs::metadata(root).map_err(|e| Error::io(&site(root), e))?;
    if !kind.is_dir() {
        return Err(Error::Argument(format!(
            "{} is not a folder; give a folder of videos, or read a list with annotation_file",
            root.display()
        )));
    }
    let mut walker = FolderWalker {
        extensions: &extensions,
        ancestors: vec![real_path(root)?],
    };
    let (folders, mut unlabeled) = walker.list(root)?;
    unlabeled.sort_by(|a, b| bytes(a).cmp(bytes(b)));
    let mut labeled = Dataset::default();
    for (label, class) in (0..).zip(&folders) {
        let name = class
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut videos = Vec::new();
        walker.collect(class, &mut videos)?;
        videos.sort_by(|a, b| bytes(a).cmp(bytes(b)));
        let sample = |path| Sample {
            label_name: Some(name.clone()),
            ..Sample::new(path, label)
        };
        labeled.samples.extend(videos.into_iter().map(sample));
        labeled.classes.push(name);
    }
    match (unlabeled.first(), labeled.samples.first()) {
        (None, Some(_)) => Ok(labeled),
        (Some(_), None) => {
            let sample = |path| Sample::new(path, NO_LABEL);
            Ok(Dataset {
                samples: unlabeled.into_iter().map(sample).collect(),
                ..Dataset::default()
            })
        }
        (Some(stray), Some(video)) => Err(Error::Argument(format!(
            "{} holds videos both directly ({}) and in class folders ({}); move the former into a folder of their \
             class, or list the videos yourself",
            root.display(),
            stray.display(),
            video.path.display()
        ))),
        (None, None) => Err(Error::Argument(format!(
            "{} holds no such files, looked for names ending in .{}; check the folder, or give extensions",
            root.display(),
            extensions.join(" .")
        ))),
    }
}

/// The extensions without their dots.
fn normalized_extensions(extensions: Option<&[String]>) -> Result<Vec<String>> {
    let Some(given) = extensions else {
        return Ok(VIDEO_EXTENSIONS
            .iter()
            .copied()
            .map(str::to_owned)
            .collect());
    };
    let wanted: Vec<String> = given
        .iter()
        .map(|e| e.trim_start_matches('.').to_owned())
        .collect();
    if wanted.is_empty() || wanted.iter().any(String::is_empty) {
        return Err(Error::Argument(format!(
            "extensions must name at least one and none may be empty, got {given:?}; e.g. [\"mp4\", \
             \"mkv\"], or omit it for all usual video files"
        )));
    }
    Ok(wanted)
}

struct FolderWalker<'a> {
    extensions: &'a [String],
    /// Real paths of the folders from the root to the current one: entering one of them again would
    /// never end.
    ancestors: Vec<PathBuf>,
}

impl FolderWalker<'_> {
    /// All videos in and below a folder.
    fn collect(&mut self, folder: &Path, videos: &mut Vec<PathBuf>) -> Result<()> {
        let real = real_path(folder)?;
        if self.ancestors.contains(&real) {
            return Ok(());
        }
        self.ancestors.push(real);
        let (folders, files) = self.list(folder)?;
        videos.extend(files);
        for folder in folders {
            self.collect(&folder, videos)?;
        }
        self.ancestors.pop();
        Ok(())
    }

    /// The sorted subfolders of a folder, and its videos.
    fn list(&self, folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let failed = |e| Error::io(&site(folder), e);
        let (mut folders, mut videos) = (Vec::new(), Vec::new());
        for item in fs::read_dir(folder).map_err(failed)? {
            let item = item.map_err(failed)?;
            if item.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let (path, kind) = (item.path(), item.file_type().map_err(failed)?);
            // `is_dir` follows links, and is false for a broken one.
            if kind.is_dir() || (kind.is_symlink() && path.is_dir()) {
                folders.push(path);
            } else if has_extension(&path, self.extensions) {
                videos.push(path);
            }
        }
        folders.sort_by(|a, b| bytes(a).cmp(bytes(b)));
        Ok((folders, videos))
    }
}

fn real_path(folder: &Path) -> Result<PathBuf> {
    fs::canonicalize(folder).map_err(|e| Error::io(&site(folder), e))
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    /// (path below root, label) of each sample.
    fn listed(root: &Path, dataset: &Dataset) -> Vec<(String, i64)> {
        let below = |e: &Sample| {
            e.path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        dataset
            .samples
            .iter()
            .map(|e| (below(e), e.label))
            .collect()
    }

    fn tree(files: &[&str]) -> TempFolder {
        let root = TempFolder::new();
        files.iter().for_each(|file| drop(root.write(file, "")));
        root
    }

    #[test]
    fn classes_are_subfolders_in_byte_order() {
        let root = tree(&[
            "b/2.mp4",
            "b/10.mp4",
            "a/x/deep.MKV",
            "a/y.avi",
            "Z/1.webm",
            "b/notes.txt",
            "README",
        ]);
        let dataset = folder(&root.0, None).unwrap();
        assert_eq!(dataset.classes, ["Z", "a", "b"]);
        let expected = [
            ("Z/1.webm", 0),
            ("a/x/deep.MKV", 1),
            ("a/y.avi", 1),
            ("b/10.mp4", 2),
            ("b/2.mp4", 2),
        ];
        assert_eq!(
            listed(&root.0, &dataset),
            expected.map(|(path, label)| (path.to_owned(), label))
        );
        assert_eq!(dataset.samples[1].label_name.as_deref(), Some("a"));
    }

    #[test]
    fn a_class_without_videos_keeps_its_label() {
        let root = tree(&["a/none.txt", "b/1.mp4"]);
        let dataset = folder(&root.0, None).unwrap();
        assert_eq!((dataset.classes.len(), dataset.samples[0].label), (2, 1));
    }

    #[test]
    fn folder_of_videos_only_is_unlabeled() {
        let root = tree(&["b.mp4", "a.mp4", "extras/cover.jpg"]);
        let dataset = folder(&root.0, None).unwrap();
        assert_eq!(
            listed(&root.0, &dataset),
            [("a.mp4".to_owned(), -1), ("b.mp4".to_owned(), -1)]
        );
        assert!(dataset.classes.is_empty() && dataset.samples[0].label_name.is_none());
    }

    #[test]
    fn videos_next_to_class_folders_are_rejected() {
        let root = tree(&["stray.mp4", "a/1.mp4"]);
        let text = folder(&root.0, None).unwrap_err().to_string();
        assert!(
            text.contains("stray.mp4") && text.contains("class folders"),
            "{text}"
        );
    }

    #[test]
    fn hidden_files_and_folders_are_skipped() {
        let root = tree(&["a/1.mp4", "a/._1.mp4", ".cache/2.mp4", "a/.trash/3.mp4"]);
        let dataset = folder(&root.0, None).unwrap();
        assert_eq!(listed(&root.0, &dataset), [("a/1.mp4".to_owned(), 0)]);
        assert_eq!(dataset.classes, ["a"]);
    }

    #[test]
    fn extensions_may_be_given_with_or_without_dot() {
        let root = tree(&["a/1.mp4", "a/2.xyz", "a/3.Y4M"]);
        let dataset = folder(&root.0, Some(&[".xyz".to_owned(), "y4m".to_owned()])).unwrap();
        assert_eq!(dataset.samples.len(), 2);
        assert!(
            folder(&root.0, Some(&[]))
                .unwrap_err()
                .to_string()
                .contains("got []")
        );
        assert!(folder(&root.0, Some(&[".".to_owned()])).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_without_cycles() {
        use std::os::unix::fs::symlink;
        let root = tree(&["a/1.mp4", "a/in/2.mp4"]);
        let elsewhere = tree(&["far.mp4"]);
        symlink(&root.0, root.0.join("a/in/up")).unwrap();
        symlink(root.0.join("a"), root.0.join("a/in/again")).unwrap();
        symlink(&root.0, root.0.join("circle")).unwrap();
        symlink(&elsewhere.0, root.0.join("b")).unwrap();
        symlink("nowhere", root.0.join("a/gone.mp4")).unwrap();
        let dataset = folder(&root.0, None).unwrap();
        assert_eq!(dataset.classes, ["a", "b", "circle"]);
        let expected = [
            ("a/1.mp4", 0),
            ("a/gone.mp4", 0),
            ("a/in/2.mp4", 0),
            ("b/far.mp4", 1),
        ];
        assert_eq!(
            listed(&root.0, &dataset),
            expected.map(|(path, label)| (path.to_owned(), label))
        );
    }

    #[test]
    fn a_missing_or_empty_root_is_named() {
        let root = tree(&["a/readme.txt"]);
        let missing = folder(root.0.join("nope"), None).unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }) && missing.to_string().contains("nope"));
        let text = folder(&root.0, None).unwrap_err().to_string();
        assert!(
            text.contains(root.0.to_str().unwrap()) && text.contains(".mp4 .m4v"),
            "{text}"
        );
        let text = folder(root.0.join("a/readme.txt"), None)
            .unwrap_err()
            .to_string();
        assert!(text.contains("is not a folder"), "{text}");
    }
}
