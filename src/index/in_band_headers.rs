//! Data in the packets of a stream, or attached to them by its container, that a decoder needs when
//! it starts at a later packet.

use std::borrow::Cow;

use crate::bitstream::av1;
use crate::bitstream::configuration::ConfigurationTracker;
use crate::bitstream::header_parser::HeaderParser;
use crate::bitstream::parameter_set_tracker::ParameterSetTracker;
use crate::bitstream::picture_info::RandomAccessPoint;
use crate::bitstream::sample_aspect::sample_aspect;
use crate::error::{Error, Result, Site};
use crate::media::{CodecKind, CodecParams, StreamInfo};

/// Data from earlier packets that a decoder starting later in the stream needs.
#[derive(Default)]
pub(super) struct InBandHeaders {
    pub sets: Option<ParameterSetTracker>,
    configuration: Option<ConfigurationTracker>,
    /// The x264 user data SEI message of the first packet with the current extradata.
    x264_sei: Vec<u8>,
    /// The AV1 sequence header in force; `None` for other codecs.
    sequence_header: Option<Vec<u8>>,
    pub headers: Vec<(u32, Vec<u8>)>,
    /// Extradata that replaces that of the stream: (first packet, extradata).
    pub new_extradata: Vec<(u32, Vec<u8>)>,
    /// Width of a pixel divided by its height, if the codec configuration or the first packet
    /// states it.
    pub sample_aspect: Option<(u32, u32)>,
}

impl InBandHeaders {
    pub fn new(header_parser: &HeaderParser, params: &CodecParams, first: &[u8]) -> Self {
        let sample_aspect = sample_aspect(params, first);
        let mut this = Self {
            x264_sei: header_parser.x264_sei(first),
            sample_aspect,
            ..Self::default()
        };
        this.track(params);
        this
    }

    fn track(&mut self, params: &CodecParams) {
        self.sets = ParameterSetTracker::new(params.codec.kind, &params.extradata);
        self.configuration = ConfigurationTracker::new(params);
        self.sequence_header = (params.codec.kind == CodecKind::Av1)
            .then(|| av1::sequence_header(av1::config_obus(&params.extradata)).unwrap_or_default());
    }

    /// The parameters in force, given those of the stream.
    pub fn params<'a>(&self, params: &'a CodecParams) -> Cow<'a, CodecParams> {
        with_extradata(params, self.new_extradata.last())
    }

    /// Records extradata that the container attaches to packet `at`, whose payload is `data`.
    /// Returns the parameters in force from there on, unless they are the same as before: some
    /// muxers repeat the extradata at each keyframe.
    pub fn change_extradata(
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
        self.x264_sei = header_parser.x264_sei(data);
        self.new_extradata.push((at, changed.extradata.clone()));
        Some(changed)
    }

    /// Records packet `at`, of which `data` may be only the first bytes. Returns whether other
    /// extradata are in force from there on.
    pub fn observe(&mut self, at: u32, start: RandomAccessPoint, data: &[u8]) -> bool {
        let may_start = start != RandomAccessPoint::None;
        let extradata = self
            .configuration
            .as_mut()
            .and_then(|tracker| tracker.observe(data, may_start));
        let is_changed = extradata.is_some();
        self.new_extradata
            .extend(extradata.map(|extradata| (at, extradata)));
        let own_sequence_header = self
            .sequence_header
            .as_ref()
            .and_then(|_| av1::sequence_header(data));
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
                &self.x264_sei,
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
    pub fn is_header(&self, data: &[u8]) -> bool {
        self.configuration
            .as_ref()
            .is_some_and(|tracker| tracker.is_header(data))
    }

    /// Whether headers change within the stream.
    pub fn are_changing(&self) -> bool {
        !self.new_extradata.is_empty()
            || self
                .sets
                .as_ref()
                .is_some_and(ParameterSetTracker::is_changing)
    }

    /// Whether the parameter sets seen so far include every kind that a slice requires.
    pub fn is_complete(&self) -> bool {
        self.sets
            .as_ref()
            .is_none_or(ParameterSetTracker::is_complete)
    }

    /// # Errors
    /// `Malformed` if neither the container nor any packet holds the headers without which no
    /// picture can be decoded.
    pub fn check(&self, site: &Site, info: &StreamInfo) -> Result<()> {
        let unsized_ = info.params.width == 0 || info.params.height == 0;
        let lacks = match info.params.codec.kind {
            CodecKind::H264 | CodecKind::Hevc if !self.is_complete() => {
                "parameter sets (SPS and PPS)"
            }
            CodecKind::Mpeg12 if unsized_ => "sequence header",
            CodecKind::Mpeg4 if unsized_ => "video object layer header",
            _ => return Ok(()),
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
        let header_parser = HeaderParser::new(CodecKind::Av1, &params.extradata);
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
        let mut header_parser = HeaderParser::new(CodecKind::H264, &params.extradata);
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
