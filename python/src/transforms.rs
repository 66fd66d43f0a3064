//! Reads transforms, dtype and layout from the Python package.
//! There are no defaults, and no checks of values: the classes in `framespool/transforms/` have both.

use std::sync::Arc;

use framespool::error::Site;
use framespool::transforms::transform::Step;
use framespool::transforms::{Dtype, Layout, TransformPipeline};
use framespool::Error;
use pyo3::prelude::*;
use pythonize::depythonize;

use crate::batch_sampler::parse_choice;
use crate::errors::{to_python, OrRaise};

/// A list of `framespool.transforms.Transform`, each read from what its method `_step` returns.
#[derive(Default)]
pub struct Steps(Vec<Step>);

impl<'py> FromPyObject<'_, 'py> for Steps {
    type Error = PyErr;

    fn extract(steps: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let read = |transform: PyResult<Bound<'py, PyAny>>| {
            depythonize(&transform?.call_method0("_step")?).map_err(|error| {
                // The Python package and the engine disagree, which is never a user's mistake.
                let site = Site::file(&Arc::from("transforms"));
                to_python(steps.py(), &Error::Internal { site, reason: error.to_string() })
            })
        };
        steps.try_iter()?.map(read).collect::<PyResult<_>>().map(Self)
    }
}

/// Returns the pipeline for a list of transforms.
pub fn pipeline(py: Python<'_>, steps: Steps, dtype: &str, layout: &str) -> PyResult<TransformPipeline> {
    let build = || {
        let dtypes = [
            ("uint8", Dtype::U8),
            ("uint16", Dtype::U16),
            ("float16", Dtype::F16),
            ("bfloat16", Dtype::BF16),
            ("float32", Dtype::F32),
        ];
        let layouts = [("NTHWC", Layout::Nthwc), ("NTCHW", Layout::Ntchw), ("NCTHW", Layout::Ncthw)];
        let dtype = parse_choice("dtype", dtype, &dtypes)?;
        TransformPipeline::new(steps.0, dtype, parse_choice("layout", layout, &layouts)?)
    };
    build().or_raise(py)
}
