//! Damaged or forged tars, TFRecords, RecordIO files with their lists, LMDB databases, Parquet and
//! Arrow tables. Entries must be inside their file and have the bytes at that position, or an error
//! results. Their content is not decoded.

mod arrow_files;
mod check;
mod checksums;
mod parquet_files;

use std::path::PathBuf;

use framespool_datasets::{
    ArchiveListing, ErrorPolicy, LabelKeys, LabelSource, LmdbLayout, LmdbOptions, SampleKeys,
    TableOptions, TfRecordOptions, arrow, lmdb, parquet, recordio, tfrecord, webdataset,
};

use super::{MIB, Target, USUAL};
use crate::scratch;
use check::check_both_policies;

pub const TAR: Target = Target {
    name: "tar",
    about: "tars of WebDataset",
    options: 1,
    run: |input| {
        let Some((&option, bytes)) = input.split_first() else {
            return;
        };
        let bytes = if option & 1 == 1 {
            checksums::tar(bytes)
        } else {
            bytes.to_vec()
        };
        let path = scratch::write("fuzzed.tar", &bytes);
        let extensions = ["mp4", "jpg", "cls.png"].map(str::to_owned);
        let label = match option >> 1 & 3 {
            0 => LabelSource::Unlabeled,
            1 => LabelSource::Text("cls".into()),
            2 => LabelSource::Json("json".into(), vec!["label".into()]),
            _ => LabelSource::Json("json".into(), vec!["meta".into(), "class".into()]),
        };
        let columns = if option & 8 == 8 {
            vec!["json".to_owned()]
        } else {
            Vec::new()
        };
        check_both_policies(&bytes, &path, |on_error| {
            webdataset(
                std::slice::from_ref(&path),
                None,
                &extensions,
                &label,
                &columns,
                on_error,
                1,
            )
        });
    },
    ..USUAL
};

pub const TFRECORD: Target = Target {
    name: "tfrecord",
    about: "TFRecord files of tf.train.Example",
    options: 1,
    run: |input| {
        let Some((&option, bytes)) = input.split_first() else {
            return;
        };
        let bytes = if option & 1 == 1 {
            checksums::tfrecord(bytes)
        } else {
            bytes.to_vec()
        };
        let path = scratch::write("fuzzed.tfrecord", &bytes);
        let label = (option & 2 == 2).then(|| "image/class/label".to_owned());
        let wanted = TfRecordOptions {
            source: "image/encoded".into(),
            label,
            check: option & 4 == 4,
        };
        check_both_policies(&bytes, &path, |on_error| {
            tfrecord(std::slice::from_ref(&path), &wanted, on_error, 1)
        });
    },
    ..USUAL
};

pub const RECORDIO: Target = Target {
    name: "recordio",
    about: "RecordIO files of MXNet, with and without their list",
    seeds: |_| vec![b"\x00\x08\x30\t0\n1\t44\n".to_vec()],
    run: |input| {
        // Length of the list, 0 for none; the list; the file.
        let Some((len, rest)) = input.split_first_chunk::<2>() else {
            return;
        };
        let len = usize::from(u16::from_be_bytes(*len));
        let (list, bytes) = rest.split_at(len.min(rest.len()));
        let path = scratch::write("fuzzed.rec", bytes);
        let list = (len > 0).then(|| scratch::write("fuzzed.idx", list));
        check_both_policies(bytes, &path, |on_error| {
            recordio(&path, list.as_deref(), on_error)
        });
    },
    ..USUAL
};

pub const LMDB: Target = Target {
    name: "lmdb",
    about: "LMDB databases",
    options: 1,
    run: |input| {
        let Some((&option, bytes)) = input.split_first() else {
            return;
        };
        let path = scratch::write("fuzzed.mdb", bytes);
        let label = match option & 3 {
            0 => None,
            1 => Some(LabelKeys {
                key: "label-{}".into(),
                names: Vec::new(),
            }),
            _ => Some(LabelKeys {
                key: "label-{}".into(),
                names: vec!["label".into()],
            }),
        };
        let layout = match option & 4 {
            0 => LmdbLayout::Plain {
                key: if label.is_some() { "image-{}" } else { "{}" }.into(),
                label,
            },
            _ => LmdbLayout::Caffe,
        };
        let database = (option & 8 == 8).then(|| "inner".to_owned());
        let how = LmdbOptions {
            database,
            layout,
            check: option & 16 == 16,
        };
        check_both_policies(bytes, &path, |on_error| {
            lmdb(std::slice::from_ref(&path), &how, on_error, 1)
        });
    },
    ..USUAL
};

pub const PARQUET: Target = Target {
    name: "parquet",
    about: "Parquet tables: their rows and cells",
    options: 1,
    seeds: |_| parquet_files::written(),
    run: |input| table(input, "fuzzed.parquet", parquet),
    longest: 32 << 10,
    // A page may state that it decompresses to a GiB; that is its limit.
    memory_bytes: 1200 * MIB,
    seconds: 60,
    replayed: 1000,
    ..USUAL
};

pub const ARROW: Target = Target {
    name: "arrow",
    about: "Arrow files and streams: their rows",
    options: 1,
    seeds: |_| arrow_files::written(),
    run: |input| table(input, "fuzzed.arrow", arrow),
    longest: 32 << 10,
    ..USUAL
};

/// A table reader.
type Reader = fn(
    &[PathBuf],
    &TableOptions,
    ErrorPolicy,
    u32,
) -> framespool::Result<(ArchiveListing, Vec<String>)>;

fn table(input: &[u8], name: &str, read: Reader) {
    let Some((&option, bytes)) = input.split_first() else {
        return;
    };
    let path: PathBuf = scratch::write(name, bytes);
    let source = ["video", "image", "path", "number"][usize::from(option & 3)];
    let keys = SampleKeys {
        source: source.into(),
        label: Some("label".into()),
        start: "start".into(),
        end: "end".into(),
        in_frames: option & 4 == 4,
    };
    let how = TableOptions {
        keys,
        classes: None,
        others: (option & 8 == 8).then(Vec::new),
        root: None,
    };
    let listed = |on_error: ErrorPolicy| {
        let (packed, names) = read(std::slice::from_ref(&path), &how, on_error, 1)?;
        let most = names.len() as i64;
        assert!(
            packed
                .samples
                .iter()
                .all(|e| e.label_name.is_none() || (0..most).contains(&e.label))
        );
        Ok(packed)
    };
    check_both_policies(bytes, &path, listed);
}
