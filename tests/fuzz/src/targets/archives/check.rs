//! Checks that a file's entries are inside the file and that its listings with both error policies
//! agree. Any error is accepted if it concerns the file or the caller.

use std::path::Path;

use framespool::Result;
use framespool::source::ByteSource;
use framespool_datasets::{ArchiveListing, ArchiveSample, CellReader, ErrorPolicy, SampleLocation};

use super::super::check_error;

/// Maximum number of entries whose bytes are read.
const MAX_ENTRIES: usize = 16;

/// Lists a file with both error policies.
pub fn check_both_policies(
    bytes: &[u8],
    path: &Path,
    list: impl Fn(ErrorPolicy) -> Result<ArchiveListing>,
) {
    let raised = check_error(list(ErrorPolicy::Raise));
    let skipped = check_error(list(ErrorPolicy::Skip));
    let tables = CellReader::default();
    for packed in [&raised, &skipped].into_iter().flatten() {
        // Every entry needs some bytes of the file.
        assert!(
            packed.samples.len() <= bytes.len(),
            "{} entries in {} bytes",
            packed.samples.len(),
            bytes.len()
        );
        packed
            .samples
            .iter()
            .for_each(|sample| check_bounds(sample, bytes, path));
        packed
            .samples
            .iter()
            .take(MAX_ENTRIES)
            .for_each(|sample| holds(sample, bytes, &tables));
        packed
            .errors
            .iter()
            .for_each(|reason| drop(check_error::<()>(Err(reason.clone()))));
    }
    match (raised, skipped) {
        (Ok(raised), Ok(skipped)) => {
            assert_eq!(
                (raised.skipped, skipped.skipped),
                (0, 0),
                "entries were skipped without an error"
            );
            // Compared as text: a label may be NaN, which equals nothing.
            assert_eq!(
                format!("{:?}", raised.samples),
                format!("{:?}", skipped.samples)
            );
            columns(raised);
        }
        (Ok(_), Err(error)) => {
            panic!("valid with on_error=\"error\", but an error with on_error=\"skip\": {error}")
        }
        (Err(error), Ok(skipped)) => {
            assert!(
                skipped.skipped > 0,
                "an error ({error}), but nothing was skipped"
            );
            columns(skipped);
        }
        (Err(_), Err(_)) => {}
    }
}

fn columns(mut packed: ArchiveListing) {
    let entries = packed.samples.len();
    if let Ok(columns) = check_error(packed.take_columns()) {
        assert!(columns.iter().all(|column| column.values.len() == entries));
    }
}

fn check_bounds(sample: &ArchiveSample, bytes: &[u8], path: &Path) {
    match &sample.location {
        SampleLocation::Member(member) => {
            assert_eq!(&*member.file, path);
            let end = member.offset.checked_add(member.len);
            assert!(
                end.is_some_and(|end| end <= bytes.len() as u64),
                "{member:?} of {}",
                bytes.len()
            );
        }
        SampleLocation::Memory(joined) => assert!(joined.len() <= bytes.len()),
        SampleLocation::TableCell { file, .. } => assert_eq!(&**file, path),
        SampleLocation::Path(_) => {}
    }
}

fn holds(sample: &ArchiveSample, bytes: &[u8], tables: &CellReader) {
    match &sample.location {
        SampleLocation::Member(member) => {
            let source = member.open().expect("a member that lies inside");
            let mut read = vec![0; member.len as usize];
            assert_eq!(
                source.read_at(0, &mut read).expect("bytes of a member"),
                read.len()
            );
            assert_eq!(read, bytes[member.offset as usize..][..read.len()]);
        }
        SampleLocation::TableCell { file, column, row } => {
            let open = || check_error(tables.cell(file, column.clone(), *row).open());
            let (first, second) = (open(), open());
            assert_eq!(
                first.is_ok(),
                second.is_ok(),
                "a cell that is there only once"
            );
            if let (Ok(first), Ok(second)) = (first, second) {
                assert_eq!(first.len(), second.len());
            }
        }
        SampleLocation::Memory(_) | SampleLocation::Path(_) => {}
    }
}
