//! Where the frames of a clip are written: into a slot of a batch, or a buffer of the clip's own.

use std::sync::Arc;

use crate::batch::{BatchBuffer, BufferBuilder, ClipSlot, MemoryPool, OutputMut};
use crate::error::{Error, Result};
use crate::index::VideoIndex;
use crate::transforms::{ClipShape, InputFrame, TransformExecutor};
use crate::units::PresentationIndex;

/// Destination of the bytes of a clip.
pub trait ClipOutput {
    /// Returns the clip slot for this shape. Called once per frame, always with the same shape.
    fn target(&mut self, shape: &ClipShape) -> Result<OutputMut<'_>>;
    /// The shape, once it is known.
    fn shape(&self) -> Option<ClipShape>;
}

/// A clip buffer that is allocated when the first frame determines its size.
pub struct LazyClipOutput {
    pool: Arc<MemoryPool>,
    made: Option<(BufferBuilder, ClipSlot, ClipShape)>,
}

impl Default for LazyClipOutput {
    fn default() -> Self {
        Self::from_pool(MemoryPool::new(0))
    }
}

impl LazyClipOutput {
    /// Allocates from this pool.
    pub fn from_pool(pool: Arc<MemoryPool>) -> Self {
        Self { pool, made: None }
    }

    /// Returns the clip, if any frame was written.
    ///
    /// # Errors
    /// `Gpu` if the device has failed meanwhile.
    pub fn into_clip(self) -> Result<Option<(BatchBuffer, ClipShape)>> {
        let Some((builder, mut part, shape)) = self.made else {
            return Ok(None);
        };
        part.record_write()?;
        drop(part);
        Ok(Some((
            builder.freeze().ok().expect("its clip slot was dropped"),
            shape,
        )))
    }
}

impl ClipOutput for LazyClipOutput {
    fn target(&mut self, shape: &ClipShape) -> Result<OutputMut<'_>> {
        if self.made.is_none() {
            let too_large = || {
                Error::Argument(format!(
                    "a clip of {shape} does not fit into memory; request fewer frames or smaller ones"
                ))
            };
            let bytes = shape.bytes().ok_or_else(too_large)?;
            let builder =
                BatchBuffer::allocate(&self.pool, 1, bytes).map_err(|error| match error {
                    Error::Argument(_) => too_large(),
                    other => other,
                });
            let (builder, mut parts) = builder?;
            let part = parts.pop().expect("one clip has one clip slot");
            self.made = Some((builder, part, *shape));
        }
        let (_, part, _) = self.made.as_mut().expect("just made");
        part.target()
    }

    fn shape(&self) -> Option<ClipShape> {
        self.made.as_ref().map(|(.., shape)| *shape)
    }
}

/// Transforms a decoded picture and writes it as frame `t` of a clip with `frames` frames. `shape`
/// is that of the clip; its first frame sets it.
///
/// # Errors
/// Those of the transforms and of `output`, with the position of the frame.
pub(crate) fn write_frame(
    executor: &mut TransformExecutor,
    picture: &mut InputFrame<'_>,
    (index, frame): (&VideoIndex, PresentationIndex),
    (t, frames): (usize, usize),
    shape: &mut Option<ClipShape>,
    output: &mut dyn ClipOutput,
) -> Result<()> {
    let shape = match *shape {
        Some(shape) => shape,
        None => {
            let size = executor
                .size_of_frame(picture, index.info.display())
                .map_err(|e| e.into_clip_error(&index.site))?;
            *shape.insert(executor.shape(frames, size))
        }
    };
    // A clip of which only some frames have more than 8 bits cannot be cached in one format.
    if shape.dtype != executor.pipeline().dtype {
        return Err(Error::Argument("its frames differ in bit depth".into()));
    }
    let target = output.target(&shape)?;
    executor.apply(&index.site_of(frame), picture, index, &shape, target, t)
}
