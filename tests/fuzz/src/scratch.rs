//! Writes bytes to files in a folder of this process, in TMPDIR (scripts/fuzz.sh sets it to a
//! folder in memory). The folder is removed when the process ends normally.

use std::path::{Path, PathBuf};

/// A folder that is removed when dropped.
pub struct Scratch(PathBuf);

thread_local! {
    static OWN: Scratch = Scratch::new();
}

impl Scratch {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("framespool-fuzz-{}", std::process::id()));
        let folder = folder.join(format!("{:?}", std::thread::current().id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        // Succeeds only for the last thread.
        let _ = self.0.parent().map(std::fs::remove_dir);
    }
}

/// Writes a file in this thread's folder, replacing one of the same name.
pub fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("room for a temporary file");
    path
}

/// This thread's folder.
pub fn folder() -> PathBuf {
    OWN.with(|own| own.0.clone())
}

/// Returns the content of a file of [`write`], for a target that must compare its bytes.
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the file that was just written")
}
