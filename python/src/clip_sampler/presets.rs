//! Converts a preset's name and options to the engine's sampler. The options have the names of the codebase
//! that the preset reproduces; the Python package chooses most defaults.

use std::sync::Arc;

use framespool::clip_sampler::presets::{
    cosmos_curate, dali, ffmpeg_fps, hf, internvideo2, lerobot, mmaction2, pytorchvideo, qwen_vl, slowfast,
    torchcodec, torchvision, tsn, videomae, vjepa2,
};
use framespool::clip_sampler::{ClipSamplerRef, PadMode};
use framespool::{Error, Result};

use super::args::SamplerArgs;

/// Returns the sampler of a preset.
pub fn build_preset(name: &str, args: &SamplerArgs) -> Result<ClipSamplerRef> {
    match name {
        "cosmos_curate" => cosmos_curate(args),
        "dali" => dali(args),
        "dali_uniform_sample" => dali_uniform_sample(args),
        "ffmpeg_fps" => ffmpeg_fps(args),
        "hf" => hf(args),
        "internvideo2" => internvideo2(args),
        "lerobot" => lerobot(args),
        "mmaction2" => mmaction2(args),
        "mmaction2_dense" => mmaction2_dense(args),
        "mmaction2_uniform" => mmaction2_uniform(args),
        "mmaction2_untrimmed" => mmaction2_untrimmed(args),
        "pytorchvideo" => pytorchvideo(args),
        "qwen_vl" => qwen_vl(args),
        "slowfast" => slowfast(args),
        "slowfast_ssv2" => slowfast_ssv2(args),
        "torchcodec_random_indices" => torchcodec_indices(args, true),
        "torchcodec_random_timestamps" => torchcodec_timestamps(args, true),
        "torchcodec_regular_indices" => torchcodec_indices(args, false),
        "torchcodec_regular_timestamps" => torchcodec_timestamps(args, false),
        "torchvision" => torchvision(args),
        "tsn" => tsn(args),
        "videomae" => videomae(args),
        "videomae_pretrain" => videomae_pretrain(args),
        "videomae_ssv2" => videomae_ssv2(args),
        "vjepa2" => vjepa2(args),
        _ => Err(Error::Argument(format!("unknown preset {name:?}"))),
    }
}

/// Returns an error for options that belong to another form of the preset.
fn only_for(args: &SamplerArgs, form: &str, options: &[&str]) -> Result<()> {
    match options.iter().find(|option| args.contains(option)) {
        Some(option) => {
            Err(Error::Argument(format!("{option} must be omitted, got a value; it belongs to {form}")))
        }
        None => Ok(()),
    }
}

// Cosmos-Curate

fn cosmos_curate(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (start, stop) = (args.get_opt_float("start")?, args.get_opt_float("stop")?);
    Ok(Arc::new(cosmos_curate::SampleClosest::new(
        args.get_float("sample_rate_fps")?,
        start,
        stop,
        args.get_bool("endpoint")?,
    )?))
}

// FFmpeg's filter `fps`

fn ffmpeg_fps(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let words = [
        ("zero", ffmpeg_fps::Rounding::Down),
        ("inf", ffmpeg_fps::Rounding::Up),
        ("down", ffmpeg_fps::Rounding::Down),
        ("up", ffmpeg_fps::Rounding::Up),
        ("near", ffmpeg_fps::Rounding::Near),
    ];
    let rounding = args.get_choice("round", &words)?;
    let pass_end = args.get_choice("eof_action", &[("round", false), ("pass", true)])?;
    Ok(Arc::new(ffmpeg_fps::FfmpegFps::new(args.get_float("fps")?, rounding, pass_end)?))
}

// DALI. The old option `pad_sequences` and the new option `pad_mode` exclude each other.

const DALI_PAD_MODES: [(&str, PadMode); 8] = [
    ("none", PadMode::None),
    ("constant", PadMode::Constant),
    ("edge", PadMode::Edge),
    ("repeat", PadMode::Edge),
    ("reflect_1001", PadMode::Reflect1001),
    ("symmetric", PadMode::Reflect1001),
    ("reflect_101", PadMode::Reflect101),
    ("reflect", PadMode::Reflect101),
];

fn dali(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let pad = match args.contains("pad_sequences") && args.get_bool("pad_sequences")? {
        true => {
            only_for(args, "pad_sequences=False", &["pad_mode"])?;
            PadMode::Constant
        }
        false if args.contains("pad_mode") => args.get_choice("pad_mode", &DALI_PAD_MODES)?,
        false => PadMode::None,
    };
    let version =
        args.get_choice("version", &[("2.4", dali::DaliVersion::V2_4), ("main", dali::DaliVersion::Main)])?;
    let step = match args.get_int("step")? {
        ..=0 => None,
        step => Some(u32::try_from(step).map_err(|_| {
            Error::Argument(format!("step must be at most {}, got {step}; use a smaller one", u32::MAX))
        })?),
    };
    let (length, stride) = (args.get_u32("sequence_length")?, args.get_u32("stride")?);
    Ok(Arc::new(dali::Sequences::new(length, stride, step, pad, version)?))
}

fn dali_uniform_sample(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(dali::UniformSample::new(args.get_u32("sequence_length")?)?))
}

// Hugging Face Transformers

const HF_FUNCTIONS: [(&str, hf::SampleFunction); 2] = [
    ("sample_frames", hf::SampleFunction::SampleFrames),
    ("default_sample_indices_fn", hf::SampleFunction::DefaultSampleIndicesFn),
];

const HF_VERSIONS: [(&str, hf::TransformersVersion); 2] =
    [("4.57", hf::TransformersVersion::V4_57), ("5.23", hf::TransformersVersion::V5_23)];

fn hf(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let frames = match (args.get_opt_u32("num_frames")?, args.get_opt_float("fps")?) {
        (Some(frames), _) => {
            only_for(args, "sampling without num_frames", &["fps"])?;
            hf::FrameSelection::Number(frames)
        }
        (None, Some(fps)) => hf::FrameSelection::Rate(fps),
        (None, None) => hf::FrameSelection::All,
    };
    let function = args.get_choice("function", &HF_FUNCTIONS)?;
    Ok(Arc::new(hf::HfSampleFrames::new(function, frames, args.get_choice("version", &HF_VERSIONS)?)?))
}

// InternVideo2

fn internvideo2(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(internvideo2::ReadFrames::new(internvideo2::ReadFramesOptions {
        num_frames: args.get_u32("num_frames")?,
        sample: internvideo2::SampleMode::parse(args.get_str("sample")?)?,
        fix_start: args.get_opt_u32("fix_start")?,
        max_num_frames: match args.get_int("max_num_frames")? {
            ..=0 => None, // the original uses -1, and checks whether the value is above 0
            _ => Some(args.get_u32("max_num_frames")?),
        },
        trimmed30: args.get_bool("trimmed30")?,
    })?))
}

// LeRobot

fn lerobot(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (deltas, fps) = (args.get_floats("delta_timestamps")?, args.get_opt_float("fps")?);
    Ok(Arc::new(lerobot::DeltaTimestamps::new(deltas, fps, args.get_float("tolerance_s")?)?))
}

// mmaction2

fn mmaction2_out_of_bound(args: &SamplerArgs) -> Result<mmaction2::OutOfBound> {
    args.get_choice(
        "out_of_bound_opt",
        &[("loop", mmaction2::OutOfBound::Loop), ("repeat_last", mmaction2::OutOfBound::RepeatLast)],
    )
}

fn mmaction2(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(mmaction2::SampleFrames::new(mmaction2::SampleFramesOptions {
        clip_len: args.get_u32("clip_len")?,
        frame_interval: args.get_u32("frame_interval")?,
        num_clips: args.get_u32("num_clips")?,
        temporal_jitter: args.get_bool("temporal_jitter")?,
        twice_sample: args.get_bool("twice_sample")?,
        out_of_bound_opt: mmaction2_out_of_bound(args)?,
        test_mode: args.get_bool("test_mode")?,
        keep_tail_frames: args.get_bool("keep_tail_frames")?,
        target_fps: args.get_opt_float("target_fps")?,
    })?))
}

fn mmaction2_dense(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(mmaction2::DenseSampleFrames::new(mmaction2::DenseSampleFramesOptions {
        clip_len: args.get_u32("clip_len")?,
        frame_interval: args.get_u32("frame_interval")?,
        num_clips: args.get_u32("num_clips")?,
        sample_range: args.get_u32("sample_range")?,
        num_sample_positions: args.get_u32("num_sample_positions")?,
        temporal_jitter: args.get_bool("temporal_jitter")?,
        out_of_bound_opt: mmaction2_out_of_bound(args)?,
        test_mode: args.get_bool("test_mode")?,
    })?))
}

fn mmaction2_uniform(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (length, clips) = (args.get_u32("clip_len")?, args.get_u32("num_clips")?);
    Ok(Arc::new(mmaction2::MmactionUniformSample::new(length, clips, args.get_bool("test_mode")?)?))
}

fn mmaction2_untrimmed(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (length, between) = (args.get_u32("clip_len")?, args.get_u32("clip_interval")?);
    Ok(Arc::new(mmaction2::UntrimmedSampleFrames::new(length, between, args.get_u32("frame_interval")?)?))
}

// PyTorchVideo. An option that the chosen clip sampler does not have is an error.

/// Options that only some clip samplers have.
const PYTORCHVIDEO_OWN: [&str; 5] =
    ["num_clips", "stride", "backpad_last", "clips_per_video", "augs_per_clip"];

fn pytorchvideo(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let samplers: [(&str, &[&str]); 4] = [
        ("random", &[]),
        ("random_multi", &PYTORCHVIDEO_OWN[..1]),
        ("uniform", &PYTORCHVIDEO_OWN[1..3]),
        ("constant_clips_per_video", &PYTORCHVIDEO_OWN[3..]),
    ];
    let own = args.get_choice("sampling_type", &samplers)?;
    let others: Vec<&str> = PYTORCHVIDEO_OWN.into_iter().filter(|option| !own.contains(option)).collect();
    only_for(args, "another sampling_type", &others)?;
    let sampler = match own.first() {
        Some(&"num_clips") => {
            pytorchvideo::ClipSamplerKind::RandomMulti { num_clips: args.get_u32("num_clips")? }
        }
        Some(&"stride") => pytorchvideo::ClipSamplerKind::Uniform {
            stride: args.contains("stride").then(|| args.get_seconds("stride")).transpose()?,
            backpad_last: args.contains("backpad_last") && args.get_bool("backpad_last")?,
        },
        Some(_) => pytorchvideo::ClipSamplerKind::ConstantClipsPerVideo {
            clips_per_video: args.get_u32("clips_per_video")?,
            augs_per_clip: args.get_opt_u32("augs_per_clip")?.unwrap_or(1),
        },
        None => pytorchvideo::ClipSamplerKind::Random,
    };
    Ok(Arc::new(pytorchvideo::LabeledVideoClips::new(
        sampler,
        args.get_seconds("clip_duration")?,
        args.get_opt_u32("num_samples")?,
    )?))
}

// qwen-vl-utils. The number of frames is given either directly or by a rate; the options of the two ways
// exclude each other.

fn qwen_vl(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let frames = match args.get_opt_u32("nframes")? {
        Some(frames) => {
            only_for(args, "sampling by fps, without nframes", &["fps", "min_frames", "max_frames"])?;
            qwen_vl::FrameCount::Number(frames)
        }
        None => qwen_vl::FrameCount::Rate {
            fps: args.get_opt_float("fps")?.unwrap_or(2.0),
            min_frames: args.get_opt_u32("min_frames")?.unwrap_or(4),
            max_frames: args.get_opt_u32("max_frames")?,
        },
    };
    let (start, end) = (args.get_opt_float("video_start")?, args.get_opt_float("video_end")?);
    Ok(Arc::new(qwen_vl::QwenVl::new(frames, start, end)?))
}

// PySlowFast. Options have its names in lower case.

#[derive(Clone, Copy, PartialEq)]
enum SlowfastMode {
    Train,
    Val,
    Test,
}

fn slowfast_mode(args: &SamplerArgs) -> Result<SlowfastMode> {
    args.get_choice(
        "mode",
        &[("train", SlowfastMode::Train), ("val", SlowfastMode::Val), ("test", SlowfastMode::Test)],
    )
}

fn slowfast(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let mode = slowfast_mode(args)?;
    let jitter = args.get_float("train_jitter_fps")?;
    Ok(Arc::new(slowfast::Kinetics::new(slowfast::KineticsOptions {
        random: mode != SlowfastMode::Test,
        num_frames: args.get_u32("num_frames")?,
        sampling_rate: args.get_u32("sampling_rate")?,
        target_fps: args.get_float("target_fps")?,
        train_jitter_fps: if mode == SlowfastMode::Train { jitter } else { 0.0 },
        use_offset_sampling: args.get_bool("use_offset_sampling")?,
        num_ensemble_views: args.get_u32("num_ensemble_views")?,
    })?))
}

fn slowfast_ssv2(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(slowfast::Ssv2::new(
        args.get_u32("num_frames")?,
        slowfast_mode(args)? == SlowfastMode::Train,
    )?))
}

// torchcodec

fn torchcodec_policy(args: &SamplerArgs) -> Result<torchcodec::Policy> {
    let words = [
        ("repeat_last", torchcodec::Policy::RepeatLast),
        ("wrap", torchcodec::Policy::Wrap),
        ("error", torchcodec::Policy::Error),
    ];
    args.get_choice("policy", &words)
}

fn torchcodec_indices(args: &SamplerArgs, random: bool) -> Result<ClipSamplerRef> {
    Ok(Arc::new(torchcodec::Indices::new(torchcodec::IndicesOptions {
        random,
        num_clips: args.get_u32("num_clips")?,
        num_frames_per_clip: args.get_u32("num_frames_per_clip")?,
        num_indices_between_frames: args.get_u32("num_indices_between_frames")?,
        sampling_range_start: args.get_int("sampling_range_start")?,
        sampling_range_end: args
            .contains("sampling_range_end")
            .then(|| args.get_int("sampling_range_end"))
            .transpose()?,
        policy: torchcodec_policy(args)?,
    })?))
}

fn torchcodec_timestamps(args: &SamplerArgs, random: bool) -> Result<ClipSamplerRef> {
    let starts = match random {
        true => torchcodec::ClipStarts::Random(args.get_u32("num_clips")?),
        false => torchcodec::ClipStarts::Regular(args.get_float("seconds_between_clip_starts")?),
    };
    Ok(Arc::new(torchcodec::Timestamps::new(torchcodec::TimestampsOptions {
        starts,
        num_frames_per_clip: args.get_u32("num_frames_per_clip")?,
        seconds_between_frames: args.get_opt_float("seconds_between_frames")?,
        sampling_range_start: args.get_opt_float("sampling_range_start")?,
        sampling_range_end: args.get_opt_float("sampling_range_end")?,
        policy: torchcodec_policy(args)?,
    })?))
}

// torchvision

fn torchvision(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let own = match args.contains("sampler") {
        true => args.get_choice(
            "sampler",
            &[("uniform", "num_clips_per_video"), ("random", "max_clips_per_video")],
        )?,
        false => "",
    };
    let others: Vec<&str> =
        ["num_clips_per_video", "max_clips_per_video"].into_iter().filter(|option| *option != own).collect();
    only_for(args, "another sampler", &others)?;
    let sampler = match own {
        "" => torchvision::ClipSelection::All,
        "num_clips_per_video" => torchvision::ClipSelection::Uniform(args.get_u32(own)?),
        _ => torchvision::ClipSelection::Random(args.get_u32(own)?),
    };
    let (length, apart) = (args.get_u32("clip_length_in_frames")?, args.get_u32("frames_between_clips")?);
    Ok(Arc::new(torchvision::VideoClips::new(length, apart, args.get_opt_float("frame_rate")?, sampler)?))
}

// TSN

fn tsn(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (segments, length) = (args.get_u32("num_segments")?, args.get_u32("new_length")?);
    Ok(Arc::new(tsn::TsnDataSet::new(
        segments,
        length,
        args.get_bool("random_shift")?,
        args.get_bool("test_mode")?,
    )?))
}

// VideoMAE

fn videomae_mode(args: &SamplerArgs) -> Result<videomae::Mode> {
    let words = [
        ("train", videomae::Mode::Train),
        ("validation", videomae::Mode::Validation),
        ("test", videomae::Mode::Test),
    ];
    args.get_choice("mode", &words)
}

fn videomae_version(args: &SamplerArgs) -> Result<videomae::VideoMaeVersion> {
    match args.get_int("version")? {
        1 => Ok(videomae::VideoMaeVersion::One),
        2 => Ok(videomae::VideoMaeVersion::Two),
        other => Err(Error::Argument(format!(
            "version must be 1 or 2, got {other}; use 1 for VideoMAE, 2 for VideoMAEv2"
        ))),
    }
}

fn videomae(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(videomae::Finetune::new(videomae::FinetuneOptions {
        mode: videomae_mode(args)?,
        version: videomae_version(args)?,
        clip_len: args.get_u32("clip_len")?,
        frame_sample_rate: args.get_u32("frame_sample_rate")?,
        num_segment: args.get_u32("num_segment")?,
        test_num_segment: args.get_u32("test_num_segment")?,
        sparse_sample: args.get_bool("sparse_sample")?,
    })?))
}

fn videomae_ssv2(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(videomae::Ssv2::new(videomae::Ssv2Options {
        mode: videomae_mode(args)?,
        version: videomae_version(args)?,
        num_segment: args.get_u32("num_segment")?,
        test_num_segment: args.get_u32("test_num_segment")?,
    })?))
}

fn videomae_pretrain(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (segments, length) = (args.get_u32("num_segments")?, args.get_u32("new_length")?);
    Ok(Arc::new(videomae::Pretrain::new(
        segments,
        length,
        args.get_u32("new_step")?,
        args.get_bool("temporal_jitter")?,
    )?))
}

// V-JEPA 2

fn vjepa2_frame_step(args: &SamplerArgs) -> Result<vjepa2::FrameStepOption> {
    match (args.contains("fps"), args.contains("duration"), args.contains("frame_step")) {
        (true, false, false) => Ok(vjepa2::FrameStepOption::Fps(args.get_u32("fps")?)),
        (false, true, false) => Ok(vjepa2::FrameStepOption::Duration(args.get_float("duration")?)),
        (false, false, true) => Ok(vjepa2::FrameStepOption::FrameStep(args.get_u32("frame_step")?)),
        given => {
            let given = u8::from(given.0) + u8::from(given.1) + u8::from(given.2);
            Err(Error::Argument(format!(
                "exactly one of fps, duration and frame_step must be given, got {given}; frame_step is 4 \
                 unless frame_step=None is given along with another one"
            )))
        }
    }
}

fn vjepa2(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(vjepa2::VideoDataset::new(vjepa2::VideoDatasetOptions {
        frames_per_clip: args.get_u32("frames_per_clip")?,
        frame_step: vjepa2_frame_step(args)?,
        num_clips: args.get_u32("num_clips")?,
        random_clip_sampling: args.get_bool("random_clip_sampling")?,
        allow_clip_overlap: args.get_bool("allow_clip_overlap")?,
        filter_short_videos: args.get_bool("filter_short_videos")?,
    })?))
}
