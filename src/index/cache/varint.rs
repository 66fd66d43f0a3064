//! Serializes numbers (LEB128: seven bits per byte, the least significant first), byte strings and
//! text. Reading never passes the end of the input; a length is checked against the remaining bytes
//! before it is used.

/// Appends a number.
pub(super) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Number of bytes that [`write_varint`] writes for a number.
pub(super) fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends a signed number.
pub(super) fn write_signed_varint(out: &mut Vec<u8>, value: i64) {
    write_varint(out, zigzag_encode(value));
}

/// Appends bytes, preceded by their length.
pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Zigzag encoding: 0, -1, 1, -2, … become 0, 1, 2, 3, …
pub(super) fn zigzag_encode(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The inverse of [`zigzag_encode`].
pub(super) fn zigzag_decode(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads values in sequence; returns `None` where the input ends or is invalid.
#[derive(Clone)]
pub(super) struct VarintReader<'a>(&'a [u8]);

impl<'a> VarintReader<'a> {
    /// Starts at the first byte.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Reads one byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Reads `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a little-endian 64-bit number.
    pub(super) fn u64_le(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Reads a number written by [`write_varint`].
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None; // exceeds 64 bits
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a number written by [`write_varint`]; `None` if it exceeds 32 bits.
    pub(super) fn varint_u32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    /// Reads a number written by [`write_signed_varint`].
    pub(super) fn signed_varint(&mut self) -> Option<i64> {
        self.varint().map(zigzag_decode)
    }

    /// Reads bytes written by [`write_bytes`]; `None` if there are more than `most`.
    pub(super) fn bytes(&mut self, most: u64) -> Option<&'a [u8]> {
        let len = self.varint().filter(|&len| len <= most)?;
        self.take(usize::try_from(len).ok()?)
    }

    /// Reads text written by [`write_bytes`]; `None` if it has more than `most` bytes.
    pub(super) fn text(&mut self, most: u64) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(most)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundary_values_round_trip() {
        let numbers = [
            0,
            1,
            127,
            128,
            16383,
            16384,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ];
        let signed = [0, -1, 1, -64, 64, i64::MIN, i64::MAX];
        let mut out = Vec::new();
        numbers.iter().for_each(|&n| write_varint(&mut out, n));
        signed
            .iter()
            .for_each(|&n| write_signed_varint(&mut out, n));
        let mut reader = VarintReader::new(&out);
        assert!(numbers.iter().all(|&n| reader.varint() == Some(n)));
        assert!(signed.iter().all(|&n| reader.signed_varint() == Some(n)));
        assert_eq!(reader.varint(), None);
    }

    #[test]
    fn missing_length_and_endless_number_are_rejected() {
        let mut out = Vec::new();
        write_varint(&mut out, u64::MAX);
        assert_eq!(VarintReader::new(&out).bytes(u64::MAX), None);
        assert_eq!(VarintReader::new(&[0xff; 20]).varint(), None);
    }
}
