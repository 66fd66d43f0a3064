//! In: transforms, dtype and layout as the Python package hands them down.
//! Out: the engine's recipe.
//! Never: interprets a user's own object; the Python package has checked them.

use framespool::pixels::{Dtype, Layout, Normalize, Recipe, Transform};
use framespool::Error;
use pyo3::prelude::*;

use crate::errors::to_python;

/// One transform: a name and its numbers.
pub type Step = (String, Vec<f64>);

/// The recipe for (name, numbers) pairs.
pub fn recipe(py: Python<'_>, steps: &[Step], dtype: &str, layout: &str) -> PyResult<Recipe> {
    build(steps, dtype, layout).map_err(|error| to_python(py, &error))
}

fn build(steps: &[Step], dtype: &str, layout: &str) -> framespool::Result<Recipe> {
    let dtype = match dtype {
        "uint8" => Dtype::U8,
        "float32" => Dtype::F32,
        other => {
            return Err(Error::Argument(format!("dtype must be \"uint8\" or \"float32\", got {other:?}")))
        }
    };
    let layout = match layout {
        "NTHWC" => Layout::Nthwc,
        "NTCHW" => Layout::Ntchw,
        "NCTHW" => Layout::Ncthw,
        other => {
            return Err(Error::Argument(format!(
                "layout must be \"NTHWC\", \"NTCHW\" or \"NCTHW\", got {other:?}"
            )))
        }
    };
    let transforms = steps.iter().map(transform).collect::<framespool::Result<_>>()?;
    Recipe::new(transforms, dtype, layout)
}

fn transform((name, numbers): &Step) -> framespool::Result<Transform> {
    let side = |n: f64| {
        if n.fract() == 0.0 && (1.0..=65_535.0).contains(&n) {
            return Ok(n as u32);
        }
        Err(Error::Argument(format!("{name}: a side must be a whole number from 1 to 65535, got {n}")))
    };
    Ok(match (name.as_str(), &numbers[..]) {
        ("Resize", &[shorter]) => Transform::ResizeShorter(side(shorter)?),
        ("Resize", &[height, width]) => Transform::Resize(side(height)?, side(width)?),
        ("CenterCrop", &[height, width]) => Transform::CenterCrop(side(height)?, side(width)?),
        ("Normalize", &[m0, m1, m2, s0, s1, s2]) => Transform::Normalize(Normalize {
            mean: [m0 as f32, m1 as f32, m2 as f32],
            std: [s0 as f32, s1 as f32, s2 as f32],
        }),
        _ => return Err(Error::Argument(format!("unknown transform {name} with {} numbers", numbers.len()))),
    })
}
