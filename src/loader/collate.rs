//! Makes one batch buffer of clips that have buffers of their own, because the transforms do not
//! give one size.

use std::sync::Arc;

use framespool_nvdec::cuda::Stream;

use serde::Deserialize;

use super::{BatchData, ClipMetadata};
use crate::batch::{BatchBuffer, ClipSlot, MemoryPool, OutputMut};
use crate::error::{Error, Result};
use crate::transforms::ClipShape;

/// How clips become a batch if the transforms do not give all of them the same size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collate {
    /// They stay apart.
    #[default]
    List,
    /// As `List`; the consumer makes one tensor of them if the transforms give all clips one size.
    Auto,
    /// They are stacked; different sizes are an error.
    Stack,
    /// They are padded at the end of each dimension with bytes of this value, to the largest of the
    /// batch.
    Pad(u8),
}

/// Copies clips into one buffer.
///
/// # Errors
/// `Argument` if the sizes differ and `collate` does not pad, or if there is no memory; `Gpu` if
/// the device fails.
pub(super) fn collate(
    clips: Vec<(BatchBuffer, ClipShape)>,
    metadata: &[ClipMetadata],
    collate: Collate,
    pool: &Arc<MemoryPool>,
    name: &dyn Fn(u32) -> String,
) -> Result<BatchData> {
    let Some(&(_, first)) = clips
        .first()
        .filter(|_| !matches!(collate, Collate::List | Collate::Auto))
    else {
        return Ok(BatchData::Ragged(clips));
    };
    let metadata: Vec<_> = metadata.iter().filter(|clip| clip.has_frames).collect();
    let shapes: Vec<ClipShape> = clips.iter().map(|(_, shape)| *shape).collect();
    if let Some(other) = shapes
        .iter()
        .position(|&shape| collate == Collate::Stack && shape != first)
    {
        let described = |at: usize| match shapes[at] {
            ClipShape {
                frames: 1,
                width,
                height,
                ..
            } => {
                format!("{}: {width}x{height}", name(metadata[at].video_id))
            }
            shape => format!("{}: {shape}", name(metadata[at].video_id)),
        };
        return Err(Error::Argument(format!(
            "frames of one batch differ in size and cannot be stacked ({}; {}); give transforms that end in one size, such as \
             Resize((height, width)), and clips of one length, or use collate=\"pad\" or collate=\"list\"",
            described(0),
            described(other)
        )));
    }
    let largest = |of: fn(&ClipShape) -> usize| shapes.iter().map(of).max().unwrap_or(0);
    let (frames, height, width) = (
        largest(|s| s.frames),
        largest(|s| s.height),
        largest(|s| s.width),
    );
    let shape = ClipShape {
        frames,
        height,
        width,
        ..first
    };
    let too_large = || {
        Error::Argument(format!(
            "a batch of {} clips of {shape} does not fit into memory",
            shapes.len()
        ))
    };
    let bytes = shape.bytes().ok_or_else(too_large)?;
    let (builder, slots) =
        BatchBuffer::allocate(pool, clips.len(), bytes).map_err(|error| match error {
            Error::Argument(_) => too_large(),
            other => other,
        })?;
    let stream = clips[0]
        .0
        .device()
        .map(|device| device.create_stream())
        .transpose()?;
    for ((clip, own), mut slot) in clips.iter().zip(slots) {
        let fill = match collate {
            Collate::Pad(value) if *own != shape => Some(value),
            _ => None,
        };
        copy(
            clip,
            &Blocks::new(own, &shape),
            fill,
            &mut slot,
            stream.as_ref(),
        )?;
        slot.record_write()?;
    }
    let buffer = builder.freeze().ok().expect("its clip slots were dropped");
    Ok(match collate {
        Collate::Pad(_) => BatchData::Padded(buffer, shape, shapes),
        _ => BatchData::Dense(buffer, shape),
    })
}

fn copy(
    clip: &BatchBuffer,
    blocks: &Blocks,
    fill: Option<u8>,
    slot: &mut ClipSlot,
    stream: Option<&Arc<Stream>>,
) -> Result<()> {
    match (slot.target()?, stream) {
        (OutputMut::Device(mut slot), Some(stream)) => {
            slot.begin(stream)?;
            clip.written()
                .iter()
                .try_for_each(|event| stream.wait(event))?;
            if let Some(value) = fill {
                stream.fill(slot.address, value, slot.len)?;
            }
            for &(from, to) in &blocks.starts {
                let (from, to) = (clip.address() + from as u64, slot.address + to as u64);
                stream.copy_rows(to, blocks.row_pitch, from, blocks.row_bytes, blocks.rows)?;
            }
            clip.add_reader_event(stream.record()?);
        }
        (OutputMut::Host(slot), _) => {
            let bytes = clip.bytes().unwrap_or_default();
            if let Some(value) = fill {
                slot.fill(value);
            }
            for &(from, to) in &blocks.starts {
                for row in 0..blocks.rows {
                    let source = &bytes[from + row * blocks.row_bytes..][..blocks.row_bytes];
                    slot[to + row * blocks.row_pitch..][..blocks.row_bytes].copy_from_slice(source);
                }
            }
        }
        (OutputMut::Device(_), None) => unreachable!("clips and batch are in the same memory"),
    }
    Ok(())
}

/// The bytes of a clip within a larger one, as blocks of equally spaced rows. The rows of the clip
/// itself are next to each other.
#[derive(Debug, PartialEq)]
struct Blocks {
    /// Start of each block in the clip and in the larger one.
    starts: Vec<(usize, usize)>,
    rows: usize,
    row_bytes: usize,
    /// Bytes from row to row in the larger clip.
    row_pitch: usize,
}

impl Blocks {
    fn new(own: &ClipShape, padded: &ClipShape) -> Self {
        let (from, to) = (own.dims(), padded.dims());
        let length = |dims: &[usize]| dims.iter().product::<usize>() * own.dtype.bytes();
        // A row ends where the padding of the innermost padded dimension begins.
        let Some(innermost) = (0..from.len()).rev().find(|&dim| from[dim] != to[dim]) else {
            return Self {
                starts: vec![(0, 0)],
                rows: 1,
                row_bytes: length(&from),
                row_pitch: length(&to),
            };
        };
        let rows_in = innermost.checked_sub(1);
        let mut starts = vec![(0, 0)];
        for dim in 0..rows_in.unwrap_or(0) {
            let (from_step, to_step) = (length(&from[dim + 1..]), length(&to[dim + 1..]));
            let entries = |&(a, b): &(usize, usize)| {
                (0..from[dim])
                    .map(move |at| (a + at * from_step, b + at * to_step))
                    .collect::<Vec<_>>()
            };
            starts = starts.iter().flat_map(entries).collect();
        }
        Self {
            starts,
            rows: rows_in.map_or(1, |dim| from[dim]),
            row_bytes: length(&from[innermost..]),
            row_pitch: length(&to[innermost..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transforms::{Channels, Dtype, Layout};

    fn shape(frames: usize, height: usize, width: usize, layout: Layout) -> ClipShape {
        ClipShape {
            views: 0,
            frames,
            width,
            height,
            channels: Channels::Three,
            layout,
            dtype: Dtype::U16,
        }
    }

    #[test]
    fn every_element_has_its_place_in_a_larger_clip() {
        for layout in [Layout::Ntchw, Layout::Ncthw, Layout::Nthwc] {
            for own in [(2, 3, 4), (5, 3, 4), (2, 7, 4), (2, 3, 6), (5, 7, 6)] {
                for views in [0, 2] {
                    let own = ClipShape {
                        views,
                        ..shape(own.0, own.1, own.2, layout)
                    };
                    let padded = ClipShape {
                        views,
                        ..shape(5, 7, 6, layout)
                    };
                    let blocks = Blocks::new(&own, &padded);
                    let mut copied = Vec::new();
                    for (from, to) in &blocks.starts {
                        for row in 0..blocks.rows {
                            for byte in 0..blocks.row_bytes {
                                copied.push((
                                    from + row * blocks.row_bytes + byte,
                                    to + row * blocks.row_pitch + byte,
                                ));
                            }
                        }
                    }
                    assert_eq!(copied, expected(&own.dims(), &padded.dims(), 2), "{own:?}");
                }
            }
        }
    }

    /// Each byte of an array of this shape, and its place in an array of the other one.
    fn expected(from: &[usize], to: &[usize], element_bytes: usize) -> Vec<(usize, usize)> {
        let count: usize = from.iter().product();
        let place = |mut at: usize| {
            let (mut place, mut stride) = (0, 1);
            for (own, other) in from.iter().zip(to).rev() {
                place += at % own * stride;
                at /= own;
                stride *= other;
            }
            place
        };
        (0..count * element_bytes)
            .map(|byte| {
                (
                    byte,
                    place(byte / element_bytes) * element_bytes + byte % element_bytes,
                )
            })
            .collect()
    }
}
