use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

/// A folder that is deleted at the end of a test.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!(
            "framespool-clip-store-{}-{name}",
            std::process::id()
        ));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self, run: u64, bytes: u64) -> ClipStore {
        ClipStore::open(
            ClipStoreConfig {
                folder: self.0.clone(),
                bytes,
                epochs: 4,
            },
            run,
        )
        .unwrap()
    }

    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
            {
                match path.is_dir() {
                    true => folders.push(path),
                    false if path.to_str().unwrap().ends_with(ending) => found.push(path),
                    false => {}
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LARGE: u64 = 1 << 30;

fn key(clip: u64) -> u128 {
    xxhash_rust::xxh3::xxh3_128(&clip.to_le_bytes())
}

fn bytes(clip: u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at as u64 * 7 + clip * 13) as u8)
        .collect()
}

fn read(store: &ClipStore, clip: u64) -> Option<Vec<u8>> {
    let found = store.find(key(clip))?;
    assert_eq!(found.tag(), [clip as u32, 2, 3, 4]);
    let mut to = vec![0; found.num_bytes() as usize];
    store.read(&found, &mut to).then_some(to)
}

fn put(store: &ClipStore, clip: u64, due: u64, len: usize) -> bool {
    store.put(key(clip), due, [clip as u32, 2, 3, 4], &bytes(clip, len))
}

#[test]
fn stored_clips_are_read_by_all_processes_and_after_their_end() {
    let folder = TestFolder::new("shared");
    let (first, second) = (folder.store(1, LARGE), folder.store(1, LARGE));
    for (clip, len) in [(1, 1000), (2, 64), (3, 1), (4, 100_000)] {
        assert!(put(&first, clip, clip % 3, len));
        assert_eq!(read(&first, clip), Some(bytes(clip, len)));
    }
    second.begin_epoch(0);
    assert_eq!(read(&second, 4), Some(bytes(4, 100_000)));
    assert!(second.contains(key(4)) && !second.contains(key(5)) && read(&second, 5).is_none());
    assert_eq!(
        (
            second.counts().read,
            second.counts().stored,
            first.counts().stored
        ),
        (1, 0, 4)
    );
    drop((first, second));
    assert_eq!(read(&folder.store(1, LARGE), 1), Some(bytes(1, 1000)));
    // Epochs of another run are unrelated.
    assert!(read(&folder.store(2, LARGE), 1).is_none());
}

#[test]
fn clips_of_past_epochs_are_deleted() {
    let folder = TestFolder::new("past");
    let store = folder.store(1, LARGE);
    for (clip, due) in [(0, 3), (1, 4), (2, 5), (3, EVERY_EPOCH)] {
        assert!(put(&store, clip, due, 500));
    }
    drop(store);
    // Also those of a process that has ended.
    let store = folder.store(1, LARGE);
    assert!(put(&store, 4, 4, 500));
    assert_eq!(folder.files(".clips").len(), 5);
    store.begin_epoch(5);
    assert_eq!(folder.files(".clips").len(), 2);
    let left: Vec<u64> = (0..5)
        .filter(|&clip| read(&store, clip).is_some())
        .collect();
    assert_eq!(left, [2, 3]);
    store.begin_epoch(6);
    assert_eq!(
        (read(&store, 2), read(&store, 3)),
        (None, Some(bytes(3, 500)))
    );
}

#[test]
fn a_process_that_is_ahead_leaves_the_clips_of_others() {
    let folder = TestFolder::new("ahead");
    let (ahead, behind) = (folder.store(1, LARGE), folder.store(1, LARGE));
    assert!(put(&behind, 0, 3, 500) && put(&ahead, 1, 3, 500));
    ahead.begin_epoch(5);
    assert_eq!(
        (read(&behind, 0), read(&ahead, 0), read(&ahead, 1)),
        (Some(bytes(0, 500)), None, None)
    );
    assert_eq!(behind.counts().damaged, 0);
    behind.begin_epoch(5);
    assert_eq!(folder.files(".clips").len(), 0);
}

#[test]
fn processes_together_keep_the_limit() {
    const LIMIT: u64 = 1 << 20;
    let folder = TestFolder::new("limit");
    let stores: Vec<ClipStore> = (0..4).map(|_| folder.store(1, LIMIT)).collect();
    for clip in 0..1000 {
        put(&stores[clip as usize % 4], clip, clip % 5, 4000);
    }
    let used: u64 = folder
        .files(".clips")
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    // Each may have written a 64th part that the others have not seen.
    assert!((LIMIT / 2..LIMIT + LIMIT / 16).contains(&used), "{used}");
}

#[test]
fn an_entry_that_cannot_be_written_does_not_end_the_log() {
    let folder = TestFolder::new("entry");
    let path = folder.0.join(log::LOG_NAME);
    let entry = |segment| LogEntry {
        key: key(1),
        due: 2,
        segment,
        offset: 3,
    };
    let mut writer = log::LogWriter::new(
        File::options()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap(),
    );
    writer.append(&entry(0)).unwrap();
    // As a disk that becomes full.
    fs::write(&path, [&fs::read(&path).unwrap()[..], &[1; 8]].concat()).unwrap();
    writer.undo_partial().unwrap();
    writer.append(&entry(1)).unwrap();
    let mut found = Vec::new();
    LogReader::default()
        .read_new(&folder.0, |entry| found.push(entry.segment))
        .unwrap();
    assert_eq!(found, [0, 1]);
}

#[test]
fn damaged_clips_count_as_missing() {
    let folder = TestFolder::new("damage");
    let store = folder.store(1, LARGE);
    (0..3).for_each(|clip| assert!(put(&store, clip, 1, 5000)));
    let [segment] = &folder.files(".clips")[..] else {
        panic!("one segment")
    };
    let mut content = fs::read(segment).unwrap();
    content[100] ^= 1; // in the bytes of clip 0
    let second = segment::record_bytes(5000) as usize;
    content[second + 30] ^= 1; // in the header of clip 1
    fs::write(segment, &content[..content.len() - 100]).unwrap(); // the end of clip 2
    assert_eq!(
        (read(&store, 0), read(&store, 1), read(&store, 2)),
        (None, None, None)
    );
    assert_eq!((store.counts().damaged, store.contains(key(0))), (3, false));
    assert!(put(&store, 0, 1, 5000) && read(&store, 0).is_some());
    fs::remove_file(segment).unwrap();
    let other = folder.store(1, LARGE);
    assert!((0..3).all(|clip| read(&other, clip).is_none()));
}

#[test]
fn cut_or_damaged_log_ends_there() {
    let folder = TestFolder::new("log");
    let store = folder.store(1, LARGE);
    (0..4).for_each(|clip| assert!(put(&store, clip, 1, 50)));
    let [path] = &folder.files("log")[..] else {
        panic!("one log")
    };
    let whole = fs::read(path).unwrap();
    fs::write(path, &whole[..whole.len() - 7]).unwrap();
    let other = folder.store(1, LARGE);
    assert_eq!(
        (0..4).filter(|&clip| read(&other, clip).is_some()).count(),
        3
    );
    // The rest of an entry that was not complete yet is read later.
    fs::write(path, &whole).unwrap();
    other.begin_epoch(0);
    assert_eq!(read(&other, 3), Some(bytes(3, 50)));
    let mut damaged = whole;
    damaged[45] ^= 1;
    fs::write(path, damaged).unwrap();
    let third = folder.store(1, LARGE);
    assert_eq!(
        (0..4).filter(|&clip| read(&third, clip).is_some()).count(),
        1
    );
}

#[test]
fn full_store_keeps_what_is_due_first() {
    let folder = TestFolder::new("full");
    let store = folder.store(1, 64_000);
    let len = 900;
    let mut clip = 0;
    let mut fill = |due: u64| {
        (0..100)
            .filter(|_| {
                clip += 1;
                put(&store, clip, due, len)
            })
            .count()
    };
    assert_eq!(fill(7), 66); // of 960 bytes each
    assert!(
        !store.has_room(7)
            && !store.has_room(8)
            && store.has_room(6)
            && store.has_room(EVERY_EPOCH)
    );
    assert_eq!((fill(8), fill(6)), (0, 66));
    assert_eq!(fill(EVERY_EPOCH), 66);
    assert_eq!(
        (fill(5), store.counts().stored, store.counts().evicted),
        (0, 198, 132)
    );
    assert!(folder::used_bytes(&folder.0) <= 64_000);
    store.begin_epoch(9);
    assert!(store.has_room(9) && !put(&store, 1000, 9, len));
    // What another, ended run left is deleted first.
    let evicted = store.counts().evicted;
    drop(store);
    let next = folder.store(2, 64_000);
    assert!(put(&next, 1, 0, 5000) && next.counts().evicted == 0 && evicted > 0);
}

#[test]
fn bytes_that_other_threads_are_writing_count() {
    let folder = TestFolder::new("unwritten");
    let store = folder.store(1, 64_000);
    // Each reservation is of a thread that has not written its clip yet.
    let reserved = (0..1000)
        .map_while(|_| store.reserve(3, 960))
        .collect::<Vec<_>>();
    assert_eq!(reserved.len(), 66);
    assert_eq!(folder::used_bytes(&folder.0), 0);
}

#[test]
fn a_clip_larger_than_the_store_deletes_nothing() {
    let folder = TestFolder::new("oversized");
    let store = folder.store(1, 64_000);
    assert!(put(&store, 0, 7, 900) && !put(&store, 1, 3, 64_000));
    assert_eq!(read(&store, 0), Some(bytes(0, 900)));
    assert_eq!(store.counts().evicted, 0);
}

#[test]
fn deleted_segments_are_closed() {
    let folder = TestFolder::new("closed");
    let (store, other) = (folder.store(1, 64_000), folder.store(1, 64_000));
    for (clip, due) in [(0, 3), (1, 4), (2, 9)] {
        assert!(put(&store, clip, due, 900));
    }
    other.begin_epoch(0);
    let read_all = |store: &ClipStore| (0..3).filter_map(|clip| read(store, clip)).count();
    let open = |store: &ClipStore| store.open_files.lock().unwrap().len();
    assert_eq!((read_all(&store), open(&store)), (3, 3));
    assert_eq!((read_all(&other), open(&other)), (3, 3));
    store.begin_epoch(4);
    assert_eq!(open(&store), 2);
    // For lack of space.
    for clip in 3..80 {
        put(&store, clip, 5, 900);
    }
    assert!(store.counts().evicted > 0);
    assert_eq!(open(&store), 1);
    // By another process.
    other.begin_epoch(4);
    assert_eq!(open(&other), 1);
}

fn set_modified(paths: &[PathBuf], time: std::time::SystemTime) {
    for path in paths {
        File::open(path).unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn a_process_whose_lock_cannot_be_examined_counts_as_alive() {
    let folder = TestFolder::new("unknown");
    let store = folder.store(1, LARGE);
    assert!(put(&store, 1, 3, 500));
    drop(store);
    assert!(stored_runs(&folder.0).unwrap()[0].unused_since.is_some());
    let lock = folder.files("lock").remove(0);
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(&lock, &lock).unwrap(); // as without permission, or with too many open files
    let hour = std::time::SystemTime::now() - Duration::from_secs(3600);
    set_modified(&[lock.parent().unwrap().into()], hour);
    assert!(stored_runs(&folder.0).unwrap()[0].unused_since.is_none());
    let run = lock.ancestors().nth(2).unwrap();
    assert_eq!(folder::remove_oldest_run(&folder.0, Path::new("")), None);
    folder::remove_past(run, Path::new(""), 9);
    assert_eq!(folder.files(".clips").len(), 1);
}

#[test]
fn a_run_is_not_in_use_because_the_clock_was_set_back() {
    let folder = TestFolder::new("clock");
    let store = folder.store(1, LARGE);
    assert!(put(&store, 1, 3, 500));
    drop(store);
    let mut paths = folder.files("");
    let run = paths[0].ancestors().nth(2).unwrap().to_owned();
    paths.extend([paths[0].parent().unwrap().to_owned(), run]);
    let later = std::time::SystemTime::now() + Duration::from_secs(3600);
    set_modified(&paths, later);
    let [run] = &stored_runs(&folder.0).unwrap()[..] else {
        panic!("one run")
    };
    assert_eq!(run.unused_since, Some(Duration::ZERO));
    assert_eq!(prune(&folder.0, Duration::ZERO).unwrap().len(), 1);
}

#[test]
fn processes_begin_while_others_delete_runs() {
    let folder = TestFolder::new("begin");
    std::thread::scope(|scope| {
        let beginning = scope.spawn(|| {
            for number in 0..300 {
                let store = folder.store(number % 2, LARGE);
                assert!(put(&store, number, 3, 100) && read(&store, number).is_some());
                assert!(store.writer.folder().exists());
            }
        });
        while !beginning.is_finished() {
            folder::remove_oldest_run(&folder.0, Path::new(""));
            for run in [0, 1] {
                let run = folder.0.join(format!("framespool-clips-1/{run:016x}"));
                folder::remove_past(&run, Path::new(""), 9);
            }
        }
    });
}

#[test]
fn files_of_others_in_a_run_end_no_search_for_space() {
    let folder = TestFolder::new("foreign");
    let store = folder.store(1, 64_000);
    assert!(put(&store, 1, 3, 50_000));
    drop(store);
    let notes = folder.0.join("framespool-clips-1/0000000000000001/notes");
    fs::write(&notes, "text").unwrap();
    let store = folder.store(2, 64_000);
    assert!(put(&store, 2, 3, 50_000) && !put(&store, 3, 3, 50_000));
    assert!(notes.exists());
}

#[test]
fn files_are_private_and_leave_nothing_if_unused() {
    let folder = TestFolder::new("private");
    let store = folder.store(1, LARGE);
    assert!(put(&store, 1, 1, 10));
    for file in folder.files("") {
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600,
            "{file:?}"
        );
        assert_eq!(
            fs::metadata(file.parent().unwrap())
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o700
        );
    }
    drop(folder.store(2, LARGE));
    drop(store);
    assert_eq!(
        fs::read_dir(folder.0.join("framespool-clips-1"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn unusable_folder_is_an_error_and_a_vanished_one_is_not() {
    let config = |folder: &Path| ClipStoreConfig {
        folder: folder.into(),
        bytes: LARGE,
        epochs: 4,
    };
    let error = ClipStore::open(config(Path::new("/proc/none")), 1)
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("/proc/none") && error.to_string().contains("local disk"),
        "{error}"
    );
    let folder = TestFolder::new("vanished");
    let store = folder.store(1, LARGE);
    assert!(put(&store, 1, 1, 10));
    fs::remove_dir_all(&folder.0).unwrap();
    store.begin_epoch(1);
    // The open segment has no name any more, but its bytes are still there.
    assert!(!put(&store, 2, 2, 10) && !store.has_room(0) && store.counts().not_stored == 1);
}

#[test]
fn many_threads_write_and_read() {
    let folder = TestFolder::new("threads");
    let store = folder.store(1, LARGE);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for clip in (thread * 100)..(thread * 100 + 100) {
                    assert!(put(store, clip, clip % 5, 300 + clip as usize));
                    assert_eq!(read(store, clip), Some(bytes(clip, 300 + clip as usize)));
                }
            });
        }
    });
    let other = folder.store(1, LARGE);
    assert!((0..400).all(|clip| read(&other, clip) == Some(bytes(clip, 300 + clip as usize))));
}

#[test]
fn a_run_in_use_has_the_bytes_of_all_clips_that_are_listed() {
    let folder = TestFolder::new("listed");
    let store = folder.store(1, LARGE);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for clip in 0..4000 {
                assert!(put(&store, clip, 3, 100));
            }
        });
        while !writer.is_finished() {
            for run in stored_runs(&folder.0).unwrap() {
                let needed = run.clips * (segment::HEADER_BYTES + 100);
                assert!(run.bytes >= needed, "{run:?}");
            }
        }
    });
}

#[test]
fn runs_are_listed_and_pruned_unless_a_process_uses_them() {
    let folder = TestFolder::new("prune");
    let (old, used) = (folder.store(1, LARGE), folder.store(2, LARGE));
    for (clip, due) in [(1, 3), (2, 9), (3, EVERY_EPOCH)] {
        assert!(put(&old, clip, due, 500) && put(&used, clip, due, 500));
    }
    old.begin_epoch(4); // deletes clip 1, which the log still has
    drop(old);
    // What is not of a store stays, also behind a link with the name of a run.
    let root = folder.0.join("framespool-clips-1");
    let other = folder.0.join("other");
    fs::create_dir_all(other.join("1-a")).unwrap();
    let foreign = [
        other.join("1-a/000001-3.clips"),
        root.join("notes"),
        root.join("0000000000000001/notes"),
    ];
    foreign
        .iter()
        .for_each(|path| fs::write(path, "text").unwrap());
    std::os::unix::fs::symlink(&other, root.join("0000000000000003")).unwrap();
    fs::create_dir_all(root.join("backup/1-a")).unwrap();

    let runs = stored_runs(&folder.0).unwrap();
    let [ended, running] = &runs[..] else {
        panic!("{runs:?}")
    };
    let length = 2 * (segment::HEADER_BYTES + 500);
    assert_eq!(
        (ended.name.as_str(), ended.bytes, ended.clips),
        ("0000000000000001", length, 2)
    );
    assert_eq!(
        (ended.epochs, ended.has_clips_of_every_epoch),
        (Some((9, 9)), true)
    );
    assert_eq!(
        (running.clips, running.epochs, running.unused_since),
        (3, Some((3, 9)), None)
    );
    assert!(ended.unused_since.is_some());

    assert!(
        prune(&folder.0, Duration::from_secs(3600))
            .unwrap()
            .is_empty()
    );
    let pruned = prune(&folder.0, Duration::ZERO).unwrap();
    let [(run, None)] = &pruned[..] else {
        panic!("{pruned:?}")
    };
    assert_eq!(&run.name, &ended.name);
    assert_eq!(read(&used, 2), Some(bytes(2, 500)));
    assert!(foreign.iter().all(|path| path.exists()) && root.join("backup/1-a").exists());
    assert!(stored_runs(&folder.0.join("none")).is_err());
}

#[test]
fn names_of_segments_are_read_back() {
    for name in [
        SegmentName { number: 0, due: 0 },
        SegmentName {
            number: 7_654_321,
            due: EVERY_EPOCH,
        },
    ] {
        assert_eq!(SegmentName::parse(Path::new(&name.to_string())), Some(name));
    }
    assert_eq!(SegmentName::parse(Path::new("000001-3.clip")), None);
}
