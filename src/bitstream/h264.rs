//! H.264: random access points and picture types (ITU-T H.264 7.3.1 to 7.3.3, D.2.8).

pub(super) mod dependency;

pub(crate) use dependency::FrameNumTracker;
pub(super) use dependency::sps_sample_aspect;

use super::nal::{BitReader, Framing, parse_sei_messages, split_nal_units};
use super::picture_info::{PictureInfo, RandomAccessPoint};

/// Reads a packet's picture from its first slice and the SEI messages before it.
pub(super) fn picture_info(framing: Framing, data: &[u8]) -> PictureInfo {
    let mut recovery = None;
    let (mut random_access, mut is_b_picture) = (RandomAccessPoint::None, false);
    let units = split_nal_units(framing, data);
    if !has_valid_units(&units) {
        return PictureInfo::damaged();
    }
    // A packet of parameter sets alone shows nothing.
    let mut shown = false;
    for unit in units {
        match unit[0] & 31 {
            6 => {
                for (kind, body) in parse_sei_messages(unit) {
                    if kind == 6 {
                        let mut bits = BitReader::new(body);
                        recovery = bits.ue().zip(bits.bit());
                    }
                }
            }
            5 => {
                (random_access, shown) = (RandomAccessPoint::Closed, true);
                break;
            }
            1 | 2 => {
                shown = true;
                let mut bits = BitReader::new(&unit[1..]);
                let kind = bits
                    .ue()
                    .and_then(|_first_mb| bits.ue())
                    .map(|kind| kind % 5);
                let intra = kind == Some(2) || kind == Some(4);
                is_b_picture = kind == Some(1);
                // Immediate and exact recovery: all pictures shown from this one on are correct
                // (H.264 D.2.8).
                random_access = match recovery {
                    Some((0, 1)) if intra => RandomAccessPoint::Open,
                    Some(_) => RandomAccessPoint::Inexact,
                    None if intra => RandomAccessPoint::Inexact,
                    None => RandomAccessPoint::None,
                };
                break;
            }
            _ => {}
        }
    }
    let recovery_frames = recovery.map_or(0, |(frames, _)| frames);
    PictureInfo {
        random_access,
        shown,
        is_b_picture,
        recovery_frames,
        ..PictureInfo::default()
    }
}

/// Whether a packet has a unit without the forbidden bit (7.4.1), which overwritten data usually do
/// not have.
pub(super) fn has_valid_units(units: &[&[u8]]) -> bool {
    units.iter().any(|unit| unit[0] & 0x80 == 0)
}

/// The user data SEI message of x264 in a packet, in the stream's framing; empty without one.
pub(super) fn x264_sei(framing: Framing, data: &[u8]) -> Vec<u8> {
    let note = split_nal_units(framing, data)
        .into_iter()
        .find(|unit| is_x264_sei(unit));
    note.map(|note| framing.wrap(note)).unwrap_or_default()
}

fn is_x264_sei(unit: &[u8]) -> bool {
    const USER_DATA_UNREGISTERED: u32 = 5;
    unit.first().is_some_and(|b| b & 31 == 6)
        && parse_sei_messages(unit).iter().any(|(kind, body)| {
            *kind == USER_DATA_UNREGISTERED
                && body
                    .get(16..)
                    .is_some_and(|text| text.starts_with(b"x264 - core"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h264_idr_and_recovery_points_are_distinguished() {
        let look = |data: &[u8]| picture_info(Framing::AnnexB, data).random_access;
        assert_eq!(look(&[0, 0, 1, 0x65, 0x88]), RandomAccessPoint::Closed);
        // SEI 6, size 1: recovery_frame_cnt 0 ('1'), exact_match '1'; then an I slice (first_mb
        // '1', type 7 '0001000').
        assert_eq!(
            look(&[
                0,
                0,
                1,
                6,
                6,
                1,
                0b1100_0100,
                0x80,
                0,
                0,
                1,
                0x61,
                0b1000_1000
            ]),
            RandomAccessPoint::Open
        );
        // recovery_frame_cnt 1 ('010'): recovery is not immediate.
        assert_eq!(
            look(&[
                0,
                0,
                1,
                6,
                6,
                1,
                0b0101_0010,
                0x80,
                0,
                0,
                1,
                0x61,
                0b1000_1000
            ]),
            RandomAccessPoint::Inexact
        );
        assert_eq!(look(&[0, 0, 1, 0x41, 0b1001_1000]), RandomAccessPoint::None);
    }
}
