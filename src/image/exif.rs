//! Reads the orientation of an image from EXIF data: a TIFF header and its directories.
//! Never returns an error; data that cannot be parsed means no rotation, as in other programs.

use crate::media::DisplayOrientation;

/// Tag "Orientation".
const ORIENTATION: u16 = 0x0112;

/// The orientation that `tiff` defines.
pub(super) fn orientation(tiff: &[u8]) -> DisplayOrientation {
    orientation_of(orientation_tag(tiff).unwrap_or(1))
}

/// Maps EXIF's numbers, which define where the stored picture's first row and first column are
/// displayed.
fn orientation_of(value: u32) -> DisplayOrientation {
    let (mirror, quarter_turns_cw) = match value {
        2 => (true, 0),
        3 => (false, 2),
        4 => (true, 2),
        5 => (true, 3),
        6 => (false, 1),
        7 => (true, 1),
        8 => (false, 3),
        _ => (false, 0),
    };
    DisplayOrientation {
        mirror,
        quarter_turns_cw,
    }
}

fn orientation_tag(tiff: &[u8]) -> Option<u32> {
    let little = match tiff.get(..2)? {
        b"II" => true,
        b"MM" => false,
        _ => return None,
    };
    let number = |at: usize, bytes: usize| {
        let field = tiff.get(at..at.checked_add(bytes)?)?;
        let step = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
        Some(if little {
            field.iter().rev().fold(0, step)
        } else {
            field.iter().fold(0, step)
        })
    };
    if number(2, 2)? != 42 {
        return None;
    }
    let directory = number(4, 4)? as usize;
    let mut found = None;
    for entry in 0..number(directory, 2)? as usize {
        let at = directory.checked_add(2 + entry * 12)?;
        // A truncated directory is read as far as it goes.
        let (Some(tag), Some(kind)) = (number(at, 2), number(at + 2, 2)) else {
            break;
        };
        if tag != u32::from(ORIENTATION) {
            continue;
        }
        // If the tag is repeated, the last one counts, as in Pillow.
        found = match kind {
            1 => number(at + 8, 1), // BYTE
            3 => number(at + 8, 2), // SHORT, the specified type
            4 => number(at + 8, 4), // LONG
            _ => None,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EXIF data with one entry.
    pub(crate) fn tiff(little: bool, kind: u16, value: u16) -> Vec<u8> {
        let two = |n: u16| {
            if little {
                n.to_le_bytes()
            } else {
                n.to_be_bytes()
            }
        };
        let four = |n: u32| {
            if little {
                n.to_le_bytes()
            } else {
                n.to_be_bytes()
            }
        };
        let mut bytes = if little {
            b"II".to_vec()
        } else {
            b"MM".to_vec()
        };
        bytes.extend(two(42));
        bytes.extend(four(8));
        bytes.extend(two(1));
        bytes.extend(two(ORIENTATION));
        bytes.extend(two(kind));
        bytes.extend(four(1));
        bytes.extend(two(value));
        bytes.extend([0, 0]);
        bytes.extend(four(0));
        bytes
    }

    /// A stored picture of 3 columns and 2 rows, each pixel a different letter.
    const STORED: [&str; 2] = ["abc", "def"];

    fn apply(orientation: DisplayOrientation) -> Vec<String> {
        let mut rows: Vec<Vec<char>> = STORED.iter().map(|row| row.chars().collect()).collect();
        if orientation.mirror {
            rows.iter_mut().for_each(|row| row.reverse());
        }
        for _ in 0..orientation.quarter_turns_cw {
            // Clockwise: the first column, read upwards, becomes the first row.
            rows = (0..rows[0].len())
                .map(|x| rows.iter().rev().map(|row| row[x]).collect())
                .collect();
        }
        rows.iter().map(|row| row.iter().collect()).collect()
    }

    #[test]
    fn eight_orientations_are_upright() {
        // EXIF 2.3, 4.6.4 A, defines where row 0 and column 0 are displayed; drawn here.
        let shown: [&[&str]; 8] = [
            &["abc", "def"],     // row 0 at the top, column 0 at the left
            &["cba", "fed"],     // top, right
            &["fed", "cba"],     // bottom, right
            &["def", "abc"],     // bottom, left
            &["ad", "be", "cf"], // left, top
            &["da", "eb", "fc"], // right, top
            &["fc", "eb", "da"], // right, bottom
            &["cf", "be", "ad"], // left, bottom
        ];
        for (n, want) in shown.iter().enumerate() {
            for little in [true, false] {
                let orientation = orientation(&tiff(little, 3, n as u16 + 1));
                assert_eq!(apply(orientation), *want, "orientation {}", n + 1);
            }
        }
    }

    #[test]
    fn invalid_exif_is_no_rotation() {
        let good = tiff(true, 3, 6);
        for value in [0, 9, 255, 6 << 8] {
            assert_eq!(
                orientation(&tiff(true, 3, value)),
                DisplayOrientation::default(),
                "{value}"
            );
        }
        // Type 2 is a string.
        assert_eq!(
            orientation(&tiff(true, 2, 6)),
            DisplayOrientation::default()
        );
        // The value is stored in the first ten bytes of the entry, which begins at byte 10.
        for len in 0..good.len() {
            let want = if len < 20 {
                DisplayOrientation::default()
            } else {
                orientation(&good)
            };
            assert_eq!(orientation(&good[..len]), want, "cut to {len} bytes");
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                orientation(&bytes); // must return for any data
            }
        }
    }

    #[test]
    fn invalid_exif_directory_is_no_rotation() {
        let mut far = tiff(false, 3, 6);
        far[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(orientation(&far), DisplayOrientation::default());
        let mut endless = tiff(false, 3, 6);
        endless[8..10].copy_from_slice(&u16::MAX.to_be_bytes());
        assert_eq!(orientation(&endless), orientation_of(6));
    }
}
