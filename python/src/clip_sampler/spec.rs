//! Reads a clip sampler that Python passes as data: its name, a dict of its arguments, and a
//! function for a custom one. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::Preset;
use framespool::clip_sampler::{
    ClipSamplerRef, Delta, Dense, ExplicitFrames, LongestFit, PadMode, PaddingPolicy, PerSample,
    Random, SegmentMode, Segments, Spacing, StartSampling, Uniform, Windows,
};
use framespool::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::callback_sampler::{Callable, CallbackSampler};
use crate::errors::OrRaise;

/// A clip sampler from Python: the tuple that `ClipSampler._spec()` returns.
#[derive(Clone, Debug)]
pub(crate) struct SamplerArg {
    pub sampler: ClipSamplerRef,
    pub function: Option<Callable>,
}

impl<'py> FromPyObject<'_, 'py> for SamplerArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        type Parts<'py> = (String, Bound<'py, PyDict>, Option<Py<PyAny>>);
        let (name, arguments, function): Parts<'py> = object.extract()?;
        let function = function.map(|function| Callable(Arc::new(function)));
        if name == "longest" {
            let samplers: Vec<Self> = arguments.as_any().get_item("clip_samplers")?.extract()?;
            let functions = samplers.iter().find_map(|each| each.function.clone());
            let samplers = samplers.into_iter().map(|each| each.sampler).collect();
            let longest = LongestFit::new(samplers).or_raise(object.py())?;
            return Ok(Self {
                sampler: Arc::new(longest),
                function: functions,
            });
        }
        if name == "per_sample" {
            let parts: Vec<(u32, Self)> = arguments.as_any().get_item("parts")?.extract()?;
            let parts = parts.into_iter().map(|(count, part)| (count, part.sampler));
            let sampler = PerSample::new(parts.collect()).or_raise(object.py())?;
            let sampler: ClipSamplerRef = Arc::new(sampler);
            return Ok(Self {
                sampler,
                function: None,
            });
        }
        let sampler = match name.strip_prefix("preset:") {
            Some(preset) => read::<Preset>(preset, &arguments).and_then(Preset::build),
            None => read::<SamplerSpec>(&name, &arguments)
                .and_then(|spec| spec.build(function.as_ref())),
        };
        Ok(Self {
            sampler: sampler.or_raise(object.py())?,
            function,
        })
    }
}

/// The clip samplers and their arguments, named as in Python.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SamplerSpec {
    Windows {
        sequence_length: u32,
        stride: Option<u32>,
        step: Option<u32>,
        padding: PadMode,
        fps: Option<f64>,
        duration_seconds: Option<f64>,
        step_seconds: Option<f64>,
    },
    Random {
        sequence_length: u32,
        stride: Option<u32>,
        clips_per_video: u32,
        padding: PaddingPolicy,
        fps: Option<f64>,
        duration_seconds: Option<f64>,
        group: StartSampling,
        frame_jitter: bool,
        speed: Option<(f64, f64)>,
        reverse: f64,
    },
    Uniform {
        sequence_length: u32,
        stride: Option<u32>,
        clips_per_video: u32,
        padding: PaddingPolicy,
        fps: Option<f64>,
        duration_seconds: Option<f64>,
    },
    Segments {
        num_segments: u32,
        frames_per_segment: u32,
        stride: u32,
        mode: SegmentMode,
        clips_per_video: u32,
        padding: PaddingPolicy,
    },
    Dense {
        sequence_length: u32,
        stride: u32,
        clips_per_video: u32,
        sample_range: u32,
        num_positions: Option<u32>,
        padding: PaddingPolicy,
    },
    Indices {
        frames: Vec<Vec<i64>>,
        padding: PaddingPolicy,
    },
    Seconds {
        times: Vec<Vec<f64>>,
        padding: PaddingPolicy,
    },
    Delta {
        deltas_seconds: Vec<f64>,
        tolerance_seconds: f64,
        step: u32,
    },
    Custom {
        clips_per_video: u32,
        sequence_length: Option<u32>,
    },
}

impl SamplerSpec {
    fn build(self, function: Option<&Callable>) -> Result<ClipSamplerRef> {
        Ok(match self {
            Self::Windows {
                sequence_length,
                stride,
                step,
                padding,
                fps,
                duration_seconds,
                step_seconds,
            } => Arc::new(
                match spacing(sequence_length, stride, fps, duration_seconds)? {
                    Spacing::Stride(stride) => {
                        Windows::new(sequence_length, stride, step, padding)?
                    }
                    Spacing::Fps(fps) => {
                        Windows::by_seconds(sequence_length, fps, step_seconds, padding)?
                    }
                },
            ),
            Self::Random {
                sequence_length,
                stride,
                clips_per_video,
                padding,
                fps,
                duration_seconds,
                group,
                frame_jitter,
                speed,
                reverse,
            } => {
                let spacing = spacing(sequence_length, stride, fps, duration_seconds)?;
                let random = Random::new(sequence_length, spacing, clips_per_video, padding)?;
                let random = random
                    .with_start_sampling(group)
                    .with_frame_jitter(frame_jitter);
                let random = random.with_reverse(reverse)?;
                Arc::new(match speed {
                    Some(speed) => random.with_speed(speed)?,
                    None => random,
                })
            }
            Self::Uniform {
                sequence_length,
                stride,
                clips_per_video,
                padding,
                fps,
                duration_seconds,
            } => {
                let spacing = spacing(sequence_length, stride, fps, duration_seconds)?;
                Arc::new(Uniform::new(
                    sequence_length,
                    spacing,
                    clips_per_video,
                    padding,
                )?)
            }
            Self::Segments {
                num_segments,
                frames_per_segment,
                stride,
                mode,
                clips_per_video,
                padding,
            } => {
                let snippet = (frames_per_segment, stride);
                Arc::new(Segments::new(
                    num_segments,
                    snippet,
                    mode,
                    clips_per_video,
                    padding,
                )?)
            }
            Self::Dense {
                sequence_length,
                stride,
                clips_per_video,
                sample_range,
                num_positions,
                padding,
            } => {
                let frames = (sequence_length, stride);
                Arc::new(Dense::new(
                    frames,
                    clips_per_video,
                    sample_range,
                    num_positions,
                    padding,
                )?)
            }
            Self::Indices { frames, padding } => Arc::new(ExplicitFrames::frames(frames, padding)?),
            Self::Seconds { times, padding } => Arc::new(ExplicitFrames::seconds(times, padding)?),
            Self::Delta {
                deltas_seconds,
                tolerance_seconds,
                step,
            } => Arc::new(Delta::new(deltas_seconds, tolerance_seconds, step)?),
            Self::Custom {
                clips_per_video,
                sequence_length,
            } => {
                let function = function
                    .cloned()
                    .ok_or_else(|| Error::Argument("fn must be a function".into()))?;
                Arc::new(CallbackSampler::new(
                    function,
                    clips_per_video,
                    sequence_length,
                )?)
            }
        })
    }
}

fn spacing(
    length: u32,
    stride: Option<u32>,
    fps: Option<f64>,
    duration_seconds: Option<f64>,
) -> Result<Spacing> {
    match (stride, fps, duration_seconds) {
        (Some(stride), ..) => Ok(Spacing::Stride(stride)),
        (None, Some(fps), _) => Ok(Spacing::Fps(fps)),
        (None, None, Some(seconds)) => Spacing::duration(length, seconds),
        (None, None, None) => Err(Error::Argument(
            "stride, fps or duration_seconds must be given".into(),
        )),
    }
}

/// Reads an enum: its variant, and the fields of that.
fn read<T: DeserializeOwned>(variant: &str, fields: &Bound<'_, PyDict>) -> Result<T> {
    let values = fields.iter().filter(|(_, value)| !value.is_none());
    // Not `str(name)`, in which Python runs pending signal handlers: it would lose what they raise.
    let entry = |(name, value): (Bound<'_, PyAny>, _)| match name.extract::<String>() {
        Ok(name) => Ok((name, to_json(&value))),
        Err(_) => Err(Error::Argument("arguments must have names".into())),
    };
    let values = values.map(entry).collect::<Result<_>>()?;
    let spec = Value::Object(
        [(variant.to_owned(), Value::Object(values))]
            .into_iter()
            .collect(),
    );
    serde_path_to_error::deserialize(spec).map_err(|error| {
        let mut got = PyString::new(fields.py(), variant).into_any();
        let mut name = None;
        for segment in error.path() {
            let inner = match segment {
                Segment::Map { key } => got_field(fields, name.insert(key.clone())),
                Segment::Seq { index } => got.get_item(index).ok(),
                _ => None,
            };
            got = inner.unwrap_or(got);
        }
        Error::Argument(describe(name.as_deref(), &error.inner().to_string(), &got))
    })
}

fn got_field<'py>(fields: &Bound<'py, PyDict>, name: &str) -> Option<Bound<'py, PyAny>> {
    fields.get_item(name).ok().flatten()
}

/// A value without a form in JSON, such as NaN, becomes one that no argument accepts.
fn to_json(value: &Bound<'_, PyAny>) -> Value {
    match pythonize::depythonize(value) {
        Ok(Value::Null) | Err(_) => Value::Object(serde_json::Map::new()),
        Ok(value) => value,
    }
}

/// The message for an error of serde: what the argument must be, and what it is.
fn describe(name: Option<&str>, error: &str, got: &Bound<'_, PyAny>) -> String {
    if let Some(field) = error
        .strip_prefix("missing field `")
        .and_then(|rest| rest.strip_suffix('`'))
    {
        return format!("{field} must be given, got None");
    }
    // A type of the engine says what its option must be. serde says it after this word.
    let wanted = match error
        .rsplit_once(", expected ")
        .map_or(error, |(_, wanted)| wanted)
    {
        "u32" => "an int from 0 to 4294967295",
        "i64" => "an int",
        "f64" => "a finite number",
        "a boolean" => "True or False",
        "a sequence" => "a list",
        other => other,
    };
    let got = match got.extract::<String>() {
        Ok(text) => format!("{text:?}"),
        Err(_) => got
            .repr()
            .map_or_else(|_| got.get_type().to_string(), |text| text.to_string()),
    };
    format!(
        "{} must be {}, got {got}",
        name.unwrap_or("the clip sampler"),
        wanted.replace('`', "\"")
    )
}
