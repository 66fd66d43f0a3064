//! Reads the sample aspect ratio where headers of a stream state it (H.264 and H.265 table E.1,
//! ISO/IEC 14496-2 table 6-12), for containers that do not.

use crate::codecs::nal::BitReader;

/// The value that is followed by width and height.
const EXTENDED: u32 = 255;

/// `aspect_ratio_idc` 1 to 16.
const RATIOS: [(u32, u32); 16] = [
    (1, 1),
    (12, 11),
    (10, 11),
    (16, 11),
    (40, 33),
    (24, 11),
    (20, 11),
    (32, 11),
    (80, 33),
    (18, 11),
    (15, 11),
    (64, 33),
    (160, 99),
    (4, 3),
    (3, 2),
    (2, 1),
];

/// Reads `vui_parameters_present_flag` and the sample aspect ratio that the video usability
/// information begins with.
pub(super) fn parse_vui(bits: &mut BitReader) -> Option<(u32, u32)> {
    if bits.bit()? == 0 || bits.bit()? == 0 {
        return None;
    }
    match bits.take(8)? {
        EXTENDED => reduce(bits.take(16)?, bits.take(16)?),
        number => RATIOS.get(number.checked_sub(1)? as usize).copied(),
    }
}

/// The `aspect_ratio_info` of MPEG-4, whose first values are those of the other codecs.
pub(super) fn parse_mpeg4(bits: &mut BitReader) -> Option<Option<(u32, u32)>> {
    const EXTENDED: u32 = 15;
    Some(match bits.take(4)? {
        EXTENDED => reduce(bits.take(8)?, bits.take(8)?),
        number @ 1..=5 => Some(RATIOS[number as usize - 1]),
        _ => None,
    })
}

fn reduce(width: u32, height: u32) -> Option<(u32, u32)> {
    let (mut divisor, mut rest) = (width, height);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (width > 0 && height > 0).then(|| (width / divisor, height / divisor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::nal::test_headers::bits;

    #[test]
    fn ratios_are_named_or_written_out() {
        let vui = |text: &str| parse_vui(&mut BitReader::new(&bits(text)));
        assert_eq!(vui("1 1 00000001"), Some((1, 1)));
        assert_eq!(vui("1 1 00010000"), Some((2, 1)));
        assert_eq!(
            vui("1 1 11111111 0000000001000000 0000000000110110"),
            Some((32, 27)),
            "64:54"
        );
        for unstated in [
            "0",
            "1 0",
            "1 1 00000000",
            "1 1 00010001",
            "1 1 11111111 0000000000000000",
            "1 1 0000",
        ] {
            assert_eq!(vui(unstated), None, "{unstated}");
        }
    }
}
