//! Tests an index cache that several processes write, read, damage or are killed in: it returns
//! fresh indices or none. The processes are this test program, with a role in environment variables
//! (see `child`). Files are written only below the build's folder for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::common::index_cache::{
    TestRng, UNLIMITED, count_stored, database, expected, folder, open, put_all, symlinks,
};
use framespool::error::Error;
use framespool::index::cache::{AccessMode, IndexCache, index_of};

#[test]
fn processes_read_and_write_one_cache_concurrently() {
    let place = folder("crowd");
    let links_folder = folder("crowd_links");
    let links = symlinks(&links_folder, 120);
    let children: Vec<Child> = (0..4)
        .map(|n| start("crowd", &place, &links[0], n))
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{}{}",
            said(&output.stdout),
            said(&output.stderr)
        );
    }
    let indices = expected(&links);
    assert_eq!(
        count_stored(
            &IndexCache::open(&place, AccessMode::Read).unwrap(),
            &indices
        ),
        indices.len()
    );
}

/// Returns the number of rounds; `FRAMESPOOL_TEST_ROUNDS` overrides it.
fn num_rounds(usual: u64) -> u64 {
    std::env::var("FRAMESPOOL_TEST_ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(usual)
}

/// A process that writes until it is killed, and says what it does.
struct WriterProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Links whose index was queued after the last flush, and before it.
    queued: BTreeSet<usize>,
    flushed: BTreeSet<usize>,
}

impl WriterProcess {
    fn start(place: &Path, link: &Path, number: u64) -> Self {
        let mut child = start("write", place, link, number);
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self {
            child,
            lines,
            queued: BTreeSet::new(),
            flushed: BTreeSet::new(),
        }
    }

    /// Waits for the next step; returns whether there was one before the end of the process.
    fn step(&mut self) -> bool {
        for line in self.lines.by_ref() {
            match line.expect("text").split_once(": ") {
                Some(("queues", number)) => self.queued.extend(number.parse::<usize>()),
                Some(("flushed", _)) => self.flushed.append(&mut self.queued),
                Some(("flushes", _)) => {}
                _ => continue, // of the test harness
            }
            return true;
        }
        false
    }

    /// Kills the process by SIGKILL. Returns all links whose index was written before.
    fn kill(&mut self) -> &BTreeSet<usize> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        while self.step() {}
        &self.flushed
    }
}

#[test]
fn killed_writers_leave_only_correct_entries() {
    let place = folder("killed");
    let links_folder = folder("killed_links");
    let links = symlinks(&links_folder, 300);
    let indices = expected(&links);
    let mut rng = TestRng(7);
    let mut written: BTreeSet<usize> = BTreeSet::new();
    let mut counts = Vec::new();
    for round in 0..num_rounds(24) {
        // Two processes write; one of them is killed, sometimes both.
        let mut writers = [0, 1].map(|n| WriterProcess::start(&place, &links[0], round * 2 + n));
        for writer in &mut writers {
            for _ in 0..rng.next_below(60) {
                assert!(writer.step(), "it ended: {:?}", writer.child.wait());
            }
        }
        // Any part of a transaction.
        std::thread::sleep(Duration::from_micros(rng.next_below(20_000) as u64));
        let survivor = rng.next_below(3);
        for (n, writer) in writers.iter_mut().enumerate() {
            if n != survivor {
                written.extend(writer.kill());
            }
        }
        let store = IndexCache::open(&place, AccessMode::Write).unwrap();
        counts.push(count_stored(&store, &indices));
        writers
            .iter_mut()
            .for_each(|writer| written.extend(writer.kill()));
        for link in written.iter().map(|&number| &links[number]) {
            assert!(
                store.get(link, &*open(link), None).is_some(),
                "round {round}: {} is lost",
                link.display()
            );
        }
        assert_eq!(store.last_error(), None);
    }
    println!("entries after each kill: {counts:?}");
    assert!(written.len() > 50, "{} entries were written", written.len());
    let store = IndexCache::open(&place, AccessMode::Write).unwrap();
    put_all(&store, &indices);
    assert_eq!(
        (count_stored(&store, &indices), store.last_error()),
        (indices.len(), None)
    );
}

fn damage(bytes: &mut Vec<u8>, rng: &mut TestRng) -> &'static str {
    const PAGE: usize = 4096;
    let (len, pages) = (bytes.len(), bytes.len() / PAGE);
    match rng.next_below(7) {
        0 => {
            bytes.truncate(rng.next_below(len));
            "cut"
        }
        1 => {
            (0..64).for_each(|_| bytes[rng.next_below(len)] ^= 1 << rng.next_below(8));
            "bits"
        }
        2 => {
            for _ in 0..16 {
                let at = rng.next_below(pages) * PAGE + rng.next_below(64);
                bytes[at] = rng.next() as u8;
            }
            "page headers"
        }
        3 => {
            for _ in 0..1 + rng.next_below(8) {
                bytes[rng.next_below(100)] = rng.next() as u8;
            }
            "header"
        }
        4 => {
            let (from, to) = (rng.next_below(pages) * PAGE, rng.next_below(pages) * PAGE);
            bytes.copy_within(from..from + PAGE, to);
            "page overwritten by another page"
        }
        5 => {
            // Marks the database as one with a write-ahead log, which SQLite reads differently.
            bytes[18..20].fill(2);
            "another journal"
        }
        _ => {
            let from = rng.next_below(len);
            let end = (from + rng.next_below(20_000)).min(len);
            bytes[from..end].fill_with(|| rng.next() as u8);
            "range of noise"
        }
    }
}

#[test]
fn database_damage_loses_only_entries() {
    let place = folder("damaged");
    let links_folder = folder("damaged_links");
    let links = symlinks(&links_folder, 200);
    let indices = expected(&links);
    put_all(
        &IndexCache::open(&place, AccessMode::Write).unwrap(),
        &indices,
    );
    let intact = std::fs::read(database(&place)).unwrap();
    let mut rng = TestRng(11);
    let mut tally: BTreeMap<String, u32> = BTreeMap::new();
    for round in 0..num_rounds(51) {
        let mut bytes = intact.clone();
        let kind = damage(&mut bytes, &mut rng);
        std::fs::write(database(&place), &bytes).unwrap();
        if round % 5 == 0 {
            // A rollback journal like that of a killed writer, but with noise instead of pages.
            let journal = place.join("framespool-index.sqlite3-journal");
            let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
            let noise = (0..20_000).map(|_| rng.next() as u8);
            std::fs::write(journal, magic.into_iter().chain(noise).collect::<Vec<u8>>()).unwrap();
        }
        // The database depends on the paths and on pauses during writing: a test that fails keeps
        // its files.
        let kept = folder("damaged_kept");
        for file in std::fs::read_dir(&place).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), kept.join(file.file_name())).unwrap();
        }
        let what = format!("round {round}, {kind}, copied to {}", kept.display());
        println!("{what}");
        for (role, access) in [("look", "reader"), ("use", "writer")] {
            let output = start(role, &place, &links[0], round)
                .wait_with_output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let logged_error = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{what}, {access}: {:?}\n{said}{logged_error}",
                output.status
            );
            let outcome = said
                .lines()
                .find_map(|l| l.split_once("outcome: "))
                .map_or("none", |(_, o)| o);
            *tally
                .entry(format!("{kind:16} {access}: {outcome}"))
                .or_default() += 1;
        }
        // For every kind of damage, the second process leaves a valid database with all entries.
        let store = IndexCache::open(&place, AccessMode::Write).unwrap();
        assert_eq!(count_stored(&store, &indices), indices.len(), "{what}");
        assert_eq!(store.last_error(), None, "{what}");
    }
    tally
        .iter()
        .for_each(|(what, times)| println!("{times:4} {what}"));
}

#[test]
fn truncated_open_database_counts_as_empty() {
    let place = folder("cut");
    let links_folder = folder("cut_links");
    let indices = expected(&symlinks(&links_folder, 200));
    let store = IndexCache::open(&place, AccessMode::Write).unwrap();
    put_all(&store, &indices);
    assert_eq!(count_stored(&store, &indices), indices.len());
    let file = std::fs::File::options()
        .write(true)
        .open(database(&place))
        .unwrap();
    file.set_len(file.metadata().unwrap().len() / 3).unwrap();
    count_stored(&store, &indices);
    assert!(store.flush(UNLIMITED));
    put_all(&store, &indices);
    assert_eq!(count_stored(&store, &indices), indices.len());
    assert!(store.last_error().is_some_and(|t| t.contains("emptied")));
}

/// Starts this program again as `child`; `link` is one of the links in the folder that the child
/// uses.
fn start(role: &str, place: &Path, link: &Path, number: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "index_cache_processes::child",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .envs([
            ("FRAMESPOOL_TEST_ROLE", role),
            ("FRAMESPOOL_TEST_NUMBER", &number.to_string()),
        ])
        .env("FRAMESPOOL_TEST_PLACE", place)
        .env("FRAMESPOOL_TEST_LINKS", link.parent().expect("a folder"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program again")
}

#[test]
#[ignore = "started by the other tests in a separate process"]
fn child() {
    let variable = |what: &str| std::env::var_os(format!("FRAMESPOOL_TEST_{what}"));
    let (Some(role), Some(place), Some(links)) =
        (variable("ROLE"), variable("PLACE"), variable("LINKS"))
    else {
        return;
    };
    let place = PathBuf::from(place);
    let number = variable("NUMBER")
        .and_then(|n| n.to_str()?.parse().ok())
        .unwrap_or(0);
    let mut links: Vec<PathBuf> = std::fs::read_dir(links)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    links.sort();
    let indices = expected(&links);
    match role.to_str() {
        // Writes and reads in an order of its own.
        Some("crowd") => {
            let store = IndexCache::open(&place, AccessMode::Write).unwrap();
            let mut rng = TestRng(number);
            for _ in 0..3 * links.len() {
                let link = &links[rng.next_below(links.len())];
                let (index, _) = index_of(Some(&store), link, &open(link), None).unwrap();
                assert_eq!(index, indices[link]);
            }
            put_all(&store, &indices);
            // While others write: a lookup that waits too long for them counts the index as
            // missing.
            count_stored(&store, &indices);
            assert_eq!(store.last_error(), None);
        }
        // Writes until it is killed.
        Some("write") => {
            let store = IndexCache::open(&place, AccessMode::Write).unwrap();
            let mut rng = TestRng(number);
            println!();
            loop {
                let number = rng.next_below(links.len());
                let link = &links[number];
                store.put_blocking(link, &*open(link), None, SystemTime::now(), &indices[link]);
                println!("queues: {number}");
                if rng.next_below(10) == 0 {
                    println!("flushes: all");
                    assert!(store.flush(UNLIMITED));
                    println!("flushed: all");
                }
            }
        }
        Some("look") => match IndexCache::open(&place, AccessMode::Read) {
            Ok(store) => {
                let found = count_stored(&store, &indices);
                let damage = if store.last_error().is_some() {
                    "reported"
                } else {
                    "not detected"
                };
                let found = if found == indices.len() {
                    "all"
                } else {
                    "not all"
                };
                println!("\noutcome: {found} found, damage {damage}");
            }
            Err(error) => {
                assert!(matches!(error, Error::Io { .. }), "{error:?}");
                println!("\noutcome: refused by a typed error");
            }
        },
        Some("use") => {
            let store = IndexCache::open(&place, AccessMode::Write).unwrap();
            let found = count_stored(&store, &indices);
            for link in indices.keys() {
                index_of(Some(&store), link, &open(link), None).unwrap();
            }
            assert!(store.flush(UNLIMITED));
            // Reads may detect the damage only after entries were written, in which case those
            // entries are lost.
            put_all(&store, &indices);
            if count_stored(&store, &indices) < indices.len() {
                assert!(store.flush(UNLIMITED)); // the writer repairs the database, and reports it
                assert!(
                    store.last_error().is_some(),
                    "entries are missing and no damage was found"
                );
                put_all(&store, &indices);
            }
            assert_eq!(count_stored(&store, &indices), indices.len());
            let damage = if store.last_error().is_some() {
                "emptied and reported"
            } else {
                "not detected"
            };
            let found = if found == indices.len() {
                "all"
            } else {
                "not all"
            };
            println!("\noutcome: {found} found, damage {damage}");
        }
        other => panic!("no such role: {other:?}"),
    }
}
