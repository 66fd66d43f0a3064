//! Parses a 512-byte tar header block after verifying its checksum.

/// Headers and contents in a tar are aligned to this many bytes.
pub(super) const BLOCK_BYTES: u64 = 512;

pub(crate) struct TarHeader {
    /// The name, with the prefix field of the POSIX format prepended.
    pub name: String,
    /// Number of content bytes, for the types that have contents.
    pub len: u64,
    /// The type flag.
    pub kind: u8,
    /// The sparse map of a GNU sparse member continues in the next block.
    pub sparse_map_continues: bool,
}

impl TarHeader {
    /// Parses a block; the error text describes what is wrong with it.
    pub(super) fn parse(block: &[u8; BLOCK_BYTES as usize]) -> Result<Self, String> {
        let claimed =
            parse_number(&block[148..156]).ok_or("the header's checksum is not a number")?;
        let (unsigned, signed) = checksums(block);
        // Some old programs summed the bytes as signed numbers.
        if claimed != unsigned && i64::try_from(claimed) != Ok(signed) {
            return Err(format!(
                "the header's checksum is {claimed}, but its bytes add up to {unsigned}"
            ));
        }
        let len = parse_number(&block[124..136]).ok_or("the size in the header is not a number")?;
        if len > i64::MAX as u64 {
            return Err(format!("the size in the header is {len} bytes"));
        }
        let mut name = super::nul_terminated(&block[..100]);
        // The GNU format uses the bytes of the POSIX prefix field for other fields.
        let prefix = super::nul_terminated(&block[345..500]);
        if block[257..263] == *b"ustar\0" && !prefix.is_empty() {
            name = format!("{prefix}/{name}");
        }
        Ok(Self {
            name,
            len,
            kind: block[156],
            sparse_map_continues: block[482] != 0,
        })
    }
}

/// A numeric field: octal digits up to a space or NUL, or big-endian binary if the top bit of the
/// first byte is set.
fn parse_number(field: &[u8]) -> Option<u64> {
    match field {
        [first, rest @ ..] if first & 0x80 != 0 => {
            // A first byte of 0xff marks a negative number; with its top bit cleared it overflows,
            // so it is rejected.
            let (first, rest) = (
                u64::from(first & 0x7f),
                rest.iter().map(|&byte| u64::from(byte)),
            );
            std::iter::once(first)
                .chain(rest)
                .try_fold(0u64, |sum, byte| sum.checked_mul(256)?.checked_add(byte))
        }
        _ => {
            let text = field.trim_ascii_start();
            let end = text
                .iter()
                .position(|byte| matches!(byte, 0 | b' '))
                .unwrap_or(text.len());
            let digit = |sum: u64, &byte: &u8| match byte {
                b'0'..=b'7' => sum.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
                _ => None,
            };
            text[..end].iter().try_fold(0, digit)
        }
    }
}

/// The sums of all bytes, as unsigned and as signed bytes, with the checksum field taken as spaces.
fn checksums(block: &[u8]) -> (u64, i64) {
    let (before, behind) = (&block[..148], &block[156..]);
    before
        .iter()
        .chain(&[b' '; 8])
        .chain(behind)
        .fold((0, 0), |(unsigned, signed), &byte| {
            (unsigned + u64::from(byte), signed + i64::from(byte as i8))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        for (field, value) in [
            (&b"00000000017\0"[..], Some(15)),
            (b"     17 \0\0\0\0", Some(15)),
            (b"77777777777\0", Some(0o777_7777_7777)),
            (b"777777777777", Some(0o7777_7777_7777)),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0", Some(0)),
            (b"\x80\0\0\0\0\0\0\0\0\x01\0\x02", Some(65538)),
            (
                b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
                Some(u64::MAX),
            ),
            (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", None),
            (b"000000000-1\0", None),
            (b"00000000018\0", None),
        ] {
            assert_eq!(parse_number(field), value, "{field:?}");
        }
    }
}
