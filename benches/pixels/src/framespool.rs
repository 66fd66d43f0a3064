//! Pixels from the transform pipeline: `direct`, `direct2` (two taps), `crop`, `full`; `aug-STEP`,
//! an augmentation up to that step, or all of it with transforms that were compiled before timing
//! (`aug-kept`).
//!
//! Except for `aug-kept`, the compiled transforms of an augmentation are not reused for another
//! clip.

use std::collections::HashMap;
use std::ops;

use framespool_kernels::*;

use crate::inputs::{Augmentation, Inputs, MEAN, STD};
use crate::{BoxError, Adapter};

const SIDE: u32 = 224;
/// Steps of an augmentation in the order in which they are added.
const STEPS: [&str; 6] = ["rrc", "flip", "color", "contrast", "rotate", "grid"];

pub struct Framespool {
    inputs: Inputs,
    states: HashMap<String, State>,
    case: String,
}

/// State of a case.
#[derive(Default)]
struct State {
    /// Number of steps of the augmentation; none if the transforms are the same for all clips.
    steps: Option<usize>,
    /// Transforms compiled before timing, by clip.
    kept: HashMap<usize, PixelPass>,
    pass: Option<PixelPass>,
    scratch: Scratch,
    channels_last: bool,
}

impl Framespool {
    pub fn new(inputs: Inputs) -> Self {
        Self { inputs, states: HashMap::new(), case: String::new() }
    }

    fn state(&mut self) -> &mut State {
        self.states.get_mut(&self.case).expect("prepared before")
    }

    fn fixed(&self, case: &str) -> Result<PixelPass, BoxError> {
        let whole = Geometry::identity(self.inputs.width as u32, self.inputs.height as u32);
        let square = Rect::from_size(SIDE, SIDE);
        let direct = Geometry { resized: (SIDE, SIDE), window: square, ..whole };
        Ok(match case {
            "direct" => PixelPass::new(direct, normalized())?,
            "direct2" => PixelPass::new(Geometry { filter: Filter::Bilinear, ..direct }, normalized())?,
            "crop" => {
                // torchvision's Resize(256) and CenterCrop(224).
                let window = Rect { x: 116, y: 16, ..square };
                PixelPass::new(Geometry { resized: (455, 256), window, ..whole }, normalized())?
            }
            "full" => PixelPass::new(whole, OutputSpec::new(Dtype::U8))?,
            _ => return Err(format!("no case {case}").into()),
        })
    }

    fn augmented(&self, clip: usize, steps: usize) -> Result<PixelPass, PassError> {
        let clip = &self.inputs.clips[clip % self.inputs.clips.len()];
        let has = |step: &str| STEPS[..steps].contains(&step);
        let whole = Geometry::identity(self.inputs.width as u32, self.inputs.height as u32);
        let [x, y, width, height] = clip.crop;
        let mut geometry = Geometry {
            crop: Rect { x, y, width, height },
            resized: (SIDE, SIDE),
            window: Rect::from_size(SIDE, SIDE),
            flip_horizontal: has("flip") && clip.flip,
            ..whole
        };
        let mut finish = normalized();
        if has("contrast") {
            finish.color = contrast(clip.contrast);
        }
        if has("color") {
            finish.color = finish.color.then(&ColorMap::linear(clip.color));
        }
        if has("rotate") {
            geometry.placement = Placement::Warp(rotation(clip));
        }
        if has("grid") {
            finish.masks = vec![Mask { region: MaskRegion::Grid(grid(clip)), fill: MaskFill::CodeValue([0; 3]) }];
        }
        PixelPass::new(geometry, finish)
    }
}

fn normalized() -> OutputSpec {
    OutputSpec::new(Dtype::F32).normalized(Normalize { mean: MEAN, std: STD })
}

/// Differences from the mean gray of the image, times this.
fn contrast(factor: f64) -> ColorMap {
    let mut map = ColorMap::IDENTITY;
    map.matrix = map.matrix.map(|row| row.map(|v| factor * v));
    map.mean = [[0.299, 0.587, 0.114].map(|v| (1.0 - factor) * v); 3];
    map
}

/// Around the center of the window.
fn rotation(clip: &Augmentation) -> Warp {
    let Augmentation { cos, sin, .. } = *clip;
    let center = f64::from(SIDE - 1) / 2.0;
    let fixed = |v: f64| (v * f64::from(1u32 << WARP_FRACTION_BITS)).round() as i64;
    Warp {
        size: (SIDE, SIDE),
        to_x: [cos, -sin, center * (1.0 - cos + sin)].map(fixed),
        to_y: [sin, cos, center * (1.0 - sin - cos)].map(fixed),
        interpolation: Interpolation::Bilinear,
    }
}

fn grid(clip: &Augmentation) -> MaskGrid {
    // Only the fraction of the cycles matters: the integer wraps.
    let turns = clip.grid.map(|row| row.map(|v| (v * 2f64.powi(32)).round() as i64 as u32));
    let [[xx, xy, x], [yx, yy, y]] = turns;
    let limit = (clip.grid_ratio * 2f64.powi(32)).round() as u64;
    MaskGrid { step_x: [xx, xy], step_y: [yx, yy], start: [x, y], limit }
}

/// Converts one frame into its slot. Outside `Framespool` so that inputs and state can be borrowed
/// separately.
fn run(inputs: &Inputs, index: usize, state: &mut State, out: &mut [u8]) -> Result<(), BoxError> {
    let width = inputs.width;
    let [y, u, v] = inputs.planes(index);
    let plane = |data, stride_bytes| Plane { data, stride_bytes };
    let frame = FrameView {
        width: width as u32,
        height: inputs.height as u32,
        depth_bits: 8,
        shift: 0,
        planes: Planes::Yuv {
            planes: [plane(y, width), plane(u, width / 2), plane(v, width / 2)],
            log2_chroma_w: 1,
            log2_chroma_h: 1,
        },
        color: Colorimetry { matrix: MatrixCoefficients::Bt709, range: framespool_kernels::ColorRange::Limited },
    };
    let pass = state.pass.as_mut().expect("a clip has begun");
    let (out_width, out_height) = pass.output_size();
    let (out_width, out_height) = (out_width as usize, out_height as usize);
    let mut slot = if state.channels_last {
        OutputSlot::hwc(out, out_width)
    } else {
        OutputSlot::chw(out, out_width, out_height)
    };
    Ok(pass.run(&frame, &mut slot, &mut state.scratch)?)
}

impl Adapter for Framespool {
    fn version(&self) -> String {
        format!("framespool-kernels, backend {}", backend_name())
    }

    fn prepare(&mut self, case: &str, clips: ops::Range<usize>) -> Result<usize, BoxError> {
        self.case = case.to_owned();
        let augmentation = case.strip_prefix("aug-");
        if !self.states.contains_key(case) {
            let mut state = State { channels_last: case == "full", ..State::default() };
            match augmentation {
                Some("kept") => state.steps = Some(STEPS.len()),
                Some(step) => {
                    let place = STEPS.iter().position(|&known| known == step);
                    state.steps = Some(1 + place.ok_or_else(|| format!("no step {step}"))?);
                }
                None => state.pass = Some(self.fixed(case)?),
            }
            self.states.insert(case.to_owned(), state);
        }
        if augmentation == Some("kept") {
            for clip in clips {
                if !self.state().kept.contains_key(&clip) {
                    // Tables are created at the first frame, so one frame is run.
                    self.state().pass = Some(self.augmented(clip, STEPS.len())?);
                    let mut out = vec![0; (SIDE * SIDE * 3) as usize * 4];
                    self.frame(0, &mut out)?;
                    let pass = self.state().pass.take().expect("just run");
                    self.state().kept.insert(clip, pass);
                }
            }
        }
        Ok(if case == "full" {
            self.inputs.width * self.inputs.height * 3
        } else {
            (SIDE * SIDE * 3) as usize * 4
        })
    }

    fn begin_clip(&mut self, clip: usize) -> Result<(), BoxError> {
        let state = &self.states[&self.case];
        let Some(steps) = state.steps else { return Ok(()) };
        let pass = match state.kept.get(&clip) {
            Some(pass) => pass.clone(),
            None => self.augmented(clip, steps)?,
        };
        self.state().pass = Some(pass);
        Ok(())
    }

    fn frame(&mut self, index: usize, out: &mut [u8]) -> Result<(), BoxError> {
        let state = self.states.get_mut(&self.case).expect("prepared before");
        run(&self.inputs, index, state, out)
    }

    fn scratch_bytes(&self) -> Option<usize> {
        self.states.get(&self.case).map(|state| state.scratch.bytes())
    }
}
