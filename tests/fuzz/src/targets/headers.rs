//! Packet headers of a codec with its configuration: random access points, roles, references,
//! access units for a GPU. The results must be the same each time. They are not compared with a
//! decoder; tests/engine/corpus.rs does that.

use std::sync::OnceLock;

use framespool::codecs::disposable::DependencyParser;
use framespool::codecs::header_parser::HeaderParser;
use framespool::codecs::references::ReferenceGraph;
use framespool::decode::BitstreamFilter;
use framespool::error::Site;
use framespool::index::VideoIndex;
use framespool::media::{Codec, CodecParams, ColorTags, DisplayOrientation, StreamInfo};
use framespool::units::{DecodeIndex, TimeBase};

use super::index::indices;
use super::{Target, USUAL};
use crate::fuzz_input::FuzzInput;
use crate::seeds::Seeds;

pub const HEADERS: Target = Target {
    name: "headers",
    about: "headers in packets: NAL units, OBUs, VP8, VP9, MPEG, JPEG",
    seeds,
    run: |input| {
        let (params, packets) = decode_fields(input);
        let first = read(&params, &packets);
        assert_eq!(
            first,
            read(&params, &packets),
            "different results the second time"
        );
    },
    longest: 8 << 10,
    replayed: 20_000,
    ..USUAL
};

const CODECS: [&str; 12] = [
    "h264",
    "hevc",
    "av1",
    "vp9",
    "vp8",
    "mpeg4",
    "mpeg2video",
    "mpeg1video",
    "mjpeg",
    "rawvideo",
    "vc1",
    "vvc",
];
/// Maximum length of a packet in a seed: headers are at its start.
const MAX_HEADER_BYTES: usize = 300;

/// Codec, options, then configuration and packets, each preceded by its length.
fn seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (source, index) in indices(seeds) {
        let params = &index.info.params;
        let Some(codec) = CODECS.iter().position(|name| *name == params.codec.name) else {
            continue;
        };
        let mut input = vec![codec as u8, 0, 0];
        let mut put = |bytes: &[u8]| {
            input.extend((bytes.len() as u16).to_le_bytes());
            input.extend(bytes);
        };
        put(&params.extradata);
        let direct = index.packets.iter().filter(|_| index.direct);
        for packet in direct.take(8) {
            let mut bytes = vec![0; MAX_HEADER_BYTES.min(packet.size as usize)];
            if source.read_at(packet.offset, &mut bytes).is_ok() {
                put(&bytes);
            }
        }
        all.push(input);
    }
    all
}

fn decode_fields(input: &[u8]) -> (CodecParams, Vec<&[u8]>) {
    let mut case = FuzzInput::new(input);
    let name = case.one_of(&CODECS);
    let (options, reorder) = (case.byte(), case.byte());
    let mut rest = case.rest();
    let mut pieces = Vec::new();
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let (piece, behind) = behind.split_at(behind.len().min(u16::from_le_bytes(*len).into()));
        pieces.push(piece);
        rest = behind;
    }
    let extradata = if pieces.is_empty() {
        Vec::new()
    } else {
        pieces.remove(0).to_vec()
    };
    let params = CodecParams {
        codec: Codec::of_stream(0, name),
        tag: 0,
        extradata,
        width: 16,
        height: 16,
        bits_per_coded_sample: if options & 1 == 1 { 8 } else { 24 },
        color: ColorTags::default(),
        reorder: (options & 2 == 2).then_some(reorder),
    };
    (params, pieces)
}

/// All results, as text.
fn read(params: &CodecParams, packets: &[&[u8]]) -> Vec<String> {
    let mut said = Vec::new();
    let mut header_parser = HeaderParser::new(params);
    let mut parser = DependencyParser::new(params);
    let mut graph = ReferenceGraph::new(params);
    let filter = BitstreamFilter::new(&params_only(params.clone()), DecodeIndex(0));
    let mut unit = Vec::new();
    for (number, packet) in packets.iter().enumerate() {
        said.push(format!(
            "{:?}",
            header_parser.parse(packet, number % 3 == 0)
        ));
        let preamble = header_parser.first_packet_headers(packet);
        assert!(
            preamble.len() <= packet.len() + 4,
            "a preamble longer than its packet"
        );
        said.push(format!(
            "{:?} of {}",
            parser.parse(packet),
            parser.highest_layer()
        ));
        if let Some(graph) = &mut graph {
            graph.push(packet);
        }
        if let Ok(filter) = &filter {
            said.push(format!("{:?}", filter.filter_packet(packet, &mut unit)));
            // A unit of one byte with a one-byte length becomes one with a four-byte start code.
            assert!(
                unit.len() <= 5 * packet.len() + 8,
                "{} bytes of {}",
                unit.len(),
                packet.len()
            );
        }
    }
    if let Some(graph) = graph.filter(|_| !packets.is_empty()) {
        for wanted in 0..packets.len() {
            let Some(needed) = graph.required_for(&[wanted]) else {
                continue;
            };
            assert_eq!(needed.len(), packets.len());
            assert!(
                needed[0] && needed[wanted],
                "the requested packet and the start of decoding are needed"
            );
            said.push(format!("{needed:?}"));
        }
        assert_eq!(
            graph.required_for(&[packets.len()]),
            None,
            "a packet that is not there"
        );
    }
    said.push(format!("{filter:?} {}", parser.may_have_disposable()));
    said
}

/// An index without packet information.
fn params_only(params: CodecParams) -> VideoIndex {
    VideoIndex {
        site: Site::file(&"fuzzed".into()),
        container: "none".into(),
        info: StreamInfo {
            stream: 0,
            params,
            time_base: TimeBase::new(1, 25).expect("not zero"),
            orientation: DisplayOrientation::default(),
            sample_aspect: None,
            frame_rate: None,
        },
        streams: Vec::new(),
        packets: Vec::new(),
        frames: Vec::new(),
        end_pts: 0,
        direct: true,
        sync_points: Vec::new(),
        in_band_headers: Vec::new(),
        new_extradata: Vec::new(),
        alternative_transfer: None,
        damaged_units: 0,
        changes_parameters: false,
        first_field: OnceLock::new(),
        cpu_only: OnceLock::new(),
    }
}
