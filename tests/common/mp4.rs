//! Writes MP4 files sample by sample, so that tests can set times, sync flags and sizes that no
//! muxer would write.
#![allow(dead_code)]

use std::sync::Arc;

use framespool::decode::PacketReader;
use framespool::index::build;
use framespool::limits::Limits;
use framespool::source::{ByteSource, MemorySource};
use framespool::units::DecodeIndex;

use super::Entry;

/// One sample: its payload, its duration in ticks, and its composition time offset.
#[derive(Clone)]
pub struct Sample {
    pub data: Vec<u8>,
    pub ticks: u32,
    pub shift: i32,
    pub key: bool,
}

/// A file with one video track.
#[derive(Clone)]
pub struct Mp4 {
    /// The type of the sample entry, such as "avc1".
    pub entry: [u8; 4],
    /// The boxes in the sample entry, such as `avcC`.
    pub config: Vec<u8>,
    pub size: (u16, u16),
    pub timescale: u32,
    pub samples: Vec<Sample>,
    /// Whether there is a sync sample table (`stss`).
    pub lists_keys: bool,
}

pub fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 8).to_be_bytes()[..], kind, body].concat()
}

fn words(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
    numbers.into_iter().flat_map(u32::to_be_bytes).collect()
}

/// Writes a table box: version and flags, an entry count, and the numbers of the entries.
fn table(kind: &[u8; 4], version: u32, entries: &[Vec<u32>]) -> Vec<u8> {
    let numbers = entries.iter().flatten().copied();
    boxed(
        kind,
        &words(
            [version << 24, entries.len() as u32]
                .into_iter()
                .chain(numbers),
        ),
    )
}

impl Mp4 {
    /// Converts the packets of a video to the samples of an MP4 with this sample entry. A sample's
    /// duration is the time until the next sample's decode time.
    pub fn of(video: &Entry, entry: &[u8; 4]) -> Self {
        let source = video.source().expect("a video");
        let index = Arc::new(build(&source, &Limits::default()).expect("an index"));
        assert!(
            index.direct,
            "{}: its packets do not lie in one piece",
            video.path
        );
        let mut shown: Vec<Option<i64>> = vec![None; index.packets.len()];
        for frame in &index.frames {
            shown[frame.packet.as_usize()] = Some(frame.pts);
        }
        // Decode times may be missing; in that case consecutive numbers replace them.
        let times: Vec<i64> = index.packets.iter().filter_map(|p| p.dts()).collect();
        let times = if times.len() == index.packets.len() {
            times
        } else {
            (0..index.packets.len() as i64).collect()
        };
        let base = index.info.time_base;
        let mut reader = PacketReader::new(source, index.clone());
        let mut samples = Vec::new();
        for (n, &time) in times.iter().enumerate() {
            let mut data = Vec::new();
            reader
                .fetch(DecodeIndex(n as u32), &mut data)
                .expect("a payload");
            let next = times
                .get(n + 1)
                .copied()
                .unwrap_or(2 * time - times[n.saturating_sub(1)]);
            let scaled = |ticks: i64| ticks * i64::from(base.num());
            samples.push(Sample {
                data,
                ticks: scaled(next - time) as u32,
                shift: scaled(shown[n].map_or(0, |pts| pts - time)) as i32,
                key: index.packets[n].container_key(),
            });
        }
        let params = &index.info.params;
        let config = match entry {
            b"avc1" | b"avc3" => boxed(b"avcC", &params.extradata),
            b"hvc1" | b"hev1" => boxed(b"hvcC", &params.extradata),
            b"av01" => boxed(b"av1C", &params.extradata),
            b"mp4v" => boxed(b"esds", &mpeg4_config(&params.extradata)),
            b"FFV1" => boxed(b"glbl", &params.extradata),
            _ => Vec::new(),
        };
        let size = (params.width as u16, params.height as u16);
        Self {
            entry: *entry,
            config,
            size,
            timescale: base.den(),
            samples,
            lists_keys: true,
        }
    }

    /// Returns the presentation times from the tables, in decode order.
    pub fn times(&self) -> Vec<i64> {
        let mut time = 0;
        let each = |sample: &Sample| {
            let shown = time + i64::from(sample.shift);
            time += i64::from(sample.ticks);
            shown
        };
        self.samples.iter().map(each).collect()
    }

    pub fn source(&self, name: &str) -> Arc<dyn ByteSource> {
        Arc::new(MemorySource::new(name, self.written()))
    }

    pub fn written(&self) -> Vec<u8> {
        let ftyp = boxed(b"ftyp", b"isom\0\0\x02\0isomiso2mp41");
        let payload: Vec<u8> = self.samples.iter().flat_map(|s| s.data.clone()).collect();
        let count = self.samples.len() as u32;
        let length: u32 = self.samples.iter().map(|s| s.ticks).sum();
        let sizes = [0, 0, count]
            .into_iter()
            .chain(self.samples.iter().map(|s| s.data.len() as u32));
        let keys: Vec<Vec<u32>> = (1..=count)
            .filter(|n| self.samples[*n as usize - 1].key)
            .map(|n| vec![n])
            .collect();
        let tables = [
            boxed(
                b"stsd",
                &[&words([0, 1])[..], &self.sample_entry()].concat(),
            ),
            table(
                b"stts",
                0,
                &self
                    .samples
                    .iter()
                    .map(|s| vec![1, s.ticks])
                    .collect::<Vec<_>>(),
            ),
            table(
                b"ctts",
                1,
                &self
                    .samples
                    .iter()
                    .map(|s| vec![1, s.shift as u32])
                    .collect::<Vec<_>>(),
            ),
            if self.lists_keys {
                table(b"stss", 0, &keys)
            } else {
                Vec::new()
            },
            table(b"stsc", 0, &[vec![1, count, 1]]),
            boxed(b"stsz", &words(sizes)),
            table(b"stco", 0, &[vec![ftyp.len() as u32 + 8]]),
        ];
        let matrix = [0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x4000_0000];
        let (width, height) = (u32::from(self.size.0) << 16, u32::from(self.size.1) << 16);
        let tkhd = words(
            [3, 0, 0, 1, 0, length, 0, 0, 0, 0]
                .into_iter()
                .chain(matrix)
                .chain([width, height]),
        );
        let mvhd = words(
            [0, 0, 0, self.timescale, length, 0x10000, 0x0100_0000, 0, 0]
                .into_iter()
                .chain(matrix)
                .chain([0, 0, 0, 0, 0, 0, 2]),
        );
        let minf = [
            boxed(b"vmhd", &words([1, 0, 0])),
            boxed(
                b"dinf",
                &boxed(
                    b"dref",
                    &[&words([0, 1])[..], &boxed(b"url ", &words([1]))].concat(),
                ),
            ),
            boxed(b"stbl", &tables.concat()),
        ];
        let mdia = [
            boxed(
                b"mdhd",
                &words([0, 0, 0, self.timescale, length, 0x55c4_0000]),
            ),
            boxed(b"hdlr", b"\0\0\0\0\0\0\0\0vide\0\0\0\0\0\0\0\0\0\0\0\0\0"),
            boxed(b"minf", &minf.concat()),
        ];
        let trak = [boxed(b"tkhd", &tkhd), boxed(b"mdia", &mdia.concat())];
        let moov = [boxed(b"mvhd", &mvhd), boxed(b"trak", &trak.concat())];
        [
            ftyp,
            boxed(b"mdat", &payload),
            boxed(b"moov", &moov.concat()),
        ]
        .concat()
    }

    fn sample_entry(&self) -> Vec<u8> {
        let mut fixed = [0u8; 78];
        fixed[7] = 1; // data reference index
        fixed[24..26].copy_from_slice(&self.size.0.to_be_bytes());
        fixed[26..28].copy_from_slice(&self.size.1.to_be_bytes());
        fixed[28..36].copy_from_slice(&[0, 0x48, 0, 0, 0, 0x48, 0, 0]);
        fixed[41] = 1; // frame count per sample
        fixed[75] = 24;
        fixed[76..78].fill(0xff);
        boxed(&self.entry, &[&fixed[..], &self.config].concat())
    }
}

/// The `esds` box of MPEG-4 part 2 (ISO/IEC 14496-1 7.2.6).
fn mpeg4_config(extradata: &[u8]) -> Vec<u8> {
    let descriptor = |tag: u8, body: &[u8]| [&[tag, body.len() as u8], body].concat();
    let decoder = [&[0x20, 0x11][..], &[0; 11], &descriptor(5, extradata)].concat();
    let stream = [
        &[0, 1, 0][..],
        &descriptor(4, &decoder),
        &descriptor(6, &[2]),
    ]
    .concat();
    [&[0; 4][..], &descriptor(3, &stream)].concat()
}
