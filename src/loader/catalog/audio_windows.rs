//! Windows of the audio of a dataset's files, for a loader that decodes no pictures.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::VideoCatalog;
use super::audio::{amplify, shift_and_factor};
use crate::audio::{AudioFormat, AudioReader, AudioWindow, check_window, samples_in};
use crate::batch_sampler::SampledClip;
use crate::clip_sampler::audio_windows::{AudioLength, AudioWindows, WindowPadding};
use crate::clip_sampler::video_timing::SegmentRange;
use crate::error::{Error, Result};
use crate::index::audio::AudioIndex;
use crate::loader::stats::StatsCollector;
use crate::loader::{AudioOptions, ClipMetadata};
use crate::rng::{Purpose, RngKey};
use crate::source::ByteSource;

/// A delivery of a window: what the order requested, the number of the window itself, which differs
/// for a replacement, the seed and the epoch.
#[derive(Clone, Copy)]
pub(in crate::loader) struct WindowRequest {
    pub sampled: SampledClip,
    pub clip: u64,
    pub seed: u64,
    pub epoch: u64,
}

impl WindowRequest {
    /// The random numbers of its begin.
    fn sampling_key(&self) -> RngKey {
        self.sampled.sampling_key(self.seed, self.epoch, self.clip)
    }

    /// The random numbers of its shift and its gain.
    fn transform_key(&self) -> RngKey {
        self.sampled.transform_key(self.seed, self.epoch, self.clip)
    }
}

/// The audio of a sample.
struct SampleAudio {
    source: Arc<dyn ByteSource>,
    index: Arc<AudioIndex>,
    /// The part of the file that is the sample, on the grid of the rate that is delivered.
    part: Range<i64>,
}

impl SampleAudio {
    fn len(&self) -> u64 {
        self.part.end.abs_diff(self.part.start)
    }
}

impl VideoCatalog {
    fn window_options(&self) -> Result<(&AudioOptions, &AudioWindows)> {
        let options = self.audio.options.as_ref();
        options
            .and_then(|options| Some((options, options.windows.as_ref()?)))
            .ok_or_else(|| Error::Argument("the loader delivers no windows of audio".into()))
    }

    /// Samples and windows of a sample's audio; if it has no audio and may be silent, as many windows
    /// as of one window of audio.
    pub(super) fn count_windows(&self, sample: u32, stats: &StatsCollector) -> Result<(u64, u64)> {
        let (options, windows) = self.window_options()?;
        Ok(match self.sample_audio(sample, stats)? {
            Some(audio) => {
                self.check_part(sample, &audio)?;
                let length = length(options, audio.len());
                (length.len, windows.num_windows(length))
            }
            None => (0, windows.num_silent_windows()),
        })
    }

    /// Whether the loader delivers windows of audio in place of clips.
    pub(super) fn makes_windows(&self) -> bool {
        self.window_options().is_ok()
    }

    /// Seconds of `len` samples and of a window, for messages; `None` for a loader of clips.
    pub(super) fn window_seconds(&self, len: u64) -> Option<(f64, f64)> {
        let (options, _) = self.window_options().ok()?;
        let seconds = len as f64 / f64::from(options.sample_rate);
        Some((seconds, options.seconds.unwrap_or(0.0)))
    }

    /// Time of the first sample of a window, on the clock of its file.
    ///
    /// # Errors
    /// Those of opening and indexing.
    pub(in crate::loader) fn window_begin(
        &self,
        request: WindowRequest,
        stats: &StatsCollector,
    ) -> Result<f64> {
        let (options, _) = self.window_options()?;
        let (sample, _) = self.clips.locate(request.clip);
        Ok(match self.sample_audio(sample, stats)? {
            Some(audio) => {
                let (first, _) = self.place(request, &audio)?;
                audio.index.begin_seconds + first as f64 / f64::from(options.sample_rate)
            }
            None => 0.0,
        })
    }

    /// Makes a window.
    ///
    /// # Errors
    /// `NoAudio` if the file has no audio and silence is not allowed; those of indexing and reading.
    pub(in crate::loader) fn window(
        &self,
        request: WindowRequest,
        stats: &StatsCollector,
    ) -> Result<ClipMetadata> {
        let begun = Instant::now();
        let (options, windows) = self.window_options()?;
        let (sample, number) = self.clips.locate(request.clip);
        let key = request.transform_key();
        let audio = self.sample_audio(sample, stats)?;
        let planned = Instant::now();
        let window = match &audio {
            Some(audio) => {
                let (first, len) = self.place(request, audio)?;
                let format = options.format();
                let loops = windows.padding == WindowPadding::Loop;
                let read = |reader: &mut AudioReader| match loops {
                    true => read_looped(reader, &audio.part, (first, len), format),
                    false => read_within(reader, &audio.part, (first, len), format),
                };
                let file = self.clips.file_of(sample);
                let mut window =
                    self.read_audio((file, &audio.source, &audio.index), stats, read)?;
                amplify(&mut window, shift_and_factor(options, key).1);
                window
            }
            None => {
                let seconds = options.seconds.unwrap_or(0.0);
                AudioWindow::silence(&self.site(sample), seconds, options.format())?
            }
        };
        stats.add(|s| {
            s.planning_seconds += (planned - begun).as_secs_f64();
            s.decoding_seconds += planned.elapsed().as_secs_f64();
        });
        let len = audio.map_or(0, |audio| audio.len());
        Ok(ClipMetadata {
            clip_id: request.clip,
            requested_id: request.sampled.clip,
            occurrence: key.occurrence,
            video_id: sample,
            view_id: number,
            label: self.label(sample),
            indices: Vec::new(),
            pts_seconds: Vec::new(),
            mask: Vec::new(),
            size: (0, 0),
            first_frame: 0,
            num_frames: 0,
            average_fps: 0.0,
            duration_seconds: len as f64 / f64::from(options.sample_rate),
            geometry: Vec::new(),
            padding: request.sampled.padding,
            content_key: None,
            has_frames: false,
            audio: Some(Arc::new(window)),
        })
    }

    /// The audio of a sample; `None` if it has none and may be silent.
    fn sample_audio(&self, sample: u32, stats: &StatsCollector) -> Result<Option<SampleAudio>> {
        let (options, _) = self.window_options()?;
        let file = self.clips.file_of(sample);
        let opened = self.files.open_audio(file).and_then(|source| {
            let found = self.audio_index(file, &source, options)?;
            Ok((source, found))
        });
        let (source, (index, was_stored)) = match opened {
            Err(Error::NoAudio { .. }) if options.allows_silence => return Ok(None),
            opened => opened?,
        };
        stats.add(|s| match was_stored {
            Some(true) => s.index_hits += 1,
            Some(false) => s.videos_indexed += 1,
            None => {}
        });
        let rate = options.sample_rate;
        let end = index.len_at(rate);
        let nearest = |seconds: f64| {
            let sample = (seconds - index.begin_seconds) * f64::from(rate);
            (sample.round() as i64).clamp(0, end)
        };
        let part = match self.samples.extent(sample as usize) {
            SegmentRange::Full => 0..end,
            SegmentRange::Seconds(from, to) => {
                let from = nearest(from);
                from..to.map_or(end, nearest).max(from)
            }
            extent @ SegmentRange::Frames(..) => {
                let reason =
                    format!("the segment {extent} counts frames, which audio has not; use seconds");
                return Err(Error::Argument(reason).into_clip_error(&index.site));
            }
        };
        Ok(Some(SampleAudio {
            source,
            index,
            part,
        }))
    }

    /// First sample and length of a window.
    fn place(&self, request: WindowRequest, audio: &SampleAudio) -> Result<(i64, u64)> {
        let (options, windows) = self.window_options()?;
        let (sample, number) = self.clips.locate(request.clip);
        self.check_part(sample, audio)?;
        let length = length(options, audio.len());
        let mut rng = request.sampling_key().rng(Purpose::Sampling);
        let begin = windows.begin(length, number, &mut rng);
        let shift =
            shift_and_factor(options, request.transform_key()).0 * f64::from(options.sample_rate);
        let first = audio.part.start.saturating_add_unsigned(begin);
        let shifted = first.saturating_add(shift.round() as i64);
        let last = audio.part.end.saturating_sub_unsigned(length.window);
        let placed = match windows.padding {
            WindowPadding::Drop => shifted.min(last).max(audio.part.start),
            WindowPadding::Zeros | WindowPadding::Loop => shifted,
        };
        Ok((placed, length.window))
    }

    /// Checks that the part of the file that is the sample has audio.
    fn check_part(&self, sample: u32, audio: &SampleAudio) -> Result<()> {
        if !audio.part.is_empty() {
            return Ok(());
        }
        let reason = match self.samples.extent(sample as usize) {
            SegmentRange::Full => "its audio has no samples; omit it".to_owned(),
            extent => format!(
                "the segment {extent} contains no audio of the file, which ends at {:.3} s; correct it or omit it",
                audio.index.end_seconds()
            ),
        };
        Err(Error::Argument(reason).into_clip_error(&audio.index.site))
    }
}

/// The lengths of audio of `len` samples and of a window of it.
fn length(options: &AudioOptions, len: u64) -> AudioLength {
    let sample_rate = options.sample_rate;
    AudioLength {
        len,
        window: options
            .seconds
            .map_or(len, |seconds| samples_in(seconds, sample_rate)),
        sample_rate,
    }
}

/// Reads a window; zeros outside of the part.
fn read_within(
    reader: &mut AudioReader,
    part: &Range<i64>,
    (first, len): (i64, u64),
    format: AudioFormat,
) -> Result<AudioWindow> {
    let window = first..first.saturating_add_unsigned(len);
    let own = window.start.clamp(part.start, part.end)..window.end.clamp(part.start, part.end);
    if own == window {
        return reader.read_at(first, len, format);
    }
    let mut output = silence(reader, (first, len), format)?;
    if !own.is_empty() {
        let read = reader.read_at(own.start, own.end.abs_diff(own.start), format)?;
        put(&mut output, own.start.abs_diff(first) as usize, &read, true);
    }
    Ok(output)
}

/// Reads a window; outside of the part it repeats, and is not valid.
fn read_looped(
    reader: &mut AudioReader,
    part: &Range<i64>,
    (first, len): (i64, u64),
    format: AudioFormat,
) -> Result<AudioWindow> {
    let mut output = silence(reader, (first, len), format)?;
    let period = part.end - part.start;
    let mut whole: Option<AudioWindow> = None;
    let mut filled = 0;
    while filled < len {
        let position = first.saturating_add_unsigned(filled);
        let from = part.start + (position - part.start).rem_euclid(period);
        let count = (part.end - from).unsigned_abs().min(len - filled);
        let read;
        let piece = match &whole {
            Some(whole) if from == part.start && count == period.unsigned_abs() => whole,
            _ => {
                read = reader.read_at(from, count, format)?;
                &read
            }
        };
        put(&mut output, filled as usize, piece, position == from);
        if whole.is_none() && count == period.unsigned_abs() {
            whole = Some(piece.clone());
        }
        filled += count;
    }
    Ok(output)
}

/// A window of zeros.
fn silence(
    reader: &AudioReader,
    (first, len): (i64, u64),
    format: AudioFormat,
) -> Result<AudioWindow> {
    let index = reader.index();
    let channels = format.channels.unwrap_or(index.params.channels);
    let sample_rate = format.sample_rate.unwrap_or(index.params.sample_rate);
    check_window(&index.site, len, channels)?;
    Ok(AudioWindow {
        samples: vec![0.0; len as usize * channels as usize],
        channels,
        sample_rate,
        begin_seconds: index.begin_seconds + first as f64 / f64::from(sample_rate),
        valid: Vec::new(),
    })
}

/// Writes the samples of a piece into a window, from sample `at` on.
fn put(window: &mut AudioWindow, at: usize, piece: &AudioWindow, is_valid: bool) {
    let (len, count) = (window.len(), piece.len());
    for channel in 0..window.channels as usize {
        window.samples[channel * len + at..][..count]
            .copy_from_slice(&piece.samples[channel * count..][..count]);
    }
    if is_valid {
        let moved = |span: &Range<usize>| span.start + at..span.end + at;
        window.valid.extend(piece.valid.iter().map(moved));
    }
}
