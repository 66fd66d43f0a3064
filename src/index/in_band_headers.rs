//! Data in the packets of a stream, or attached to them by its container, that a decoder needs when
//! it starts at a later packet.

use std::borrow::Cow;

use crate::codecs;
use crate::codecs::codec::Codec;
use crate::codecs::configuration::ConfigurationTracker;
use crate::codecs::header_parser::HeaderParser;
use crate::codecs::nal::transfer_of_stream;
use crate::codecs::parameter_sets::ParameterSetTracker;
use crate::codecs::picture_info::RandomAccessPoint;
use crate::error::{Error, Result, Site};
use crate::media::{CodecParams, StreamInfo};

/// Data from earlier packets that a decoder starting later in the stream needs.
#[derive(Default)]
pub(super) struct InBandHeaders {
    codec: Option<&'static dyn Codec>,
    pub sets: Option<ParameterSetTracker>,
    configuration: Option<Box<dyn ConfigurationTracker>>,
    /// Headers of the first packet with the current extradata on which all later ones depend.
    first_packet_headers: Vec<u8>,
    /// The header in force that a packet must contain if decoding starts at it (AV1 sequence
    /// header).
    sequence_header: Option<Vec<u8>>,
    pub headers: Vec<(u32, Vec<u8>)>,
    /// Extradata that replaces that of the stream: (first packet, extradata).
    pub new_extradata: Vec<(u32, Vec<u8>)>,
    /// Width of a pixel divided by its height, if the codec configuration or the first packet
    /// states it.
    pub sample_aspect: Option<(u32, u32)>,
    /// See [`VideoIndex::alternative_transfer`](super::VideoIndex).
    pub alternative_transfer: Option<u8>,
}

impl InBandHeaders {
    pub(super) fn new(header_parser: &HeaderParser, params: &CodecParams, first: &[u8]) -> Self {
        let mut this = Self {
            first_packet_headers: header_parser.first_packet_headers(first),
            sample_aspect: codecs::of(&params.codec).sample_aspect(params, first),
            alternative_transfer: transfer_of_stream(params, first),
            ..Self::default()
        };
        this.track(params);
        this
    }

    fn track(&mut self, params: &CodecParams) {
        let codec = codecs::of(&params.codec);
        let extradata = &params.extradata;
        self.codec = Some(codec);
        let syntax = codec.nal_syntax();
        self.sets = syntax.map(|syntax| ParameterSetTracker::new(syntax, extradata));
        self.configuration = codec.configuration_tracker(extradata);
        self.sequence_header = codec.configured_header(extradata);
    }

    /// The parameters in force, given those of the stream.
    pub(super) fn params<'a>(&self, params: &'a CodecParams) -> Cow<'a, CodecParams> {
        with_extradata(params, self.new_extradata.last())
    }

    /// Records extradata that the container attaches to packet `at`, whose payload is `data`.
    /// Returns the parameters in force from there on, unless they are the same as before: some
    /// muxers repeat the extradata at each keyframe.
    pub(super) fn change_extradata(
        &mut self,
        at: u32,
        params: &CodecParams,
        extradata: &[u8],
        header_parser: &mut HeaderParser,
        data: &[u8],
    ) -> Option<CodecParams> {
        if self.params(params).extradata == extradata {
            return None;
        }
        let changed = CodecParams {
            extradata: extradata.to_vec(),
            ..params.clone()
        };
        self.track(&changed);
        header_parser.set_extradata(extradata);
        self.first_packet_headers = header_parser.first_packet_headers(data);
        self.new_extradata.push((at, changed.extradata.clone()));
        Some(changed)
    }

    /// Records packet `at`, of which `data` may be only the first bytes. Returns whether other
    /// extradata are in force from there on.
    pub(super) fn observe(&mut self, at: u32, start: RandomAccessPoint, data: &[u8]) -> bool {
        let may_start = start != RandomAccessPoint::None;
        let extradata = self
            .configuration
            .as_mut()
            .and_then(|tracker| tracker.observe(data, may_start));
        let is_changed = extradata.is_some();
        self.new_extradata
            .extend(extradata.map(|extradata| (at, extradata)));
        let own_sequence_header = self.codec.and_then(|codec| codec.packet_header(data));
        if at > 0 && may_start {
            let sets = self
                .sets
                .as_ref()
                .map_or_else(Vec::new, ParameterSetTracker::not_in_config);
            let sequence_header = self
                .sequence_header
                .as_deref()
                .filter(|_| own_sequence_header.is_none());
            let preamble = [
                &sets[..],
                &self.first_packet_headers,
                sequence_header.unwrap_or_default(),
            ]
            .concat();
            if self
                .headers
                .last()
                .map_or(!preamble.is_empty(), |last| last.1 != preamble)
            {
                self.headers.push((at, preamble));
            }
        }
        if own_sequence_header.is_some() {
            self.sequence_header = own_sequence_header;
        }
        if let Some(sets) = &mut self.sets {
            sets.observe(data);
        }
        is_changed
    }

    /// Whether a packet only contains headers.
    pub(super) fn is_header(&self, data: &[u8]) -> bool {
        self.configuration
            .as_ref()
            .is_some_and(|tracker| tracker.is_header(data))
    }

    /// Whether headers change within the stream.
    pub(super) fn are_changing(&self) -> bool {
        !self.new_extradata.is_empty()
            || self
                .sets
                .as_ref()
                .is_some_and(ParameterSetTracker::is_changing)
    }

    /// Whether the parameter sets seen so far include every kind that a slice requires.
    pub(super) fn is_complete(&self) -> bool {
        self.sets
            .as_ref()
            .is_none_or(ParameterSetTracker::is_complete)
    }

    /// # Errors
    /// `Malformed` if neither the container nor any packet holds the headers without which no
    /// picture can be decoded.
    pub(super) fn check(&self, site: &Site, info: &StreamInfo) -> Result<()> {
        let unsized_ = info.params.width == 0 || info.params.height == 0;
        let codec = codecs::of(&info.params.codec);
        let is_missing = match codec.nal_syntax() {
            Some(_) => !self.is_complete(),
            None => unsized_,
        };
        let Some(lacks) = codec.required_headers().filter(|_| is_missing) else {
            return Ok(());
        };
        let reason = format!(
            "its {} stream has no {lacks}, neither in the container nor in a packet, so no frame can be \
             decoded; create the file again from its source, including its start",
            info.params.codec.name
        );
        Err(Error::malformed(site, reason))
    }
}

/// Parameters with this extradata, if any.
pub(super) fn with_extradata<'a>(
    params: &'a CodecParams,
    new_extradata: Option<&(u32, Vec<u8>)>,
) -> Cow<'a, CodecParams> {
    match new_extradata {
        None => Cow::Borrowed(params),
        Some((_, extradata)) => Cow::Owned(CodecParams {
            extradata: extradata.clone(),
            ..params.clone()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyframe_without_sequence_header_gets_the_one_in_force() {
        // OBUs with a size: sequence headers of two bytes, and a temporal delimiter in place of a
        // frame.
        let (first, second, frame) = ([0x0a, 2, 1, 1], [0x0a, 2, 2, 2], [0x12, 0]);
        let stored = |header: &[u8]| [&[0x0a, 0x82, 0][..], &header[2..]].concat(); // the size in two bytes
        let params = CodecParams::synthetic("av1", &[&[0x81, 0, 0, 0], &first[..]].concat());
        let header_parser = HeaderParser::new(&params);
        let mut in_band = InBandHeaders::new(&header_parser, &params, &frame);
        let keyframes = [
            frame.to_vec(),
            frame.to_vec(),
            [&second[..], &frame].concat(),
            frame.to_vec(),
            first.to_vec(),
        ];
        for (at, packet) in (0..).zip(&keyframes) {
            assert!(!in_band.observe(at, RandomAccessPoint::Closed, packet));
        }
        assert_eq!(
            in_band.headers,
            [
                (1, stored(&first)),
                (2, vec![]),
                (3, stored(&second)),
                (4, vec![])
            ]
        );
        assert!(in_band.new_extradata.is_empty());
    }

    #[test]
    fn repeated_extradata_are_no_change() {
        let avcc = |set: u8| vec![1, 66, 0, 30, 0xff, 0xe1, 0, 5, 0x67, 66, 0, set, 0x80, 0];
        let params = CodecParams::synthetic("h264", &avcc(1));
        let mut header_parser = HeaderParser::new(&params);
        let mut in_band = InBandHeaders::new(&header_parser, &params, &[]);
        let mut change = |at, extradata: &[u8]| {
            let changed = in_band.change_extradata(at, &params, extradata, &mut header_parser, &[]);
            changed.map(|params| params.extradata)
        };
        assert_eq!(change(0, &avcc(1)), None);
        assert_eq!(change(5, &avcc(2)), Some(avcc(2)));
        assert_eq!(change(7, &avcc(2)), None);
        assert_eq!(change(9, &avcc(1)), Some(avcc(1)), "back");
        assert_eq!(in_band.new_extradata, [(5, avcc(2)), (9, avcc(1))]);
        assert!(in_band.are_changing() && in_band.headers.is_empty());
    }
}
