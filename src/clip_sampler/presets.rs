//! Clip samplers that reproduce the frame indices of other codebases, with the options named as
//! there. Each file follows the published formulas of one codebase, including its floating-point
//! rounding and its errors. To add a preset, write the struct of its options, implement [`Formula`]
//! for it, and list it here.

mod arithmetic;
mod cosmos_curate;
mod dali;
mod ffmpeg_fps;
mod formula;
mod hf;
mod hf_processors;
mod internvideo2;
mod lerobot;
mod llava_video;
mod mmaction2;
mod options;
mod pytorchvideo;
mod qwen_vl;
mod slowfast;
#[cfg(test)]
mod tests;
mod torchcodec;
mod torchvision;
mod tsn;
mod videomae;
mod vjepa2;
mod vllm;

use serde::Deserialize;

use super::ClipSamplerRef;
use crate::error::Result;
use formula::Formula;

macro_rules! presets {
    ($($name:ident($options:ty),)*) => {
        /// A preset with its options. Options have no defaults here, except that those of type
        /// `Option` may be absent.
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Preset {
            $($name($options),)*
        }

        impl Preset {
            /// Returns the clip sampler.
            ///
            /// # Errors
            /// `Argument` if options contradict each other or a value is out of range.
            pub fn build(self) -> Result<ClipSamplerRef> {
                match self {
                    $(Preset::$name(options) => options.build(),)*
                }
            }
        }
    };
}

presets! {
    CosmosCurate(cosmos_curate::SampleClosest),
    Dali(dali::Sequences),
    DaliUniformSample(dali::UniformSample),
    FfmpegFps(ffmpeg_fps::FfmpegFps),
    Hf(hf::SampleFrames),
    HfInternvl(hf_processors::Internvl),
    HfQwen2Vl(hf_processors::Qwen2Vl),
    HfQwen3Vl(hf_processors::Qwen3Vl),
    HfSmolvlm(hf_processors::Smolvlm),
    Internvideo2(internvideo2::ReadFrames),
    Lerobot(lerobot::DeltaTimestamps),
    LlavaVideo(llava_video::LlavaVideo),
    Mmaction2(mmaction2::SampleFrames),
    Mmaction2Dense(mmaction2::DenseSampleFrames),
    Mmaction2Uniform(mmaction2::UniformSample),
    Mmaction2Untrimmed(mmaction2::UntrimmedSampleFrames),
    Pytorchvideo(pytorchvideo::LabeledVideoClips),
    QwenVl(qwen_vl::QwenVl),
    Slowfast(slowfast::Kinetics),
    SlowfastSsv2(slowfast::Ssv2),
    TorchcodecRandomIndices(torchcodec::Indices<true>),
    TorchcodecRandomTimestamps(torchcodec::Timestamps),
    TorchcodecRegularIndices(torchcodec::Indices<false>),
    TorchcodecRegularTimestamps(torchcodec::Timestamps),
    Torchvision(torchvision::VideoClips),
    Tsn(tsn::TsnDataSet),
    Videomae(videomae::VideoClsDataset),
    VideomaePretrain(videomae::Pretrain),
    VideomaeSsv2(videomae::Ssv2),
    Vjepa2(vjepa2::VideoDataset),
    Vllm(vllm::VideoBackend),
}
