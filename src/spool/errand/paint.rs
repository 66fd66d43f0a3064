//! In: one decoded picture and the clips of an errand that it is a frame of.
//! Out: the picture painted into each of them, once for those that want the same pixels; blank frames filled.
//! Never: decodes, hands a clip over, or decides what becomes of one that could not be painted.

use super::{Clip, Painters, Place};
use crate::batch::{Part, Target};
use crate::error::{Error, Result};
use crate::index::VideoIndex;
use crate::pixels::{ClipShape, Painter, Picture};
use crate::units::DisplayIndex;
use crate::video::Canvas;

/// Clips that share a frame, up to which it is found out which of them want the same pixels of it.
const FEW: usize = 8;

/// Paints one frame for all who want it: once for those who want the same pixels. Returns what became of each.
pub(super) fn paint(
    painters: &mut Painters,
    index: &VideoIndex,
    clips: &mut [Option<Clip>],
    takers: &[(usize, usize)],
    picture: &mut Picture<'_>,
) -> Vec<(usize, Result<()>)> {
    let turn = index.info.turn;
    let size = picture.size();
    let mut done: Vec<(usize, usize)> = Vec::new();
    let mut results = Vec::with_capacity(takers.len());
    // 8-bit codes cannot hold what a deeper picture makes of floats: such clips wait as they are delivered.
    let deep = painters.kept.is_some() && picture.is_deep();
    painters.met_deep |= deep;
    for &(number, t) in takers {
        let Some(clip) = &mut clips[number] else { continue };
        let key = clip.key;
        let waits = matches!(clip.place, Place::Own(..));
        let painter = match &mut painters.kept {
            Some(kept) if waits && !deep => kept,
            _ => &mut painters.batch,
        };
        let mut paint_one = |painter: &mut Painter, clip: &mut Clip| -> Result<()> {
            painter.begin(key);
            let shape = match clip.shape {
                Some(shape) => shape,
                None => {
                    let size = painter.size_of_picture(picture, turn).map_err(|e| e.of_video(&index.site))?;
                    *clip.shape.insert(painter.shape(clip.facts.indices.len(), size))
                }
            };
            check_form(&shape, painter)?;
            clip.place.check_room(&shape)?;
            let site = index.site_of(DisplayIndex(clip.facts.indices[t] as u32));
            let target = clip.place.canvas().target(&shape)?;
            painter.paint(&site, picture, turn, &shape, target, t)
        };
        let shape = clip.shape;
        let few = takers.len() <= FEW;
        let mut same = |&&(other, u): &&(usize, usize)| {
            let in_same_form = |c: &&Clip| matches!(c.place, Place::Own(..)) == waits;
            // A clip's first frame decides its shape; where pictures change size, painting says what is wrong.
            let in_same_shape = |c: &&Clip| {
                c.shape.is_some_and(|other| shape.is_none_or(|s| with_frames(other, s.frames) == s))
            };
            let other = clips[other].as_ref().filter(in_same_form).filter(in_same_shape).map(|c| c.key);
            // Comparing what is drawn takes compiling it: not for every pair of many.
            let worth_it = |other| few || other == key || !painter.recipe().is_random();
            let other = other.filter(|&other| worth_it(other));
            other.is_some_and(|other| painter.alike(size, turn, (other, u), (key, t)).unwrap_or(false))
        };
        let copied = match done.iter().find(&mut same).copied() {
            Some(from) => copy(clips, from, (number, t)),
            None => Ok(false),
        };
        let result = match copied {
            Ok(false) => paint_one(painter, clips[number].as_mut().expect("just seen")),
            copied => copied.map(|_| ()),
        };
        if result.is_ok() {
            done.push((number, t));
        }
        results.push((number, result));
    }
    results
}

/// Copies picture `t` of one clip to picture `u` of another. False where they lie on a device: there painting once more costs
/// what copying would.
fn copy(clips: &mut [Option<Clip>], (from, t): (usize, usize), (to, u): (usize, usize)) -> Result<bool> {
    if from == to {
        let clip = clips[to].as_mut().expect("has painted it");
        let shape = clip.shape.expect("has painted it");
        let Target::Host(bytes) = clip.place.canvas().target(&shape)? else { return Ok(false) };
        for ((a, len), (b, _)) in shape.frame_stretches(t).into_iter().zip(shape.frame_stretches(u)) {
            bytes.copy_within(a..a + len, b);
        }
        return Ok(true);
    }
    let [Some(from), Some(to)] = clips.get_disjoint_mut([from, to]).expect("two different clips") else {
        return Ok(true); // one of them was given up
    };
    let shape = from.shape.expect("has painted it");
    // Clips of one video may differ in length: only what a frame looks like is shared.
    let own = with_frames(shape, to.facts.indices.len());
    to.place.check_room(&own)?;
    let Target::Host(source) = from.place.canvas().target(&shape)? else { return Ok(false) };
    to.shape = Some(own);
    let Target::Host(target) = to.place.canvas().target(&own)? else { return Ok(false) };
    for ((a, len), (b, _)) in shape.frame_stretches(t).into_iter().zip(own.frame_stretches(u)) {
        target[b..b + len].copy_from_slice(&source[a..a + len]);
    }
    Ok(true)
}

/// A clip whose pictures are partly deeper than 8 bits cannot wait in one form.
fn check_form(shape: &ClipShape, painter: &Painter) -> Result<()> {
    if shape.dtype == painter.recipe().dtype {
        return Ok(());
    }
    Err(Error::Argument("its pictures differ in depth".into()))
}

/// The shape of a clip of so many frames that are like these.
fn with_frames(shape: ClipShape, frames: usize) -> ClipShape {
    ClipShape { frames, ..shape }
}

/// Fills the frames that are not real with zeros.
///
/// # Errors
/// `Gpu` where the clip lies on a device that does not take the order.
pub(in crate::spool) fn blank(canvas: &mut dyn Canvas, mask: &[bool], painter: &mut Painter) -> Result<()> {
    let Some(shape) = canvas.shape().filter(|_| mask.iter().any(|&real| !real)) else { return Ok(()) };
    let blanks = (0..mask.len()).filter(|&t| !mask[t]).flat_map(|t| shape.frame_stretches(t));
    match canvas.target(&shape)? {
        Target::Host(bytes) => blanks.for_each(|(start, len)| bytes[start..start + len].fill(0)),
        Target::Device(mut spot) => {
            let stream = painter.easel()?.stream().clone();
            spot.begin(&stream)?;
            for (start, len) in blanks {
                stream.fill(spot.address + start as u64, 0, len)?;
            }
        }
    }
    Ok(())
}

/// A clip's place in a batch of even clips.
pub(in crate::spool) struct PartCanvas {
    pub part: Part,
    pub shape: ClipShape,
}

impl Canvas for PartCanvas {
    fn target(&mut self, shape: &ClipShape) -> Result<Target<'_>> {
        if *shape != self.shape {
            return Err(Error::Argument(format!(
                "a clip came out as {}x{} where the transforms promise {}x{}",
                shape.width, shape.height, self.shape.width, self.shape.height
            )));
        }
        Ok(self.part.target())
    }

    fn shape(&self) -> Option<ClipShape> {
        Some(self.shape)
    }
}
