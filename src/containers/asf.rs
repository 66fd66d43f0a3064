//! Reads the encryption that an ASF file declares.

use crate::error::Result;
use crate::source::ByteSource;

/// Encryption of a file, from the objects in its header (ASF specification 3.14, 3.15, 10.8).
pub(super) fn stream_encryption(source: &dyn ByteSource, _video: usize) -> Result<Option<String>> {
    const HEADER_BYTES: u64 = 30;
    const MAX_OBJECTS: u32 = 1 << 10;
    const SCHEMES: [(&str, [u8; 16]); 3] = [
        (
            "ASF Content Encryption",
            *b"\xfb\xb3\x11\x22\x23\xbd\xd2\x11\xb4\xb7\x00\xa0\xc9\x55\xfc\x6e",
        ),
        (
            "ASF Extended Content Encryption",
            *b"\x14\xe6\x8a\x29\x22\x26\x17\x4c\xb9\x35\xda\xe0\x7e\xe9\x28\x9c",
        ),
        (
            "ASF Advanced Content Encryption",
            *b"\x33\x85\x05\x43\x81\x69\xe6\x49\x9b\x74\xad\x12\xcb\x86\xd5\x8c",
        ),
    ];
    let object = |at: u64| -> Result<Option<([u8; 16], u64)>> {
        let mut head = [0; 24];
        let got = source.read_at(at, &mut head)?;
        let (id, size) = head.split_at(16);
        let size = size
            .iter()
            .rev()
            .fold(0u64, |size, &byte| size << 8 | u64::from(byte));
        let next = at.checked_add(size).filter(|_| got == 24 && size >= 24);
        Ok(next.map(|next| (id.try_into().expect("16 bytes"), next)))
    };
    let Some((_, end)) = object(0)? else {
        return Ok(None);
    };
    let mut at = HEADER_BYTES;
    for _ in 0..MAX_OBJECTS {
        let Some((id, next)) = object(at)?.filter(|_| at < end) else {
            break;
        };
        if let Some((name, _)) = SCHEMES.iter().find(|scheme| scheme.1 == id) {
            return Ok(Some((*name).to_owned()));
        }
        at = next;
    }
    Ok(None)
}
