//! In: decoded frames and whose clip they belong to.
//! Out: their pixels in the clip's place of a batch, for every view.
//! Never: compiles what it compiled a moment ago, or draws other numbers for the same clip.

use framespool_kernels as kernels;
use kernels::FrameView;

use super::draw::{Drawn, Subject};
use super::shape::ClipShape;
use super::view::with_view;
use super::Recipe;
use crate::error::{Error, Result, Site};
use crate::ffmpeg::Frame;
use crate::media::Turn;
use crate::order::rng::Key;

/// Compiled passes and scratch memory of one worker.
pub struct Painter {
    recipe: Recipe,
    key: Key,
    /// Most recently used last. Few: one per picture size, or clip, met lately.
    plans: Vec<(PlanKey, Vec<kernels::PixelPass>)>,
    scratch: kernels::Scratch,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct PlanKey {
    size: (u32, u32),
    turn: Turn,
    key: Key,
    t: u32,
}

const PLANS_KEPT: usize = 256;

impl Painter {
    /// A painter for one recipe.
    pub fn new(recipe: Recipe) -> Self {
        let key = Key { seed: 0, epoch: 0, clip: 0, visit: 0 };
        Self { recipe, key, plans: Vec::new(), scratch: kernels::Scratch::new() }
    }

    /// What it makes.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// From now on random numbers are this clip's.
    pub fn begin(&mut self, key: Key) {
        if self.recipe.is_random() {
            self.key = key;
        }
    }

    /// (width, height) of what a frame will become.
    pub fn output_size(&mut self, frame: &Frame, turn: Turn) -> Result<(u32, u32)> {
        self.size_of((frame.width(), frame.height()), turn)
    }

    /// [`output_size`](Self::output_size) of a picture of this size as stored.
    pub fn size_of(&mut self, size: (u32, u32), turn: Turn) -> Result<(u32, u32)> {
        Ok(self.plan(size, turn, 0)?[0].output_size())
    }

    /// The shape of a clip of `frames` pictures of this (width, height).
    pub fn shape(&self, frames: usize, (width, height): (u32, u32)) -> ClipShape {
        self.recipe.shape(frames, (width, height))
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.bytes()
    }

    /// Paints a frame as picture `t` of a clip.
    pub fn paint(
        &mut self,
        site: &Site,
        frame: &Frame,
        turn: Turn,
        shape: &ClipShape,
        clip: &mut [u8],
        t: usize,
    ) -> Result<()> {
        with_view(site, frame, self.recipe.assumed, |view| self.paint_view(site, view, turn, shape, clip, t))
    }

    /// [`paint`](Self::paint) for planes from anywhere.
    pub fn paint_view(
        &mut self,
        site: &Site,
        view: &FrameView<'_>,
        turn: Turn,
        shape: &ClipShape,
        clip: &mut [u8],
        t: usize,
    ) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let painted = self.plan((view.width, view.height), turn, t).and_then(|passes| {
            for (number, pass) in passes.iter_mut().enumerate() {
                check_size(site, pass.output_size(), shape)?;
                pass.run(view, &mut shape.slot(clip, number, t), &mut scratch)
                    .map_err(|e| Error::Unsupported { site: site.clone(), what: e.to_string() })?;
            }
            Ok(())
        });
        self.scratch = scratch;
        painted
    }

    /// Whether picture `t` of clip `a` and picture `u` of clip `b`, made from the same frame, have the same pixels.
    ///
    /// # Errors
    /// As painting them would report.
    pub fn alike(
        &mut self,
        frame: &Frame,
        turn: Turn,
        (a, t): (Key, usize),
        (b, u): (Key, usize),
    ) -> Result<bool> {
        if !self.recipe.is_random() {
            return Ok(true);
        }
        let size = (frame.width(), frame.height());
        self.begin(a);
        let first = self.plan(size, turn, t)?.to_vec();
        self.begin(b);
        let second = self.plan(size, turn, u)?;
        Ok(first.iter().zip(second.iter()).all(|(one, other)| one.makes_the_same(other)))
    }

    /// The passes for a picture, one per view, moved to the end of the list.
    fn plan(&mut self, size: (u32, u32), turn: Turn, t: usize) -> Result<&mut [kernels::PixelPass]> {
        let t = if self.recipe.is_per_frame() { t as u32 } else { 0 };
        let wanted = PlanKey { size, turn, key: self.key, t };
        match self.plans.iter().position(|(known, _)| *known == wanted) {
            Some(at) => {
                let plan = self.plans.remove(at);
                self.plans.push(plan);
            }
            None => {
                let passes = (0..self.recipe.views.max(1))
                    .map(|view| {
                        let subject = Subject { size, turn, key: self.key, t, view };
                        let (geometry, finish) = self.recipe.plan(&subject, None)?;
                        kernels::PixelPass::new(geometry, finish).map_err(|e| Error::Argument(e.to_string()))
                    })
                    .collect::<Result<Vec<_>>>()?;
                if self.plans.len() == PLANS_KEPT {
                    self.plans.remove(0);
                }
                self.plans.push((wanted, passes));
            }
        }
        Ok(&mut self.plans.last_mut().expect("just pushed").1)
    }
}

fn check_size(site: &Site, size: (u32, u32), shape: &ClipShape) -> Result<()> {
    if size == (shape.width as u32, shape.height as u32) {
        return Ok(());
    }
    let what = format!(
        "a picture size that changes inside a clip (from {}x{} to {}x{} after the transforms; add Resize((h, w)) to make them equal)",
        shape.width, shape.height, size.0, size.1
    );
    Err(Error::Unsupported { site: site.clone(), what })
}

/// What a recipe draws for frame `t` of a clip, for a picture of this size as stored.
pub fn explain(recipe: &Recipe, size: (u32, u32), turn: Turn, key: Key, t: u32) -> Result<Vec<Drawn>> {
    if t as usize >= super::draw::MOST_FRAMES {
        return Err(Error::Argument(format!(
            "frame {t}: clips of at most {} frames are possible",
            super::draw::MOST_FRAMES
        )));
    }
    let mut told = Vec::new();
    recipe.plan(&Subject { size, turn, key, t, view: 0 }, Some(&mut told))?;
    Ok(told)
}
