//! Computes the dimensions, the size in bytes and the positions of the frames of a clip from its
//! layout and dtype. Also converts clips of 8-bit codes to elements.

use std::fmt;

use framespool_kernels::{Channels, DeviceLut, DeviceSlot, Dtype, ElementLut, Launch, OutputSlot};

use crate::error::{Error, Result};

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

/// Dimensions and layout of one clip: `frames` frames of `width` x `height`, in `views`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClipShape {
    /// Number of crops of each frame, stored one after another. 0 if the pipeline makes no views:
    /// then there is one view, without a dimension of its own.
    pub views: usize,
    /// Number of frames.
    pub frames: usize,
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Color channels; a single channel has no dimension of its own.
    pub channels: Channels,
    /// Order of dimensions.
    pub layout: Layout,
    /// Element type.
    pub dtype: Dtype,
}

impl fmt::Display for ClipShape {
    /// Formats as "16 frames of 320x240", with the number of views if there are several.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            views,
            frames,
            width,
            height,
            ..
        } = self;
        write!(f, "{frames} frames of {width}x{height}")?;
        match views {
            0 | 1 => Ok(()),
            several => write!(f, " in {several} views"),
        }
    }
}

impl ClipShape {
    /// Bytes of the clip; `None` if that overflows.
    pub fn bytes(&self) -> Option<usize> {
        self.view_bytes()?.checked_mul(self.views.max(1))
    }

    fn view_bytes(&self) -> Option<usize> {
        let element = self.channels.count() * self.dtype.bytes();
        self.frames
            .checked_mul(self.width)?
            .checked_mul(self.height)?
            .checked_mul(element)
    }

    /// Lengths of the dimensions, without the batch dimension.
    pub fn dims(&self) -> Vec<usize> {
        let (t, h, w) = (self.frames, self.height, self.width);
        let mut dims = match (self.channels, self.layout) {
            (Channels::One, _) => vec![t, h, w],
            (Channels::Three, Layout::Nthwc) => vec![t, h, w, 3],
            (Channels::Three, Layout::Ntchw) => vec![t, 3, h, w],
            (Channels::Three, Layout::Ncthw) => vec![3, t, h, w],
        };
        if self.views > 0 {
            dims.insert(0, self.views);
        }
        dims
    }

    /// The ranges of bytes that frame `t` occupies: (start, length).
    pub(crate) fn frame_ranges(&self, t: usize) -> Vec<(usize, usize)> {
        let plane = self.height * self.width * self.dtype.bytes();
        let channels = self.channels.count();
        let view = self.frames * plane * channels;
        let in_view = |v: usize| match self.layout {
            Layout::Nthwc | Layout::Ntchw => {
                vec![(v * view + t * plane * channels, plane * channels)]
            }
            Layout::Ncthw => (0..channels)
                .map(|c| (v * view + (c * self.frames + t) * plane, plane))
                .collect(),
        };
        (0..self.views.max(1)).flat_map(in_view).collect()
    }

    /// Converts a clip of this shape from codes to elements.
    ///
    /// # Panics
    /// If `codes` or `clip` has another size.
    pub fn expand(&self, expand: &ElementLut, codes: &[u8], clip: &mut [u8]) {
        let channels = self.channels.count();
        if self.layout == Layout::Nthwc || channels == 1 {
            return expand.run(codes, (0, channels), clip);
        }
        let plane = match self.layout {
            Layout::Ncthw => self.frames * self.height * self.width,
            _ => self.height * self.width,
        };
        if plane == 0 {
            return;
        }
        let planes = codes
            .chunks(plane)
            .zip(clip.chunks_mut(plane * self.dtype.bytes()));
        for (number, (codes, clip)) in planes.enumerate() {
            expand.run(codes, (number % channels, 1), clip);
        }
    }

    /// The launch that converts a clip from codes at `codes` to elements at `out`, both in device
    /// memory.
    ///
    /// # Errors
    /// `Argument` for a clip that is too large for one launch.
    pub(super) fn expand_on_device(
        &self,
        expand: &DeviceLut,
        codes: u64,
        tables: u64,
        out: u64,
    ) -> Result<Launch> {
        let channels = self.channels.count();
        let turns = self.layout == Layout::Nthwc || channels == 1;
        let plane = match self.layout {
            _ if turns => self.views.max(1) * self.frames * self.height * self.width * channels,
            Layout::Ncthw => self.frames * self.height * self.width,
            _ => self.height * self.width,
        };
        let all = self.views.max(1) * self.frames * self.height * self.width * channels;
        let planes = u32::try_from(all / plane.max(1)).unwrap_or(u32::MAX);
        expand
            .launch(
                codes,
                (plane as u64, planes),
                (0, channels, turns),
                tables,
                out,
            )
            .map_err(|e| Error::Argument(e.to_string()))
    }

    /// The launches that convert one frame from codes at `codes`, as a clip of one frame, to the
    /// elements of frame `t` of the clip at `out`, both in device memory.
    ///
    /// # Errors
    /// `Argument` for a frame that is too large for one launch.
    pub(super) fn expand_frame_on_device(
        &self,
        expand: &DeviceLut,
        codes: u64,
        tables: u64,
        out: u64,
        t: usize,
    ) -> Result<Vec<Launch>> {
        let channels = self.channels.count();
        let frame = ClipShape {
            frames: 1,
            dtype: Dtype::U8,
            ..*self
        };
        let plane = (self.height * self.width) as u64;
        let ranges = frame
            .frame_ranges(0)
            .into_iter()
            .zip(self.frame_ranges(t))
            .enumerate();
        ranges
            .map(|(number, ((from, len), (to, _)))| {
                let (planes, turns) = match (self.layout, channels) {
                    (_, 1) => ((plane, 1), (0, 1, false)),
                    (Layout::Nthwc, _) => ((len as u64, 1), (0, channels, true)),
                    (Layout::Ntchw, _) => ((plane, channels as u32), (0, channels, false)),
                    // A range for each channel.
                    (Layout::Ncthw, _) => ((plane, 1), (number % channels, 1, false)),
                };
                expand
                    .launch(codes + from as u64, planes, turns, tables, out + to as u64)
                    .map_err(|e| Error::Argument(e.to_string()))
            })
            .collect()
    }

    /// The output slot of frame `t` of a view in the bytes of the clip.
    pub(super) fn slot<'a>(&self, clip: &'a mut [u8], view: usize, t: usize) -> OutputSlot<'a> {
        let Strides {
            first,
            channel_stride,
            row_stride,
            column_stride,
        } = self.strides(view, t);
        let data = clip
            .get_mut(first * self.dtype.bytes()..)
            .unwrap_or(&mut []);
        OutputSlot {
            data,
            channel_stride,
            row_stride,
            column_stride,
        }
    }

    /// Like `slot`, for a clip at this address of a device.
    pub(super) fn device_slot(&self, address: u64, view: usize, t: usize) -> DeviceSlot {
        let Strides {
            first,
            channel_stride,
            row_stride,
            column_stride,
        } = self.strides(view, t);
        let address = address + (first * self.dtype.bytes()) as u64;
        DeviceSlot {
            address,
            channel_stride,
            row_stride,
            column_stride,
        }
    }

    fn strides(&self, view: usize, t: usize) -> Strides {
        let (h, w) = (self.height, self.width);
        let channels = self.channels.count();
        let plane = h * w;
        let (first, channel_stride, row_stride, column_stride) = match self.layout {
            Layout::Nthwc => (t * plane * channels, 1, w * channels, channels),
            Layout::Ntchw => (t * plane * channels, plane, w, 1),
            Layout::Ncthw => (t * plane, self.frames * plane, w, 1),
        };
        let first = first + view * self.frames * plane * channels;
        Strides {
            first,
            channel_stride,
            row_stride,
            column_stride,
        }
    }
}

/// Position and strides of the elements of one frame, in elements.
struct Strides {
    first: usize,
    channel_stride: usize,
    row_stride: usize,
    column_stride: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_all_views_together_are_the_clip() {
        for layout in [Layout::Nthwc, Layout::Ntchw, Layout::Ncthw] {
            for (views, channels) in [
                (0, Channels::Three),
                (3, Channels::Three),
                (5, Channels::One),
            ] {
                let shape = ClipShape {
                    views,
                    frames: 4,
                    width: 5,
                    height: 3,
                    channels,
                    layout,
                    dtype: Dtype::F16,
                };
                let mut covered = vec![0u8; shape.bytes().unwrap()];
                assert_eq!(shape.dims().iter().product::<usize>() * 2, covered.len());
                for t in 0..4 {
                    for (start, length) in shape.frame_ranges(t) {
                        covered[start..start + length]
                            .iter_mut()
                            .for_each(|byte| *byte += 1);
                    }
                }
                assert!(covered.iter().all(|&byte| byte == 1), "{layout:?} {views}");
            }
        }
    }
}
