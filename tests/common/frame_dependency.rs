//! Helpers for the tests that omit packets: videos with the roles of their packets, and a decoder
//! that is fed packets directly.
#![allow(dead_code)]

use std::collections::HashMap;
use std::sync::Arc;

use framespool::codecs::disposable::{Dependency, DependencyParser};
use framespool::decode::PacketReader;
use framespool::ffmpeg::{Decoder, Frame, Packet, Received, log};
use framespool::index::{VideoIndex, build};
use framespool::limits::Limits;
use framespool::source::ByteSource;
use framespool::units::DecodeIndex;

use super::Entry;

/// The most frames of each file that are decoded.
pub const MAX_FRAMES: u64 = 250;

/// A video and the roles of its packets.
pub struct Video {
    pub index: Arc<VideoIndex>,
    pub reader: PacketReader,
    pub dependencies: Vec<Dependency>,
    pub highest_layer: u8,
    pub may_have_disposable: bool,
}

/// The output of a decoder: a hash of each packet's picture, and the first decoder error with its
/// packet.
#[derive(Default)]
pub struct Decoded {
    pub pictures: HashMap<u32, u64>,
    pub logged_error: Option<(u32, String)>,
}

impl Video {
    /// Returns `None` if nothing in the file can be decoded.
    pub fn open(entry: &Entry) -> Option<Self> {
        Self::read(entry.source().ok()?)
    }

    pub fn read(source: Arc<dyn ByteSource>) -> Option<Self> {
        let index = Arc::new(build(&source, &Limits::default()).ok()?);
        Decoder::open(&index.site, &index.info.params, 1).ok()?;
        let mut reader = PacketReader::new(source, index.clone());
        let mut of = DependencyParser::new(&index.info.params);
        let (mut packet, mut dependencies) = (Packet::new(), Vec::new());
        for at in 0..index.packets.len() as u32 {
            // A packet that cannot be read cannot be decoded either: the video ends here.
            if reader.read(DecodeIndex(at), false, &mut packet).is_err() {
                break;
            }
            dependencies.push(of.parse(packet.data()));
        }
        Some(Self {
            index,
            reader,
            dependencies,
            highest_layer: of.highest_layer(),
            may_have_disposable: of.may_have_disposable(),
        })
    }

    /// Decodes packets with a new decoder; the first packet begins a decode range.
    pub fn decode(&mut self, packets: &[u32]) -> Decoded {
        let mut out = Decoded::default();
        let Some(&first) = packets.first() else {
            return out;
        };
        let params = &self.index.params_at(DecodeIndex(first));
        let by_time = params.codec.name == "vp9";
        let mut decoder = Decoder::open(&self.index.site, params, 1).expect("opened before");
        let (mut packet, mut frame) = (Packet::new(), Frame::new());
        for &at in packets {
            let read = self.reader.read(DecodeIndex(at), at == first, &mut packet);
            let sent = read
                .map_err(|e| e.to_string())
                .and_then(|()| decoder.send(&packet))
                .err()
                .or_else(log::first);
            out.collect(&mut decoder, &mut frame, by_time, at, sent);
        }
        decoder.drain();
        out.collect(&mut decoder, &mut frame, by_time, u32::MAX, None);
        out
    }

    /// Returns the packets that remain after omission. Let `highest` be the highest layer among the
    /// packets that are kept later in decode order: an unwanted leaf picture is omitted if its
    /// layer is `highest` or above, an unwanted reference picture if its layer is above `highest`.
    pub fn packets_to_decode(&self, packets: &[u32], wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut highest = 0;
        let mut kept = Vec::new();
        for &at in packets.iter().rev() {
            let (layer, droppable) = match self.dependencies[at as usize] {
                Dependency::Disposable { layer } => (layer, layer >= highest),
                Dependency::Reference { layer } => (layer, layer > highest),
                Dependency::Unknown => (self.highest_layer, false),
            };
            if !droppable || wanted(at) {
                highest = highest.max(layer);
                kept.push(at);
            }
        }
        kept.reverse();
        kept
    }

    pub fn layer(&self, at: u32) -> u8 {
        match self.dependencies[at as usize] {
            Dependency::Disposable { layer } | Dependency::Reference { layer } => layer,
            Dependency::Unknown => 0,
        }
    }

    pub fn is_leaf(&self, at: u32) -> bool {
        matches!(
            self.dependencies[at as usize],
            Dependency::Disposable { .. }
        )
    }

    pub fn bytes(&self, packets: &[u32]) -> u64 {
        packets
            .iter()
            .map(|&at| u64::from(self.index.packets[at as usize].size))
            .sum()
    }
}

impl Decoded {
    fn collect(
        &mut self,
        decoder: &mut Decoder,
        frame: &mut Frame,
        by_time: bool,
        at: u32,
        sent: Option<String>,
    ) {
        let mut record_error = |at: u32, why: String| {
            if self.logged_error.as_ref().is_none_or(|first| at < first.0) {
                self.logged_error = Some((at, why));
            }
        };
        if let Some(why) = sent {
            record_error(at, why);
        }
        for _ in 0..64 {
            match decoder.receive(frame) {
                Ok(Received::Frame) => {}
                Ok(Received::NeedsInput | Received::End) => break,
                Err(why) => {
                    record_error(at, why);
                    continue;
                }
            }
            let Some(tie) = frame.packet_index(by_time) else {
                continue;
            };
            if let Some(why) = frame.damage() {
                record_error(tie.0, why.to_owned());
            }
            self.pictures.insert(tie.0, hash(frame));
        }
    }
}

/// Returns 64 bits of hash of a frame's pixels; MD5 would take as long as decoding.
pub fn hash(frame: &Frame) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = u64::from(frame.width()) << 32 | u64::from(frame.height());
    let mut add = |word: u64| hash = (hash.rotate_left(23) ^ word).wrapping_mul(ODD);
    frame.raw_planes(|row| {
        let (words, rest) = row.as_chunks::<8>();
        words.iter().for_each(|w| add(u64::from_le_bytes(*w)));
        rest.iter().for_each(|&b| add(u64::from(b)));
    });
    hash
}

/// Returns the videos in the folder FRAMESPOOL_MORE_VIDEOS, if it is set.
pub fn more_videos() -> Vec<Entry> {
    let Some(root) = std::env::var_os("FRAMESPOOL_MORE_VIDEOS").map(std::path::PathBuf::from)
    else {
        return Vec::new();
    };
    let mut names: Vec<String> = std::fs::read_dir(&root)
        .expect("a folder")
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let entry = |path| Entry {
        root: root.clone(),
        path,
        properties: serde_json::Value::Null,
    };
    names.into_iter().map(entry).collect()
}
