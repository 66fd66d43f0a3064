//! In: bytes. Out: a file that holds them, in a folder of this process's own.
//! The folder lies where TMPDIR says: scripts/fuzz.sh puts it into memory.
//! Never: leaves anything behind after a process that ends by itself.

use std::path::{Path, PathBuf};

/// A folder that goes with its value.
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
        // Only where it was the last thread's.
        let _ = self.0.parent().map(std::fs::remove_dir);
    }
}

/// Writes a file of this thread's folder, over the one of this name.
pub fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("room for a temporary file");
    path
}

/// This thread's folder.
pub fn folder() -> PathBuf {
    OWN.with(|own| own.0.clone())
}

/// What a file of [`write`] holds, for a target that must know its bytes again.
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the file that was just written")
}
