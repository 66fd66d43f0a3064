//! Corrects the checksums of a changed file, so that fuzzing reaches the code after their
//! verification.

/// Corrects the checksums of all headers with "ustar".
pub fn tar(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for block in out
        .chunks_exact_mut(512)
        .filter(|block| &block[257..262] == b"ustar")
    {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    out
}

/// Corrects the checksums of lengths and data, one record after another.
pub fn tfrecord(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let masked = |bytes: &[u8]| {
        crc32c::crc32c(bytes)
            .rotate_right(15)
            .wrapping_add(0xa282_ead8)
            .to_le_bytes()
    };
    let mut at = 0usize;
    while let Some(length) = out.get(at..at + 8) {
        let sum = masked(length);
        let len = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let Some(place) = out.get_mut(at + 8..at + 12) else {
            break;
        };
        place.copy_from_slice(&sum);
        let end = usize::try_from(len)
            .ok()
            .and_then(|len| (at + 12).checked_add(len));
        let Some(end) = end.filter(|&end| end.checked_add(4).is_some_and(|all| all <= out.len()))
        else {
            break;
        };
        let sum = masked(&out[at + 12..end]);
        out[end..end + 4].copy_from_slice(&sum);
        at = end + 4;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_equal_those_of_tensorflow() {
        let broken = [&3u64.to_le_bytes()[..], &[0; 4], b"abc", &[0; 4]].concat();
        let fixed = tfrecord(&broken);
        assert_eq!((&fixed[..8], &fixed[12..15]), (&broken[..8], &b"abc"[..]));
        assert!(fixed[8..12] != [0; 4] && fixed[15..] != [0; 4]);
        assert_eq!(tfrecord(&fixed), fixed);
    }
}
