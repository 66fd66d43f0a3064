//! Splits H.264/HEVC packets, with start codes or length prefixes, into NAL units, and reads their
//! bits. Nothing beyond the end of the packet is read, even if a length prefix is wrong.

use std::borrow::Cow;

use crate::media::CodecParams;

/// (NAL unit type, parameter set id). Its order puts sets before those that refer to them.
pub(crate) type ParameterSetId = (u8, u32);

/// What the codecs with NAL units do differently.
pub(crate) trait NalSyntax: Sync {
    /// Number of bytes of a length prefix, from a configuration record.
    fn length_bytes(&self, record: &[u8]) -> Option<u8>;

    /// The parameter sets in a configuration record.
    fn record_units<'a>(&self, record: &'a [u8]) -> Option<Vec<&'a [u8]>>;

    /// Whether a unit is a slice.
    fn is_slice(&self, unit: &[u8]) -> bool;

    /// Whether a unit is a parameter set.
    fn is_parameter_set(&self, unit: &[u8]) -> bool;

    /// The parameter set that a unit is; `None` for other units and damaged ones.
    fn id_of(&self, unit: &[u8]) -> Option<ParameterSetId>;

    /// The parameter set that a slice names.
    fn set_of_slice(&self, unit: &[u8]) -> Option<ParameterSetId>;

    /// NAL unit types of the parameter sets without which no slice can be decoded.
    fn required_sets(&self) -> &'static [u8];

    /// Whether a parameter set may change with any picture, and is sent again where decoding may
    /// start: it then says nothing about the stream.
    fn is_transient(&self, _set: ParameterSetId) -> bool {
        false
    }

    /// The sample aspect ratio that a unit states if it is an SPS.
    fn sps_sample_aspect(&self, unit: &[u8]) -> Option<(u32, u32)>;

    /// Bytes before the messages if a unit consists of SEI messages whose color description libavcodec
    /// applies.
    fn sei_header_bytes(&self, _unit: &[u8]) -> Option<usize> {
        None
    }

    /// If a unit is an SPS: why NVDEC must not be given its pictures.
    fn sps_nvdec_exclusion(&self, unit: &[u8]) -> Option<&'static str>;

    /// Whether a unit belongs to a layer above the base layer, such as the second view of MV-HEVC.
    fn is_of_higher_layer(&self, _unit: &[u8]) -> bool {
        false
    }
}

/// Why streams with a crop offset on the left or top fall back to the CPU.
pub(crate) const CROPPED_LEFT_OR_TOP: &str =
    "frames cropped on their left or top, which not every parser supports";

/// How NAL units are delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `00 00 01` before each unit (Annex B).
    AnnexB,
    /// A big-endian length of 1 to 4 bytes before each unit (with a configuration record).
    LengthPrefixed(u8),
}

impl Framing {
    /// Detects the framing from the codec configuration: Annex B begins with 0 0, and no
    /// configuration record does, except those of old hvcC drafts.
    pub(crate) fn detect(syntax: &dyn NalSyntax, extradata: &[u8]) -> Self {
        match extradata {
            [0, 0, 1, ..] | [0, 0, 0, 1, ..] | [] => Framing::AnnexB,
            record => syntax
                .length_bytes(record)
                .map_or(Framing::AnnexB, Framing::LengthPrefixed),
        }
    }

    /// Adds the delimiter to a unit.
    pub(crate) fn wrap(self, unit: &[u8]) -> Vec<u8> {
        match self {
            Framing::AnnexB => [&[0, 0, 0, 1], unit].concat(),
            Framing::LengthPrefixed(n) => {
                let len = (unit.len() as u64).to_be_bytes();
                [&len[8 - usize::from(n)..], unit].concat()
            }
        }
    }
}

/// Returns the NAL units of a packet; the last one may be truncated if only the first bytes of a
/// packet were read.
pub(crate) fn split_nal_units(framing: Framing, data: &[u8]) -> Vec<&[u8]> {
    match framing {
        Framing::LengthPrefixed(n) => split_length_prefixed(n.into(), data),
        Framing::AnnexB => split_annex_b(data),
    }
}

fn split_length_prefixed(n: usize, mut data: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    while data.len() > n {
        let len = data[..n]
            .iter()
            .fold(0usize, |len, &b| len << 8 | usize::from(b));
        let end = n.saturating_add(len).min(data.len());
        if len > 0 {
            out.push(&data[n..end]);
        }
        data = &data[end..];
    }
    out
}

fn split_annex_b(data: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    let mut begin = None;
    let mut i = 0;
    while i + 3 <= data.len() {
        if data[i + 2] > 1 {
            i += 3;
        } else if data[i..i + 3] == [0, 0, 1] {
            if let Some(b) = begin {
                out.push(trim_trailing_zeros(&data[b..i]));
            }
            begin = Some(i + 3);
            i += 3;
        } else {
            i += 1;
        }
    }
    if let Some(b) = begin {
        out.push(trim_trailing_zeros(&data[b..]));
    }
    out.retain(|u| !u.is_empty());
    out
}

fn trim_trailing_zeros(unit: &[u8]) -> &[u8] {
    let end = unit.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
    &unit[..end]
}

/// The sample aspect ratio of the first SPS that states one, in the codec configuration or else in
/// the first packet.
pub(super) fn sample_aspect(
    syntax: &dyn NalSyntax,
    extradata: &[u8],
    first_packet: &[u8],
) -> Option<(u32, u32)> {
    let framing = Framing::detect(syntax, extradata);
    let mut units = config_nal_units(syntax, framing, extradata)
        .into_iter()
        .chain(split_nal_units(framing, first_packet));
    units.find_map(|unit| syntax.sps_sample_aspect(unit))
}

/// `alternative_transfer_characteristics` (H.264 D.1.39, H.265 D.2.38).
const ALTERNATIVE_TRANSFER: u32 = 147;

/// `TransferCharacteristics` "unspecified" (ITU-T H.273), with which the message has no effect.
const UNSPECIFIED_TRANSFER: u8 = 2;

/// The transfer function that an SEI unit states in place of that of the SPS.
fn alternative_transfer(syntax: &dyn NalSyntax, unit: &[u8]) -> Option<u8> {
    let before = syntax.sei_header_bytes(unit)? - 1;
    let messages = unescape_rbsp(unit.get(before..)?);
    let messages = parse_sei_messages(&messages);
    let (_, payload) = messages.iter().find(|m| m.0 == ALTERNATIVE_TRANSFER)?;
    payload.first().copied()
}

/// The transfer function that an SEI message states in the codec configuration or else in the first
/// packet.
pub(crate) fn transfer_of_stream(params: &CodecParams, first_packet: &[u8]) -> Option<u8> {
    let syntax = super::of(&params.codec).nal_syntax()?;
    let framing = Framing::detect(syntax, &params.extradata);
    let mut units = config_nal_units(syntax, framing, &params.extradata)
        .into_iter()
        .chain(split_nal_units(framing, first_packet));
    let stated = units.find_map(|unit| alternative_transfer(syntax, unit));
    stated.filter(|&stated| stated != UNSPECIFIED_TRANSFER)
}

/// A packet without the transfer function that an SEI message states; `None` if there is none.
/// libavcodec applies it to all later frames, also to those of other decode ranges.
pub(crate) fn without_alternative_transfer(params: &CodecParams, data: &[u8]) -> Option<Vec<u8>> {
    let syntax = super::of(&params.codec).nal_syntax()?;
    let start = [ALTERNATIVE_TRANSFER as u8, 1];
    memchr::memmem::find(data, &start)?;
    let framing = Framing::detect(syntax, &params.extradata);
    let mut out = None;
    for unit in split_nal_units(framing, data) {
        if let Some(stated) = alternative_transfer(syntax, unit)
            && let Some(at) = memchr::memmem::find(unit, &[start[0], start[1], stated])
        {
            let at = at + unit.as_ptr() as usize - data.as_ptr() as usize;
            out.get_or_insert_with(|| data.to_vec())[at + 2] = UNSPECIFIED_TRANSFER;
        }
    }
    out
}

/// The NAL units of a packet, unless its beginning is overwritten: it states an empty unit, or no
/// unit is without the forbidden bit (H.264 7.4.1, and the same in later standards).
pub(super) fn valid_nal_units(framing: Framing, data: &[u8]) -> Option<Vec<&[u8]>> {
    if let Framing::LengthPrefixed(n) = framing {
        data.get(..n.into())?.iter().find(|&&byte| byte > 0)?;
    }
    let units = split_nal_units(framing, data);
    units.iter().find(|unit| unit[0] & 0x80 == 0)?;
    Some(units)
}

/// Whether a unit contains bytes that no encoder writes inside a unit (H.264 and H.265 7.4.1: 00 00
/// 00, 00 00 01 and 00 00 02), so that a part of it was overwritten or is missing. A few zeros at
/// its end are padding.
pub(crate) fn has_forbidden_bytes(unit: &[u8]) -> bool {
    const MAX_PADDING: usize = 64;
    let len = unit.len();
    let unit = trim_trailing_zeros(unit);
    if len - unit.len() > MAX_PADDING {
        return true;
    }
    memchr::memmem::find_iter(unit, b"\0\0")
        .any(|at| unit.get(at + 2).is_some_and(|&next| next <= 2))
}

/// A packet without the units of layers above the base layer; `None` if it has none of them. What
/// decoders make of such units differs, and no picture of the base layer depends on them.
pub(crate) fn without_higher_layers(params: &CodecParams, data: &[u8]) -> Option<Vec<u8>> {
    let syntax = super::of(&params.codec).nal_syntax()?;
    let framing = Framing::detect(syntax, &params.extradata);
    let units = split_nal_units(framing, data);
    if !units.iter().any(|unit| syntax.is_of_higher_layer(unit)) {
        return None;
    }
    let base = units.iter().filter(|unit| !syntax.is_of_higher_layer(unit));
    let with_delimiter = |unit: &&[u8]| match framing {
        Framing::AnnexB => framing.wrap(unit),
        // The length as it is, although it may be wrong: the decoder detects that.
        Framing::LengthPrefixed(n) => {
            let at = unit.as_ptr() as usize - data.as_ptr() as usize;
            data[at - usize::from(n)..at + unit.len()].to_vec()
        }
    };
    Some(base.flat_map(with_delimiter).collect())
}

/// Returns a unit's payload without emulation prevention bytes.
pub(crate) fn unescape_rbsp(unit: &[u8]) -> Cow<'_, [u8]> {
    if !unit.windows(3).any(|w| w == [0, 0, 3]) {
        return Cow::Borrowed(unit);
    }
    let mut out = Vec::with_capacity(unit.len());
    let mut zeros = 0;
    for &byte in unit {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        out.push(byte);
    }
    Cow::Owned(out)
}

/// Offset after the first start code whose last byte is in a range.
pub(crate) fn find_start_code(data: &[u8], codes: std::ops::RangeInclusive<u8>) -> Option<usize> {
    data.windows(4)
        .position(|w| w[..3] == [0, 0, 1] && codes.contains(&w[3]))
        .map(|i| i + 4)
}

/// Whether a packet without a picture (MPEG-1, MPEG-2, MPEG-4 part 2) consists of headers, and is
/// not a picture whose headers are overwritten.
pub(super) fn holds_only_headers(data: &[u8]) -> bool {
    const MAX_HEADER_BYTES: usize = 1024;
    data.starts_with(&[0, 0, 1]) && data.len() <= MAX_HEADER_BYTES
}

/// SEI messages of a NAL unit with a header of one byte: (type, payload).
pub(crate) fn parse_sei_messages(unit: &[u8]) -> Vec<(u32, &[u8])> {
    let mut out = Vec::new();
    let mut rest = unit.get(1..).unwrap_or(&[]);
    // Types and sizes below 255 are assumed to contain no emulation prevention bytes; readers
    // handle those in payloads.
    while rest.len() > 2 {
        let number = |rest: &mut &[u8]| {
            let mut value = 0u32;
            while let Some((&byte, tail)) = rest.split_first() {
                *rest = tail;
                value += u32::from(byte);
                if byte != 255 {
                    break;
                }
            }
            value
        };
        let kind = number(&mut rest);
        let size = number(&mut rest) as usize;
        out.push((kind, &rest[..size.min(rest.len())]));
        rest = rest.get(size..).unwrap_or(&[]);
    }
    out
}

/// Whether an HEVC or VVC SEI unit changes how later pictures are decoded: a recovery point.
pub(super) fn has_persistent_sei(unit: &[u8]) -> bool {
    const RECOVERY_POINT: u32 = 6;
    let messages = unescape_rbsp(&unit[1..]);
    let messages = parse_sei_messages(&messages);
    messages.iter().any(|(kind, _)| *kind == RECOVERY_POINT)
}

/// Reads bits of a NAL unit's payload, skipping emulation prevention bytes.
#[derive(Clone)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
    bit: u32,
    zeros: u32,
    escaped: bool,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            bit: 0,
            zeros: 0,
            escaped: true,
        }
    }

    /// Reads bytes without emulation prevention (AV1, MPEG).
    pub(crate) fn plain(bytes: &'a [u8]) -> Self {
        Self {
            escaped: false,
            ..Self::new(bytes)
        }
    }

    pub(crate) fn bit(&mut self) -> Option<u32> {
        if self.escaped && self.bit == 0 && self.zeros >= 2 && self.bytes.get(self.at) == Some(&3) {
            self.at += 1;
            self.zeros = 0;
        }
        let byte = *self.bytes.get(self.at)?;
        let value = u32::from(byte >> (7 - self.bit) & 1);
        self.bit += 1;
        if self.bit == 8 {
            self.bit = 0;
            self.at += 1;
            self.zeros = if byte == 0 { self.zeros + 1 } else { 0 };
        }
        Some(value)
    }

    pub(crate) fn take(&mut self, n: u32) -> Option<u32> {
        (0..n).try_fold(0u32, |value, _| Some(value << 1 | self.bit()?))
    }

    /// Reads an unsigned Exp-Golomb number.
    pub(crate) fn ue(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        Some((1u32 << zeros) - 1 + self.take(zeros)?)
    }

    /// Skips `n` bits.
    pub(crate) fn skip(&mut self, n: u32) -> Option<()> {
        (0..n).try_for_each(|_| self.bit().map(drop))
    }
}

/// Builds headers for tests from bit strings.
#[cfg(test)]
pub(crate) mod test_headers {
    /// Converts a bit string such as "1 010" to bytes, padded with zeros; blanks are ignored.
    pub(crate) fn bits(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .bytes()
            .filter(u8::is_ascii_digit)
            .map(|b| b - b'0')
            .collect();
        digits
            .chunks(8)
            .map(|c| {
                c.iter()
                    .enumerate()
                    .fold(0, |byte, (i, bit)| byte | bit << (7 - i))
            })
            .collect()
    }

    /// Exp-Golomb code, as a bit string.
    pub(crate) fn ue(number: u32) -> String {
        let code = format!("{:b}", number + 1);
        "0".repeat(code.len() - 1) + &code
    }
}

/// The NAL units of a configuration in either form.
pub(crate) fn config_nal_units<'a>(
    syntax: &dyn NalSyntax,
    framing: Framing,
    extradata: &'a [u8],
) -> Vec<&'a [u8]> {
    match framing {
        Framing::AnnexB => split_nal_units(framing, extradata),
        Framing::LengthPrefixed(_) => syntax.record_units(extradata).unwrap_or_default(),
    }
}

/// Takes `count` units, each after its length of two bytes, from the beginning of `rest`.
pub(super) fn take_units<'a>(
    rest: &mut &'a [u8],
    count: usize,
    units: &mut Vec<&'a [u8]>,
) -> Option<()> {
    for _ in 0..count {
        let (&len, tail) = rest.split_first_chunk::<2>()?;
        let (unit, tail) = tail.split_at_checked(u16::from_be_bytes(len).into())?;
        units.push(unit);
        *rest = tail;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_framings_find_the_same_units() {
        let annexb = [0, 0, 0, 1, 9, 16, 0, 0, 1, 0x65, 1, 2, 0, 0, 0, 1, 0x41, 7];
        let avcc = [0, 2, 9, 16, 0, 3, 0x65, 1, 2, 0, 2, 0x41, 7];
        let expected: [&[u8]; 3] = [&[9, 16], &[0x65, 1, 2], &[0x41, 7]];
        assert_eq!(split_nal_units(Framing::AnnexB, &annexb), expected);
        assert_eq!(split_nal_units(Framing::LengthPrefixed(2), &avcc), expected);
    }

    #[test]
    fn trailing_zeros_are_not_part_of_a_unit() {
        let data = [0, 0, 0, 1, 0x67, 7, 0, 0, 0, 1, 0x68, 8, 0];
        let expected: [&[u8]; 2] = [&[0x67, 7], &[0x68, 8]];
        assert_eq!(split_nal_units(Framing::AnnexB, &data), expected);
    }

    #[test]
    fn forbidden_bytes_are_found_inside_a_unit_only() {
        for intact in [
            &[0x65u8, 0, 0, 3, 0, 0, 3, 1][..],
            &[0x65, 1, 0, 0, 0, 0],
            &[0x65, 0, 0, 4],
            &[0, 0],
        ] {
            assert!(!has_forbidden_bytes(intact), "{intact:?}");
        }
        assert!(
            has_forbidden_bytes(&[&[0x65u8][..], &[0; 65]].concat()),
            "no padding is that long"
        );
        for broken in [
            &[0x65u8, 0, 0, 0, 7][..],
            &[0x65, 0, 0, 1],
            &[0x65, 9, 0, 0, 2, 5],
            &[0, 0, 0, 0, 0, 1],
        ] {
            assert!(has_forbidden_bytes(broken), "{broken:?}");
        }
    }

    #[test]
    fn length_beyond_the_packet_is_clamped() {
        assert_eq!(
            split_nal_units(Framing::LengthPrefixed(4), &[0xff, 0xff, 0xff, 0xff, 5]),
            [[5u8]]
        );
    }

    #[test]
    fn units_of_higher_layers_are_removed() {
        let (slice, second) = ([0x26u8, 1, 9, 8], [0x26u8, 1 | 1 << 3, 9, 8]);
        let hvcc = [&[1u8; 21][..], &[3, 0]].concat();
        for (extradata, framing) in [
            (Vec::new(), Framing::AnnexB),
            (hvcc, Framing::LengthPrefixed(4)),
        ] {
            let params = CodecParams::synthetic("hevc", &extradata);
            let (base, other) = (framing.wrap(&slice), framing.wrap(&second));
            let both = [&base[..], &other].concat();
            assert_eq!(without_higher_layers(&params, &both), Some(base.clone()));
            assert_eq!(without_higher_layers(&params, &other), Some(Vec::new()));
            assert_eq!(without_higher_layers(&params, &base), None);
        }
        let params = CodecParams::synthetic("h264", &[]);
        let other = Framing::AnnexB.wrap(&second);
        assert_eq!(without_higher_layers(&params, &other), None, "no layers");
    }

    #[test]
    fn exp_golomb_and_emulation_prevention() {
        assert_eq!(BitReader::new(&[0b1010_0110, 0b0100_0000]).ue(), Some(0));
        let mut bits = BitReader::new(&[0b0100_0110]);
        assert_eq!((bits.ue(), bits.ue()), (Some(1), Some(5)));
        let mut bits = BitReader::new(&[0, 0, 3, 1]);
        assert_eq!(bits.take(24), Some(1));
        assert_eq!(bits.bit(), None);
    }
}
