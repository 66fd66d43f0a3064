//! In: a file, and its listing with either policy on errors.
//! Out: nothing, where entries lie in the file and both listings tell the same story.
//! Never: minds which error it is, as long as it is the file's or the caller's.

use std::path::Path;

use framespool::source::ByteSource;
use framespool::Result;
use framespool_datasets::{OnError, Packed, PackedEntry, Stored, Tables};

use super::super::sound;

/// Entries whose bytes are looked at.
const LOOKED_AT: usize = 16;

/// Lists a file with both policies.
pub fn both_ways(bytes: &[u8], path: &Path, list: impl Fn(OnError) -> Result<Packed>) {
    let raised = sound(list(OnError::Raise));
    let skipped = sound(list(OnError::Skip));
    let tables = Tables::default();
    for packed in [&raised, &skipped].into_iter().flatten() {
        // Whatever an entry is made of takes some bytes of the file.
        assert!(
            packed.entries.len() <= bytes.len(),
            "{} entries in {} bytes",
            packed.entries.len(),
            bytes.len()
        );
        packed.entries.iter().for_each(|entry| lies_inside(entry, bytes, path));
        packed.entries.iter().take(LOOKED_AT).for_each(|entry| holds(entry, bytes, &tables));
        packed.reasons.iter().for_each(|reason| drop(sound::<()>(Err(reason.clone()))));
    }
    match (raised, skipped) {
        (Ok(raised), Ok(skipped)) => {
            assert_eq!((raised.left_out, skipped.left_out), (0, 0), "left out, and no error");
            // As text: a label may be no number, which equals nothing.
            assert_eq!(format!("{:?}", raised.entries), format!("{:?}", skipped.entries));
            columns(raised);
        }
        (Ok(_), Err(error)) => panic!("nothing is wrong, but not with on_error=\"skip\": {error}"),
        (Err(error), Ok(skipped)) => {
            assert!(skipped.left_out > 0, "an error ({error}), and nothing left out");
            columns(skipped);
        }
        (Err(_), Err(_)) => {}
    }
}

fn columns(mut packed: Packed) {
    let entries = packed.entries.len();
    if let Ok(columns) = sound(packed.take_columns()) {
        assert!(columns.iter().all(|column| column.values.len() == entries));
    }
}

fn lies_inside(entry: &PackedEntry, bytes: &[u8], path: &Path) {
    match &entry.stored {
        Stored::Member(member) => {
            assert_eq!(&*member.file, path);
            let end = member.offset.checked_add(member.len);
            assert!(end.is_some_and(|end| end <= bytes.len() as u64), "{member:?} of {}", bytes.len());
        }
        Stored::Joined(joined) => assert!(joined.len() <= bytes.len()),
        Stored::Cell { file, .. } => assert_eq!(&**file, path),
        Stored::Path(_) => {}
    }
}

fn holds(entry: &PackedEntry, bytes: &[u8], tables: &Tables) {
    match &entry.stored {
        Stored::Member(member) => {
            let source = member.open().expect("a member that lies inside");
            let mut read = vec![0; member.len as usize];
            assert_eq!(source.read_at(0, &mut read).expect("bytes of a member"), read.len());
            assert_eq!(read, bytes[member.offset as usize..][..read.len()]);
        }
        Stored::Cell { file, column, row } => {
            let open = || sound(tables.cell(file, column.clone(), *row).open());
            let (first, second) = (open(), open());
            assert_eq!(first.is_ok(), second.is_ok(), "a cell that is there only once");
            if let (Ok(first), Ok(second)) = (first, second) {
                assert_eq!(first.len(), second.len());
            }
        }
        Stored::Joined(_) | Stored::Path(_) => {}
    }
}
