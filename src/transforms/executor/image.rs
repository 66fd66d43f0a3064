//! Decodes as much of an image file as the result needs, transforms it and writes it; with nvJPEG if that is
//! enabled.
//! Which decoder an image gets does not depend on the results of other images.

use framespool_kernels as kernels;
use kernels::FrameView;

use super::super::nvjpeg::Nvjpeg;
use super::{check_room, Plan, TransformExecutor};
use crate::batch::DeviceSliceMut;
use crate::decode::EncodedImage;
use crate::error::{Result, Site};
use crate::media::DisplayOrientation;
use crate::still::{Ask, Shrink};
use crate::transforms::shape::ClipShape;

impl TransformExecutor {
    /// Whether an image may be decoded smaller than it is.
    pub(super) fn shrinks(&self, still: &EncodedImage<'_>) -> bool {
        let as_wanted = !self.pipeline.exact && self.pipeline.label_fill.is_none();
        as_wanted && still.header().can_shrink(Shrink::Half)
    }

    /// Decodes an image file on the device and transforms it there. Returns the slot if the CPU must decode
    /// it.
    pub(super) fn paint_by_nvjpeg<'a>(
        &mut self,
        site: &Site,
        still: &EncodedImage<'_>,
        turn: DisplayOrientation,
        shape: &ClipShape,
        mut spot: DeviceSliceMut<'a>,
        t: usize,
    ) -> Result<Option<DeviceSliceMut<'a>>> {
        if self.pipeline.exact || self.pipeline.label_fill.is_some() {
            return Ok(Some(spot));
        }
        let Some(gpu) = &self.gpu else { return Ok(Some(spot)) };
        let Some(mut worker) = self.nvjpeg.take(gpu)? else { return Ok(Some(spot)) };
        let decoded = worker.decode(still, self.pipeline.assumed);
        let painted = decoded.and_then(|decoded| match decoded {
            Ok(frame) => {
                check_room(site, shape, spot.len)?;
                spot.begin(worker.cuda.stream())?;
                self.launch(site, &frame, &mut worker.cuda, turn, shape, spot.address, (t, t))?;
                self.report.decoded += 1;
                Ok(None)
            }
            Err(reason) => {
                self.report.cpu_fallbacks.push(reason);
                Ok(Some(spot))
            }
        });
        // Also after an error: which decoder an image gets must not depend on the results of other images.
        self.nvjpeg = Nvjpeg::Ready(worker);
        painted
    }

    /// Decodes as much of an image file as frame `t` of a clip needs, transforms it and writes it as frame
    /// `place`.
    pub(super) fn paint_still(
        &mut self,
        site: &Site,
        still: &mut EncodedImage<'_>,
        turn: DisplayOrientation,
        shape: &ClipShape,
        clip: &mut [u8],
        (t, place): (usize, usize),
    ) -> Result<()> {
        let (exact, labels) = (self.pipeline.exact, self.pipeline.label_fill.is_some());
        let assumed = self.pipeline.assumed;
        let mut scratch = std::mem::take(&mut self.scratch);
        let shrinks = self.shrinks(still);
        let as_it_is = self.pipeline.is_plain() && turn == DisplayOrientation::default();
        let painted = self.plan(still.size(), turn, t, shrinks).and_then(|plan| {
            let mut slot = if as_it_is { plain_slot(still.size(), shape, clip, place) } else { None };
            if let Some(slot) = slot.as_deref_mut().filter(|_| exact && assumed.range.is_none()) {
                if still.decode_into(slot)? {
                    return Ok(());
                }
            }
            let rows = plan.rows(still.header().shrunk(plan.shrink));
            let mut view = still.decode(Ask { shrink: plan.shrink, exact, labels, rows })?;
            if !matches!(view.planes, kernels::Planes::PackedRgb { .. } | kernels::Planes::PlanarRgb(_)) {
                view.color.matrix = assumed.matrix.unwrap_or(view.color.matrix);
            }
            view.color.range = assumed.range.unwrap_or(view.color.range);
            if slot.is_some_and(|slot| copied(&view, slot)) {
                return Ok(());
            }
            plan.run(site, &view, shape, clip, place, &mut scratch)
        });
        self.scratch = scratch;
        painted
    }
}

impl Plan {
    /// The rows of an image of this size that any view reads. `None` if they are known only when the pass
    /// runs.
    fn rows(&self, (width, height): (u32, u32)) -> Option<(u32, u32)> {
        let mut spans = self.passes.iter().map(|pass| pass.source_rows(width, height));
        let first = spans.next()?.ok()?;
        let all = spans.try_fold(first, |all, span| {
            let span = span.ok()?;
            Some(all.start.min(span.start)..all.end.max(span.end))
        })?;
        Some((all.start, all.end))
    }
}

/// The bytes of frame `place`, if they are to be R, G, B in rows without padding, for an image of this size.
fn plain_slot<'a>(
    (width, height): (u32, u32),
    shape: &ClipShape,
    clip: &'a mut [u8],
    place: usize,
) -> Option<&'a mut [u8]> {
    let [(start, len)] = shape.frame_stretches(place)[..] else { return None };
    let (width, height) = (width as usize, height as usize);
    let fits = (shape.width, shape.height) == (width, height) && len == width * height * 3 && len > 0;
    clip.get_mut(start..start + len).filter(|_| fits)
}

/// Copies RGB that needs no transform. Returns false if that is not possible: the pass then writes the same
/// bytes.
fn copied(view: &FrameView<'_>, slot: &mut [u8]) -> bool {
    let kernels::Planes::PackedRgb { plane, pixel_bytes: 3, offsets: [0, 1, 2] } = view.planes else {
        return false;
    };
    let as_they_are = view.depth_bits == 8 && view.color.range == kernels::ColorRange::Full;
    let (row_bytes, height) = (view.width as usize * 3, view.height as usize);
    let whole = plane.stride_bytes >= row_bytes
        && plane.data.len() >= plane.stride_bytes * (height - 1) + row_bytes
        && slot.len() == row_bytes * height;
    if !(as_they_are && whole) {
        return false;
    }
    for (to, from) in slot.chunks_exact_mut(row_bytes).zip(plane.data.chunks(plane.stride_bytes)) {
        to.copy_from_slice(&from[..row_bytes]);
    }
    true
}
