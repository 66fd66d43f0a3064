//! What framespool must know of a codec besides its decoder: the trait that each codec implements in
//! a file of its own. A default is the rule for a codec of which nothing is known: the container
//! gives random access points and order, every picture is decoded, and each range by a new decoder.

use framespool_nvdec::session;

use super::configuration::ConfigurationTracker;
use super::nal::NalSyntax;
use super::picture_info::{Dependency, PictureInfo, PictureReferences, RandomAccessPoint};
use crate::media::CodecParams;

/// A codec. Its methods answer what the index and the decoder need to know of its bitstream and of
/// its decoder in libavcodec.
pub(crate) trait Codec: Sync {
    // ---- Packets ----

    /// A parser of the headers of one stream's packets.
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(KeyFlagParser)
    }

    /// Whether that parser finds random access points by headers. Otherwise the container's key
    /// flags count, and are checked by decoding unless the codec is intra-only.
    fn parses_random_access_points(&self) -> bool {
        false
    }

    /// Whether every packet of a stream can be decoded independently. Intra-only is not sufficient:
    /// FFV1 keeps its coder state, MJPEG its tables, raw video a palette.
    fn packets_are_independent(&self, _params: &CodecParams) -> bool {
        false
    }

    /// Why a decoder must not be given a packet.
    fn packet_error(&self, _data: &[u8]) -> Option<&'static str> {
        None
    }

    /// Whether a packet ends as pictures of the codec do, so that the last one of a stream without a
    /// container is not cut. Only for codecs whose decoder does not report that.
    fn has_end(&self, _data: &[u8]) -> bool {
        true
    }

    // ---- Packets of which only the first bytes are read ----

    /// Whether a packet may show nothing, or its picture may be in another packet, so that the
    /// tables of a container do not show which packets are frames.
    fn needs_every_packet(&self) -> bool {
        false
    }

    /// Whether a packet ends in an index of the frames in it, one of which is shown.
    fn has_trailing_index(&self) -> bool {
        false
    }

    /// Whether the bytes that gave `picture` end before the headers that matter.
    fn is_header_missing(&self, picture: &PictureInfo, _container_key: bool) -> bool {
        !picture.shown
    }

    /// Whether a packet of the stream may hold a single field, which only its slice header shows,
    /// according to the configuration or else to the beginning of the first packet.
    fn may_have_field_packets(&self, _extradata: &[u8], _first: &[u8]) -> bool {
        false
    }

    // ---- Parameter sets and other headers ----

    /// How packets are divided into NAL units; `None` for a codec without them.
    fn nal_syntax(&self) -> Option<&'static dyn NalSyntax> {
        None
    }

    /// Tracks the configuration that packets may replace; `None` if they cannot, or if it consists
    /// of parameter sets.
    fn configuration_tracker(&self, _extradata: &[u8]) -> Option<Box<dyn ConfigurationTracker>> {
        None
    }

    /// Whether a packet begins with a configuration to which a decoder changes when it is given the
    /// packet.
    fn replaces_configuration(&self, _data: &[u8]) -> bool {
        false
    }

    /// The header in the codec configuration that a packet must contain if decoding starts at it.
    fn configured_header(&self, _extradata: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// That header in a packet.
    fn packet_header(&self, _data: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Name of the headers without which no picture can be decoded.
    fn required_headers(&self) -> Option<&'static str> {
        None
    }

    /// Width of a pixel divided by its height, from the codec configuration or else from the first
    /// packet; `None` if the stream does not state it.
    fn sample_aspect(&self, params: &CodecParams, first_packet: &[u8]) -> Option<(u32, u32)> {
        super::nal::sample_aspect(self.nal_syntax()?, &params.extradata, first_packet)
    }

    // ---- Presentation order ----

    /// What gives the presentation order.
    fn order_rule(&self, _extradata: &[u8]) -> OrderRule {
        OrderRule::Unknown
    }

    /// Whether presentation order may differ from decode order although the timestamps of an MP4
    /// file do not say so.
    fn reordering(&self, _extradata: &[u8]) -> Reordering {
        Reordering::AsTimestamps
    }

    /// Whether a decoder finds the reorder depth in the bitstream (see [`CodecParams::reorder`]).
    fn declares_reorder_depth(&self, _extradata: &[u8]) -> bool {
        true
    }

    /// Whether every picture after a closed random access point in decode order is shown after it.
    fn closed_points_have_no_leading_pictures(&self) -> bool {
        false
    }

    /// Whether leading pictures are marked as such, and no other picture refers to them.
    fn marks_leading_pictures(&self) -> bool {
        false
    }

    /// Whether libavcodec's parser is needed: for picture order counts that are not parsed here, and
    /// for fields.
    fn is_parsed_by_libavcodec(&self) -> bool {
        false
    }

    /// Whether libavcodec's parser reports which packets are single fields.
    fn parser_reports_fields(&self) -> bool {
        false
    }

    /// Whether a packet may hold several pictures, the later ones of which are decoded with the
    /// packets after it.
    fn packs_pictures(&self) -> bool {
        false
    }

    /// Whether the headers of a damaged packet do not show that its picture is hidden.
    fn hides_pictures(&self) -> bool {
        false
    }

    // ---- Skipping ----

    /// Determines which packets can be omitted; `None` if none can.
    fn dependency_parser(&self, params: &CodecParams) -> Option<Box<dyn PacketDependencyParser>> {
        let independent = self.packets_are_independent(params);
        independent.then(|| Box::new(IndependentPackets) as _)
    }

    /// Reads which pictures each picture refers to; `None` if references are not parsed.
    fn reference_parser(&self, _extradata: &[u8]) -> Option<Box<dyn ReferenceParser>> {
        None
    }

    // ---- The decoder in libavcodec ----

    /// Whether decoding from a random access point is independent of what the decoder decoded of
    /// the same video before, if its headers do not change. Decoders of other codecs keep tables
    /// that a stream may rely on having sent, or on not having sent, or even, when flushed, the last
    /// picture (Cinepak).
    fn is_reset_at_sync(&self, params: &CodecParams) -> bool {
        self.packets_are_independent(params)
    }

    /// Whether what a decoder kept from before a random access point can have an effect behind it, if
    /// a picture there is damaged.
    fn keeps_state_over_sync(&self) -> bool {
        false
    }

    /// Whether a decoder with several threads reports the same damage as one with a single thread,
    /// and conceals it in the same way.
    fn reports_damage_with_threads(&self) -> bool {
        false
    }

    /// Whether the decoder writes or conceals every block of a frame, or reports that it did not.
    fn writes_every_block(&self) -> bool {
        false
    }

    /// Whether the decoder must be opened with `AV_CODEC_FLAG_LOW_DELAY`, because it otherwise
    /// reports errors of a packet after later packets were sent.
    fn needs_low_delay(&self) -> bool {
        false
    }

    /// Whether the decoder drops packets' tags, so that frames must be identified by their time.
    fn drops_packet_tags(&self) -> bool {
        false
    }

    /// Whether the decoder can lose a frame of intact headers with a message that otherwise concerns
    /// no pixel. It outputs frames in decode order.
    fn loses_frames(&self) -> bool {
        false
    }

    /// Which part of a packet's pictures is missing, if the decoder does not report that. `height` is
    /// that of the pictures so far.
    fn missing_part(&self, _data: &[u8], _height: &mut u32) -> Option<String> {
        None
    }

    /// Whether the decoder outputs a frame of which it got one field, with any bytes in the lines of the
    /// other one, and takes the next field of any frame for the missing one.
    fn leaves_missing_fields_unwritten(&self) -> bool {
        false
    }

    /// Whether the decoder outputs each field as a frame.
    fn outputs_fields(&self) -> bool {
        false
    }

    /// Whether the decoder reports a picture that ends too early.
    fn detects_truncated_pictures(&self) -> bool {
        false
    }

    /// First words of errors that concern no pixel. What follows each of them in FFmpeg 9.0 and
    /// dav1d 1.5 was read: no slice, block or parameter set is skipped or replaced. Every other
    /// error is taken for damage. tests/python/test_harmless_messages.py has files that cause most
    /// of them.
    fn harmless_messages(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether after this message the decoder goes on in a second image of the packet, if there is
    /// one.
    fn resumes_in_second_image(&self, _message: &str) -> bool {
        false
    }

    /// Whether a packet contains a second image, such as a thumbnail.
    fn has_second_image(&self, _data: &[u8]) -> bool {
        false
    }

    // ---- NVDEC ----

    /// The codec of NVDEC whose output is exact, or else the reason why there is none.
    fn nvdec(&self) -> Result<session::Codec, &'static str> {
        Err("NVDEC does not decode it")
    }

    /// Whether libavcodec uses the container's color description where the bitstream has none.
    fn uses_container_color(&self) -> bool {
        false
    }

    // ---- MP4 ----

    /// Its sample entries in MP4 files whose sample tables are read directly; files with others are
    /// left to libavformat.
    fn sample_entries(&self) -> &'static [SampleEntry] {
        &[]
    }
}

/// Why NVDEC, which decodes a codec, is not used for it.
pub(super) const INEXACT: &str = "its standard does not define bit-exact output";

/// What gives the presentation order of a codec's pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderRule {
    /// Decode order: the codec does not reorder.
    DecodeOrder,
    /// The type of each picture; timestamps may contradict it.
    PictureTypes,
    /// The type of each picture, where timestamps do not give the order.
    PictureTypesIfUntimed,
    /// Picture order counts, where timestamps do not give the order.
    PictureOrderCounts,
    /// The decoder's output, where timestamps do not give the order.
    DecoderOutput,
    /// Timestamps. Without them, decode order if the codec is intra-only, and otherwise the decoder's
    /// output.
    Unknown,
}

/// Whether pictures of a stream are reordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reordering {
    /// Timestamps tell.
    AsTimestamps,
    /// They may be, according to the codec configuration.
    Possible,
    /// They may be if the first pictures include B pictures.
    ByPictureType,
}

/// A sample entry of MP4 (ISO/IEC 14496-12 8.5.2).
pub(crate) struct SampleEntry {
    /// Its type.
    pub kind: [u8; 4],
    /// Where the codec configuration is.
    pub configuration: ConfigurationBox,
    /// Samples may contain parameter sets that differ from those of the configuration.
    pub has_in_band_sets: bool,
}

/// The box of a sample entry with the codec configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigurationBox {
    /// There is none.
    None,
    /// The content of a box.
    Of([u8; 4]),
    /// The `DecoderSpecificInfo` of an `esds` box with this object type (ISO/IEC 14496-1 7.2.6.6).
    Esds(u8),
}

impl SampleEntry {
    pub(super) const fn new(kind: [u8; 4], configuration: ConfigurationBox) -> Self {
        Self {
            kind,
            configuration,
            has_in_band_sets: false,
        }
    }

    pub(super) const fn with_in_band_sets(self) -> Self {
        Self {
            has_in_band_sets: true,
            ..self
        }
    }
}

/// Flags of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketFlags {
    /// The container marks it as a keyframe.
    pub container_key: bool,
    /// It is the first packet of the stream.
    pub is_first: bool,
}

impl PacketFlags {
    /// Random access as the container's key flag says. Leading pictures are possible, so `Open` is
    /// the safe choice.
    pub(crate) fn random_access(self) -> RandomAccessPoint {
        match self.container_key {
            true => RandomAccessPoint::Open,
            false => RandomAccessPoint::None,
        }
    }
}

/// Parses the packet headers of one stream, and keeps the state that later headers depend on.
pub(crate) trait PictureParser: Send {
    /// The packets from here on belong to this configuration.
    fn set_extradata(&mut self, _extradata: &[u8]) {}

    /// Reads no further than the first slice. `data` is not empty.
    fn parse(&mut self, data: &[u8], flags: PacketFlags) -> PictureInfo;

    /// Headers of the first packet on which decoding depends wherever it starts, in the stream's
    /// framing.
    fn first_packet_headers(&self, _first: &[u8]) -> Vec<u8> {
        Vec::new()
    }
}

/// A codec whose packets are not parsed.
struct KeyFlagParser;

impl PictureParser for KeyFlagParser {
    fn parse(&mut self, _data: &[u8], flags: PacketFlags) -> PictureInfo {
        PictureInfo {
            random_access: flags.random_access(),
            ..PictureInfo::default()
        }
    }
}

/// Headers that only need the packet itself.
impl<F: FnMut(&[u8], PacketFlags) -> PictureInfo + Send> PictureParser for F {
    fn parse(&mut self, data: &[u8], flags: PacketFlags) -> PictureInfo {
        self(data, flags)
    }
}

/// Determines the [`Dependency`] of one stream's packets and keeps the parameter sets that later
/// headers depend on.
pub(crate) trait PacketDependencyParser: Send {
    /// `None` if the packet is damaged, unusual or not understood.
    fn parse(&mut self, data: &[u8]) -> Option<Dependency>;

    /// Highest temporal layer declared so far.
    fn highest_layer(&self) -> u8 {
        0
    }

    /// Whether any packet of the stream can be omitted.
    fn may_have_disposable(&self) -> bool {
        true
    }
}

struct IndependentPackets;

impl PacketDependencyParser for IndependentPackets {
    fn parse(&mut self, data: &[u8]) -> Option<Dependency> {
        (!data.is_empty()).then_some(Dependency::Disposable { layer: 0 })
    }
}

/// Reads the references of one range of packets.
pub(crate) trait ReferenceParser: Send {
    /// Reads packet `place` of the range. `None` if it is damaged, unusual or not understood.
    fn parse(&mut self, place: usize, data: &[u8]) -> Option<PictureReferences>;
}
