//! Tests the index cache on files that are changed, moved, exported and imported: it returns a
//! fresh index or none. Other processes and damage to the database are tested in
//! tests/engine/index_cache_processes.rs. Files are written only below the build's folder for
//! tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::index_cache::{
    TestRng, UNLIMITED, build_index, changed_at, count_stored, database, expected, folder, open,
    put_all, symlinks, wait_until_trusted,
};
use crate::common::videos;
use framespool::error::Error;
use framespool::index::cache::{AccessMode, FORMAT, IndexCache, index_of};
use framespool::media::StreamKind;

#[test]
fn every_index_is_read_back_unchanged() {
    let place = folder("corpus");
    let store = IndexCache::open(&place, AccessMode::Write).unwrap();
    let mut indices = BTreeMap::new();
    let mut packets = 0;
    for entry in videos() {
        let path = entry.root.join(&entry.path);
        let since = SystemTime::now();
        let Ok(source) = entry.source() else { continue };
        let Ok((index, _)) = index_of(None, &path, &source, None) else {
            continue;
        };
        // `index_of` with a store does not wait for long if the writer's queue is full.
        store.put_blocking(&path, &*source, None, since, &index);
        packets += index.packets.len();
        indices.insert(path, index);
    }
    assert!(store.flush(UNLIMITED));
    assert_eq!((store.last_error(), store.dropped_writes()), (None, 0));
    drop(store);
    assert!(indices.len() > 120, "{} indices", indices.len());
    let bytes = std::fs::metadata(database(&place)).unwrap().len();
    let store = IndexCache::open(&place, AccessMode::Read).unwrap();
    assert_eq!(count_stored(&store, &indices), indices.len());
    println!(
        "{} indices, {packets} packets, {bytes} bytes of database",
        indices.len()
    );
}

#[test]
fn rewritten_file_is_indexed_again() {
    let folder = folder("stale");
    let link = symlinks(&folder, 1).remove(0);
    let bytes = std::fs::read(&link).unwrap();
    let path = folder.join("copy.mp4");
    let write = |bytes: &[u8], mtime_secs: u64| {
        std::fs::write(&path, bytes).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(mtime_secs))
            .unwrap();
        wait_until_trusted(&path);
    };
    let store = IndexCache::open(&folder.join("place"), AccessMode::Write).unwrap();
    let is_stored = || {
        let (index, stored) = index_of(Some(&store), &path, &open(&path), None).unwrap();
        assert_eq!(index, build_index(&path));
        assert!(store.flush(UNLIMITED));
        stored
    };
    write(&bytes, 1_000_000);
    assert_eq!([is_stored(), is_stored()], [false, true]);
    write(&bytes, 1_000_001); // same length, different time
    assert_eq!([is_stored(), is_stored()], [false, true]);
    write(&[&bytes[..], &[0; 8]].concat(), 1_000_001); // same time, different length
    assert_eq!([is_stored(), is_stored()], [false, true]);
    // Another file at the same path, with the same length and time.
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
    assert!(
        !is_stored(),
        "another content under the same length and time"
    );
}

#[test]
fn index_of_freshly_written_file_is_not_trusted() {
    let folder = folder("young");
    let link = symlinks(&folder, 1).remove(0);
    let path = folder.join("copy.mp4");
    let store = IndexCache::open(&folder.join("place"), AccessMode::Write).unwrap();
    let bytes = std::fs::read(&link).unwrap();
    let index = build_index(&link);
    std::fs::write(&path, &bytes).unwrap();
    // Of file systems with whole seconds, two seconds.
    for (age_ms, trusted) in [(0, false), (19, false), (2000, true)] {
        let (source, opened) = (
            open(&path),
            changed_at(&path) + Duration::from_millis(age_ms),
        );
        store.put(&path, &*source, None, opened, &index);
        assert!(store.flush(UNLIMITED));
        assert_eq!(
            store.get(&path, &*source, None).is_some(),
            trusted,
            "{age_ms} ms"
        );
    }
}

#[test]
fn read_only_cache_is_read_and_not_changed() {
    let place = folder("read_only");
    let links_folder = folder("read_only_links");
    let indices = expected(&symlinks(&links_folder, 20));
    assert!(
        IndexCache::open(&place, AccessMode::Read).is_err(),
        "nothing there"
    );
    put_all(
        &IndexCache::open(&place, AccessMode::Write).unwrap(),
        &indices,
    );
    let before = std::fs::read(database(&place)).unwrap();
    let mut mode = std::fs::metadata(&place).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&place, mode.clone()).unwrap();
    {
        let store = IndexCache::open(&place, AccessMode::Read).unwrap();
        assert_eq!(count_stored(&store, &indices), indices.len());
        put_all(&store, &indices);
        assert_eq!(store.last_error(), None);
    }
    #[allow(clippy::permissions_set_readonly_false)] // the folder belongs to this test
    mode.set_readonly(false);
    std::fs::set_permissions(&place, mode).unwrap();
    assert_eq!(std::fs::read(database(&place)).unwrap(), before);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
}

#[test]
fn one_path_is_one_cache_per_process() {
    let place = folder("shared");
    let store = IndexCache::open(&place, AccessMode::Write).unwrap();
    assert!(Arc::ptr_eq(
        &store,
        &IndexCache::open(
            &place.join("..").join(place.file_name().unwrap()),
            AccessMode::Write
        )
        .unwrap()
    ));
    std::fs::remove_file(database(&place)).unwrap();
    let after = IndexCache::open(&place, AccessMode::Write).unwrap();
    assert!(
        !Arc::ptr_eq(&store, &after),
        "the file of the first one is gone"
    );
}

#[test]
fn fill_builds_missing_and_check_finds_wrong_indices() {
    let folder = folder("fill");
    let links = symlinks(&folder, 30);
    let bad = folder.join("video_bad.mp4");
    std::fs::write(&bad, "no video").unwrap();
    let paths = [&links[..], std::slice::from_ref(&bad)].concat();
    let store = IndexCache::open(&folder.join("place"), AccessMode::Write).unwrap();
    let fill_on = |threads, check| {
        let filled = store
            .prebuild(&paths, (StreamKind::Video, None), threads, check, &|_| {
                Ok(())
            })
            .unwrap();
        assert!(store.flush(UNLIMITED));
        assert_eq!(
            filled
                .failed
                .iter()
                .map(|(path, _)| path)
                .collect::<Vec<_>>(),
            [&bad]
        );
        (filled.found, filled.built, filled.mismatched)
    };
    let fill = |check| fill_on(3, check);
    assert_eq!(fill(false), (0, 30, vec![]));
    assert_eq!(fill(false), (30, 0, vec![]));
    assert_eq!(fill(true), (30, 0, vec![]));
    // A valid index with a valid checksum, but of another video.
    store.put_blocking(
        &links[29],
        &*open(&links[29]),
        None,
        SystemTime::now(),
        &build_index(&links[28]),
    );
    assert!(store.flush(UNLIMITED));
    assert_eq!(fill(false), (30, 0, vec![]));
    // By one thread and as the last one: a lookup that waits too long for a write counts the index
    // as missing.
    assert_eq!(fill_on(1, true), (29, 0, vec![links[29].clone()]));
    assert_eq!(fill(true), (30, 0, vec![]));
    let stopped = store.prebuild(&paths, (StreamKind::Video, None), 3, true, &|now| {
        if now.done > 3 {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    });
    assert!(matches!(stopped, Err(Error::Interrupted)));
    std::fs::remove_file(&links[5]).unwrap();
    assert_eq!(
        (
            store.prune(Some(&folder)).unwrap(),
            store.flush(UNLIMITED),
            store.prune(Some(&folder)).unwrap()
        ),
        (1, true, 0)
    );
}

#[test]
fn damaged_export_imports_no_wrong_index() {
    let folder = folder("travel");
    let links = symlinks(&folder, 12);
    let indices = expected(&links);
    let store = IndexCache::open(&folder.join("here"), AccessMode::Write).unwrap();
    put_all(&store, &indices);
    let mut lines = Vec::new();
    let exported = store.export(&folder, &links, None, &mut lines).unwrap();
    assert_eq!(
        (exported.entries, exported.skipped.len()),
        (indices.len() as u64, 0)
    );
    let mut rng = TestRng(5);
    let mut taken = 0;
    for round in 0..60 {
        let mut damaged = lines.clone();
        (0..1 + rng.next_below(4))
            .for_each(|_| damaged[rng.next_below(lines.len())] = rng.next() as u8);
        let there =
            IndexCache::open(&folder.join(format!("there_{round}")), AccessMode::Write).unwrap();
        let imported = there.import(&folder, &mut &damaged[..], "lines").unwrap();
        assert!(there.flush(UNLIMITED));
        taken += count_stored(&there, &indices) as u64;
        assert_eq!(count_stored(&there, &indices) as u64, imported.entries);
    }
    println!(
        "{taken} of {} entries imported from damaged exports",
        60 * indices.len()
    );
}

/// The `FORMAT` of the indices whose digests follow. All files are read from their sample tables,
/// so FFmpeg's version does not matter. If a digest changes, the indices that users have stored are
/// out of date: raise `FORMAT` in src/index/cache/codec.rs, so that they are built again, and
/// record the new digests here. The generated files are copies of real clips, with the same bytes
/// on every machine.
const FORMAT_OF_DIGESTS: u8 = 14;
const DIGESTS: [(&str, &str); 5] = [
    ("video/action/bikes_640x272.mp4", "971ba6732684181b"),
    ("video/action/phone_176x144.mp4", "d970532b120c7988"),
    ("video/odd/rotate_90_phone.mov", "65223bf1cda00e62"),
    ("video/odd/bikes_cut.mp4", "32b2219753b04764"),
    ("video/odd/bikes_fragmented.mp4", "560c88e2c767d538"),
];
/// The same for the second corpus.
const CORPUS_DIGESTS: [(&str, &str); 16] = [
    (
        "video/action/people_table_768x432_90s.mp4",
        "3c20a09a009e18fe",
    ),
    ("video/codecs/h264_bbb_b_pyramid.mp4", "655a55e0df120110"),
    (
        "video/codecs/h264_bbb_non_reference_b.mp4",
        "411b82ee993990db",
    ),
    ("video/codecs/hevc_street_1376x1840.mp4", "881b2d4b387a2be2"),
    ("video/derived/av1_svt_1080p.mp4", "4d39397327c21c1c"),
    ("video/derived/fragmented_1080p.mp4", "1c2cab59a37ab774"),
    (
        "video/derived/h264_bframes16_pyramid_strict_640x360.mp4",
        "6439ee42c54da8f0",
    ),
    (
        "video/derived/h264_cut_open_gop_720p.mp4",
        "8482e4c4ff459ad3",
    ),
    (
        "video/derived/h264_intra_refresh_640x360.mp4",
        "0e9adf551865d410",
    ),
    (
        "video/derived/hevc_cut_at_cra_1080p.mp4",
        "617e60847c452616",
    ),
    (
        "video/derived/hevc_main_open_gop_1080p.mp4",
        "d98c4982ab343998",
    ),
    (
        "video/derived/timescale_90000_vfr_drop_640x360.mp4",
        "6ea3002bb99b4f30",
    ),
    ("video/odd/editlist_iibbibb.mp4", "2e711428e749e34a"),
    (
        "video/odd/editlist_trimmed_1080p60_soccer.mp4",
        "dc2c3e624a54c8e2",
    ),
    ("video/odd/long_1080p_363s.mp4", "9027d507a70bc6e2"),
    ("video/odd/rotate_and_reflect.mp4", "a1486f553006be98"),
];

#[test]
fn format_is_raised_when_indices_change() {
    same_indices(&crate::common::media(), &DIGESTS);
    if let Some(corpus) = crate::common::corpus() {
        same_indices(&corpus, &CORPUS_DIGESTS);
    }
}

fn same_indices(root: &Path, digests: &[(&str, &str)]) {
    let folder = folder("format");
    let store = IndexCache::open(&folder, AccessMode::Write).unwrap();
    let mut found = Vec::new();
    for (path, _) in digests {
        let path = root.join(path);
        let index = build_index(&path);
        store.put_blocking(&path, &*open(&path), None, SystemTime::now(), &index);
        assert!(store.flush(UNLIMITED));
        let mut line = Vec::new();
        store.export(root, &[path], None, &mut line).unwrap();
        let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            line["ffmpeg"], "",
            "{}: not read by its tables",
            line["path"]
        );
        found.push(crate::common::digest(
            line["index"].as_str().unwrap().as_bytes(),
        ));
    }
    let same = found
        .iter()
        .zip(digests)
        .all(|(now, (_, then))| now == then);
    let now: Vec<_> = digests
        .iter()
        .zip(&found)
        .map(|((path, _), now)| format!("    (\"{path}\", \"{now}\"),"))
        .collect();
    assert!(
        same && FORMAT == FORMAT_OF_DIGESTS,
        "indices have changed: raise FORMAT in src/index/cache/codec.rs and record in this file: \n{}",
        now.join("\n")
    );
}

#[test]
#[ignore = "measures: FRAMESPOOL_FILES='a.mp4 b.mkv' cargo test --test engine figures -- --ignored --nocapture"]
fn figures() {
    use std::time::Instant;
    const NAMES: usize = 200;
    let files = std::env::var("FRAMESPOOL_FILES").unwrap_or_default();
    for (n, file) in files.split_whitespace().enumerate() {
        let folder = folder(&format!("figures_{n}"));
        let place = folder.join("place");
        let file = Path::new(file).canonicalize().unwrap();
        let links: Vec<PathBuf> = (0..NAMES)
            .map(|n| folder.join(format!("video_{n:06}.mp4")))
            .collect();
        links
            .iter()
            .for_each(|link| std::os::unix::fs::symlink(&file, link).unwrap());
        let begun = Instant::now();
        let index = build_index(&file);
        let build_us = begun.elapsed().as_secs_f64() * 1e6;
        let store = IndexCache::open(&place, AccessMode::Write).unwrap();
        let source = open(&file);
        let begun = Instant::now();
        for link in &links {
            store.put_blocking(link, &*source, None, SystemTime::now(), &index);
        }
        let put_us = begun.elapsed().as_secs_f64() * 1e6 / NAMES as f64;
        store.flush(UNLIMITED);
        let written_us = begun.elapsed().as_secs_f64() * 1e6 / NAMES as f64;
        let mut rng = TestRng(3);
        let mut get_us: Vec<f64> = (0..20 * NAMES)
            .map(|_| {
                let link = &links[rng.next_below(NAMES)];
                let begun = Instant::now();
                assert!(store.get(link, &*source, None).is_some());
                begun.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        get_us.sort_by(f64::total_cmp);
        let bytes = std::fs::metadata(database(&place)).unwrap().len() as f64 / NAMES as f64;
        let packets = index.packets.len();
        println!(
            "{}: {packets} packets; built in {build_us:.0} us; put: {put_us:.1} us for the caller, written after {written_us:.1}; \
             get: median {:.1} us, 99 % within {:.1}; {bytes:.0} bytes in the database, {:.2} per packet",
            file.display(),
            get_us[get_us.len() / 2],
            get_us[get_us.len() * 99 / 100],
            bytes / packets as f64,
        );
    }
}
