//! Counts the pictures (frames or fields) that start in an Annex B access unit.
//! Of each slice, only the first bits after the NAL unit header are read.

use crate::format::Codec;

/// How many pictures start in an access unit, counted as slices that cover the first block of a
/// picture. The count is wrong only for streams with redundant slices, whose pictures then fail to
/// match their units, which is reported.
pub(super) fn count_pictures(codec: Codec, data: &[u8]) -> u32 {
    let begins = |nal: &[u8]| match (codec, nal) {
        // NAL units of types 1, 2 and 5. first_mb_in_slice is 0 if its first bit is set.
        (Codec::H264, [header, first, ..]) => {
            matches!(header & 0x1f, 1 | 2 | 5) && first & 0x80 != 0
        }
        // VCL NAL units of the base layer. first_slice_segment_in_pic_flag is the first bit.
        (Codec::Hevc, [header, layer, first, ..]) => {
            header >> 1 & 0x3f < 32 && header & 1 == 0 && layer >> 3 == 0 && first & 0x80 != 0
        }
        _ => false,
    };
    nal_units(data).filter(|nal| begins(nal)).count() as u32
}

/// For each start code, the data that follows it, up to the end of the unit.
fn nal_units(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let found = data
            .get(from..)?
            .windows(3)
            .position(|window| window == [0, 0, 1])?;
        from += found + 3;
        data.get(from..)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_and_slices_are_not() {
        let frame = [
            0, 0, 0, 1, 0x67, 0x80, 0, 0, 1, 0x65, 0x88, 1, 2, 0, 0, 1, 0x65, 0x40, 9,
        ];
        assert_eq!(
            count_pictures(Codec::H264, &frame),
            1,
            "an SPS and two slices of one picture"
        );
        let fields = [0, 0, 1, 0x65, 0x88, 0, 0, 1, 0x41, 0x9a];
        assert_eq!(count_pictures(Codec::H264, &fields), 2);
        assert_eq!(count_pictures(Codec::H264, &[0, 0, 1, 0x67, 0x80]), 0);
        assert_eq!(count_pictures(Codec::H264, &[0, 0, 1]), 0, "truncated");
        let hevc = [
            0, 0, 1, 0x40, 1, 0x80, 0, 0, 1, 0x26, 1, 0xaf, 0, 0, 1, 0x02, 1, 0x50, 0, 0, 1, 2, 9,
            0x80,
        ];
        assert_eq!(
            count_pictures(Codec::Hevc, &hevc),
            1,
            "a VPS, a picture of two slices, and one of another layer"
        );
    }
}
