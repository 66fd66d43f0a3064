//! Creates clip samplers and presets of every kind from random, often invalid arguments; constructors may reject them.

use std::sync::Arc;

use framespool::clip_sampler::presets::{
    cosmos_curate, dali, hf, internvideo2, lerobot, mmaction2, pytorchvideo, qwen_vl, slowfast, torchcodec,
    torchvision, tsn, videomae, vjepa2, Seconds,
};
use framespool::clip_sampler::{
    ClipSampler, ClipSamplerRef, Delta, Dense, ExplicitFrames, PadMode, PaddingPolicy, Random, SegmentMode,
    Segments, Spacing, StartSampling, Uniform, Windows,
};
use framespool::Result;

use crate::fuzz_input::FuzzInput;

const PADDING_POLICIES: [PaddingPolicy; 7] = [
    PaddingPolicy::Repeat,
    PaddingPolicy::Loop,
    PaddingPolicy::Wrap,
    PaddingPolicy::Clamp,
    PaddingPolicy::Blank,
    PaddingPolicy::Drop,
    PaddingPolicy::Error,
];
const PAD_MODES: [PadMode; 5] =
    [PadMode::None, PadMode::Constant, PadMode::Edge, PadMode::Reflect101, PadMode::Reflect1001];
const MODES: [videomae::Mode; 3] = [videomae::Mode::Train, videomae::Mode::Validation, videomae::Mode::Test];
const VERSIONS: [videomae::VideoMaeVersion; 2] =
    [videomae::VideoMaeVersion::One, videomae::VideoMaeVersion::Two];
const BOUNDS: [mmaction2::OutOfBound; 2] = [mmaction2::OutOfBound::Loop, mmaction2::OutOfBound::RepeatLast];
const POLICIES: [torchcodec::Policy; 3] =
    [torchcodec::Policy::RepeatLast, torchcodec::Policy::Wrap, torchcodec::Policy::Error];

/// A clip sampler of any kind.
pub fn rule(case: &mut FuzzInput<'_>) -> Result<ClipSamplerRef> {
    let kind = case.next_below(32);
    match kind {
        0..10 => own(kind, case),
        _ => preset(kind, case),
    }
}

fn made<R: ClipSampler + 'static>(rule: Result<R>) -> Result<ClipSamplerRef> {
    rule.map(|rule| Arc::new(rule) as ClipSamplerRef)
}

fn spacing(case: &mut FuzzInput<'_>) -> Result<Spacing> {
    match case.next_below(3) {
        0 => Ok(Spacing::Stride(case.count())),
        1 => Ok(Spacing::Fps(case.number())),
        _ => Spacing::duration(case.count(), case.number()),
    }
}

fn own(kind: usize, c: &mut FuzzInput<'_>) -> Result<ClipSamplerRef> {
    let short = c.one_of(&PADDING_POLICIES);
    match kind {
        0 => made(Windows::new(c.count(), c.count(), c.maybe(FuzzInput::count), c.one_of(&PAD_MODES))),
        1 | 2 => {
            made(Windows::by_seconds(c.count(), c.number(), c.maybe(FuzzInput::number), c.one_of(&PAD_MODES)))
        }
        3 | 4 => {
            let rule = Random::new(c.count(), spacing(c)?, c.count(), short)?;
            let group = c.one_of(&[StartSampling::Independent, StartSampling::Stratified]);
            made(Ok(rule.with_start_sampling(group).with_frame_jitter(c.flag())))
        }
        5 => {
            let mode = c.one_of(&[SegmentMode::Random, SegmentMode::Middle]);
            made(Segments::new(c.count(), (c.count(), c.count()), mode, c.count(), short))
        }
        6 => made(Uniform::new(c.count(), spacing(c)?, c.count(), short)),
        7 => made(Dense::new((c.count(), c.count()), c.count(), c.count(), c.maybe(FuzzInput::count), short)),
        8 => made(Delta::new(c.some(9, FuzzInput::number), c.number(), c.count())),
        _ if c.flag() => made(ExplicitFrames::frames(c.some(4, |c| c.some(6, FuzzInput::signed)), short)),
        _ => made(ExplicitFrames::seconds(c.some(4, |c| c.some(6, FuzzInput::number)), short)),
    }
}

fn seconds(c: &mut FuzzInput<'_>) -> Seconds {
    match c.flag() {
        true => Seconds::Float(c.number()),
        false => Seconds::Ratio(c.signed(), c.signed()),
    }
}

fn preset(kind: usize, c: &mut FuzzInput<'_>) -> Result<ClipSamplerRef> {
    match kind {
        10 => made(cosmos_curate::SampleClosest::new(
            c.number(),
            c.maybe(FuzzInput::number),
            c.maybe(FuzzInput::number),
            c.flag(),
        )),
        11 => {
            let version = c.one_of(&[dali::DaliVersion::V2_4, dali::DaliVersion::Main]);
            made(dali::Sequences::new(
                c.count(),
                c.count(),
                c.maybe(FuzzInput::count),
                c.one_of(&PAD_MODES),
                version,
            ))
        }
        12 => made(dali::UniformSample::new(c.count())),
        13 => {
            let function =
                c.one_of(&[hf::SampleFunction::SampleFrames, hf::SampleFunction::DefaultSampleIndicesFn]);
            let frames = match c.next_below(3) {
                0 => hf::FrameSelection::All,
                1 => hf::FrameSelection::Number(c.count()),
                _ => hf::FrameSelection::Rate(c.number()),
            };
            let version = c.one_of(&[hf::TransformersVersion::V4_57, hf::TransformersVersion::V5_23]);
            made(hf::HfSampleFrames::new(function, frames, version))
        }
        14 => {
            let sample = match c.next_below(3) {
                0 => internvideo2::SampleMode::Rand,
                1 => internvideo2::SampleMode::Middle,
                _ => internvideo2::SampleMode::parse(&format!("fps{}", c.number()))?,
            };
            let (num_frames, trimmed30) = (c.count(), c.flag());
            let (fix_start, max_num_frames) = (c.maybe(FuzzInput::count), c.maybe(FuzzInput::count));
            let options =
                internvideo2::ReadFramesOptions { num_frames, sample, fix_start, max_num_frames, trimmed30 };
            made(internvideo2::ReadFrames::new(options))
        }
        15 => made(lerobot::DeltaTimestamps::new(
            c.some(9, FuzzInput::number),
            c.maybe(FuzzInput::number),
            c.number(),
        )),
        16 => made(mmaction2::DenseSampleFrames::new(mmaction2::DenseSampleFramesOptions {
            clip_len: c.count(),
            frame_interval: c.count(),
            num_clips: c.count(),
            sample_range: c.count(),
            num_sample_positions: c.count(),
            temporal_jitter: c.flag(),
            out_of_bound_opt: c.one_of(&BOUNDS),
            test_mode: c.flag(),
        })),
        17 => made(mmaction2::SampleFrames::new(mmaction2::SampleFramesOptions {
            clip_len: c.count(),
            frame_interval: c.count(),
            num_clips: c.count(),
            temporal_jitter: c.flag(),
            twice_sample: c.flag(),
            out_of_bound_opt: c.one_of(&BOUNDS),
            test_mode: c.flag(),
            keep_tail_frames: c.flag(),
            target_fps: c.maybe(FuzzInput::number),
        })),
        18 => made(mmaction2::MmactionUniformSample::new(c.count(), c.count(), c.flag())),
        19 => made(mmaction2::UntrimmedSampleFrames::new(c.count(), c.count(), c.count())),
        20 => {
            let sampler = match c.next_below(4) {
                0 => pytorchvideo::ClipSamplerKind::Random,
                1 => pytorchvideo::ClipSamplerKind::RandomMulti { num_clips: c.count() },
                2 => pytorchvideo::ClipSamplerKind::ConstantClipsPerVideo {
                    clips_per_video: c.count(),
                    augs_per_clip: c.count(),
                },
                _ => pytorchvideo::ClipSamplerKind::Uniform {
                    stride: c.maybe(seconds),
                    backpad_last: c.flag(),
                },
            };
            made(pytorchvideo::LabeledVideoClips::new(sampler, seconds(c), c.maybe(FuzzInput::count)))
        }
        21 => {
            let frames = match c.flag() {
                true => qwen_vl::FrameCount::Number(c.count()),
                false => qwen_vl::FrameCount::Rate {
                    fps: c.number(),
                    min_frames: c.count(),
                    max_frames: c.maybe(FuzzInput::count),
                },
            };
            made(qwen_vl::QwenVl::new(frames, c.maybe(FuzzInput::number), c.maybe(FuzzInput::number)))
        }
        22 => made(slowfast::Kinetics::new(slowfast::KineticsOptions {
            random: c.flag(),
            num_frames: c.count(),
            sampling_rate: c.count(),
            target_fps: c.number(),
            train_jitter_fps: c.number(),
            use_offset_sampling: c.flag(),
            num_ensemble_views: c.count(),
        })),
        23 => made(slowfast::Ssv2::new(c.count(), c.flag())),
        24 => made(torchcodec::Indices::new(torchcodec::IndicesOptions {
            random: c.flag(),
            num_clips: c.count(),
            num_frames_per_clip: c.count(),
            num_indices_between_frames: c.count(),
            sampling_range_start: c.signed(),
            sampling_range_end: c.maybe(FuzzInput::signed),
            policy: c.one_of(&POLICIES),
        })),
        25 => made(torchcodec::Timestamps::new(torchcodec::TimestampsOptions {
            starts: match c.flag() {
                true => torchcodec::ClipStarts::Random(c.count()),
                false => torchcodec::ClipStarts::Regular(c.number()),
            },
            num_frames_per_clip: c.count(),
            seconds_between_frames: c.maybe(FuzzInput::number),
            sampling_range_start: c.maybe(FuzzInput::number),
            sampling_range_end: c.maybe(FuzzInput::number),
            policy: c.one_of(&POLICIES),
        })),
        26 => {
            let (length, step, rate) = (c.count(), c.count(), c.maybe(FuzzInput::number));
            let sampler = match c.next_below(3) {
                0 => torchvision::ClipSelection::All,
                1 => torchvision::ClipSelection::Uniform(c.count()),
                _ => torchvision::ClipSelection::Random(c.count()),
            };
            made(torchvision::VideoClips::new(length, step, rate, sampler))
        }
        27 => made(tsn::TsnDataSet::new(c.count(), c.count(), c.flag(), c.flag())),
        28 => made(videomae::Finetune::new(videomae::FinetuneOptions {
            mode: c.one_of(&MODES),
            version: c.one_of(&VERSIONS),
            clip_len: c.count(),
            frame_sample_rate: c.count(),
            num_segment: c.count(),
            test_num_segment: c.count(),
            sparse_sample: c.flag(),
        })),
        29 => made(videomae::Pretrain::new(c.count(), c.count(), c.count(), c.flag())),
        30 => made(videomae::Ssv2::new(videomae::Ssv2Options {
            mode: c.one_of(&MODES),
            version: c.one_of(&VERSIONS),
            num_segment: c.count(),
            test_num_segment: c.count(),
        })),
        _ => made(vjepa2::VideoDataset::new(vjepa2::VideoDatasetOptions {
            frames_per_clip: c.count(),
            frame_step: match c.next_below(3) {
                0 => vjepa2::FrameStepOption::Fps(c.count()),
                1 => vjepa2::FrameStepOption::Duration(c.number()),
                _ => vjepa2::FrameStepOption::FrameStep(c.count()),
            },
            num_clips: c.count(),
            random_clip_sampling: c.flag(),
            allow_clip_overlap: c.flag(),
            filter_short_videos: c.flag(),
        })),
    }
}
