//! Decodes an H.264 elementary stream (Annex B, frames only, 8 bit 4:2:0) to NV12 on standard
//! output.
//!
//! Frames are written in presentation order, and the session's statistics to standard error. The
//! example only shows the library: the loader uses an index and decodes only the requested frames.
//!
//! `cargo run -p framespool-nvdec --example decode_h264 -- clip.h264 | md5sum`

use std::io::Write;

use framespool_nvdec::cuda::Device;
use framespool_nvdec::session::{AccessUnit, Codec, Session, Surface};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("usage: decode_h264 FILE.h264")?;
    let stream = std::fs::read(path)?;
    let device = Device::open(0)?;
    let mut session = Session::new(&device)?;
    let reader = session.stream().clone();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut on_frame = |_id: u32, surface: &Surface| -> Result<(), Box<dyn std::error::Error>> {
        let (area, pitch) = (surface.display_area, surface.pitch_bytes);
        let mut plane =
            |address: u64, rows: std::ops::Range<u32>| -> Result<(), Box<dyn std::error::Error>> {
                let mut bytes = vec![0; pitch * rows.len()];
                reader.download(&mut bytes, address + u64::from(rows.start) * pitch as u64)?;
                for row in bytes.chunks(pitch) {
                    out.write_all(&row[area.left as usize..area.right as usize])?;
                }
                Ok(())
            };
        plane(surface.address, area.top..area.bottom)?;
        plane(
            surface.chroma_address[0],
            area.top / 2..area.bottom.div_ceil(2),
        )
    };
    session.begin(Codec::H264, &[])?;
    for (id, data) in (0..).zip(access_units(&stream)) {
        let timestamp = i64::from(id);
        let unit = AccessUnit {
            data,
            id,
            timestamp,
            wanted: true,
            decode: true,
            single_frame: true,
            num_displayed: 1,
        };
        session.feed(&unit, &mut on_frame)?;
    }
    session.finish(&mut on_frame)?;
    eprintln!("{device:?}: {:?}", session.stats());
    Ok(())
}

/// Splits the stream into chunks of one frame each. A frame ends where, after a slice, the first
/// slice of another frame starts, or a NAL unit that precedes slices.
fn access_units(stream: &[u8]) -> Vec<&[u8]> {
    let is_start = |at: &usize| stream[*at..].starts_with(&[0, 0, 1]);
    let starts: Vec<usize> = (0..stream.len().saturating_sub(4))
        .filter(is_start)
        .collect();
    let (mut units, mut begin, mut has_slice) = (Vec::new(), 0, false);
    for start in starts {
        let (kind, first) = (stream[start + 3] & 0x1f, stream[start + 4] & 0x80 != 0);
        let is_slice = matches!(kind, 1 | 2 | 5);
        if has_slice && (matches!(kind, 6..=9) || (is_slice && first)) {
            // The preceding zero belongs to a four-byte start code.
            let end = start - usize::from(stream[start - 1] == 0);
            units.push(&stream[begin..end]);
            (begin, has_slice) = (end, false);
        }
        has_slice |= is_slice;
    }
    units.push(&stream[begin..]);
    units
}
