//! Splits a parser's packets into coded pictures (frames or fields) by the codec's own rules.
//! Packet borders are used only where a flag guarantees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::call_log::violation;

use super::abi::{AV1, H264, HEVC, VP8, VP9};
use super::bit_reader::nals;
use super::headers::{Slice, Sps, h264_pps, h264_slice, h264_sps, hevc_sps};

/// The current parameter sets, and the number of their changes.
#[derive(Default)]
pub struct ParameterSets {
    /// By type and id; types in the order in which they must be fed.
    nals: BTreeMap<(u8, u32), Vec<u8>>,
    sps: BTreeMap<u32, Sps>,
    pps: BTreeMap<u32, u32>,
    version: u64,
    /// The last sequence parameter set.
    latest: Option<Sps>,
    stream: Arc<Vec<u8>>,
}

impl ParameterSets {
    /// All of them as a byte stream.
    fn stream(&self) -> Vec<u8> {
        self.nals
            .values()
            .flat_map(|nal| [&[0, 0, 0, 1], nal.as_slice()].concat())
            .collect()
    }

    fn store(&mut self, key: (u8, u32), nal: &[u8]) -> bool {
        let changed = self.nals.get(&key).is_none_or(|old| old != nal);
        if changed {
            self.nals.insert(key, nal.to_vec());
            self.version += 1;
            self.stream = Arc::new(self.stream());
        }
        changed
    }
}

/// A complete coded picture.
#[derive(Default, Clone)]
pub struct CodedPicture {
    /// With its parameter sets and messages, as it was fed.
    pub data: Vec<u8>,
    pub timestamp: Option<i64>,
    pub slices: Vec<(usize, usize)>,
    pub slice: Option<Slice>,
    /// Whether a sequence header came with it or before it.
    pub has_sequence: bool,
    /// Whether that header differs from the known one.
    pub new_sequence: bool,
    /// Whether decoding may start here: IDR, IRAP, keyframe.
    pub random_access: bool,
    pub reference: bool,
    pub intra: bool,
    pub hidden: bool,
    /// The parameter sets that apply to it, and the number of their changes by then.
    pub headers: Arc<Vec<u8>>,
    pub version: u64,
    /// The sequence parameter set that it refers to.
    pub sps: Option<Sps>,
}

/// Splits byte streams (H.264, HEVC) or packets (the other codecs).
pub struct PictureSplitter {
    codec: i32,
    sets: ParameterSets,
    pending: CodedPicture,
}

enum NalRole {
    Sequence,
    Set,
    /// First NAL unit of a picture, or of a field.
    FirstSlice,
    Slice,
    /// Before the slices of the next picture.
    Before,
    Other,
}

impl PictureSplitter {
    pub fn new(codec: i32) -> PictureSplitter {
        PictureSplitter {
            codec,
            sets: ParameterSets::default(),
            pending: CodedPicture::default(),
        }
    }

    /// Returns the pictures that the packet completes. With `whole`, it contains exactly one
    /// picture; the rest is dropped and its size reported.
    pub fn push(
        &mut self,
        packet: &[u8],
        timestamp: Option<i64>,
        whole: bool,
    ) -> (Vec<CodedPicture>, usize) {
        match self.codec {
            H264 | HEVC => self.push_stream(packet, timestamp, whole),
            VP9 => push_superframe(packet, timestamp, whole),
            VP8 | AV1 => (vec![vp8_or_av1(self.codec, packet, timestamp)], 0),
            _ => (Vec::new(), 0),
        }
    }

    /// Returns the last picture at the end of the stream.
    pub fn finish(&mut self) -> Option<CodedPicture> {
        let mut coded = std::mem::take(&mut self.pending);
        (coded.headers, coded.version) = (self.sets.stream.clone(), self.sets.version);
        coded.sps = self.sps_of(&coded);
        (!coded.data.is_empty()).then_some(coded)
    }

    pub fn reset(&mut self) {
        self.pending = CodedPicture::default();
    }

    fn push_stream(
        &mut self,
        packet: &[u8],
        timestamp: Option<i64>,
        whole: bool,
    ) -> (Vec<CodedPicture>, usize) {
        if whole && !self.pending.slices.is_empty() {
            violation(
                "ENDOFPICTURE while a picture is not reported yet: the parser merges both"
                    .to_owned(),
            );
        }
        let (mut done, mut timestamp, mut started) = (Vec::new(), timestamp, false);
        for (start, end) in nals(packet) {
            let nal = &packet[start..end];
            let (role, slice) = self.role(nal);
            let has_slices = !self.pending.slices.is_empty();
            let begins = matches!(
                role,
                NalRole::Sequence | NalRole::Set | NalRole::Before | NalRole::FirstSlice
            );
            if begins && has_slices {
                if whole && started {
                    return (
                        done.into_iter().chain(self.finish()).collect(),
                        packet.len() - start,
                    );
                }
                done.extend(self.finish());
            }
            let pending = &mut self.pending;
            let at = pending.data.len() + 4;
            pending.data.extend_from_slice(&[0, 0, 0, 1]);
            pending.data.extend_from_slice(nal);
            match role {
                NalRole::Sequence => {
                    pending.has_sequence = true;
                    let (id, sps) = if self.codec == H264 {
                        h264_sps(nal)
                    } else {
                        hevc_sps(nal)
                    };
                    let kind = if self.codec == H264 { 7 } else { 33 };
                    pending.new_sequence |= self.sets.store((kind, id), nal);
                    self.sets.sps.insert(id, sps);
                    self.sets.latest = Some(sps);
                }
                NalRole::Set => self.store_parameter_set(nal),
                NalRole::FirstSlice | NalRole::Slice => {
                    if pending.slices.is_empty() {
                        pending.timestamp = timestamp.take();
                        started = true;
                        pending.slice = slice;
                        (pending.random_access, pending.reference, pending.intra) =
                            if self.codec == H264 {
                                (nal[0] & 31 == 5, nal[0] & 0x60 != 0, true)
                            } else {
                                let kind = nal[0] >> 1 & 63;
                                ((16..24).contains(&kind), true, (16..24).contains(&kind))
                            };
                    }
                    if let Some(slice) = slice {
                        pending.intra &= slice.intra;
                    }
                    pending.slices.push((at, at + nal.len()));
                }
                NalRole::Before | NalRole::Other => (),
            }
        }
        if whole {
            done.extend(self.finish());
        }
        (done, 0)
    }

    fn store_parameter_set(&mut self, nal: &[u8]) {
        if self.codec == H264 {
            let (id, sps) = h264_pps(nal);
            self.sets.pps.insert(id, sps);
            self.sets.store((8, id), nal);
        } else {
            let kind = nal[0] >> 1 & 63;
            let mut bits = super::bit_reader::BitReader::new(&nal[2.min(nal.len())..]);
            let id = if kind == 32 { bits.bits(4) } else { bits.ue() };
            self.sets.store((kind, id), nal);
        }
    }

    fn role(&self, nal: &[u8]) -> (NalRole, Option<Slice>) {
        if self.codec == H264 {
            return match nal[0] & 31 {
                7 => (NalRole::Sequence, None),
                8 => (NalRole::Set, None),
                1 | 2 | 5 => {
                    let slice = h264_slice(nal, |pps| {
                        self.sets.sps.get(self.sets.pps.get(&pps)?).copied()
                    });
                    (
                        if slice.first {
                            NalRole::FirstSlice
                        } else {
                            NalRole::Slice
                        },
                        Some(slice),
                    )
                }
                6 | 9 | 14..=18 => (NalRole::Before, None),
                _ => (NalRole::Other, None),
            };
        }
        match nal[0] >> 1 & 63 {
            33 => (NalRole::Sequence, None),
            32 | 34 => (NalRole::Set, None),
            0..=31 if nal.get(1).is_some_and(|b| nal[0] & 1 == 0 && b >> 3 == 0) => {
                let first = nal.get(2).is_some_and(|b| b & 0x80 != 0);
                (
                    if first {
                        NalRole::FirstSlice
                    } else {
                        NalRole::Slice
                    },
                    None,
                )
            }
            35 | 39 | 41..=44 | 48..=55 => (NalRole::Before, None),
            _ => (NalRole::Other, None),
        }
    }

    /// The sequence parameter set that a slice refers to, else the latest.
    fn sps_of(&self, coded: &CodedPicture) -> Option<Sps> {
        let by_slice = coded
            .slice
            .and_then(|s| self.sets.sps.get(self.sets.pps.get(&s.pps)?).copied());
        by_slice.or(self.sets.latest)
    }
}

fn push_superframe(
    packet: &[u8],
    timestamp: Option<i64>,
    whole: bool,
) -> (Vec<CodedPicture>, usize) {
    let mut frames = superframe(packet).unwrap_or_else(|| vec![packet]);
    frames.retain(|frame| !frame.is_empty());
    let dropped = if whole {
        frames.iter().skip(1).map(|f| f.len()).sum()
    } else {
        0
    };
    frames.truncate(if whole { 1 } else { usize::MAX });
    (
        frames
            .into_iter()
            .map(|frame| vp9(frame, timestamp))
            .collect(),
        dropped,
    )
}

/// Frames by the index at the packet's end, if there is one.
fn superframe(packet: &[u8]) -> Option<Vec<&[u8]>> {
    let marker = *packet.last()?;
    let (count, width) = (
        usize::from(marker & 7) + 1,
        usize::from(marker >> 3 & 3) + 1,
    );
    let index = packet.len().checked_sub(2 + count * width)?;
    if marker & 0xE0 != 0xC0 || packet[index] != marker {
        return None;
    }
    let (mut at, mut frames) = (0, Vec::new());
    for size in packet[index + 1..packet.len() - 1].chunks(width) {
        let size = size
            .iter()
            .rev()
            .fold(0usize, |size, &byte| size << 8 | usize::from(byte));
        frames.push(packet.get(at..at + size)?);
        at += size;
    }
    Some(frames)
}

fn vp9(frame: &[u8], timestamp: Option<i64>) -> CodedPicture {
    let mut b = super::bit_reader::BitReader::new(&frame[..frame.len().min(2)]);
    b.skip(2);
    let profile = b.bit() + 2 * b.bit();
    if profile == 3 {
        b.skip(1);
    }
    let shows_only = b.flag();
    let key = !shows_only && !b.flag();
    let hidden = !shows_only && !b.flag();
    CodedPicture {
        hidden,
        ..whole_frame(frame, timestamp, key)
    }
}

fn whole_frame(frame: &[u8], timestamp: Option<i64>, key: bool) -> CodedPicture {
    CodedPicture {
        data: frame.to_vec(),
        timestamp,
        slices: vec![(0, frame.len())],
        has_sequence: key,
        random_access: key,
        reference: true,
        intra: key,
        ..CodedPicture::default()
    }
}

fn vp8_or_av1(codec: i32, packet: &[u8], timestamp: Option<i64>) -> CodedPicture {
    if codec == VP8 {
        let first = packet.first().copied().unwrap_or(1);
        return CodedPicture {
            hidden: first & 0x10 == 0,
            ..whole_frame(packet, timestamp, first & 1 == 0)
        };
    }
    let key = super::obu::has_sequence_header(packet);
    whole_frame(packet, timestamp, key)
}
