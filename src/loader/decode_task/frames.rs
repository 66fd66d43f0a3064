//! Applies the transforms to a decoded frame and writes the result into each clip that contains the
//! frame. Also fills padding frames with zeros.

use super::{Clip, ClipDestination, ViewTransforms};
use crate::batch::{ClipSlot, OutputMut};
use crate::error::{Error, Result};
use crate::index::VideoIndex;
use crate::transforms::{ClipShape, InputFrame, TransformExecutor};
use crate::units::PresentationIndex;
use crate::video::{ClipOutput, write_frame};

/// With at most this many clips for one frame, each pair is compared to find clips that need the
/// same pixels.
const MAX_COMPARED_CLIPS: usize = 8;

/// Writes one frame into all clips that contain it; the transforms run once for clips that need the
/// same pixels. Returns the result for each clip.
pub(super) fn apply_transforms(
    views: &mut [ViewTransforms],
    index: &VideoIndex,
    clips: &mut [Option<Clip>],
    targets: &[(usize, usize)],
    picture: &mut InputFrame<'_>,
) -> Vec<(usize, Result<()>)> {
    let display = index.info.display();
    let size = picture.size();
    let mut done: Vec<(usize, usize)> = Vec::new();
    let mut results = Vec::with_capacity(targets.len());
    for &(number, t) in targets {
        let Some(clip) = &mut clips[number] else {
            continue;
        };
        let (key, view, length) = (clip.key, clip.view, clip.metadata.indices.len());
        let ViewTransforms { batch, cached, .. } = &mut views[view];
        // 8-bit codes cannot hold the floating-point result of a frame with more than 8 bits: such
        // clips are cached in the output format.
        let high_bit_depth = cached.is_some() && picture.is_deep();
        // Clips that are due and differ in shape have a buffer too, but no reservation, and the
        // output format.
        let is_cached = matches!(clip.destination, ClipDestination::Cache(_, Some(_)));
        let has_one_format = cached.is_none();
        let executor = match cached {
            Some(cached) if is_cached && !high_bit_depth => cached,
            _ => batch,
        };
        let mut transform_frame =
            |executor: &mut TransformExecutor, clip: &mut Clip| -> Result<()> {
                executor.begin(key, length);
                let frame = PresentationIndex(clip.metadata.indices[t] as u32);
                let (shape, output) = (&mut clip.shape, &mut clip.destination);
                write_frame(
                    executor,
                    picture,
                    (index, frame),
                    (t, length),
                    shape,
                    output,
                )
            };
        let shape = clip.shape;
        let compare_pairs = targets.len() <= MAX_COMPARED_CLIPS;
        let mut same = |&&(other, u): &&(usize, usize)| {
            let in_same_form = |c: &&Clip| {
                has_one_format
                    || matches!(c.destination, ClipDestination::Cache(_, Some(_))) == is_cached
            };
            // The first frame of a clip determines its shape. If the frame size changes later, the
            // transforms report the error.
            let in_same_shape = |c: &&Clip| {
                c.shape
                    .is_some_and(|other| shape.is_none_or(|s| with_frames(other, s.frames) == s))
            };
            let other = clips[other]
                .as_ref()
                .filter(|other| other.view == view)
                .filter(in_same_form)
                .filter(in_same_shape)
                .map(|c| (c.key, c.metadata.indices.len()));
            // A comparison of random parameters requires compiling the transforms, which costs too
            // much for each pair of many clips.
            let can_compare =
                |other| compare_pairs || other == key || !executor.pipeline().is_random();
            let other = other.filter(|&(other, _)| can_compare(other));
            other.is_some_and(|(other, other_length)| {
                let (other, this) = ((other, u, other_length), (key, t, length));
                executor
                    .same_params(size, display, other, this)
                    .unwrap_or(false)
            })
        };
        let copy_result = match done.iter().find(&mut same).copied() {
            Some(from) => copy(clips, from, (number, t)),
            None => Ok(false),
        };
        let result = match copy_result {
            Ok(false) => transform_frame(executor, clips[number].as_mut().expect("just seen")),
            copy_result => copy_result.map(|_| ()),
        };
        if result.is_ok() {
            done.push((number, t));
        }
        results.push((number, result));
    }
    results
}

/// Copies frame `t` of one clip to frame `u` of another. Returns false if they are on a device,
/// where running the transforms again costs no more than a copy.
fn copy(
    clips: &mut [Option<Clip>],
    (from, t): (usize, usize),
    (to, u): (usize, usize),
) -> Result<bool> {
    if from == to {
        let clip = clips[to].as_mut().expect("has written it");
        let shape = clip.shape.expect("has written it");
        let OutputMut::Host(bytes) = clip.destination.target(&shape)? else {
            return Ok(false);
        };
        for ((a, len), (b, _)) in shape.frame_ranges(t).into_iter().zip(shape.frame_ranges(u)) {
            bytes.copy_within(a..a + len, b);
        }
        return Ok(true);
    }
    let [Some(from), Some(to)] = clips
        .get_disjoint_mut([from, to])
        .expect("two different clips")
    else {
        return Ok(true); // one of them failed
    };
    let shape = from.shape.expect("has written it");
    // Clips of one video may differ in length: only the shape of a frame is shared.
    let own = with_frames(shape, to.metadata.indices.len());
    let OutputMut::Host(source) = from.destination.target(&shape)? else {
        return Ok(false);
    };
    to.shape = Some(own);
    let OutputMut::Host(target) = to.destination.target(&own)? else {
        return Ok(false);
    };
    for ((a, len), (b, _)) in shape.frame_ranges(t).into_iter().zip(own.frame_ranges(u)) {
        target[b..b + len].copy_from_slice(&source[a..a + len]);
    }
    Ok(true)
}

/// The shape of a clip with this number of frames, otherwise equal to `shape`.
fn with_frames(shape: ClipShape, frames: usize) -> ClipShape {
    ClipShape { frames, ..shape }
}

/// Fills the frames that are not real with zeros.
///
/// # Errors
/// `Gpu` if the clip is on a device that does not accept the command.
pub(in crate::loader) fn fill_padding(
    output: &mut dyn ClipOutput,
    mask: &[bool],
    executor: &mut TransformExecutor,
) -> Result<()> {
    let Some(shape) = output.shape().filter(|_| mask.iter().any(|&real| !real)) else {
        return Ok(());
    };
    let padding_ranges = (0..mask.len())
        .filter(|&t| !mask[t])
        .flat_map(|t| shape.frame_ranges(t));
    match output.target(&shape)? {
        OutputMut::Host(bytes) => {
            padding_ranges.for_each(|(start, len)| bytes[start..start + len].fill(0))
        }
        OutputMut::Device(mut slice) => {
            let stream = executor.cuda()?.stream().clone();
            slice.begin(&stream)?;
            for (start, len) in padding_ranges {
                stream.fill(slice.address + start as u64, 0, len)?;
            }
        }
    }
    Ok(())
}

/// Writes a clip into its clip slot of a batch in which all clips have the same shape.
pub(in crate::loader) struct SlotOutput {
    pub slot: ClipSlot,
    pub shape: ClipShape,
}

impl ClipOutput for SlotOutput {
    fn target(&mut self, shape: &ClipShape) -> Result<OutputMut<'_>> {
        if *shape != self.shape {
            return Err(Error::Argument(format!(
                "a clip is {}x{}, but the transforms state {}x{}",
                shape.width, shape.height, self.shape.width, self.shape.height
            )));
        }
        self.slot.target()
    }

    fn shape(&self) -> Option<ClipShape> {
        Some(self.shape)
    }
}
