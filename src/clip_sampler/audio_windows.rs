//! Windows of audio: how many a file has, and where each begins. Lengths and positions count samples
//! at the rate that a loader delivers.

use serde::Deserialize;

use super::RandomSource;
use super::uniform::evenly_spaced;

/// Where the windows of a file begin.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowStarts {
    /// This number of windows. Each begin from which a whole window fits is equally likely.
    Random(u32),
    /// This number of windows, spread evenly from the first sample to the last.
    Uniform(u32),
    /// A window every so many seconds, from the first sample on.
    Consecutive(f64),
    /// One window: the whole file.
    Whole,
}

/// What replaces samples after the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowPadding {
    /// Zeros.
    Zeros,
    /// The audio again, from its first sample on.
    Loop,
    /// Nothing: windows that pass the end are omitted.
    Drop,
}

/// The windows that a loader takes from each file.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioWindows {
    /// Where they begin.
    pub starts: WindowStarts,
    /// What replaces samples after the end.
    pub padding: WindowPadding,
}

/// The audio from which windows are taken, in samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioLength {
    /// Length of the audio.
    pub len: u64,
    /// Length of a window.
    pub window: u64,
    /// Samples per second.
    pub sample_rate: u32,
}

impl AudioWindows {
    /// The number of windows, if it is the same for all files with audio: then no file must be
    /// opened to count them.
    pub fn fixed_num_windows(&self) -> Option<u64> {
        match (self.starts, self.padding) {
            (WindowStarts::Whole, _) => Some(1),
            (WindowStarts::Random(count) | WindowStarts::Uniform(count), padding) => {
                (padding != WindowPadding::Drop).then_some(count.into())
            }
            (WindowStarts::Consecutive(_), _) => None,
        }
    }

    /// Number of windows of a file without audio that gives silence.
    pub fn num_silent_windows(&self) -> u64 {
        match self.starts {
            WindowStarts::Random(count) | WindowStarts::Uniform(count) => count.into(),
            WindowStarts::Consecutive(_) | WindowStarts::Whole => 1,
        }
    }

    /// Number of windows of a file; 0 without samples.
    pub fn num_windows(&self, audio: AudioLength) -> u64 {
        let AudioLength { len, window, .. } = audio;
        let fits = len >= window || self.padding != WindowPadding::Drop;
        match self.starts {
            _ if len == 0 || !fits => 0,
            WindowStarts::Whole => 1,
            WindowStarts::Random(count) | WindowStarts::Uniform(count) => count.into(),
            WindowStarts::Consecutive(step_seconds) => {
                let last = match self.padding {
                    WindowPadding::Drop => len - window,
                    WindowPadding::Zeros | WindowPadding::Loop => len - 1,
                };
                // The quotient may be off by one, as the begins are rounded.
                let begin = |number| consecutive(number, step_seconds, audio.sample_rate);
                let estimate = last as f64 / step_samples(step_seconds, audio.sample_rate);
                let first = (estimate as u64).saturating_sub(1);
                let before = (first..).take_while(|&number| begin(number) <= last);
                first + before.count() as u64
            }
        }
    }

    /// The first sample of window `number` of a file. A random one takes one random number.
    pub fn begin(&self, audio: AudioLength, number: u64, rng: &mut dyn RandomSource) -> u64 {
        let last = audio.len.saturating_sub(audio.window);
        match self.starts {
            WindowStarts::Whole => 0,
            WindowStarts::Random(_) => rng.next_below(last + 1),
            WindowStarts::Uniform(count) => evenly_spaced(last, number, count.into()),
            WindowStarts::Consecutive(step_seconds) => {
                consecutive(number, step_seconds, audio.sample_rate)
            }
        }
    }
}

/// Samples from begin to begin, at least one.
fn step_samples(step_seconds: f64, sample_rate: u32) -> f64 {
    (step_seconds * f64::from(sample_rate)).max(1.0)
}

/// The begin of window `number` if a window begins every `step_seconds`.
fn consecutive(number: u64, step_seconds: f64, sample_rate: u32) -> u64 {
    (number as f64 * step_samples(step_seconds, sample_rate)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::tests::ScriptedRng;
    use super::*;

    fn length(len: u64, window: u64) -> AudioLength {
        AudioLength {
            len,
            window,
            sample_rate: 1000,
        }
    }

    fn begins(starts: WindowStarts, padding: WindowPadding, audio: AudioLength) -> Vec<u64> {
        let windows = AudioWindows { starts, padding };
        (0..windows.num_windows(audio))
            .map(|number| windows.begin(audio, number, &mut ScriptedRng(&[])))
            .collect()
    }

    #[test]
    fn consecutive_windows_begin_at_each_step() {
        let starts = WindowStarts::Consecutive(0.1);
        let [zeros, drop] = [WindowPadding::Zeros, WindowPadding::Drop];
        assert_eq!(begins(starts, zeros, length(300, 100)), [0, 100, 200]);
        assert_eq!(begins(starts, drop, length(300, 100)), [0, 100, 200]);
        assert_eq!(begins(starts, zeros, length(301, 100)), [0, 100, 200, 300]);
        assert_eq!(begins(starts, drop, length(301, 100)), [0, 100, 200]);
        assert_eq!(begins(starts, drop, length(299, 100)), [0, 100]);
        assert_eq!(begins(starts, drop, length(300, 250)), [0]);
        assert_eq!(begins(starts, drop, length(99, 100)), [0; 0]);
        assert_eq!(begins(starts, zeros, length(99, 100)), [0]);
        assert_eq!(begins(starts, zeros, length(0, 100)), [0; 0]);
    }

    #[test]
    fn every_begin_inside_is_counted_once_for_any_step() {
        for rate in [8000, 16_000, 22_050, 44_100] {
            for step in [1.0 / 3.0, 0.01, 0.1, 0.25, 1.0 / 7.0, 1.9] {
                for len in [1, 99, 4410, 16_000, 88_199, 88_200, 88_201] {
                    let audio = AudioLength {
                        len,
                        window: 400,
                        sample_rate: rate,
                    };
                    for padding in [WindowPadding::Zeros, WindowPadding::Drop] {
                        let last = match padding {
                            WindowPadding::Drop => len.checked_sub(400),
                            _ => Some(len - 1),
                        };
                        let expected: Vec<u64> = (0..)
                            .map(|number| consecutive(number, step, rate))
                            .take_while(|&begin| last.is_some_and(|last| begin <= last))
                            .collect();
                        let found = begins(WindowStarts::Consecutive(step), padding, audio);
                        assert_eq!(found, expected, "{rate} {step} {len} {padding:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn uniform_windows_touch_both_ends() {
        let uniform =
            |count, audio| begins(WindowStarts::Uniform(count), WindowPadding::Loop, audio);
        assert_eq!(uniform(3, length(500, 100)), [0, 200, 400]);
        assert_eq!(uniform(1, length(500, 100)), [200]);
        assert_eq!(uniform(2, length(50, 100)), [0, 0]);
    }

    #[test]
    fn random_windows_draw_from_all_begins_at_which_a_window_fits() {
        let windows = AudioWindows {
            starts: WindowStarts::Random(4),
            padding: WindowPadding::Zeros,
        };
        for (draw, len) in [(0, 100), (400, 500), (0, 7)] {
            // The source refuses a draw that is not below the limit.
            let begin = windows.begin(length(len, 100), 0, &mut ScriptedRng(&[draw]));
            assert_eq!(begin, draw);
        }
        assert_eq!(windows.fixed_num_windows(), Some(4));
        assert_eq!(windows.num_windows(length(0, 100)), 0);
        let dropping = AudioWindows {
            padding: WindowPadding::Drop,
            ..windows
        };
        assert_eq!(dropping.fixed_num_windows(), None);
        assert_eq!(dropping.num_windows(length(99, 100)), 0);
        assert_eq!(dropping.num_windows(length(100, 100)), 4);
    }

    #[test]
    fn a_whole_file_is_one_window() {
        let padding = WindowPadding::Zeros;
        assert_eq!(begins(WindowStarts::Whole, padding, length(7, 7)), [0]);
    }
}
