//! In: corpus files, and processes that write, read, die and damage. Out: proof that the stored index is a fresh one or none.
//! Processes are this test program again, told by its environment what to do (see `child`).
//! Never: writes anywhere but below the build's own folder for tests.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::videos;
use framespool::index::store::{index_of, Access, Store};
use framespool::index::{build, VideoIndex};
use framespool::limits::Limits;
use framespool::source::{ByteSource, FileSource};

const MINUTE: Duration = Duration::from_secs(60);

/// SplitMix64: a sequence that never changes.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("index_store").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn database(place: &Path) -> PathBuf {
    place.join("framespool-index.sqlite3")
}

fn open(path: &Path) -> Arc<dyn ByteSource> {
    Arc::new(FileSource::open(path).expect("a video"))
}

fn fresh(path: &Path) -> Arc<VideoIndex> {
    Arc::new(build(&open(path), &Limits::default(), &|| Ok(())).expect("an index"))
}

/// `count` names for small videos of the corpus below `folder`; names make entries, contents do not matter here.
fn links(folder: &Path, count: usize) -> Vec<PathBuf> {
    let small = |e: &common::Entry| e.path.starts_with("video/action/") && e.path.ends_with(".mp4");
    let files: Vec<PathBuf> = videos().iter().filter(|e| small(e)).map(|e| e.root.join(&e.path)).collect();
    if files.is_empty() {
        return Vec::new();
    }
    let make = |(n, file): (usize, &PathBuf)| {
        let link = folder.join(format!("video_{n:04}.mp4"));
        std::os::unix::fs::symlink(file, &link).expect("a link");
        link
    };
    files.iter().cycle().take(count).enumerate().map(make).collect()
}

/// Freshly built indices of all links, each file built once.
fn expected(links: &[PathBuf]) -> BTreeMap<PathBuf, Arc<VideoIndex>> {
    let mut built: BTreeMap<PathBuf, Arc<VideoIndex>> = BTreeMap::new();
    let mut each = BTreeMap::new();
    for link in links {
        let file = link.canonicalize().expect("a link to a file");
        let index = built.entry(file).or_insert_with(|| fresh(link)).clone();
        let index = VideoIndex { site: fresh_site(link), ..(*index).clone() };
        each.insert(link.clone(), Arc::new(index));
    }
    each
}

fn fresh_site(path: &Path) -> framespool::error::Site {
    framespool::error::Site::file(&path.to_string_lossy().into())
}

fn put_all(store: &Store, indices: &BTreeMap<PathBuf, Arc<VideoIndex>>) {
    for (path, index) in indices {
        store.put_patiently(path, &*open(path), SystemTime::now(), index);
    }
    store.flush(MINUTE);
}

/// How many of the indices are stored; one that is stored and differs is a failure.
fn stored(store: &Store, indices: &BTreeMap<PathBuf, Arc<VideoIndex>>) -> usize {
    let found = |(path, index): (&PathBuf, &Arc<VideoIndex>)| {
        let found = store.get(path, &*open(path))?;
        assert_eq!(found, *index, "{}: another index than a fresh one", path.display());
        Some(())
    };
    indices.iter().filter_map(found).count()
}

#[test]
fn the_index_of_every_file_of_the_corpus_comes_back_as_it_was_built() {
    let place = folder("corpus");
    let store = Store::open(&place, Access::Write).unwrap();
    let mut indices = BTreeMap::new();
    let (mut packets, mut bytes) = (0, 0);
    for entry in videos() {
        let path = entry.root.join(&entry.path);
        let Ok(source) = entry.source() else { continue };
        let Ok((index, false)) = index_of(Some(&store), &path, &source, &|| Ok(())) else { continue };
        packets += index.packets.len();
        indices.insert(path, index);
    }
    assert!(store.flush(MINUTE));
    assert_eq!((store.trouble(), store.lost()), (None, 0));
    drop(store);
    if !indices.is_empty() {
        bytes = std::fs::metadata(database(&place)).unwrap().len();
    }
    let store = Store::open(&place, Access::Read).unwrap();
    assert_eq!(stored(&store, &indices), indices.len());
    println!("{} indices, {packets} packets, {bytes} bytes of database", indices.len());
}

#[test]
fn a_file_that_was_written_again_is_indexed_again() {
    let folder = folder("stale");
    let Some(link) = links(&folder, 1).pop() else { return };
    let bytes = std::fs::read(&link).unwrap();
    let path = folder.join("copy.mp4");
    let write = |bytes: &[u8], mtime_secs: u64| {
        std::fs::write(&path, bytes).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(mtime_secs)).unwrap();
        std::thread::sleep(Duration::from_millis(40)); // see the next test
    };
    let store = Store::open(&folder.join("place"), Access::Write).unwrap();
    let is_stored = || {
        let (index, stored) = index_of(Some(&store), &path, &open(&path), &|| Ok(())).unwrap();
        assert_eq!(index, fresh(&path));
        store.flush(MINUTE);
        stored
    };
    write(&bytes, 1_000_000);
    assert_eq!([is_stored(), is_stored()], [false, true]);
    write(&bytes, 1_000_001); // the same length, another time
    assert_eq!([is_stored(), is_stored()], [false, true]);
    write(&[&bytes[..], &[0; 8]].concat(), 1_000_001); // the same time, another length
    assert_eq!([is_stored(), is_stored()], [false, true]);
    // Another file in its place, with its length and time.
    std::fs::rename(&path, folder.join("old.mp4")).unwrap();
    write(&bytes, 1_000_001);
    assert!(!is_stored(), "another length");
    assert!(is_stored());
    std::fs::remove_file(&path).unwrap();
    write(&bytes, 1_000_001);
    assert!(is_stored(), "the same content in another file");
    let mut other = bytes.clone();
    *other.last_mut().unwrap() ^= 1;
    write(&other, 1_000_001);
    assert!(!is_stored(), "another content under the same length and time");
}

#[test]
fn a_file_that_was_written_a_moment_ago_is_not_believed_to_stay_as_it_is() {
    let folder = folder("young");
    let Some(link) = links(&folder, 1).pop() else { return };
    let path = folder.join("copy.mp4");
    let store = Store::open(&folder.join("place"), Access::Write).unwrap();
    let bytes = std::fs::read(&link).unwrap();
    let index = fresh(&link);
    for _ in 0..5 {
        std::fs::write(&path, &bytes).unwrap();
        let (source, opened) = (open(&path), SystemTime::now());
        store.put(&path, &*source, opened, &index);
        store.flush(MINUTE);
        let age = opened.duration_since(source_changed(&path)).unwrap_or_default();
        let believed = store.get(&path, &*source).is_some();
        assert!(age < Duration::from_millis(20) && !believed || age >= Duration::from_millis(20), "{age:?}");
    }
}

fn source_changed(path: &Path) -> SystemTime {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path).unwrap();
    SystemTime::UNIX_EPOCH + Duration::new(meta.ctime() as u64, meta.ctime_nsec() as u32)
}

#[test]
fn a_place_that_cannot_be_written_is_read_and_left_alone() {
    let place = folder("read_only");
    let indices = expected(&links(&folder("read_only_links"), 20));
    assert!(Store::open(&place, Access::Read).is_err(), "nothing there");
    put_all(&Store::open(&place, Access::Write).unwrap(), &indices);
    let before = std::fs::read(database(&place)).unwrap();
    let mut mode = std::fs::metadata(&place).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&place, mode.clone()).unwrap();
    {
        let store = Store::open(&place, Access::Read).unwrap();
        assert_eq!(stored(&store, &indices), indices.len());
        put_all(&store, &indices);
        assert_eq!(store.trouble(), None);
    }
    #[allow(clippy::permissions_set_readonly_false)] // it is a folder of this test
    mode.set_readonly(false);
    std::fs::set_permissions(&place, mode).unwrap();
    assert_eq!(std::fs::read(database(&place)).unwrap(), before);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
}

#[test]
fn one_place_is_one_store_in_a_process() {
    let place = folder("shared");
    let store = Store::open(&place, Access::Write).unwrap();
    assert!(Arc::ptr_eq(&store, &Store::open(&place.join("../shared"), Access::Write).unwrap()));
    std::fs::remove_file(database(&place)).unwrap();
    let after = Store::open(&place, Access::Write).unwrap();
    assert!(!Arc::ptr_eq(&store, &after), "the file of the first one is gone");
}

#[test]
fn processes_write_and_read_one_place_at_once() {
    let place = folder("crowd");
    let links = links(&folder("crowd_links"), 120);
    if links.is_empty() {
        return;
    }
    let children: Vec<Child> = (0..4).map(|n| start("crowd", &place, &links[0], n)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let indices = expected(&links);
    assert_eq!(stored(&Store::open(&place, Access::Read).unwrap(), &indices), indices.len());
}

#[test]
fn processes_killed_while_writing_leave_only_what_is_right() {
    let place = folder("killed");
    let links = links(&folder("killed_links"), 300);
    if links.is_empty() {
        return;
    }
    let indices = expected(&links);
    let mut sequence = Sequence(7);
    let mut counts = Vec::new();
    for round in 0..24 {
        // Two write; one of them is killed, now and then both.
        let mut writers = [0, 1].map(|n| start("write", &place, &links[0], round * 2 + n));
        std::thread::sleep(Duration::from_millis(20 + sequence.below(230) as u64));
        let survivor = sequence.below(3);
        for (n, writer) in writers.iter_mut().enumerate() {
            if n != survivor {
                writer.kill().unwrap(); // SIGKILL
            }
        }
        let store = Store::open(&place, Access::Write).unwrap();
        counts.push(stored(&store, &indices));
        assert_eq!(store.trouble(), None);
        writers.iter_mut().for_each(|w| {
            w.kill().unwrap();
            w.wait().unwrap();
        });
    }
    println!("entries after each kill: {counts:?}");
    assert!(counts.iter().any(|&n| n > 0));
    let store = Store::open(&place, Access::Write).unwrap();
    put_all(&store, &indices);
    assert_eq!((stored(&store, &indices), store.trouble()), (indices.len(), None));
}

fn damage(bytes: &mut Vec<u8>, sequence: &mut Sequence) -> &'static str {
    const PAGE: usize = 4096;
    let (len, pages) = (bytes.len(), bytes.len() / PAGE);
    match sequence.below(6) {
        0 => {
            bytes.truncate(sequence.below(len));
            "cut"
        }
        1 => {
            (0..64).for_each(|_| bytes[sequence.below(len)] ^= 1 << sequence.below(8));
            "bits"
        }
        2 => {
            for _ in 0..16 {
                let at = sequence.below(pages) * PAGE + sequence.below(64);
                bytes[at] = sequence.next() as u8;
            }
            "heads of pages"
        }
        3 => {
            for _ in 0..1 + sequence.below(8) {
                bytes[sequence.below(100)] = sequence.next() as u8;
            }
            "header"
        }
        4 => {
            let (from, to) = (sequence.below(pages) * PAGE, sequence.below(pages) * PAGE);
            bytes.copy_within(from..from + PAGE, to);
            "page over page"
        }
        _ => {
            let from = sequence.below(len);
            let end = (from + sequence.below(20_000)).min(len);
            bytes[from..end].fill_with(|| sequence.next() as u8);
            "stretch of noise"
        }
    }
}

#[test]
fn damage_to_the_database_costs_entries_and_nothing_else() {
    let place = folder("damaged");
    let links = links(&folder("damaged_links"), 200);
    if links.is_empty() {
        return;
    }
    let indices = expected(&links);
    put_all(&Store::open(&place, Access::Write).unwrap(), &indices);
    let intact = std::fs::read(database(&place)).unwrap();
    let mut sequence = Sequence(11);
    let mut tally: BTreeMap<String, u32> = BTreeMap::new();
    for round in 0..102 {
        let mut bytes = intact.clone();
        let kind = damage(&mut bytes, &mut sequence);
        std::fs::write(database(&place), &bytes).unwrap();
        for (role, access) in [("look", "reader"), ("use", "writer")] {
            let output = start(role, &place, &links[0], round).wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "round {round}, {kind}, {access}: {:?}\n{said}", output.status);
            let outcome = said.lines().find_map(|l| l.split_once("outcome: ")).map_or("none", |(_, o)| o);
            *tally.entry(format!("{kind:16} {access}: {outcome}")).or_default() += 1;
        }
        // Whatever it was, the second process left a sound database with everything in it.
        let store = Store::open(&place, Access::Write).unwrap();
        assert_eq!(stored(&store, &indices), indices.len(), "round {round}, {kind}");
        assert_eq!(store.trouble(), None, "round {round}, {kind}");
    }
    tally.iter().for_each(|(what, times)| println!("{times:4} {what}"));
}

#[test]
fn a_database_cut_short_while_in_use_is_an_empty_one() {
    let place = folder("cut");
    let indices = expected(&links(&folder("cut_links"), 200));
    let store = Store::open(&place, Access::Write).unwrap();
    put_all(&store, &indices);
    assert_eq!(stored(&store, &indices), indices.len());
    let file = std::fs::File::options().write(true).open(database(&place)).unwrap();
    file.set_len(file.metadata().unwrap().len() / 3).unwrap();
    stored(&store, &indices);
    store.flush(MINUTE);
    put_all(&store, &indices);
    assert_eq!(stored(&store, &indices), indices.len());
    assert!(indices.is_empty() || store.trouble().is_some_and(|t| t.contains("emptied")));
}

/// Starts this program again as `child`; `link` is one of the links that it works on.
fn start(role: &str, place: &Path, link: &Path, number: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
        .envs([("FRAMESPOOL_TEST_ROLE", role), ("FRAMESPOOL_TEST_NUMBER", &number.to_string())])
        .env("FRAMESPOOL_TEST_PLACE", place)
        .env("FRAMESPOOL_TEST_LINKS", link.parent().expect("a folder"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program again")
}

#[test]
#[ignore = "started by the other tests, as a process of its own"]
fn child() {
    let told = |what: &str| std::env::var_os(format!("FRAMESPOOL_TEST_{what}"));
    let (Some(role), Some(place), Some(links)) = (told("ROLE"), told("PLACE"), told("LINKS")) else { return };
    let place = PathBuf::from(place);
    let number = told("NUMBER").and_then(|n| n.to_str()?.parse().ok()).unwrap_or(0);
    let mut links: Vec<PathBuf> =
        std::fs::read_dir(links).unwrap().map(|entry| entry.unwrap().path()).collect();
    links.sort();
    let indices = expected(&links);
    match role.to_str() {
        // Puts and gets, in an order of its own.
        Some("crowd") => {
            let store = Store::open(&place, Access::Write).unwrap();
            let mut sequence = Sequence(number);
            for _ in 0..3 * links.len() {
                let link = &links[sequence.below(links.len())];
                let (index, _) = index_of(Some(&store), link, &open(link), &|| Ok(())).unwrap();
                assert_eq!(index, indices[link]);
            }
            put_all(&store, &indices);
            assert_eq!(stored(&store, &indices), indices.len());
            assert_eq!((store.trouble(), store.lost()), (None, 0));
        }
        // Writes until it is killed.
        Some("write") => {
            let store = Store::open(&place, Access::Write).unwrap();
            let mut sequence = Sequence(number);
            loop {
                let link = &links[sequence.below(links.len())];
                store.put_patiently(link, &*open(link), SystemTime::now(), &indices[link]);
                if sequence.below(10) == 0 {
                    store.flush(MINUTE);
                }
            }
        }
        Some("look") => match Store::open(&place, Access::Read) {
            Ok(store) => {
                let found = stored(&store, &indices);
                let trouble = if store.trouble().is_some() { "told" } else { "not seen" };
                let found = if found == indices.len() { "all" } else { "not all" };
                println!("\noutcome: {found} found, damage {trouble}");
            }
            Err(error) => {
                assert!(matches!(error, framespool::Error::Io { .. }), "{error:?}");
                println!("\noutcome: refused by a typed error");
            }
        },
        Some("use") => {
            let store = Store::open(&place, Access::Write).unwrap();
            let found = stored(&store, &indices);
            for link in indices.keys() {
                index_of(Some(&store), link, &open(link), &|| Ok(())).unwrap();
            }
            store.flush(MINUTE);
            // Reading may have found the damage only after something had been put.
            put_all(&store, &indices);
            assert_eq!(stored(&store, &indices), indices.len());
            let trouble = if store.trouble().is_some() { "emptied and told" } else { "not seen" };
            let found = if found == indices.len() { "all" } else { "not all" };
            println!("\noutcome: {found} found, damage {trouble}");
        }
        other => panic!("no such role: {other:?}"),
    }
}
