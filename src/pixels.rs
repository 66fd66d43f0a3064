//! In: a decoded frame and the transforms that the user asked for. Out: pixels in a clip's place of a batch.
//! The seam to the `kernels` crate: here formats, turns and transforms become one geometry; there pixels are made.
//! Never: touches a pixel itself.

pub mod view;

use framespool_kernels as kernels;
pub use kernels::{Dtype, Normalize};

use crate::error::{Error, Result, Site};
use crate::ffmpeg::Frame;
use crate::media::Turn;

/// One step of what a user asks for, with torchvision's meaning.
#[derive(Clone, Debug, PartialEq)]
pub enum Transform {
    /// The shorter side becomes this many pixels, the longer one `size * longer / shorter`, cut down to an integer.
    ResizeShorter(u32),
    /// Exactly this size: (height, width).
    Resize(u32, u32),
    /// The middle (height, width) of the picture.
    CenterCrop(u32, u32),
    /// `(value / 255 - mean) / std` per channel; needs a float dtype.
    Normalize(Normalize),
}

/// Order of a batch's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// batch, time, height, width, channel
    Nthwc,
    /// batch, time, channel, height, width
    Ntchw,
    /// batch, channel, time, height, width
    Ncthw,
}

/// What to make of each frame. Checked once, here.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    transforms: Vec<Transform>,
    normalize: Option<Normalize>,
    /// Element type of the result.
    pub dtype: Dtype,
    /// Order of dimensions of the result.
    pub layout: Layout,
}

impl Recipe {
    /// # Errors
    /// `Argument` for a zero size, a `Normalize` that is not last, without a float dtype, or with a zero std.
    pub fn new(transforms: Vec<Transform>, dtype: Dtype, layout: Layout) -> Result<Self> {
        let mut normalize = None;
        for transform in &transforms {
            if normalize.is_some() {
                return Err(Error::Argument(format!("{transform:?} follows Normalize; put Normalize last")));
            }
            match transform {
                Transform::ResizeShorter(0) => {
                    return Err(Error::Argument("Resize to 0 pixels; give a size of at least 1".into()))
                }
                Transform::Resize(h, w) | Transform::CenterCrop(h, w) if *h == 0 || *w == 0 => {
                    return Err(Error::Argument(format!("size ({h}, {w}); both sides must be at least 1")))
                }
                Transform::Normalize(n) if dtype == Dtype::U8 => {
                    return Err(Error::Argument(format!(
                        "Normalize(mean={:?}, std={:?}) needs dtype=\"float32\", got \"uint8\"",
                        n.mean, n.std
                    )))
                }
                Transform::Normalize(n)
                    if !n.std.iter().chain(&n.mean).all(|v| v.is_finite()) || n.std.contains(&0.0) =>
                {
                    return Err(Error::Argument(format!(
                        "Normalize(mean={:?}, std={:?}): values must be finite and std not 0",
                        n.mean, n.std
                    )))
                }
                Transform::Normalize(n) => normalize = Some(*n),
                _ => {}
            }
        }
        Ok(Self { transforms, normalize, dtype, layout })
    }

    /// (width, height) of the result if it is the same for every picture.
    pub fn fixed_size(&self) -> Option<(u32, u32)> {
        let last = self.transforms.iter().rev().find(|t| !matches!(t, Transform::Normalize(_)));
        match last {
            Some(Transform::Resize(h, w) | Transform::CenterCrop(h, w)) => Some((*w, *h)),
            _ => None,
        }
    }

    /// The geometry for a stored picture of this size.
    fn geometry(&self, width: u32, height: u32, turn: Turn) -> Result<kernels::Geometry> {
        let (width, height) = if turn.swaps_sides() { (height, width) } else { (width, height) };
        let mut g = kernels::Geometry::whole(width, height);
        g.orientation = kernels::Orientation { mirror: turn.mirror, quarter_turns_cw: turn.quarter_turns_cw };
        for transform in &self.transforms {
            let (w, h) = (g.window.width, g.window.height);
            match *transform {
                Transform::ResizeShorter(size) => {
                    let long = |long: u32, short: u32| {
                        ((u64::from(size) * u64::from(long)) / u64::from(short)).max(1) as u32
                    };
                    let to = if w <= h { (size, long(h, w)) } else { (long(w, h), size) };
                    resize(&mut g, to)?;
                }
                Transform::Resize(height, width) => resize(&mut g, (width, height))?,
                Transform::CenterCrop(height, width) => {
                    if height > h || width > w {
                        return Err(Error::Argument(format!(
                            "CenterCrop(({height}, {width})) is larger than the picture of {h} rows and {w} columns; put Resize before it"
                        )));
                    }
                    g.window = kernels::Rect {
                        x: g.window.x + centre(w - width),
                        y: g.window.y + centre(h - height),
                        width,
                        height,
                    };
                }
                Transform::Normalize(_) => {}
            }
        }
        Ok(g)
    }
}

/// Resizes what is visible so far. A crop before a resize becomes part of the source rectangle.
fn resize(g: &mut kernels::Geometry, to: (u32, u32)) -> Result<()> {
    let uncropped = (g.window.width, g.window.height) == g.resized;
    if !uncropped {
        if g.resized != (g.crop.width, g.crop.height) {
            return Err(Error::Argument(
                "Resize, crop, Resize cannot be done in one pass; leave out one Resize".into(),
            ));
        }
        let w = g.window;
        g.crop = kernels::Rect { x: g.crop.x + w.x, y: g.crop.y + w.y, width: w.width, height: w.height };
    }
    g.resized = to;
    g.window = kernels::Rect::sized(to.0, to.1);
    Ok(())
}

/// Half of `spare`, rounded half to even, as torchvision's `center_crop` does.
fn centre(spare: u32) -> u32 {
    spare / 2 + u32::from(spare % 4 == 3)
}

/// Size and strides of one clip: `frames` pictures of `width` x `height`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClipShape {
    /// Pictures.
    pub frames: usize,
    /// Pixels.
    pub width: usize,
    /// Pixels.
    pub height: usize,
    /// Order of dimensions.
    pub layout: Layout,
    /// Element type.
    pub dtype: Dtype,
}

impl ClipShape {
    /// Bytes of the clip; `None` if that overflows.
    pub fn bytes(&self) -> Option<usize> {
        self.frames.checked_mul(self.width)?.checked_mul(self.height)?.checked_mul(3 * self.dtype.bytes())
    }

    /// Lengths of the dimensions, without the batch's.
    pub fn dims(&self) -> [usize; 4] {
        let (t, h, w) = (self.frames, self.height, self.width);
        match self.layout {
            Layout::Nthwc => [t, h, w, 3],
            Layout::Ntchw => [t, 3, h, w],
            Layout::Ncthw => [3, t, h, w],
        }
    }

    /// The stretches of bytes that frame `t` occupies: (start, length).
    pub fn frame_stretches(&self, t: usize) -> Vec<(usize, usize)> {
        let plane = self.height * self.width * self.dtype.bytes();
        match self.layout {
            Layout::Nthwc | Layout::Ntchw => vec![(t * plane * 3, plane * 3)],
            Layout::Ncthw => (0..3).map(|c| ((c * self.frames + t) * plane, plane)).collect(),
        }
    }

    /// Where frame `t` goes in the clip's bytes.
    fn slot<'a>(&self, clip: &'a mut [u8], t: usize) -> kernels::OutSlot<'a> {
        let (h, w) = (self.height, self.width);
        let plane = h * w;
        let (first, channel_stride, row_stride, column_stride) = match self.layout {
            Layout::Nthwc => (t * plane * 3, 1, w * 3, 3),
            Layout::Ntchw => (t * plane * 3, plane, w, 1),
            Layout::Ncthw => (t * plane, self.frames * plane, w, 1),
        };
        let data = clip.get_mut(first * self.dtype.bytes()..).unwrap_or(&mut []);
        kernels::OutSlot { data, channel_stride, row_stride, column_stride }
    }
}

/// Compiled passes and scratch memory of one worker.
pub struct Painter {
    recipe: Recipe,
    /// Most recently used last. Few: one per picture size met lately.
    passes: Vec<((u32, u32, Turn), kernels::PixelPass)>,
    scratch: kernels::Scratch,
}

const PASSES_KEPT: usize = 8;

impl Painter {
    /// A painter for one recipe.
    pub fn new(recipe: Recipe) -> Self {
        Self { recipe, passes: Vec::new(), scratch: kernels::Scratch::new() }
    }

    /// What it makes.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// (width, height) of what a frame will become.
    pub fn output_size(&mut self, frame: &Frame, turn: Turn) -> Result<(u32, u32)> {
        Ok(self.pass(frame.width(), frame.height(), turn)?.output_size())
    }

    /// The shape of a clip of `frames` pictures of this (width, height).
    pub fn shape(&self, frames: usize, (width, height): (u32, u32)) -> ClipShape {
        let (dtype, layout) = (self.recipe.dtype, self.recipe.layout);
        ClipShape { frames, width: width as usize, height: height as usize, layout, dtype }
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
        self.pass(frame.width(), frame.height(), turn)?;
        let (_, pass) = self.passes.last_mut().expect("made above");
        let size = pass.output_size();
        if size != (shape.width as u32, shape.height as u32) {
            let what = format!(
                "a picture size that changes inside a clip (from {}x{} to {}x{} after the transforms; add Resize((h, w)) to make them equal)",
                shape.width, shape.height, size.0, size.1
            );
            return Err(Error::Unsupported { site: site.clone(), what });
        }
        let scratch = &mut self.scratch;
        view::with_view(site, frame, |view| {
            pass.run(view, &mut shape.slot(clip, t), scratch)
                .map_err(|e| Error::Unsupported { site: site.clone(), what: e.to_string() })
        })
    }

    /// The pass for a picture size, moved to the end of the list.
    fn pass(&mut self, width: u32, height: u32, turn: Turn) -> Result<&kernels::PixelPass> {
        let key = (width, height, turn);
        match self.passes.iter().position(|(k, _)| *k == key) {
            Some(at) => {
                let pass = self.passes.remove(at);
                self.passes.push(pass);
            }
            None => {
                let geometry = self.recipe.geometry(width, height, turn)?;
                let pass = kernels::PixelPass::new(geometry, self.recipe.dtype, self.recipe.normalize)
                    .map_err(|e| Error::Argument(e.to_string()))?;
                if self.passes.len() == PASSES_KEPT {
                    self.passes.remove(0);
                }
                self.passes.push((key, pass));
            }
        }
        Ok(&self.passes.last().expect("just pushed").1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(transforms: Vec<Transform>, w: u32, h: u32, turn: Turn) -> Result<kernels::Geometry> {
        Recipe::new(transforms, Dtype::U8, Layout::Nthwc)?.geometry(w, h, turn)
    }

    #[test]
    fn resize_and_crop_have_torchvisions_sizes() {
        let g = geometry(
            vec![Transform::ResizeShorter(256), Transform::CenterCrop(224, 224)],
            1920,
            1080,
            Turn::default(),
        )
        .unwrap();
        assert_eq!(g.resized, (455, 256)); // int(256 * 1920 / 1080)
        assert_eq!((g.window.x, g.window.y), (116, 16)); // round(231 / 2) = 116 (half to even), round(32 / 2)
        let g = geometry(vec![Transform::CenterCrop(100, 101)], 104, 105, Turn::default()).unwrap();
        assert_eq!((g.window.x, g.window.y), (2, 2)); // round(1.5) = 2, round(2.5) = 2
    }

    #[test]
    fn a_turned_picture_is_resized_as_it_is_shown() {
        let turn = Turn { mirror: false, quarter_turns_cw: 1 };
        let g = geometry(vec![Transform::ResizeShorter(90)], 1920, 1080, turn).unwrap();
        assert_eq!(g.resized, (90, 160));
    }

    #[test]
    fn a_crop_before_a_resize_becomes_the_source_rectangle() {
        let g = geometry(
            vec![Transform::CenterCrop(100, 200), Transform::Resize(50, 50)],
            400,
            300,
            Turn::default(),
        )
        .unwrap();
        assert_eq!(g.crop, kernels::Rect { x: 100, y: 100, width: 200, height: 100 });
        assert_eq!((g.resized, g.window), ((50, 50), kernels::Rect::sized(50, 50)));
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_values() {
        let err =
            geometry(vec![Transform::CenterCrop(300, 10)], 20, 20, Turn::default()).unwrap_err().to_string();
        assert!(err.contains("300") && err.contains("20"), "{err}");
        let n = Transform::Normalize(Normalize { mean: [0.5; 3], std: [0.5; 3] });
        assert!(Recipe::new(vec![n.clone()], Dtype::U8, Layout::Nthwc).is_err());
        assert!(Recipe::new(vec![n, Transform::CenterCrop(1, 1)], Dtype::F32, Layout::Nthwc).is_err());
    }
}
