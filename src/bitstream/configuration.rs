//! Codec configurations inside packets: the headers that MPEG-1/2, MPEG-4 part 2, VC-1 and Theora
//! streams may replace between pictures. Decoding that starts at a later packet needs those in
//! force there.

use super::nal::Framing;
use super::parameter_set_tracker::config_nal_units;
use crate::media::{CodecKind, CodecParams};

/// Which headers form the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// Sequence header and the extensions that follow it (ISO/IEC 13818-2 6.2.2).
    Mpeg12,
    /// Visual object sequence, visual object, video object, video object layer, user data (ISO/IEC
    /// 14496-2 6.2.2).
    Mpeg4,
    /// Sequence header and entry point header (SMPTE 421M annex G).
    Vc1,
    /// Identification, comment and setup header, each a packet (Theora specification 6.1).
    Theora,
}

impl Syntax {
    fn of(params: &CodecParams) -> Option<Self> {
        match (params.codec.kind, params.codec.name.as_str()) {
            (CodecKind::Mpeg12, _) => Some(Self::Mpeg12),
            (CodecKind::Mpeg4, _) => Some(Self::Mpeg4),
            (_, "vc1") => Some(Self::Vc1),
            (_, "theora") => Some(Self::Theora),
            _ => None,
        }
    }
}

const PARTS: usize = 5;

/// The headers of a configuration by kind, in the order in which a decoder expects them.
#[derive(Clone, Debug, Default)]
struct Headers([Vec<u8>; PARTS]);

impl PartialEq for Headers {
    /// Zeros may fill the space before the next start code.
    fn eq(&self, other: &Self) -> bool {
        let trimmed = |part: &Vec<u8>| {
            part.iter()
                .rposition(|&byte| byte != 0)
                .map_or(0, |last| last + 1)
        };
        self.0
            .iter()
            .zip(&other.0)
            .all(|(a, b)| a[..trimmed(a)] == b[..trimmed(b)])
    }
}

impl Headers {
    /// The headers before the first picture of a packet, or of a stream's extradata.
    fn read(syntax: Syntax, data: &[u8]) -> Self {
        let mut headers = Self::default();
        let starts: Vec<usize> = memchr::memmem::find_iter(data, b"\0\0\x01").collect();
        let mut previous = None;
        for (n, &start) in starts.iter().enumerate() {
            let Some(&code) = data.get(start + 3) else {
                break;
            };
            let part = match (syntax, code) {
                (Syntax::Mpeg12, 0xb3) => Some(0),
                (Syntax::Mpeg12, 0xb5) if previous.is_some() => Some(1),
                (Syntax::Mpeg4, 0xb0) => Some(0),
                (Syntax::Mpeg4, 0xb5) => Some(1),
                (Syntax::Mpeg4, 0x00..=0x1f) => Some(2),
                (Syntax::Mpeg4, 0x20..=0x2f) => Some(3),
                (Syntax::Mpeg4, 0xb2) => Some(4),
                (Syntax::Vc1, 0x0f) => Some(0),
                (Syntax::Vc1, 0x0e) => Some(1),
                // Pictures, slices, and what may only precede them.
                (Syntax::Mpeg12, 0x00..=0xaf | 0xb8)
                | (Syntax::Mpeg4, 0xb3 | 0xb6)
                | (Syntax::Vc1, 0x0b..=0x0d) => break,
                _ => None,
            };
            if let Some(part) = part {
                let end = starts.get(n + 1).copied().unwrap_or(data.len());
                headers.0[part].extend_from_slice(&data[start..end]);
            }
            previous = part;
        }
        headers
    }

    /// The first three headers of extradata: each has a size of two bytes before it.
    fn read_theora(extradata: &[u8]) -> Self {
        let mut headers = Self::default();
        let mut rest = extradata;
        for part in &mut headers.0[..3] {
            let Some((&size, tail)) = rest.split_first_chunk::<2>() else {
                break;
            };
            let Some((header, tail)) = tail.split_at_checked(u16::from_be_bytes(size).into())
            else {
                break;
            };
            part.extend_from_slice(header);
            rest = tail;
        }
        headers
    }

    /// Whether decoding needs what these headers replace.
    fn is_configuration(&self, syntax: Syntax) -> bool {
        match syntax {
            Syntax::Mpeg12 => !self.0[0].is_empty(),
            Syntax::Mpeg4 => !self.0[3].is_empty(),
            Syntax::Vc1 => !self.0[0].is_empty() || !self.0[1].is_empty(),
            Syntax::Theora => false,
        }
    }

    /// Replaces these headers by those of a packet. In MPEG-4, what the packet does not repeat
    /// stays in force: user data name the encoder whose errors the decoder works around.
    fn update(&mut self, syntax: Syntax, by: Self) {
        match syntax {
            Syntax::Mpeg12 | Syntax::Theora => *self = by,
            Syntax::Mpeg4 | Syntax::Vc1 => {
                for (part, by) in self.0.iter_mut().zip(by.0).filter(|(_, by)| !by.is_empty()) {
                    *part = by;
                }
            }
        }
    }

    /// The extradata for a decoder.
    fn extradata(&self, syntax: Syntax) -> Vec<u8> {
        if syntax != Syntax::Theora {
            return self.0.concat();
        }
        let sized = |header: &Vec<u8>| [&(header.len() as u16).to_be_bytes()[..], header].concat();
        self.0[..3].iter().flat_map(sized).collect()
    }
}

/// Tracks the configuration in force at the current packet of a stream.
pub(crate) struct ConfigurationTracker {
    syntax: Syntax,
    in_force: Headers,
    /// The configuration that decoders are given from the last change on.
    known: Headers,
    /// Theora: headers since the last picture.
    pending: Vec<Vec<u8>>,
}

impl ConfigurationTracker {
    /// `None` for codecs whose packets contain no such headers, or whose headers are tracked
    /// elsewhere.
    pub fn new(params: &CodecParams) -> Option<Self> {
        let syntax = Syntax::of(params)?;
        let known = match syntax {
            Syntax::Theora => Headers::read_theora(&params.extradata),
            _ => Headers::read(syntax, &params.extradata),
        };
        Some(Self {
            syntax,
            in_force: known.clone(),
            known,
            pending: Vec::new(),
        })
    }

    /// Records a packet. Returns the extradata for decoders that start at it or later, if decoding
    /// may start at it and they differ from those returned last.
    pub fn observe(&mut self, data: &[u8], may_start: bool) -> Option<Vec<u8>> {
        let mut has_entry_point = false;
        if self.syntax == Syntax::Theora {
            if self.is_header(data) {
                self.pending.push(data.to_vec());
                return None;
            }
            if !self.pending.is_empty() {
                self.in_force = Headers::default();
                for (part, header) in self.in_force.0.iter_mut().zip(self.pending.drain(..)) {
                    *part = header;
                }
            }
        } else {
            let headers = Headers::read(self.syntax, data);
            has_entry_point = !headers.0[1].is_empty();
            if headers.is_configuration(self.syntax) {
                self.in_force.update(self.syntax, headers);
            }
        }
        let is_same = match self.syntax {
            // An entry point header may differ only in the state of its rate control.
            Syntax::Vc1 if has_entry_point => self.in_force.0[0] == self.known.0[0],
            // Comments have no effect.
            Syntax::Theora => [0, 2]
                .iter()
                .all(|&part| self.in_force.0[part] == self.known.0[part]),
            _ => self.in_force == self.known,
        };
        if !may_start || is_same {
            return None;
        }
        self.known = self.in_force.clone();
        Some(self.known.extradata(self.syntax))
    }

    /// Whether a packet is a header and contains no picture.
    pub fn is_header(&self, data: &[u8]) -> bool {
        self.syntax == Syntax::Theora && data.first().is_some_and(|first| first & 0x80 != 0)
    }
}

/// The parameter sets of changed extradata in the framing of the stream's packets, to be sent with
/// the packet from which they apply; empty for codecs without parameter sets.
pub(crate) fn parameter_sets_in_band(params: &CodecParams) -> Vec<u8> {
    let hevc = match params.codec.kind {
        CodecKind::H264 => false,
        CodecKind::Hevc => true,
        _ => return Vec::new(),
    };
    let framing = Framing::detect(hevc, &params.extradata);
    config_nal_units(hevc, framing, &params.extradata)
        .into_iter()
        .flat_map(|set| framing.wrap(set))
        .collect()
}

/// Whether a decoder that was opened with the parameters `before` decodes a packet from which
/// `after` apply, and the packets after it, given the packet as it is read from the file.
pub(crate) fn can_change_within_range(
    before: &CodecParams,
    after: &CodecParams,
    data: &[u8],
) -> bool {
    match after.codec.kind {
        CodecKind::H264 | CodecKind::Hevc => {
            let hevc = after.codec.kind == CodecKind::Hevc;
            Framing::detect(hevc, &before.extradata) == Framing::detect(hevc, &after.extradata)
        }
        CodecKind::Mpeg12 | CodecKind::Mpeg4 => Syntax::of(after)
            .is_some_and(|syntax| Headers::read(syntax, data).is_configuration(syntax)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A start code and a byte after it.
    fn unit(code: u8, content: u8) -> Vec<u8> {
        vec![0, 0, 1, code, content]
    }

    fn tracker(name: &str, extradata: &[u8]) -> ConfigurationTracker {
        ConfigurationTracker::new(&CodecParams::synthetic(name, extradata)).expect("tracked")
    }

    #[test]
    fn layer_header_is_in_force_until_the_next() {
        let (first, second) = (unit(0x20, 1), unit(0x20, 2));
        let (user, picture) = (unit(0xb2, 7), unit(0xb6, 9));
        let mut tracker = tracker("mpeg4", &[&first[..], &user].concat());
        assert_eq!(
            tracker.observe(&[&first[..], &picture].concat(), true),
            None,
            "repeated without user data"
        );
        assert_eq!(
            tracker.observe(&[&second[..], &picture].concat(), false),
            None,
            "decoding cannot start here"
        );
        assert_eq!(
            tracker.observe(&picture, true),
            Some([&second[..], &user].concat()),
            "the user data stay"
        );
        assert_eq!(tracker.observe(&picture, true), None);
        assert_eq!(
            tracker
                .observe(&[&first[..], &[0], &picture].concat(), true)
                .map(|e| e[4]),
            Some(1),
            "back"
        );
        assert_eq!(
            tracker.observe(&[&picture[..], &second, &picture].concat(), true),
            None,
            "after a picture"
        );
    }

    #[test]
    fn sequence_header_replaces_its_extensions() {
        let (sequence, extension, picture) = (unit(0xb3, 1), unit(0xb5, 2), unit(0, 9));
        let whole = [&sequence[..], &extension].concat();
        let mut tracker = tracker("mpeg2video", &whole);
        assert_eq!(
            tracker.observe(&[&whole[..], &picture, &unit(0xb5, 3)].concat(), true),
            None
        );
        assert_eq!(
            tracker.observe(&[&sequence[..], &picture].concat(), true),
            Some(sequence.clone())
        );
        let group = unit(0xb8, 0);
        let later = [&sequence[..], &group, &extension, &picture].concat();
        assert_eq!(
            tracker.observe(&later, true),
            None,
            "an extension of something else"
        );
    }

    #[test]
    fn entry_point_counts_where_a_picture_has_none() {
        let (sequence, other, frame) = (unit(0x0f, 1), unit(0x0f, 2), unit(0x0d, 9));
        let (entry, later) = (unit(0x0e, 3), unit(0x0e, 4));
        let mut tracker = tracker("vc1", &[&[5], &sequence[..], &entry].concat());
        assert_eq!(
            tracker.observe(&[&later[..], &frame].concat(), true),
            None,
            "it has its own"
        );
        assert_eq!(
            tracker.observe(&frame, true),
            Some([&sequence[..], &later].concat())
        );
        let next = [&other[..], &entry].concat();
        assert_eq!(
            tracker.observe(&[&next[..], &frame].concat(), true),
            Some(next)
        );
    }

    #[test]
    fn theora_headers_apply_from_the_next_picture() {
        let header = |kind: u8, content: u8| vec![kind, content];
        let laced = |headers: &[Vec<u8>]| -> Vec<u8> {
            headers
                .iter()
                .flat_map(|h| [&(h.len() as u16).to_be_bytes()[..], h].concat())
                .collect()
        };
        let first = [header(0x80, 1), header(0x81, 2), header(0x82, 3)];
        let renamed = [header(0x80, 1), header(0x81, 9), header(0x82, 3)];
        let second = [header(0x80, 1), header(0x81, 2), header(0x82, 4)];
        let mut tracker = tracker("theora", &laced(&[&first[..], &second].concat()));
        for (headers, expected) in [
            (&renamed, None),
            (&second, Some(laced(&second))),
            (&second, None),
        ] {
            for header in headers {
                assert!(tracker.is_header(header));
                assert_eq!(tracker.observe(header, true), None);
            }
            assert_eq!(tracker.observe(&[0, 1], true), expected);
        }
    }

    #[test]
    fn change_without_headers_in_the_packet_needs_another_decoder() {
        let params = |name: &str, extradata: &[u8]| CodecParams::synthetic(name, extradata);
        let (first, second) = (
            params("mpeg4", &unit(0x20, 1)),
            params("mpeg4", &unit(0x20, 2)),
        );
        assert!(can_change_within_range(
            &first,
            &second,
            &[unit(0x20, 2), unit(0xb6, 0)].concat()
        ));
        assert!(!can_change_within_range(&first, &second, &unit(0xb6, 0)));
        let avcc = |length: u8| params("h264", &[1, 66, 0, 30, 0xfc | (length - 1), 0xe0, 0]);
        assert!(can_change_within_range(&avcc(4), &avcc(4), &[]));
        assert!(!can_change_within_range(&avcc(4), &avcc(2), &[]));
        assert!(!can_change_within_range(
            &params("ffv1", &[1]),
            &params("ffv1", &[2]),
            &[]
        ));
    }
}
