//! The shape of a clip: number of frames and their spacing, in frames or in seconds. Computes the
//! frame positions for a given start and the number of possible starts; it does not choose the
//! start.

use super::common::check_nonzero;
use super::frame_position::FramePosition;
use super::padding::{PaddingPolicy, length_of, seconds};
use super::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Maximum number of frames of one clip: about 5 days at 30 frames per second.
pub const MAX_FRAMES: u32 = 1 << 24;

/// The distance between the frames of a clip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// The distance in frames: frame *i* of the clip is `start + i * stride`.
    Stride(u32),
    /// Frames per second: frame *i* of the clip is the one on screen at `start + i / fps`,
    /// independent of the video's own frame rate, constant or variable; frames repeat or are
    /// skipped as needed.
    Fps(f64),
}

impl From<u32> for Spacing {
    fn from(stride: u32) -> Self {
        Spacing::Stride(stride)
    }
}

impl Spacing {
    /// `sequence_length` frames spread evenly over `seconds`: a rate of `sequence_length / seconds`
    /// frames per second.
    pub fn duration(sequence_length: u32, seconds: f64) -> Result<Self> {
        let fps = f64::from(sequence_length.max(1)) / seconds;
        if seconds > 0.0 && fps.is_finite() && fps > 0.0 {
            return Ok(Spacing::Fps(fps));
        }
        Err(Error::Argument(format!(
            "duration_seconds must be a number of seconds greater than 0, got {seconds}; it is the duration of a clip"
        )))
    }
}

/// The frames of a clip relative to its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipSpec {
    sequence_length: u32,
    spacing: Spacing,
    jitter: bool,
}

impl ClipSpec {
    /// Checks the arguments.
    pub fn new(sequence_length: u32, spacing: impl Into<Spacing>) -> Result<Self> {
        check_nonzero(
            "sequence_length",
            sequence_length,
            "it is the number of frames of a clip",
        )?;
        let spacing = spacing.into();
        match spacing {
            Spacing::Stride(stride) => {
                check_nonzero("stride", stride, "use 1 for consecutive frames")?;
            }
            Spacing::Fps(fps) if !(fps.is_finite() && fps > 0.0) => {
                return Err(Error::Argument(format!(
                    "fps must be a number greater than 0, got {fps}; it is the number of frames per second of the clip"
                )));
            }
            Spacing::Fps(_) => {}
        }
        Ok(Self {
            sequence_length,
            spacing,
            jitter: false,
        })
    }

    /// Moves each frame independently by a random part of the distance to the next frame: 0 to
    /// `stride - 1` frames, or 0 up to `1 / fps` seconds. A clip then needs this distance after its
    /// last frame as well.
    #[must_use]
    pub(crate) fn with_jitter(self, jitter: bool) -> Self {
        Self { jitter, ..self }
    }

    /// The same at another speed: the distance between frames is multiplied by `factor`, strides
    /// are rounded to whole frames.
    pub(super) fn at_speed(self, factor: f64) -> Self {
        let spacing = match self.spacing {
            // At most 2^32 - 1: a cast from a float saturates.
            Spacing::Stride(stride) => {
                Spacing::Stride((f64::from(stride) * factor).round().max(1.0) as u32)
            }
            Spacing::Fps(fps) => Spacing::Fps(fps / factor),
        };
        Self { spacing, ..self }
    }

    /// Frames per clip.
    pub fn sequence_length(&self) -> u32 {
        self.sequence_length
    }

    /// The distance between the frames.
    pub fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// Number of distances between the first and the last frame; with jitter, plus the one after
    /// the last frame.
    fn num_intervals(&self) -> u32 {
        self.sequence_length - u32::from(!self.jitter)
    }

    /// Number of frames of the video from the first one that a clip may need to the last one,
    /// inclusive.
    fn span_frames(&self, stride: u32) -> u64 {
        u64::from(self.num_intervals()) * u64::from(stride) + u64::from(!self.jitter)
    }

    fn span_seconds(&self, fps: f64) -> f64 {
        f64::from(self.num_intervals()) / fps
    }

    /// Number of frames at which a clip can start and fit into the video: frames 0, 1, … below this
    /// number.
    pub(crate) fn num_starts(&self, video: &dyn VideoTiming) -> u64 {
        let frames = video.num_frames();
        match self.spacing {
            Spacing::Stride(stride) => {
                (u64::from(frames) + 1).saturating_sub(self.span_frames(stride))
            }
            Spacing::Fps(fps) => {
                let span = self.span_seconds(fps);
                let end = video.pts_seconds(frames);
                u64::from(partition_point(frames, |at| match self.jitter {
                    true => video.pts_seconds(at) + span <= end + video.pts_tolerance_seconds(),
                    false => {
                        FramePosition::at_seconds(video, video.pts_seconds(at) + span).is_in_range()
                    }
                }))
            }
        }
    }

    /// The frame positions of a clip that starts with frame `start`.
    ///
    /// With jitter, takes one random number per frame, in order: an integer below the stride or,
    /// with a rate, a float.
    pub fn positions(
        &self,
        video: &dyn VideoTiming,
        start: u32,
        rng: &mut dyn RandomSource,
    ) -> Result<Vec<FramePosition>> {
        match self.spacing {
            Spacing::Stride(stride) => {
                self.check_length()?;
                let mut moved = |_| {
                    if self.jitter {
                        rng.next_below(u64::from(stride))
                    } else {
                        0
                    }
                };
                // At most 2^24 frames at distances below 2^32: this cannot overflow.
                let at = |i: u32| u64::from(start) + u64::from(i) * u64::from(stride);
                Ok((0..self.sequence_length)
                    .map(|i| FramePosition::at_frame(video, (at(i) + moved(i)) as i64))
                    .collect())
            }
            Spacing::Fps(_) => self.positions_from_seconds(video, video.pts_seconds(start), rng),
        }
    }

    /// The frame positions of a clip that starts at timestamp `begin` of the video, in seconds.
    /// Empty with a stride.
    pub(crate) fn positions_from_seconds(
        &self,
        video: &dyn VideoTiming,
        begin: f64,
        rng: &mut dyn RandomSource,
    ) -> Result<Vec<FramePosition>> {
        self.check_length()?;
        let Spacing::Fps(fps) = self.spacing else {
            return Ok(Vec::new());
        };
        if !self.jitter {
            return Ok((0..self.sequence_length)
                .map(|i| FramePosition::at_seconds(video, begin + f64::from(i) / fps))
                .collect());
        }
        // Rounding errors must not move a clip that ends with the video past its end.
        let end = video.pts_seconds(video.num_frames());
        let fits = begin + self.span_seconds(fps) <= end + video.pts_tolerance_seconds();
        let latest = if fits {
            end - 2.0 * video.pts_tolerance_seconds()
        } else {
            f64::INFINITY
        };
        let mut seconds_of = |i: u32| begin + (f64::from(i) + rng.next_f64()) / fps;
        Ok((0..self.sequence_length)
            .map(|i| FramePosition::at_seconds(video, seconds_of(i).min(latest).max(begin)))
            .collect())
    }

    /// What a video must have for a complete clip.
    pub fn min_length_hint(&self) -> String {
        match self.spacing {
            Spacing::Stride(stride) => format!("{} frames", self.span_frames(stride)),
            Spacing::Fps(_) if self.num_intervals() == 0 => "1 frame".to_owned(),
            Spacing::Fps(fps) if self.jitter => {
                format!("{} seconds", seconds(self.span_seconds(fps)))
            }
            Spacing::Fps(fps) => format!("more than {} seconds", seconds(self.span_seconds(fps))),
        }
    }

    /// The clip that starts with frame `start`.
    pub(super) fn clip(
        &self,
        video: &dyn VideoTiming,
        start: u32,
        padding: PaddingPolicy,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let positions = self.positions(video, start, rng)?;
        padding.fill(video, &positions, |_| self.too_short_error(video))
    }

    /// The error for a video that is too short for a clip.
    pub(super) fn too_short_error(&self, video: &dyn VideoTiming) -> Error {
        let spacing = match self.spacing {
            Spacing::Stride(stride) => format!("stride={stride}"),
            Spacing::Fps(fps) => format!("fps={fps}"),
        };
        Error::Argument(format!(
            "a clip needs {} (sequence_length={}, {spacing}) but the video has {}; allow short videos with \
             padding=\"repeat\", \"loop\" or \"blank\", or skip them with padding=\"drop\"",
            self.min_length_hint(),
            self.sequence_length,
            length_of(video)
        ))
    }

    fn check_length(&self) -> Result<()> {
        check_length(u64::from(self.sequence_length))
    }
}

/// Rejects clips that are too long before they take memory.
///
/// # Errors
/// `Argument` for a clip of more than [`MAX_FRAMES`] frames.
pub(super) fn check_length(frames: u64) -> Result<()> {
    if frames <= u64::from(MAX_FRAMES) {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "a clip of {frames} frames is too long; at most {MAX_FRAMES} are possible"
    )))
}

/// The first number below `n` for which `has` is false, or `n`. `has` must be true before it and
/// false from there on.
pub(super) fn partition_point(n: u32, has: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if has(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ScriptedRng, video};
    use super::super::video_timing::{ConstantFrameRate, FrameTimestamps};
    use super::*;

    fn positions(spec: ClipSpec, video: &dyn VideoTiming, start: u32) -> Vec<Option<u32>> {
        let real = |position| {
            if let FramePosition::InRange(at) = position {
                Some(at)
            } else {
                None
            }
        };
        spec.positions(video, start, &mut ScriptedRng(&[]))
            .unwrap()
            .into_iter()
            .map(real)
            .collect()
    }

    #[test]
    fn rate_conversion_repeats_and_skips_frames() {
        // A video of 25 frames per second sampled at 10 and at 40 frames per second.
        let at = |fps, length| {
            positions(
                ClipSpec::new(length, Spacing::Fps(fps)).unwrap(),
                &video(100),
                3,
            )
        };
        assert_eq!(at(10.0, 5), [3, 5, 8, 10, 13].map(Some));
        assert_eq!(at(40.0, 6), [3, 3, 4, 4, 5, 6].map(Some));
        assert_eq!(at(25.0, 3), [3, 4, 5].map(Some));
    }

    #[test]
    fn real_presentation_times_decide() {
        let video = FrameTimestamps::new(vec![10.0, 10.5, 10.75, 12.0, 12.25], 12.5).unwrap();
        let spec = ClipSpec::new(3, Spacing::Fps(2.0)).unwrap();
        assert_eq!(positions(spec, &video, 0), [0, 1, 2].map(Some)); // 10, 10.5, 11
        assert_eq!(positions(spec, &video, 2), [2, 2, 2].map(Some)); // 10.75, 11.25, 11.75
        assert_eq!(positions(spec, &video, 3), [Some(3), None, None]); // 12, 12.5, 13
        assert_eq!(spec.num_starts(&video), 3);
    }

    #[test]
    fn seconds_equal_frames_at_the_native_rate() {
        for fps in [24.0, 25.0, 30_000.0 / 1001.0, 60.0] {
            for frames in 0..30 {
                let video = ConstantFrameRate {
                    num_frames: frames,
                    fps,
                };
                for length in 1..8 {
                    let by_rate = ClipSpec::new(length, Spacing::Fps(fps)).unwrap();
                    let by_stride = ClipSpec::new(length, 1).unwrap();
                    assert_eq!(
                        by_rate.num_starts(&video),
                        by_stride.num_starts(&video),
                        "{fps} {frames} {length}"
                    );
                    for start in 0..frames {
                        assert_eq!(
                            positions(by_rate, &video, start),
                            positions(by_stride, &video, start)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn clips_start_wherever_they_fit_completely() {
        let starts = |length, stride, frames| {
            ClipSpec::new(length, stride)
                .unwrap()
                .num_starts(&video(frames))
        };
        assert_eq!(
            [
                starts(4, 3, 9),
                starts(4, 3, 10),
                starts(4, 3, 12),
                starts(1, 9, 5)
            ],
            [0, 1, 3, 5]
        );
        assert_eq!(starts(u32::MAX, u32::MAX, u32::MAX), 0);
        let jittered = ClipSpec::new(4, 3).unwrap().with_jitter(true);
        assert_eq!(
            [11, 12, 14].map(|n| jittered.num_starts(&video(n))),
            [0, 1, 3]
        );
        // 3 gaps of 0.1 s and frames of 0.04 s: the last one must be on screen at 0.3 s, which
        // takes 8 frames.
        let by_rate = ClipSpec::new(4, Spacing::Fps(10.0)).unwrap();
        assert_eq!([7, 8, 10].map(|n| by_rate.num_starts(&video(n))), [0, 1, 3]);
        // With jitter the clip needs 0.4 s, which is 10 frames.
        assert_eq!(
            [9, 10, 12].map(|n| by_rate.with_jitter(true).num_starts(&video(n))),
            [0, 1, 3]
        );
    }

    #[test]
    fn jitter_moves_each_frame_within_its_interval() {
        let spec = ClipSpec::new(3, 4).unwrap().with_jitter(true);
        let at = |drawn| {
            spec.positions(&video(14), 2, &mut ScriptedRng(drawn))
                .unwrap()
        };
        assert_eq!(at(&[0, 0, 0]), [2, 6, 10].map(FramePosition::InRange));
        assert_eq!(at(&[3, 1, 3]), [5, 7, 13].map(FramePosition::InRange));
    }

    #[test]
    fn a_duration_is_a_rate() {
        assert_eq!(Spacing::duration(16, 2.0).unwrap(), Spacing::Fps(8.0));
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-320] {
            let text = Spacing::duration(16, seconds).unwrap_err().to_string();
            assert!(text.starts_with("duration_seconds must be"), "{text}");
        }
        for fps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let text = ClipSpec::new(16, Spacing::Fps(fps))
                .unwrap_err()
                .to_string();
            assert!(
                text.starts_with("fps must be a number greater than 0, got "),
                "{text}"
            );
        }
    }

    #[test]
    fn absurd_clip_is_rejected_before_allocation() {
        let text = ClipSpec::new(u32::MAX, 1)
            .unwrap()
            .positions(&video(9), 0, &mut ScriptedRng(&[]))
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "a clip of 4294967295 frames is too long; at most 16777216 are possible"
        );
    }
}
