//! Inserts SEI messages into raw H.264 and HEVC streams.

/// A raw stream with a unit of this SEI message before the first slice of each picture for which
/// `has` returns true, counted from 0.
pub fn with_sei(
    stream: &[u8],
    is_hevc: bool,
    message: &[u8],
    has: impl Fn(usize) -> bool,
) -> Vec<u8> {
    let header: &[u8] = if is_hevc { &[39 << 1, 1] } else { &[6] };
    let mut out = Vec::with_capacity(stream.len());
    let (mut pictures, mut at) = (0, 0);
    while at < stream.len() {
        let unit = stream.get(at..at + 6).unwrap_or_default();
        let begins = match (unit, is_hevc) {
            // Slices whose first flag, or whose number of the first macroblock (0), is a set bit.
            ([0, 0, 1, head, _, first], true) => head >> 1 & 63 < 32 && first & 0x80 != 0,
            ([0, 0, 1, head, first, _], false) => matches!(head & 31, 1 | 5) && first & 0x80 != 0,
            _ => false,
        };
        if begins {
            if has(pictures) {
                out.extend([&[0, 0, 1], header, message, &[0x80]].concat());
            }
            pictures += 1;
        }
        out.push(stream[at]);
        at += 1;
    }
    out
}

/// `alternative_transfer_characteristics`: ARIB STD-B67, the curve of HLG.
pub const HLG: [u8; 3] = [147, 1, 18];

/// `film_grain_characteristics` that persist: grain of one size on luma of any value, with the
/// blending by addition that libavcodec implements.
pub fn film_grain(is_hevc: bool) -> Vec<u8> {
    let mut bits = String::new();
    bits += "0 00 0 00 0011"; // no cancellation, model 0, no color description, blending, scale
    bits += "1 0 0 00000000 010 00000000 11111111"; // luma: one interval with three values
    bits += "000000011001000 0001000 0001000"; // 100, 4 and 4 in signed Exp-Golomb codes
    bits += if is_hevc { "1" } else { "010" }; // persistence, or the repetition period 1
    let mut digits: Vec<u8> = bits.bytes().filter(u8::is_ascii_digit).collect();
    digits.push(b'1');
    digits.resize(digits.len().next_multiple_of(8), b'0');
    let payload = digits.chunks(8).map(|byte| {
        byte.iter()
            .fold(0, |value, digit| value << 1 | (digit - b'0'))
    });
    let payload: Vec<u8> = payload.collect();
    [&[19, payload.len() as u8], &payload[..]].concat()
}
