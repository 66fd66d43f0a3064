//! Numbers the clips of a dataset: which clips a sample has, and which sample a clip is of.

use crate::batch_sampler::MixConfig;
use crate::batch_sampler::grouped_shuffle::VideoClips;
use crate::dataset::SampleTable;
use crate::error::{Error, Result};
use crate::loader::Mixture;

/// The numbers of the clips, which count through all samples of the dataset.
pub(in crate::loader) struct ClipNumbers {
    num_samples: usize,
    /// For each sample, the first sample of the same file, if samples are parts of files: their
    /// clips may share decoding.
    first_samples: Option<Vec<u32>>,
    per_sample: ClipsPerSample,
}

enum ClipsPerSample {
    /// Each sample has this number.
    Equal(u64),
    /// Number of clips up to and including each sample.
    UpTo(Vec<u64>),
}

impl ClipNumbers {
    /// With this number of clips in each sample.
    pub(crate) fn equal(samples: &SampleTable, clips_per_sample: u64) -> Self {
        Self {
            num_samples: samples.len(),
            first_samples: samples.first_sample_of_file(),
            per_sample: ClipsPerSample::Equal(clips_per_sample),
        }
    }

    /// Sets the number of clips up to and including each sample.
    pub(crate) fn set_up_to(&mut self, up_to: Vec<u64>) {
        self.per_sample = ClipsPerSample::UpTo(up_to);
    }

    /// Number of clips in the whole dataset.
    pub(crate) fn num_clips(&self) -> u64 {
        match &self.per_sample {
            ClipsPerSample::UpTo(up_to) => up_to.last().copied().unwrap_or(0),
            ClipsPerSample::Equal(clips) => clips * self.num_samples as u64,
        }
    }

    /// The clips of each sample.
    pub(crate) fn sample_clips(&self) -> VideoClips {
        match &self.per_sample {
            ClipsPerSample::UpTo(up_to) => {
                VideoClips::Offsets(std::iter::once(0).chain(up_to.iter().copied()).collect())
            }
            &ClipsPerSample::Equal(clips) => VideoClips::Equal {
                videos: self.num_samples as u64,
                clips,
            },
        }
    }

    /// The clips of each video. Neighboring samples that are parts of one file are one video, because
    /// their clips may share decoding; samples of different datasets of a mixture are not.
    pub(crate) fn video_clips(&self, mixture: Option<&Mixture>) -> VideoClips {
        let Some(first_samples) = &self.first_samples else {
            return self.sample_clips();
        };
        let datasets = mixture.map_or(&[][..], |mixture| &mixture.items);
        let mut dataset_starts = datasets.iter().scan(0, |items, more| {
            *items += *more as usize;
            Some(*items)
        });
        let mut next_dataset = dataset_starts.next();
        let mut offsets = vec![0];
        for sample in 0..first_samples.len() {
            let is_first = next_dataset == Some(sample);
            if is_first {
                next_dataset = dataset_starts.next();
            }
            let end = match &self.per_sample {
                ClipsPerSample::UpTo(up_to) => up_to[sample],
                ClipsPerSample::Equal(clips) => clips * (sample as u64 + 1),
            };
            match offsets.last_mut() {
                Some(last)
                    if sample > 0
                        && !is_first
                        && first_samples[sample] == first_samples[sample - 1] =>
                {
                    *last = end
                }
                _ => offsets.push(end),
            }
        }
        VideoClips::Offsets(offsets.into())
    }

    /// Converts a mixture by samples into a mix by the number of clips in each dataset.
    pub(crate) fn mix(&self, mixture: &Mixture) -> Result<MixConfig> {
        let mut samples = 0;
        let mut before = 0;
        let mut sizes = Vec::with_capacity(mixture.items.len());
        for &more in &mixture.items {
            samples += u64::from(more);
            let up_to = match &self.per_sample {
                ClipsPerSample::UpTo(up_to) => samples
                    .checked_sub(1)
                    .map_or(Some(0), |last| up_to.get(last as usize).copied()),
                ClipsPerSample::Equal(clips) => Some(clips * samples),
            };
            let Some(up_to) = up_to.filter(|_| samples <= self.num_samples as u64) else {
                break;
            };
            if up_to == before {
                return Err(Error::Argument(format!(
                    "dataset {} of the mix yields no clip; omit it, or use a clip sampler that its \
                     videos are long enough for",
                    sizes.len()
                )));
            }
            sizes.push(up_to - before);
            before = up_to;
        }
        if samples != self.num_samples as u64 {
            let have = self.num_samples;
            return Err(Error::Argument(format!(
                "the datasets of a mix must add up to all {have} samples, got {samples}"
            )));
        }
        let Mixture {
            weights,
            replacement,
            epoch_clips,
            ..
        } = mixture.clone();
        Ok(MixConfig {
            sizes,
            weights,
            replacement,
            epoch_clips,
        })
    }

    /// The sample of a clip number, and the number of the clip within the sample.
    pub(crate) fn locate(&self, clip: u64) -> (u32, u64) {
        match &self.per_sample {
            ClipsPerSample::UpTo(up_to) => {
                let video = up_to.partition_point(|&end| end <= clip);
                let before = video.checked_sub(1).map_or(0, |v| up_to[v]);
                (video as u32, clip - before)
            }
            ClipsPerSample::Equal(clips) => ((clip / clips) as u32, clip % clips),
        }
    }

    /// The sample that identifies the file of a sample: clips of samples with the same result may
    /// share decoding.
    pub(crate) fn file_of(&self, sample: u32) -> u32 {
        self.first_samples
            .as_ref()
            .map_or(sample, |first_samples| first_samples[sample as usize])
    }
}
