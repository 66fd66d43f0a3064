//! In: decoded frames and whose clip they belong to.
//! Out: their pixels in the clip's place of a batch, for every view, on the host or a device.
//! Never: compiles what it compiled a moment ago, or draws other numbers for the same clip.

mod still;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use framespool_kernels as kernels;
use framespool_nvdec::session::Surface;
use kernels::FrameView;

use super::draw::{Drawn, Subject};
use super::easel::Easel;
use super::hdr;
use super::jpeg::{JpegReport, Nvjpeg};
use super::shape::ClipShape;
use super::shrink;
use super::surface;
use super::view::with_view;
use super::Recipe;
use crate::batch::{Spot, Target};
use crate::decode::StillPicture;
use crate::error::{Error, Result, Site};
use crate::ffmpeg::Frame;
use crate::gpu::Gpu;
use crate::limits::resize;
use crate::media::{ColourTags, Turn};
use crate::order::rng::Key;
use crate::still::Shrink;

/// A picture, wherever it lies.
pub enum Picture<'a> {
    /// On the host.
    Host(&'a Frame),
    /// A picture's file, of which no more is decoded than what is painted takes.
    Still(StillPicture<'a>),
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
    /// Whether its samples have more than 8 bits.
    pub fn is_deep(&self) -> bool {
        match self {
            Picture::Host(frame) => frame.depth_bits() > 8,
            Picture::Still(still) => still.header().sample_bits > 8,
            Picture::Device { surface, .. } => surface.depth_bits > 8,
        }
    }

    /// What the stream, or the container in its place, says of its colour; `None` of pictures' files.
    fn colour(&self) -> Option<ColourTags> {
        match self {
            Picture::Host(frame) => Some(frame.colour()),
            Picture::Still(_) => None,
            Picture::Device { surface, container, .. } => surface::tags(surface, *container),
        }
    }

    /// (width, height) of what is shown of it.
    pub fn size(&self) -> (u32, u32) {
        match self {
            Picture::Host(frame) => (frame.width(), frame.height()),
            Picture::Still(still) => still.size(),
            Picture::Device { surface, .. } => surface::size(surface),
        }
    }
}

/// Compiled passes and scratch memory of one worker.
pub struct Painter {
    /// Tells its passes from those of other painters.
    number: u64,
    recipe: Recipe,
    key: Key,
    /// How the tones of the picture at hand are mapped.
    tone: Option<kernels::ToneMap>,
    /// Most recently used last. Few: one per picture size, or clip, met lately.
    plans: Vec<Plan>,
    scratch: kernels::Scratch,
    gpu: Option<Arc<Gpu>>,
    /// Brings host pictures to the device; made when the first one is to go there.
    easel: Option<Easel>,
    /// Decodes JPEG files on the device.
    nvjpeg: Nvjpeg,
    report: JpegReport,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct PlanKey {
    size: (u32, u32),
    turn: Turn,
    key: Key,
    t: u32,
    tone: Option<kernels::ToneMap>,
    /// Its decoder may make it smaller.
    shrinks: bool,
}

/// What was compiled for one picture.
struct Plan {
    key: PlanKey,
    /// How much smaller it is to be decoded.
    shrink: Shrink,
    /// One for each view.
    passes: Vec<kernels::PixelPass>,
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
        let (nvjpeg, report) = (Nvjpeg::Off, JpegReport::default());
        let plans = Vec::new();
        Self { number, recipe, key, tone: None, plans, scratch, gpu, easel: None, nvjpeg, report }
    }

    /// The same, with nvJPEG for JPEG files whose results go to the device. Its samples are near the CPU's, not the same.
    pub fn by_nvjpeg(self) -> Self {
        Self { nvjpeg: Nvjpeg::Wanted, ..self }
    }

    /// What nvJPEG did since this was asked last.
    pub fn take_report(&mut self) -> JpegReport {
        std::mem::take(&mut self.report)
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
        Ok(self.plan(size, turn, 0, false)?.passes[0].output_size())
    }

    /// (width, height) of what this picture will become.
    ///
    /// # Errors
    /// `Argument` for a size that the transforms cannot be applied to.
    pub fn size_of_picture(&mut self, picture: &Picture<'_>, turn: Turn) -> Result<(u32, u32)> {
        let shrinks = matches!(picture, Picture::Still(still) if self.shrinks(still));
        Ok(self.plan(picture.size(), turn, 0, shrinks)?.passes[0].output_size())
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
        let tags = picture.colour().unwrap_or_default();
        self.tone = hdr::tone(site, tags, self.recipe.tone)?;
        if !self.recipe.ignores_hdr && self.recipe.tone.is_none() {
            hdr::note(site, tags);
        }
        match (picture, target) {
            (Picture::Host(frame), Target::Host(clip)) => {
                with_view(site, frame, assumed, |view| self.paint_view(site, view, turn, shape, clip, (t, t)))
            }
            (Picture::Host(frame), Target::Device(spot)) => {
                self.bring(site, shape, spot, t, |painter, alone, staging| {
                    with_view(site, frame, assumed, |view| {
                        painter.paint_view(site, view, turn, alone, staging, (t, 0))
                    })
                })
            }
            (Picture::Still(still), Target::Host(clip)) => {
                self.paint_still(site, still, turn, shape, clip, (t, t))
            }
            (Picture::Still(still), Target::Device(spot)) => {
                let left = self.paint_by_nvjpeg(site, still, turn, shape, spot, t)?;
                let Some(spot) = left else { return Ok(()) };
                self.bring(site, shape, spot, t, |painter, alone, staging| {
                    painter.paint_still(site, still, turn, alone, staging, (t, 0))
                })
            }
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
                resize(site, &mut staging, bytes)?;
                staging.truncate(bytes);
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
        shape: &ClipShape,
        mut spot: Spot<'_>,
        t: usize,
        paint: impl FnOnce(&mut Self, &ClipShape, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let alone = ClipShape { frames: 1, ..*shape };
        let easel = self.easel()?;
        let stream = easel.stream().clone();
        let mut staging = std::mem::take(&mut easel.staging);
        let bytes = alone.bytes().unwrap_or(0);
        resize(site, &mut staging, bytes)?;
        staging.truncate(bytes);
        let painted = paint(self, &alone, &mut staging);
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
        let plan = self.plan((frame.width, frame.height), turn, t, false)?;
        for (view, pass) in plan.passes.iter().enumerate() {
            check_size(site, pass.output_size(), shape)?;
            let slot = shape.device_slot(address, view, place);
            easel.run(site, PassId { painter, plan: plan.key, view }, pass, frame, slot)?;
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
        let plan = self.plan((view.width, view.height), turn, t, false);
        let painted = plan.and_then(|plan| plan.run(site, view, shape, clip, place, &mut scratch));
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
        let first = self.plan(size, turn, t, false)?.passes.clone();
        self.begin(b);
        let second = &self.plan(size, turn, u, false)?.passes;
        Ok(first.iter().zip(second.iter()).all(|(one, other)| one.makes_the_same(other)))
    }

    /// The passes for a picture, one per view, moved to the end of the list.
    fn plan(&mut self, size: (u32, u32), turn: Turn, t: usize, shrinks: bool) -> Result<&mut Plan> {
        let t = if self.recipe.is_per_frame() { t as u32 } else { 0 };
        let wanted = PlanKey { size, turn, key: self.key, t, tone: self.tone, shrinks };
        match self.plans.iter().position(|known| known.key == wanted) {
            Some(at) => {
                let plan = self.plans.remove(at);
                self.plans.push(plan);
            }
            None => {
                let draw = |view| {
                    self.recipe.plan(&Subject { size, turn, key: self.key, t, view, tone: self.tone }, None)
                };
                let drawn = (0..self.recipe.views.max(1)).map(draw).collect::<Result<Vec<_>>>()?;
                let geometries = drawn.iter().map(|(geometry, _)| geometry);
                let shrink = if shrinks { shrink::enough(geometries) } else { Shrink::Whole };
                let compile = |(geometry, finish): (kernels::Geometry, kernels::Finish)| {
                    let smaller = match shrink {
                        Shrink::Whole => Some(geometry),
                        less => shrink::in_smaller(&geometry, size, less.divisor()),
                    };
                    let too_fine = || {
                        let kernels::Rect { width, height, .. } = geometry.crop;
                        let (across, down) = geometry.grid;
                        Error::Argument(format!(
                            "a crop of {width}/{across} x {height}/{down} pixels is too fine; crop a larger part"
                        ))
                    };
                    let fits = smaller.ok_or_else(too_fine)?;
                    kernels::PixelPass::new(fits, finish).map_err(|e| Error::Argument(e.to_string()))
                };
                let passes = drawn.into_iter().map(compile).collect::<Result<Vec<_>>>()?;
                if self.plans.len() == PLANS_KEPT {
                    self.plans.remove(0);
                }
                self.plans.push(Plan { key: wanted, shrink, passes });
            }
        }
        Ok(self.plans.last_mut().expect("just pushed"))
    }
}

impl Plan {
    /// All views of a picture, as picture `place` of a clip.
    fn run(
        &mut self,
        site: &Site,
        view: &FrameView<'_>,
        shape: &ClipShape,
        clip: &mut [u8],
        place: usize,
        scratch: &mut kernels::Scratch,
    ) -> Result<()> {
        for (number, pass) in self.passes.iter_mut().enumerate() {
            check_size(site, pass.output_size(), shape)?;
            pass.run(view, &mut shape.slot(clip, number, place), scratch)
                .map_err(|e| Error::Unsupported { site: site.clone(), what: e.to_string() })?;
        }
        Ok(())
    }
}

/// Nobody else looks whether a clip fits where kernels write it.
fn check_room(site: &Site, shape: &ClipShape, len: usize) -> Result<()> {
    if shape.bytes().is_some_and(|bytes| bytes <= len) {
        return Ok(());
    }
    let reason = format!("a clip of {shape} was given {len} bytes of the device");
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
    recipe.plan(&Subject { size, turn, key, t, view: 0, tone: None }, Some(&mut told))?;
    Ok(told)
}
