//! Python functions that decode image files, and that apply transforms to images. They use the same
//! pixel pass as video frames. The Python package has converted a user's arrays to bytes.

use std::sync::Arc;

use framespool::batch::OutputMut;
use framespool::dataset::MediaLocation;
use framespool::error::Site;
use framespool::media::DisplayGeometry;
use framespool::rng::RngKey;
use framespool::source::MemorySource;
use framespool::transforms::{
    ClipShape, SampledParams, TransformExecutor, TransformPipeline, explain,
};
use framespool::video::{ClipOutput, LazyClipOutput, decode_image_batch};
use framespool::{Error, Result};
use framespool_kernels::{ColorRange, Colorimetry, FrameView, MatrixCoefficients, Plane, Planes};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::element_type::ElementType;
use crate::errors::{OrRaise, to_python};
use crate::file_object::FileObjectOpener;
use crate::interrupt::run_interruptible;
use crate::sources::{Source, SourceCache, VideoSource};
use crate::tensor::Tensor;
use crate::transforms::{Steps, pipeline};

/// The key of random numbers: seed, epoch, clip.
type RngKeyTuple = (u64, u64, u64);

fn rng_key((seed, epoch, clip): RngKeyTuple) -> RngKey {
    RngKey {
        seed,
        epoch,
        clip,
        occurrence: 0,
    }
}

/// Returns whether a file that begins with `head` is an image, rather than a video;
/// `image_signature_bytes` suffice.
#[pyfunction]
pub(crate) fn is_image(head: &[u8]) -> bool {
    framespool::image::sniff(head).is_some()
}

/// Transforms `uint8` images of shape (frames, height, width, channels). With `label_fill` they are
/// label maps.
#[pyfunction]
#[pyo3(signature = (pixels, shape, steps, owner, dtype, layout, label_fill))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn apply(
    py: Python<'_>,
    pixels: PyBuffer<u8>,
    shape: (usize, usize, usize, usize),
    steps: Steps,
    owner: RngKeyTuple,
    dtype: &str,
    layout: &str,
    label_fill: Option<u8>,
) -> PyResult<Tensor> {
    // Copies the array, because other threads may write to it while the GIL is released.
    let pixels = pixels.to_vec(py)?;
    let pipeline = pipeline(py, steps, dtype, layout)?;
    let pipeline = label_fill.map_or_else(|| pipeline.clone(), |fill| pipeline.for_labels(fill));
    let transformed = py.detach(|| apply_transforms(&pixels, shape, pipeline, rng_key(owner)));
    let (buffer, shape) = transformed.or_raise(py)?;
    Ok(Tensor::from_buffer(
        buffer,
        shape.dims().to_vec(),
        ElementType::from(shape.dtype),
    ))
}

fn apply_transforms(
    pixels: &[u8],
    (frames, height, width, channels): (usize, usize, usize, usize),
    pipeline: TransformPipeline,
    key: RngKey,
) -> Result<(framespool::batch::BatchBuffer, ClipShape)> {
    pipeline.check_frames(frames)?;
    let site = Site::file(&Arc::from("array"));
    let side = |length: usize| {
        u32::try_from(length)
            .map_err(|_| Error::Argument(format!("a side of {length} pixels is too long")))
    };
    let (width, height) = (side(width)?, side(height)?);
    let mut executor = TransformExecutor::new(pipeline);
    executor.begin(key, frames);
    // An array states no shape of its pixels: they are squares.
    let display = DisplayGeometry::default();
    let size = executor.size_of((width, height), display)?;
    let shape = executor.shape(frames, size);
    let mut output = LazyClipOutput::default();
    let stride_bytes = width as usize * channels;
    let picture_bytes = (stride_bytes * height as usize).max(1);
    for (t, data) in pixels.chunks_exact(picture_bytes).enumerate() {
        let plane = Plane { data, stride_bytes };
        let planes = match channels {
            1 => Planes::Gray(plane),
            _ => Planes::PackedRgb {
                plane,
                pixel_bytes: 3,
                offsets: [0, 1, 2],
            },
        };
        let color = Colorimetry {
            matrix: MatrixCoefficients::Rgb,
            range: ColorRange::Full,
        };
        let view = FrameView {
            width,
            height,
            depth_bits: 8,
            shift: 0,
            planes,
            color,
        };
        if let OutputMut::Host(clip) = output.target(&shape)? {
            executor.apply_to_view(&site, &view, display, &shape, clip, (t, t))?;
        }
    }
    output
        .into_clip()?
        .ok_or_else(|| Error::Argument("the array contains no images".into()))
}

/// Decodes image files to tensors of one frame each; an image that fails is an exception at its
/// index. The image at index `i` draws its random numbers as clip `i`.
#[pyfunction]
#[pyo3(signature = (sources, steps, dtype, layout, exact, seed, threads))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn decode_images<'py>(
    py: Python<'py>,
    sources: Vec<VideoSource>,
    steps: Steps,
    dtype: &str,
    layout: &str,
    exact: bool,
    seed: u64,
    threads: u32,
) -> PyResult<Bound<'py, PyList>> {
    let pipeline = pipeline(py, steps, dtype, layout)?;
    let pipeline = if exact { pipeline.exactly() } else { pipeline };
    let mut cache = SourceCache::default();
    let file = |(number, source)| match source {
        VideoSource::Object(object) => Ok(MediaLocation::External(Arc::new(
            FileObjectOpener::new(py, object),
        ))),
        VideoSource::Stored(source) => match source {
            Source::Path(path) => Ok(MediaLocation::Path(path)),
            Source::Member(member) => Ok(MediaLocation::ArchiveMember(cache.member(member))),
            Source::Cell(cell) => Ok(MediaLocation::External(cache.cell(cell))),
            Source::Bytes(bytes) => Ok(MediaLocation::Memory(MemorySource::new(
                format!("images[{number}]"),
                bytes,
            ))),
            Source::ImageSequence(_) => Err(Error::Argument(
                "an image sequence is not an image; use Video".into(),
            )),
        },
    };
    let files = sources
        .into_iter()
        .enumerate()
        .map(file)
        .collect::<Result<Vec<_>>>()
        .or_raise(py)?;
    let decoded = run_interruptible(py, || decode_image_batch(&files, &pipeline, seed, threads))?;
    let list = PyList::empty(py);
    for picture in decoded {
        match picture {
            Ok((buffer, shape)) => {
                let element = ElementType::from(shape.dtype);
                list.append(Py::new(
                    py,
                    Tensor::from_buffer(buffer, shape.dims().to_vec(), element),
                )?)?;
            }
            Err(error) => list.append(to_python(py, &error).into_value(py))?,
        }
    }
    Ok(list)
}

/// Returns the random parameters of the transforms for a frame (index, number of frames of its
/// clip) of this size.
#[pyfunction]
pub(crate) fn sample_transform_params<'py>(
    py: Python<'py>,
    size: (u32, u32),
    steps: Steps,
    owner: RngKeyTuple,
    frame: (u32, usize),
) -> PyResult<Bound<'py, PyList>> {
    // The random parameters depend neither on dtype nor on layout.
    let pipeline = pipeline(py, steps, "float32", "NTHWC")?;
    params_to_python(
        py,
        explain(
            &pipeline,
            size,
            DisplayGeometry::default(),
            rng_key(owner),
            frame,
        )
        .or_raise(py)?,
    )
}

/// Converts random parameters to a list of dicts: the name of the transform, and numbers by name;
/// `transforms` has those of a list inside it.
pub(crate) fn params_to_python(
    py: Python<'_>,
    all: Vec<SampledParams>,
) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for SampledParams {
        name,
        numbers,
        steps,
    } in all
    {
        let dict = PyDict::new(py);
        dict.set_item("name", name)?;
        for (name, values) in numbers {
            match &values[..] {
                // Lists of these names stay lists even with one element: they usually hold several.
                [value] if name != "order" && name != "holes" => dict.set_item(name, value)?,
                _ => dict.set_item(name, values)?,
            }
        }
        if let Some(steps) = steps {
            dict.set_item("transforms", params_to_python(py, steps)?)?;
        }
        list.append(dict)?;
    }
    Ok(list)
}
