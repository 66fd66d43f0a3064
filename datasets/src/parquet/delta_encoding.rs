//! Parses lengths in the encoding `DELTA_BINARY_PACKED`: how many there are, their sum, and where
//! they end. Layout: a header, then blocks of bit-packed differences, each block in miniblocks with
//! their own bit width. The lengths are not stored, since a few bytes may encode billions of them.

/// Maximum bit width of a difference, since lengths have 32 bits.
const MAX_BIT_WIDTH: u8 = 32;

/// A summary of lengths, from which the memory of their values can be bounded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    pub count: u64,
    /// Sum of all lengths.
    pub sum: u64,
    /// Offset of the first byte after the lengths.
    pub end: usize,
}

impl Lengths {
    /// Parses the lengths at the start of `bytes`: at most `most`, none of them negative.
    pub(super) fn read(bytes: &[u8], most: u64) -> Result<Self, String> {
        let mut rest = bytes;
        let short = || "lengths that end too early".to_owned();
        let mut head = || varint(&mut rest).ok_or_else(short);
        let (block, parts, count) = (head()?, head()?, head()?);
        let first = zigzag(head()?);
        let each = block.checked_div(parts).unwrap_or(0);
        if each == 0
            || each % 32 != 0
            || each.checked_mul(parts) != Some(block)
            || parts > bytes.len() as u64
        {
            return Err(format!("lengths in blocks of {block} with {parts} parts"));
        }
        if count > most {
            return Err(format!("{count} lengths for at most {most} values"));
        }
        let (mut last, mut sum, mut left) = (first as i32, 0, count);
        if left > 0 {
            sum = positive(last)?;
            left -= 1;
        }
        while left > 0 {
            let least = zigzag(varint(&mut rest).ok_or_else(short)?) as i32;
            let widths = rest.split_off(..parts as usize).ok_or_else(short)?;
            for &width in widths {
                if left == 0 {
                    break; // the widths of absent miniblocks have no meaning
                }
                if width > MAX_BIT_WIDTH {
                    return Err(format!("lengths that differ by {width} bits"));
                }
                let packed = (u64::from(width) * (each / 8))
                    .try_into()
                    .unwrap_or(usize::MAX);
                let packed = rest.split_off(..packed).ok_or_else(short)?;
                let here = left.min(each);
                let mut bits = BitReader {
                    bytes: packed,
                    held: 0,
                    have: 0,
                };
                for _ in 0..here {
                    last = last
                        .wrapping_add(least)
                        .wrapping_add(bits.take(width) as i32);
                    sum += positive(last)?;
                }
                left -= here;
            }
        }
        Ok(Self {
            count,
            sum,
            end: bytes.len() - rest.len(),
        })
    }
}

fn positive(length: i32) -> Result<u64, String> {
    u64::try_from(length).map_err(|_| format!("a length of {length}"))
}

/// Decodes a zigzag-encoded number.
fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// A varint: seven bits per byte, the lowest first.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Reads bit-packed numbers, the lowest bit first.
struct BitReader<'a> {
    bytes: &'a [u8],
    held: u64,
    have: u8,
}

impl BitReader<'_> {
    fn take(&mut self, width: u8) -> u32 {
        while self.have < width {
            let byte = self.bytes.split_off_first().copied().unwrap_or(0);
            self.held |= u64::from(byte) << self.have;
            self.have += 8;
        }
        let taken = self.held & ((1 << width) - 1);
        self.held >>= width;
        self.have -= width;
        taken as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header: blocks of 128, four miniblocks, `count` lengths, the first of which is 5.
    fn head(count: u8) -> Vec<u8> {
        vec![0x80, 1, 4, count, 10]
    }

    #[test]
    fn lengths_are_counted_and_summed() {
        let one = Lengths {
            count: 1,
            sum: 5,
            end: 5,
        };
        assert_eq!(Lengths::read(&[head(1), vec![9; 3]].concat(), 1), Ok(one));
        assert_eq!(
            Lengths::read(&head(0), 0),
            Ok(Lengths {
                count: 0,
                sum: 0,
                end: 5
            })
        );
        // Each one longer than the one before: 5, 6, 7 with bit width 0. The widths after the first
        // have no meaning.
        let rising = [head(3), vec![2, 0, 40, 40, 40]].concat();
        assert_eq!(
            Lengths::read(&rising, 3),
            Ok(Lengths {
                count: 3,
                sum: 18,
                end: 10
            })
        );
        // 32 differences of three bits, minus one each (2, 0, 7 and zeros), then two in a miniblock
        // of one bit.
        let bits = [
            0b11_000_010,
            0b1,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0b11,
            0,
            0,
            0,
        ];
        let mixed = [vec![0x80, 1, 4, 35, 0xc8, 1, 1, 3, 1, 0, 0], bits.to_vec()].concat();
        let mut lengths = vec![100u64, 101, 100, 106];
        lengths.extend((1..=29).map(|n| 106 - n));
        lengths.extend([77, 77]);
        let expected = Lengths {
            count: 35,
            sum: lengths.iter().sum(),
            end: mixed.len(),
        };
        assert_eq!(
            Lengths::read(&[mixed, vec![1; 9]].concat(), 35),
            Ok(expected)
        );
    }

    #[test]
    fn invalid_lengths_are_errors() {
        let many = [vec![0x80, 1, 4], vec![0xff, 0xff, 0xff, 0xff, 7], vec![0]].concat();
        for (bytes, reason) in [
            (many, "2147483647 lengths for at most 9 values"),
            (vec![0x80, 1, 0, 1, 0], "in blocks of 128 with 0 parts"),
            (vec![0, 1, 1, 0], "in blocks of 0"),
            (vec![0x80, 1, 8, 1, 0], "in blocks of 128 with 8 parts"),
            (vec![0x80, 1, 4, 1, 1], "a length of -1"),
            (vec![0x80, 1, 4, 2], "lengths that end too early"),
            (
                [head(2), vec![0, 40, 0, 0, 0]].concat(),
                "differ by 40 bits",
            ),
            (
                [head(2), vec![0, 8, 0, 0, 0, 1]].concat(),
                "lengths that end too early",
            ),
            ([head(2), vec![0, 8]].concat(), "lengths that end too early"),
            (vec![], "lengths that end too early"),
        ] {
            let error = Lengths::read(&bytes, 9).unwrap_err();
            assert!(error.contains(reason), "{bytes:?}: {error}");
        }
    }
}
