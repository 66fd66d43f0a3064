//! Reads transforms, dtype and layout from the Python package. There are no defaults, and no checks
//! of values: the classes in `framespool/transforms/` have both.

use framespool::transforms::transform::Step;
use framespool::transforms::{DeinterlaceMethod, Dtype, Layout, TransformPipeline};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::batch_sampler::parse_choice;
use crate::errors::{OrRaise, read_spec};

/// A list of `framespool.transforms.Transform`, each read from what its method `_step` returns.
#[derive(Default)]
pub(crate) struct Steps(Vec<Step>);

impl<'py> FromPyObject<'_, 'py> for Steps {
    type Error = PyErr;

    fn extract(steps: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let read = |transform: PyResult<Bound<'py, PyAny>>| {
            read_spec(
                "a transform",
                transform?.call_method0("_step")?.as_borrowed().as_any(),
            )
        };
        steps
            .try_iter()?
            .map(read)
            .collect::<PyResult<_>>()
            .map(Self)
    }
}

/// What a loader makes of frames besides the transforms.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FrameSpec {
    dtype: String,
    layout: String,
    /// Whether HDR video is converted without a warning.
    ignores_hdr: bool,
    /// How interlaced video is deinterlaced.
    deinterlace: String,
    /// Whether image files are decoded completely, to the RGB that their decoder outputs.
    exact: bool,
    /// If given, images are label maps, and pixels outside of an image get this label.
    label_fill: Option<u8>,
}

impl FrameSpec {
    /// The pipeline for a list of transforms.
    pub(crate) fn pipeline(&self, py: Python<'_>, steps: Steps) -> PyResult<TransformPipeline> {
        let deinterlace = parse_deinterlace(&self.deinterlace).or_raise(py)?;
        let pipeline = pipeline(py, steps, &self.dtype, &self.layout)?;
        let pipeline = pipeline
            .ignoring_hdr(self.ignores_hdr)
            .deinterlacing(deinterlace);
        let pipeline = if self.exact {
            pipeline.exactly()
        } else {
            pipeline
        };
        Ok(match self.label_fill {
            None => pipeline,
            Some(fill) => pipeline.for_labels(fill),
        })
    }
}

/// How interlaced video is deinterlaced; `None` leaves both fields as they are.
pub(crate) fn parse_deinterlace(
    deinterlace: &str,
) -> framespool::Result<Option<DeinterlaceMethod>> {
    let choices = [
        ("weave", None),
        ("bob", Some(DeinterlaceMethod::Bob)),
        ("linear", Some(DeinterlaceMethod::Linear)),
    ];
    parse_choice("deinterlace", deinterlace, &choices)
}

/// Returns the pipeline for a list of transforms.
pub(crate) fn pipeline(
    py: Python<'_>,
    steps: Steps,
    dtype: &str,
    layout: &str,
) -> PyResult<TransformPipeline> {
    let build = || {
        let dtypes = [
            ("uint8", Dtype::U8),
            ("uint16", Dtype::U16),
            ("float16", Dtype::F16),
            ("bfloat16", Dtype::BF16),
            ("float32", Dtype::F32),
        ];
        let layouts = [
            ("NTHWC", Layout::Nthwc),
            ("NTCHW", Layout::Ntchw),
            ("NCTHW", Layout::Ncthw),
        ];
        let dtype = parse_choice("dtype", dtype, &dtypes)?;
        TransformPipeline::new(steps.0, dtype, parse_choice("layout", layout, &layouts)?)
    };
    build().or_raise(py)
}
