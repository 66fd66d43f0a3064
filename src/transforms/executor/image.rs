//! Decodes as much of an image file as the result needs, transforms it and writes it; with nvJPEG
//! if that is enabled. Which decoder an image gets does not depend on the results of other images.

use framespool_kernels as kernels;
use kernels::FrameView;

use super::super::nvjpeg::Nvjpeg;
use super::{CompiledTransforms, TransformExecutor, check_fits_slot};
use crate::batch::DeviceSliceMut;
use crate::decode::EncodedImage;
use crate::error::{Result, Site};
use crate::image::{DctScale, DecodeOptions};
use crate::media::{DisplayGeometry, DisplayOrientation};
use crate::transforms::shape::ClipShape;

impl TransformExecutor {
    /// Whether an image may be decoded smaller than it is.
    pub(super) fn may_scale(&self, image: &EncodedImage<'_>) -> bool {
        let is_lossy_allowed = !self.pipeline.exact && self.pipeline.label_fill.is_none();
        is_lossy_allowed && image.header().can_scale(DctScale::Half)
    }

    /// Decodes an image file on the device and transforms it there. Returns the slot if the CPU
    /// must decode it.
    pub(super) fn apply_by_nvjpeg<'a>(
        &mut self,
        site: &Site,
        image: &EncodedImage<'_>,
        display: DisplayGeometry,
        shape: &ClipShape,
        mut slice: DeviceSliceMut<'a>,
        t: usize,
    ) -> Result<Option<DeviceSliceMut<'a>>> {
        if self.pipeline.exact || self.pipeline.label_fill.is_some() {
            return Ok(Some(slice));
        }
        let Some(gpu) = &self.gpu else {
            return Ok(Some(slice));
        };
        let Some(mut worker) = self.nvjpeg.take(gpu)? else {
            return Ok(Some(slice));
        };
        let decoded = worker.decode(image, self.pipeline.assumed);
        let result = decoded.and_then(|decoded| match decoded {
            Ok(frame) => {
                check_fits_slot(site, shape, slice.len)?;
                slice.begin(worker.cuda.stream())?;
                self.launch(
                    site,
                    &frame,
                    &mut worker.cuda,
                    display,
                    shape,
                    slice.address,
                    (t, t),
                )?;
                self.report.decoded += 1;
                Ok(None)
            }
            Err(reason) => {
                self.report.cpu_fallbacks.push(reason);
                Ok(Some(slice))
            }
        });
        // Also after an error: which decoder an image gets must not depend on the results of other
        // images.
        self.nvjpeg = Nvjpeg::Ready(worker);
        result
    }

    /// Decodes as much of an image file as frame `t` of a clip needs, transforms it and writes it
    /// as frame `out_index`.
    pub(super) fn apply_to_image(
        &mut self,
        site: &Site,
        image: &mut EncodedImage<'_>,
        display: DisplayGeometry,
        shape: &ClipShape,
        clip: &mut [u8],
        (t, out_index): (usize, usize),
    ) -> Result<()> {
        let (exact, labels) = (self.pipeline.exact, self.pipeline.label_fill.is_some());
        let assumed = self.pipeline.assumed;
        let mut scratch = std::mem::take(&mut self.scratch);
        let may_scale = self.may_scale(image);
        let is_identity =
            self.pipeline.is_plain() && display.orientation == DisplayOrientation::default();
        let result = self
            .compiled(image.size(), display, t, may_scale)
            .and_then(|compiled| {
                let mut slot = if is_identity {
                    plain_slot(image.size(), shape, clip, out_index)
                } else {
                    None
                };
                if let Some(slot) = slot
                    .as_deref_mut()
                    .filter(|_| exact && assumed.range.is_none())
                    && image.decode_into(slot)?
                {
                    return Ok(());
                }
                let rows = compiled.rows(image.header().scaled_size(compiled.scale));
                let mut view = image.decode(DecodeOptions {
                    scale: compiled.scale,
                    exact,
                    labels,
                    rows,
                })?;
                if !matches!(
                    view.planes,
                    kernels::Planes::PackedRgb { .. } | kernels::Planes::PlanarRgb(_)
                ) {
                    view.color.matrix = assumed.matrix.unwrap_or(view.color.matrix);
                }
                view.color.range = assumed.range.unwrap_or(view.color.range);
                if slot.is_some_and(|slot| copied(&view, slot)) {
                    return Ok(());
                }
                compiled.run(site, &view, shape, clip, out_index, &mut scratch)
            });
        self.scratch = scratch;
        result
    }
}

impl CompiledTransforms {
    /// The rows of an image of this size that any view reads. `None` if they are known only when
    /// the pass runs.
    fn rows(&self, (width, height): (u32, u32)) -> Option<(u32, u32)> {
        let mut spans = self
            .views
            .iter()
            .map(|stages| stages.first_pass().source_rows(width, height));
        let first = spans.next()?.ok()?;
        let all = spans.try_fold(first, |all, span| {
            let span = span.ok()?;
            Some(all.start.min(span.start)..all.end.max(span.end))
        })?;
        Some((all.start, all.end))
    }
}

/// The bytes of frame `out_index`, if they are to be R, G, B in rows without padding, for an image
/// of this size.
fn plain_slot<'a>(
    (width, height): (u32, u32),
    shape: &ClipShape,
    clip: &'a mut [u8],
    out_index: usize,
) -> Option<&'a mut [u8]> {
    let [(start, len)] = shape.frame_ranges(out_index)[..] else {
        return None;
    };
    let (width, height) = (width as usize, height as usize);
    let fits =
        (shape.width, shape.height) == (width, height) && len == width * height * 3 && len > 0;
    clip.get_mut(start..start + len).filter(|_| fits)
}

/// Copies RGB that needs no transform. Returns false if that is not possible: the pass then writes
/// the same bytes.
fn copied(view: &FrameView<'_>, slot: &mut [u8]) -> bool {
    let kernels::Planes::PackedRgb {
        plane,
        pixel_bytes: 3,
        offsets: [0, 1, 2],
    } = view.planes
    else {
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
    for (to, from) in slot
        .chunks_exact_mut(row_bytes)
        .zip(plane.data.chunks(plane.stride_bytes))
    {
        to.copy_from_slice(&from[..row_bytes]);
    }
    true
}
