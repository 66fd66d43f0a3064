//! A clip sampler that calls a Python function for the frame indices of a clip, holding the GIL
//! only for the call. It validates what the function returns, and keeps what it raises.

use std::sync::Arc;

use framespool::clip_sampler::{ClipIndices, ClipSampler, MAX_FRAMES, RandomSource, VideoTiming};
use framespool::{Error, Result};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::callback_guard::{CallGuard, record_exception, register_exit_hook};

/// A Python function. All clones share one Python reference, so that Python's garbage collector can
/// account for it.
#[derive(Clone, Debug)]
pub(crate) struct Callable(pub Arc<Py<PyAny>>);

/// A clip sampler whose frames a Python function chooses.
#[derive(Debug)]
pub(super) struct CallbackSampler {
    function: Callable,
    name: String,
    /// Python's `random.Random`. Importing it later might wait for an import that itself waits for
    /// a clip.
    random: Arc<Py<PyAny>>,
    clips_per_video: u32,
    sequence_length: Option<u32>,
}

/// Information about a clip and its video for a sampling function.
///
/// Example:
///     >>> import framespool as fsp
///     >>> def last_frames(info, rng):
///     ...     return range(info.num_frames - 4, info.num_frames)
///     >>> fsp.samplers.Custom(last_frames, sequence_length=4).indices(72).indices
///     [68, 69, 70, 71]
#[pyclass(module = "framespool._framespool", frozen)]
pub struct ClipInfo {
    timing: Box<dyn VideoTiming + Send + Sync>,
    clip: u64,
}

#[pymethods]
impl ClipInfo {
    #[getter]
    fn num_frames(&self) -> u32 {
        self.timing.num_frames()
    }

    #[getter]
    fn fps(&self) -> f64 {
        self.timing.average_fps()
    }

    #[getter]
    fn duration_seconds(&self) -> f64 {
        self.timing.duration_seconds()
    }

    #[getter]
    fn clip(&self) -> u64 {
        self.clip
    }

    #[getter]
    fn pts_seconds(&self) -> Vec<f64> {
        (0..self.timing.num_frames())
            .map(|frame| self.timing.pts_seconds(frame))
            .collect()
    }

    fn __repr__(&self) -> String {
        let (frames, fps) = (self.timing.num_frames(), self.timing.average_fps());
        let seconds = self.timing.duration_seconds();
        format!(
            "ClipInfo(num_frames={frames}, fps={fps}, duration_seconds={seconds}, clip={})",
            self.clip
        )
    }
}

impl CallbackSampler {
    /// Validates the numbers and creates the clip sampler.
    pub(super) fn new(
        function: Callable,
        clips_per_video: u32,
        sequence_length: Option<u32>,
    ) -> Result<Self> {
        for (name, value) in [
            ("clips_per_video", Some(clips_per_video)),
            ("sequence_length", sequence_length),
        ] {
            if value == Some(0) {
                return Err(Error::Argument(format!("{name} must be at least 1, got 0")));
            }
        }
        let prepare = |py: Python<'_>| -> PyResult<(String, Py<PyAny>)> {
            register_exit_hook(py)?;
            let name = function
                .0
                .bind(py)
                .getattr("__name__")
                .and_then(|name| name.extract::<String>());
            let name = name.or_else(|_| Ok::<_, PyErr>(function.0.bind(py).repr()?.to_string()))?;
            Ok((name, py.import("random")?.getattr("Random")?.unbind()))
        };
        let prepared = Python::try_attach(|py| prepare(py).map_err(|raised| raised.to_string()));
        match prepared {
            Some(Ok((name, random))) => Ok(Self {
                function,
                name,
                random: Arc::new(random),
                clips_per_video,
                sequence_length,
            }),
            Some(Err(raised)) => Err(Error::Argument(format!(
                "the sampling function failed: {raised}"
            ))),
            None => Err(interpreter_exiting()),
        }
    }

    fn callback_error(&self, what: &str) -> Error {
        Error::Argument(format!("the sampling function {} {what}", self.name))
    }

    fn call(&self, py: Python<'_>, info: ClipInfo, seed: u64) -> Result<ClipIndices> {
        let frames = info.num_frames();
        let chosen = || -> PyResult<Result<ClipIndices>> {
            let rng = self.random.bind(py).call1((seed,))?;
            let returned = self.function.0.bind(py).call1((info, rng))?;
            let Ok(entries) = returned.try_iter() else {
                let text = returned.repr()?;
                return Ok(Err(self.callback_error(&format!(
                    "must return frame indices, it returned {text}"
                ))));
            };
            let mut indices = Vec::new();
            for entry in entries {
                let entry = entry?;
                let Some(index) = entry
                    .extract::<i64>()
                    .ok()
                    .and_then(|at| u32::try_from(at).ok())
                else {
                    let text = entry.repr()?;
                    let what = format!(
                        "must return ints from 0 to {}, entry {} is {text}",
                        frames.saturating_sub(1),
                        indices.len()
                    );
                    return Ok(Err(self.callback_error(&what)));
                };
                indices.push(index);
                if indices.len() > MAX_FRAMES as usize {
                    return Ok(Err(self.callback_error(&format!(
                        "returned more than {MAX_FRAMES} frame indices"
                    ))));
                }
            }
            Ok(self.validate(indices, frames))
        };
        chosen().unwrap_or_else(|raised| {
            let what = format!("raised {}", format_exception(py, &raised));
            // KeyboardInterrupt, SystemExit and the like concern the program, so `on_error` does
            // not apply to them.
            if !raised.is_instance_of::<PyException>(py) {
                let reason = format!("the sampling function {} {what}", self.name);
                return Err(Error::Callback {
                    reason,
                    raised: Arc::new(raised),
                });
            }
            let error = self.callback_error(&what);
            record_exception(raised);
            Err(error)
        })
    }

    fn validate(&self, indices: Vec<u32>, frames: u32) -> Result<ClipIndices> {
        if let Some((at, index)) = indices
            .iter()
            .enumerate()
            .find(|&(_, &index)| index >= frames)
        {
            let last = frames.saturating_sub(1);
            return Err(self.callback_error(&format!(
                "returned frame {index} (entry {at}), but the video has {frames} frames, 0 to {last}"
            )));
        }
        let count = indices.len();
        match self.sequence_length {
            _ if count == 0 => {
                Err(self.callback_error("returned no frame index; a clip needs at least one"))
            }
            Some(length) if length as usize != count => Err(self.callback_error(&format!(
                "returned {count} frame indices, but sequence_length={length} was promised"
            ))),
            _ => Ok(ClipIndices::unpadded(indices)),
        }
    }
}

fn interpreter_exiting() -> Error {
    Error::Argument(
        "the Python interpreter is shutting down; no sampling function can be called".into(),
    )
}

/// Formats an exception as "ValueError: message (line 12 of train.py)".
fn format_exception(py: Python<'_>, raised: &PyErr) -> String {
    let place = || -> PyResult<String> {
        let mut traceback = raised.traceback(py).map(Bound::into_any);
        let mut place = String::new();
        while let Some(level) = traceback {
            let code = level.getattr("tb_frame")?.getattr("f_code")?;
            place = format!(
                " (line {} of {})",
                level.getattr("tb_lineno")?,
                code.getattr("co_filename")?
            );
            traceback = Some(level.getattr("tb_next")?).filter(|next| !next.is_none());
        }
        Ok(place)
    };
    format!("{raised}{}", place().unwrap_or_default())
}

impl ClipSampler for CallbackSampler {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        match video.num_frames() {
            0 => 0,
            _ => u64::from(self.clips_per_video),
        }
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(u64::from(self.clips_per_video))
    }

    fn sequence_length(&self) -> Option<u32> {
        self.sequence_length
    }

    /// Draws one number below 2^63, the seed of the function's `random.Random`.
    fn clip(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let clips = self.num_clips(video);
        if clip >= clips {
            return Err(Error::Argument(format!(
                "clip {clip} was requested, but a video of {} frames yields {clips} clips; request a clip below that",
                video.num_frames()
            )));
        }
        let seed = rng.next_below(1 << 63);
        let info = ClipInfo {
            timing: video.clone_box(),
            clip,
        };
        let Some(_guard) = CallGuard::get() else {
            return Err(interpreter_exiting());
        };
        Python::try_attach(|py| self.call(py, info, seed))
            .unwrap_or_else(|| Err(interpreter_exiting()))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
