//! In: pictures from anywhere, as bytes with a shape, and transforms.
//! Out: the pictures transformed, by the same pass as frames of videos; and what would be drawn for them.
//! Never: looks at a user's array; the Python package has made bytes of it.

use std::sync::Arc;

use framespool::batch::Target;
use framespool::error::Site;
use framespool::media::Turn;
use framespool::order::rng::Key;
use framespool::pixels::{explain, ClipShape, Drawn, Painter, Recipe};
use framespool::source::{MemorySource, Place};
use framespool::video::{decode_stills, Canvas, GrowingCanvas};
use framespool::{Error, Result};
use framespool_kernels::{Colour, FrameView, Matrix, Plane, Planes, Range};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{to_python, OrRaise};
use crate::recipe::{recipe, Step};
use crate::tensor::{Element, Tensor};
use crate::video::{called, raise_own, watch, Archives, Source};

/// Whom random numbers belong to: seed, epoch, clip.
type Owner = (u64, u64, u64);

fn key((seed, epoch, clip): Owner) -> Key {
    Key { seed, epoch, clip, visit: 0 }
}

/// Pictures of (frames, height, width, channels) `uint8`, transformed. With `label_fill` they are maps of labels.
#[pyfunction]
#[pyo3(signature = (pixels, shape, steps, owner, dtype, layout, label_fill))]
#[allow(clippy::too_many_arguments)]
pub fn apply(
    py: Python<'_>,
    pixels: PyBuffer<u8>,
    shape: (usize, usize, usize, usize),
    steps: Vec<Step>,
    owner: Owner,
    dtype: &str,
    layout: &str,
    label_fill: Option<u8>,
) -> PyResult<Tensor> {
    // A copy, since others may write to the array while the GIL is not held.
    let pixels = pixels.to_vec(py)?;
    let recipe = recipe(py, &steps, dtype, layout)?;
    let recipe = label_fill.map_or_else(|| recipe.clone(), |fill| recipe.for_labels(fill));
    let painted = py.detach(|| paint(&pixels, shape, recipe, key(owner)));
    let (slab, shape) = painted.or_raise(py)?;
    Ok(Tensor::of(slab, shape.dims().to_vec(), Element::from(shape.dtype)))
}

fn paint(
    pixels: &[u8],
    (frames, height, width, channels): (usize, usize, usize, usize),
    recipe: Recipe,
    key: Key,
) -> Result<(framespool::batch::Slab, ClipShape)> {
    recipe.check_frames(frames)?;
    let site = Site::file(&Arc::from("array"));
    let side = |length: usize| {
        u32::try_from(length).map_err(|_| Error::Argument(format!("a side of {length} pixels is too long")))
    };
    let (width, height) = (side(width)?, side(height)?);
    let mut painter = Painter::new(recipe);
    painter.begin(key);
    let turn = Turn::default();
    let size = painter.size_of((width, height), turn)?;
    let shape = painter.shape(frames, size);
    let mut canvas = GrowingCanvas::default();
    let stride_bytes = width as usize * channels;
    let picture_bytes = (stride_bytes * height as usize).max(1);
    for (t, data) in pixels.chunks_exact(picture_bytes).enumerate() {
        let plane = Plane { data, stride_bytes };
        let planes = match channels {
            1 => Planes::Gray(plane),
            _ => Planes::PackedRgb { plane, pixel_bytes: 3, offsets: [0, 1, 2] },
        };
        let colour = Colour { matrix: Matrix::Rgb, range: Range::Full };
        let view = FrameView { width, height, depth_bits: 8, shift: 0, planes, colour };
        if let Target::Host(clip) = canvas.target(&shape)? {
            painter.paint_view(&site, &view, turn, &shape, clip, (t, t))?;
        }
    }
    canvas.into_clip()?.ok_or_else(|| Error::Argument("the array holds no pictures".into()))
}

/// Pictures' files as tensors of one frame, or the exceptions in their places. Picture *i* draws as clip *i*.
#[pyfunction]
#[pyo3(signature = (sources, steps, dtype, layout, exact, seed, threads))]
#[allow(clippy::too_many_arguments)]
pub fn decode_images<'py>(
    py: Python<'py>,
    sources: Vec<Source>,
    steps: Vec<Step>,
    dtype: &str,
    layout: &str,
    exact: bool,
    seed: u64,
    threads: u32,
) -> PyResult<Bound<'py, PyList>> {
    let recipe = recipe(py, &steps, dtype, layout)?;
    let recipe = if exact { recipe.exactly() } else { recipe };
    let mut archives = Archives::default();
    let file = |(number, source)| match source {
        Source::Path(path) => Ok(Place::Path(path)),
        Source::Member(member) => Ok(Place::Member(archives.member(member))),
        Source::Cell(cell) => Ok(Place::Opened(archives.cell(cell))),
        Source::Bytes(bytes) => Ok(Place::Memory(MemorySource::new(format!("images[{number}]"), bytes))),
        Source::Frames(_) => Err(Error::Argument("a folder of frames is no picture; use Video".into())),
    };
    let files = sources.into_iter().enumerate().map(file).collect::<Result<Vec<_>>>().or_raise(py)?;
    let decoded =
        raise_own(py, py.detach(called(|| decode_stills(&files, &recipe, seed, threads, &watch()))))?;
    let list = PyList::empty(py);
    for picture in decoded {
        match picture {
            Ok((slab, shape)) => {
                let element = Element::from(shape.dtype);
                list.append(Py::new(py, Tensor::of(slab, shape.dims().to_vec(), element))?)?;
            }
            Err(error) => list.append(to_python(py, &error).into_value(py))?,
        }
    }
    Ok(list)
}

/// What the transforms draw for frame `t` of a clip, for pictures of this size.
#[pyfunction]
pub fn explain_transforms<'py>(
    py: Python<'py>,
    size: (u32, u32),
    steps: Vec<Step>,
    owner: Owner,
    t: u32,
) -> PyResult<Bound<'py, PyList>> {
    // What is drawn depends neither on dtype nor on layout.
    let recipe = recipe(py, &steps, "float32", "NTHWC")?;
    drawn(py, explain(&recipe, size, Turn::default(), key(owner), t).or_raise(py)?)
}

/// Draws as a list of dicts: the transform's name, and numbers by name.
pub fn drawn(py: Python<'_>, all: Vec<Drawn>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for (name, numbers) in all {
        let dict = PyDict::new(py);
        dict.set_item("name", name)?;
        for (name, values) in numbers {
            match &values[..] {
                // Lists stay lists, also of one: these names always hold several.
                [value] if name != "order" && name != "holes" => dict.set_item(name, value)?,
                _ => dict.set_item(name, values)?,
            }
        }
        list.append(dict)?;
    }
    Ok(list)
}
