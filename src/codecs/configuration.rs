//! Codec configurations inside packets: headers after start codes that a stream may replace between
//! pictures. Decoding that starts at a later packet needs those in force there.

use super::nal::Framing;
use crate::media::CodecParams;

/// Tracks the configuration in force at the current packet of a stream.
pub(crate) trait ConfigurationTracker: Send {
    /// Records a packet. Returns the extradata for decoders that start at it or later, if decoding
    /// may start at it and they differ from those returned last.
    fn observe(&mut self, data: &[u8], may_start: bool) -> Option<Vec<u8>>;

    /// Whether a packet is a header and contains no picture.
    fn is_header(&self, _data: &[u8]) -> bool {
        false
    }
}

/// Maximum number of kinds of headers.
pub(super) const PARTS: usize = 5;

/// What a unit after a start code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A header of this kind, less than `PARTS`.
    Header(usize),
    /// A picture, a slice, or what may only precede them.
    Picture,
    /// Anything else.
    Other,
}

/// Which headers form the configuration of a codec.
pub(super) struct Syntax {
    /// What a start code begins, given the kind of the unit before it if that was a header.
    pub unit: fn(code: u8, previous: Option<usize>) -> Unit,
    /// Kinds of headers of which one at least replaces the configuration.
    pub required: &'static [usize],
    /// Whether what a packet does not repeat stays in force.
    pub accumulates: bool,
    /// A header that differs only in what decoders do not keep, if the packet contains it.
    pub ignored_if_present: Option<usize>,
}

/// The headers of a configuration by kind, in the order in which a decoder expects them.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers([Vec<u8>; PARTS]);

/// Whether two headers are the same: zeros may fill the space before the next start code.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let trimmed = |part: &[u8]| {
        part.iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1)
    };
    a[..trimmed(a)] == b[..trimmed(b)]
}

impl Headers {
    /// The headers before the first picture of a packet, or of a stream's extradata.
    fn read(syntax: &Syntax, data: &[u8]) -> Self {
        let mut headers = Self::default();
        let starts: Vec<usize> = memchr::memmem::find_iter(data, b"\0\0\x01").collect();
        let mut previous = None;
        for (n, &start) in starts.iter().enumerate() {
            let Some(&code) = data.get(start + 3) else {
                break;
            };
            let unit = (syntax.unit)(code, previous);
            previous = None;
            match unit {
                Unit::Picture => break,
                Unit::Other => {}
                Unit::Header(part) => {
                    let end = starts.get(n + 1).copied().unwrap_or(data.len());
                    headers.0[part].extend_from_slice(&data[start..end]);
                    previous = Some(part);
                }
            }
        }
        headers
    }

    /// Whether decoding needs what these headers replace.
    fn is_configuration(&self, syntax: &Syntax) -> bool {
        syntax.required.iter().any(|&part| !self.0[part].is_empty())
    }

    /// Replaces these headers by those of a packet.
    fn update(&mut self, syntax: &Syntax, by: Self) {
        if !syntax.accumulates {
            *self = by;
            return;
        }
        for (part, by) in self.0.iter_mut().zip(by.0).filter(|(_, by)| !by.is_empty()) {
            *part = by;
        }
    }
}

/// Whether a packet contains headers that replace the configuration.
pub(super) fn holds_configuration(syntax: &Syntax, data: &[u8]) -> bool {
    Headers::read(syntax, data).is_configuration(syntax)
}

/// Tracks a configuration of headers after start codes.
pub(super) struct StartCodeTracker {
    syntax: &'static Syntax,
    in_force: Headers,
    /// The configuration that decoders are given from the last change on.
    known: Headers,
}

impl StartCodeTracker {
    /// For a stream with this configuration.
    pub(super) fn new(syntax: &'static Syntax, extradata: &[u8]) -> Self {
        let known = Headers::read(syntax, extradata);
        Self {
            syntax,
            in_force: known.clone(),
            known,
        }
    }
}

impl ConfigurationTracker for StartCodeTracker {
    fn observe(&mut self, data: &[u8], may_start: bool) -> Option<Vec<u8>> {
        let headers = Headers::read(self.syntax, data);
        let ignored = self
            .syntax
            .ignored_if_present
            .filter(|&part| !headers.0[part].is_empty());
        if headers.is_configuration(self.syntax) {
            self.in_force.update(self.syntax, headers);
        }
        let is_unchanged = (0..PARTS)
            .filter(|&part| Some(part) != ignored)
            .all(|part| is_same(&self.in_force.0[part], &self.known.0[part]));
        if !may_start || is_unchanged {
            return None;
        }
        self.known = self.in_force.clone();
        Some(self.known.0.concat())
    }
}

/// Whether a decoder that was opened with the parameters `before` decodes a packet from which
/// `after` apply, and the packets after it, given the packet as it is read from the file.
pub(crate) fn can_change_within_range(
    before: &CodecParams,
    after: &CodecParams,
    data: &[u8],
) -> bool {
    let codec = super::of(&after.codec);
    match codec.nal_syntax() {
        Some(syntax) => {
            Framing::detect(syntax, &before.extradata) == Framing::detect(syntax, &after.extradata)
        }
        None => codec.replaces_configuration(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A start code and a byte after it.
    fn unit(code: u8, content: u8) -> Vec<u8> {
        vec![0, 0, 1, code, content]
    }

    fn tracker(name: &str, extradata: &[u8]) -> Box<dyn ConfigurationTracker> {
        crate::codecs::by_name(name)
            .configuration_tracker(extradata)
            .expect("tracked")
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
