//! In: decoded frames and whose clip they belong to.
//! Out: their pixels in the clip's place of a batch, for every view, on the host or a device.
//! Never: compiles what it compiled a moment ago, or draws other numbers for the same clip.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use framespool_kernels as kernels;
use framespool_nvdec::session::Surface;
use kernels::FrameView;

use super::draw::{Drawn, Subject};
use super::easel::Easel;
use super::shape::ClipShape;
use super::surface;
use super::view::with_view;
use super::Recipe;
use crate::batch::{Spot, Target};
use crate::error::{Error, Result, Site};
use crate::ffmpeg::Frame;
use crate::gpu::Gpu;
use crate::media::{ColourTags, Turn};
use crate::order::rng::Key;

/// A decoded picture, wherever it lies.
pub enum Picture<'a> {
    /// On the host.
    Host(&'a Frame),
    /// On a device.
    Device {
        /// What the hardware decoder wrote.
        surface: &'a Surface,
        /// What the container says of its colour.
        container: ColourTags,
        /// What paints it: its stream is the surface's.
        easel: &'a mut Easel,
    },
}

impl Picture<'_> {
    /// (width, height) of what is shown of it.
    pub fn size(&self) -> (u32, u32) {
        match self {
            Picture::Host(frame) => (frame.width(), frame.height()),
            Picture::Device { surface, .. } => surface::size(surface),
        }
    }

    /// Whether it lies on the host.
    pub fn is_on_host(&self) -> bool {
        matches!(self, Picture::Host(_))
    }
}

/// Compiled passes and scratch memory of one worker.
pub struct Painter {
    /// Tells its passes from those of other painters.
    number: u64,
    recipe: Recipe,
    key: Key,
    /// Most recently used last. Few: one per picture size, or clip, met lately.
    plans: Vec<(PlanKey, Vec<kernels::PixelPass>)>,
    scratch: kernels::Scratch,
    gpu: Option<Arc<Gpu>>,
    /// Brings host pictures to the device; made when the first one is to go there.
    easel: Option<Easel>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct PlanKey {
    size: (u32, u32),
    turn: Turn,
    key: Key,
    t: u32,
}

/// One pass among those of all painters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PassId {
    painter: u64,
    plan: PlanKey,
    view: usize,
}

const PLANS_KEPT: usize = 256;

impl Painter {
    /// A painter for one recipe, whose results stay on the host.
    pub fn new(recipe: Recipe) -> Self {
        Self::on(recipe, None)
    }

    /// A painter whose results may go to this GPU too.
    pub fn on(recipe: Recipe, gpu: Option<Arc<Gpu>>) -> Self {
        static PAINTERS: AtomicU64 = AtomicU64::new(0);
        let key = Key { seed: 0, epoch: 0, clip: 0, visit: 0 };
        let number = PAINTERS.fetch_add(1, Ordering::Relaxed);
        let scratch = kernels::Scratch::new();
        Self { number, recipe, key, plans: Vec::new(), scratch, gpu, easel: None }
    }

    /// The easel by which this worker brings things to the device.
    ///
    /// # Errors
    /// `Gpu` where the device has no stream to give; `Argument` for a painter without a device.
    pub fn easel(&mut self) -> Result<&mut Easel> {
        if self.easel.is_none() {
            let no_gpu = || Error::Argument("a place on a device for a painter that has none".into());
            let gpu = self.gpu.clone().ok_or_else(no_gpu)?;
            let stream = gpu.device().stream()?;
            self.easel = Some(Easel::new(gpu, stream));
        }
        Ok(self.easel.as_mut().expect("made above"))
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

    /// (width, height) of what a picture of this size as stored will become.
    pub fn size_of(&mut self, size: (u32, u32), turn: Turn) -> Result<(u32, u32)> {
        Ok(self.plan(size, turn, 0)?.1[0].output_size())
    }

    /// The shape of a clip of `frames` pictures of this (width, height).
    pub fn shape(&self, frames: usize, (width, height): (u32, u32)) -> ClipShape {
        self.recipe.shape(frames, (width, height))
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.bytes()
    }

    /// Paints a picture as picture `t` of a clip.
    pub fn paint(
        &mut self,
        site: &Site,
        picture: &mut Picture<'_>,
        turn: Turn,
        shape: &ClipShape,
        target: Target<'_>,
        t: usize,
    ) -> Result<()> {
        let assumed = self.recipe.assumed;
        match (picture, target) {
            (Picture::Host(frame), Target::Host(clip)) => {
                with_view(site, frame, assumed, |view| self.paint_view(site, view, turn, shape, clip, (t, t)))
            }
            (Picture::Host(frame), Target::Device(spot)) => self.bring(site, frame, turn, shape, spot, t),
            (Picture::Device { surface, container, easel }, Target::Device(mut spot)) => {
                check_room(site, shape, spot.len)?;
                spot.begin(easel.stream())?;
                let frame = surface::frame(site, surface, *container, assumed)?;
                self.launch(site, &frame, easel, turn, shape, spot.address, (t, t))
            }
            (Picture::Device { surface, container, easel }, Target::Host(clip)) => {
                let frame = surface::frame(site, surface, *container, assumed)?;
                let alone = ClipShape { frames: 1, ..*shape };
                let bytes = alone.bytes().unwrap_or(0);
                let address = easel.cross(bytes)?;
                self.launch(site, &frame, easel, turn, &alone, address, (t, 0))?;
                let mut staging = std::mem::take(&mut easel.staging);
                staging.resize(bytes, 0);
                let fetched = easel.stream().download(&mut staging, address);
                for ((from, len), (to, _)) in
                    alone.frame_stretches(0).into_iter().zip(shape.frame_stretches(t))
                {
                    clip[to..to + len].copy_from_slice(&staging[from..from + len]);
                }
                easel.staging = staging;
                Ok(fetched?)
            }
        }
    }

    /// Paints a picture on the host and brings the result to the device.
    fn bring(
        &mut self,
        site: &Site,
        frame: &Frame,
        turn: Turn,
        shape: &ClipShape,
        mut spot: Spot<'_>,
        t: usize,
    ) -> Result<()> {
        let alone = ClipShape { frames: 1, ..*shape };
        let easel = self.easel()?;
        let stream = easel.stream().clone();
        let mut staging = std::mem::take(&mut easel.staging);
        staging.resize(alone.bytes().unwrap_or(0), 0);
        let assumed = self.recipe.assumed;
        let painted = with_view(site, frame, assumed, |view| {
            self.paint_view(site, view, turn, &alone, &mut staging, (t, 0))
        });
        let brought = painted.and_then(|()| {
            check_room(site, shape, spot.len)?;
            spot.begin(&stream)?;
            for ((from, len), (to, _)) in alone.frame_stretches(0).into_iter().zip(shape.frame_stretches(t)) {
                stream.upload(spot.address + to as u64, &staging[from..from + len])?;
            }
            Ok(())
        });
        if let Some(easel) = &mut self.easel {
            easel.staging = staging;
        }
        brought
    }

    /// Enqueues what makes picture `t` of a clip from a frame on the device, as picture `place` of what lies at `to`.
    #[expect(clippy::too_many_arguments, reason = "where from, by what, where to")]
    fn launch(
        &mut self,
        site: &Site,
        frame: &kernels::DeviceFrame,
        easel: &mut Easel,
        turn: Turn,
        shape: &ClipShape,
        address: u64,
        (t, place): (usize, usize),
    ) -> Result<()> {
        let painter = self.number;
        let (plan, passes) = self.plan((frame.width, frame.height), turn, t)?;
        for (view, pass) in passes.iter().enumerate() {
            check_size(site, pass.output_size(), shape)?;
            let slot = shape.device_slot(address, view, place);
            easel.run(site, PassId { painter, plan, view }, pass, frame, slot)?;
        }
        Ok(())
    }

    /// Paints planes from anywhere on the host as picture `t` of a clip, at the place of picture `place`.
    pub fn paint_view(
        &mut self,
        site: &Site,
        view: &FrameView<'_>,
        turn: Turn,
        shape: &ClipShape,
        clip: &mut [u8],
        (t, place): (usize, usize),
    ) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let painted = self.plan((view.width, view.height), turn, t).and_then(|(_, passes)| {
            for (number, pass) in passes.iter_mut().enumerate() {
                check_size(site, pass.output_size(), shape)?;
                pass.run(view, &mut shape.slot(clip, number, place), &mut scratch)
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
        size: (u32, u32),
        turn: Turn,
        (a, t): (Key, usize),
        (b, u): (Key, usize),
    ) -> Result<bool> {
        if !self.recipe.is_random() {
            return Ok(true);
        }
        self.begin(a);
        let first = self.plan(size, turn, t)?.1.to_vec();
        self.begin(b);
        let second = self.plan(size, turn, u)?.1;
        Ok(first.iter().zip(second.iter()).all(|(one, other)| one.makes_the_same(other)))
    }

    /// The passes for a picture, one per view, moved to the end of the list.
    fn plan(
        &mut self,
        size: (u32, u32),
        turn: Turn,
        t: usize,
    ) -> Result<(PlanKey, &mut [kernels::PixelPass])> {
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
        Ok((wanted, &mut self.plans.last_mut().expect("just pushed").1))
    }
}

/// Nobody else looks whether a clip fits where kernels write it.
fn check_room(site: &Site, shape: &ClipShape, len: usize) -> Result<()> {
    if shape.bytes().is_some_and(|bytes| bytes <= len) {
        return Ok(());
    }
    let reason = format!("a clip of {shape:?} was given {len} bytes of the device");
    Err(Error::Internal { site: site.clone(), reason })
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
