//! In: pictures' files, undecoded, and where they are wanted.
//! Out: as much of them decoded as that takes, painted; by nvJPEG where it was asked for and takes them.
//! Never: lets who decodes an image depend on what became of others.

use framespool_kernels as kernels;
use kernels::FrameView;

use super::super::jpeg::Nvjpeg;
use super::{check_room, Painter, Plan};
use crate::batch::Spot;
use crate::decode::StillPicture;
use crate::error::{Result, Site};
use crate::media::Turn;
use crate::pixels::shape::ClipShape;
use crate::still::{Ask, Shrink};

impl Painter {
    /// Whether a picture may be decoded smaller than it is.
    pub(super) fn shrinks(&self, still: &StillPicture<'_>) -> bool {
        let as_wanted = !self.recipe.exact && self.recipe.label_fill.is_none();
        as_wanted && still.header().can_shrink(Shrink::Half)
    }

    /// Decodes a picture's file on the device and paints it there. The place comes back where the CPU is to do it.
    pub(super) fn paint_by_nvjpeg<'a>(
        &mut self,
        site: &Site,
        still: &StillPicture<'_>,
        turn: Turn,
        shape: &ClipShape,
        mut spot: Spot<'a>,
        t: usize,
    ) -> Result<Option<Spot<'a>>> {
        if self.recipe.exact || self.recipe.label_fill.is_some() {
            return Ok(Some(spot));
        }
        let Some(gpu) = &self.gpu else { return Ok(Some(spot)) };
        let Some(mut lane) = self.nvjpeg.take(gpu)? else { return Ok(Some(spot)) };
        let decoded = lane.decode(still, self.recipe.assumed);
        let painted = decoded.and_then(|decoded| match decoded {
            Ok(frame) => {
                check_room(site, shape, spot.len)?;
                spot.begin(lane.easel.stream())?;
                self.launch(site, &frame, &mut lane.easel, turn, shape, spot.address, (t, t))?;
                self.report.decoded += 1;
                Ok(None)
            }
            Err(reason) => {
                self.report.left_to_cpu.push(reason);
                Ok(Some(spot))
            }
        });
        // Whatever happened: who decodes an image must not depend on what became of others.
        self.nvjpeg = Nvjpeg::Ready(lane);
        painted
    }

    /// Decodes as much of a picture's file as painting it as picture `t` of a clip takes, and paints it.
    pub(super) fn paint_still(
        &mut self,
        site: &Site,
        still: &mut StillPicture<'_>,
        turn: Turn,
        shape: &ClipShape,
        clip: &mut [u8],
        (t, place): (usize, usize),
    ) -> Result<()> {
        let (exact, labels) = (self.recipe.exact, self.recipe.label_fill.is_some());
        let assumed = self.recipe.assumed;
        let mut scratch = std::mem::take(&mut self.scratch);
        let shrinks = self.shrinks(still);
        let as_it_is = self.recipe.is_plain() && turn == Turn::default();
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
                view.colour.matrix = assumed.matrix.unwrap_or(view.colour.matrix);
            }
            view.colour.range = assumed.range.unwrap_or(view.colour.range);
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
    /// The rows of a picture of this size that any view is made from. `None` where that is to be found out when it is painted.
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

/// The bytes of picture `place`, where they are to be R, G, B in rows without a gap, of a picture of this size.
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

/// Copies RGB that is wanted as it is. False where that cannot be: the pass does it, to the same bytes.
fn copied(view: &FrameView<'_>, slot: &mut [u8]) -> bool {
    let kernels::Planes::PackedRgb { plane, pixel_bytes: 3, offsets: [0, 1, 2] } = view.planes else {
        return false;
    };
    let as_they_are = view.depth_bits == 8 && view.colour.range == kernels::Range::Full;
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
