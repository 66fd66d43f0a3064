//! In: one video and frame numbers.
//! Out: those frames, painted, in the order asked for, decoded in one pass per GOP.
//! Never: keeps frames.

mod stream;

use std::collections::HashMap;
use std::sync::Arc;

use crate::decode::FrameDecoder;
use crate::demux::read::PacketReader;
use crate::error::{Error, Result};
use crate::index::{build, VideoIndex};
use crate::limits::Limits;
use crate::order::rng::Key;
use crate::pixels::{ClipShape, Painter, Recipe};
use crate::plan;
use crate::source::ByteSource;
use crate::units::{DecodeIndex, DisplayIndex};

pub use stream::{FrameStream, Picture};

/// An opened video: its bytes and its index.
#[derive(Clone)]
pub struct Video {
    source: Arc<dyn ByteSource>,
    index: Arc<VideoIndex>,
}

impl Video {
    /// Indexes a source; `watch` is called meanwhile and stops it by an error.
    pub fn open(source: Arc<dyn ByteSource>, watch: &dyn Fn() -> Result<()>) -> Result<Self> {
        let index = Arc::new(build(&source, &Limits::default(), watch)?);
        Ok(Self { source, index })
    }

    /// With an index that was built before, of this very source.
    pub fn with_index(source: Arc<dyn ByteSource>, index: Arc<VideoIndex>) -> Self {
        Self { source, index }
    }

    /// Its index.
    pub fn index(&self) -> &Arc<VideoIndex> {
        &self.index
    }

    /// A packet reader of its own.
    pub fn reader(&self) -> PacketReader {
        PacketReader::new(self.source.clone(), self.index.clone())
    }
}

/// Where a clip's bytes go.
pub trait Canvas {
    /// The clip's bytes for this shape; asked once per picture, always with the same shape.
    fn bytes(&mut self, shape: &ClipShape) -> Result<&mut [u8]>;
    /// The shape, once it is known.
    fn shape(&self) -> Option<ClipShape>;
}

/// Memory that is made when the first picture shows how large it must be.
#[derive(Default)]
pub struct GrowingCanvas {
    made: Option<(crate::batch::Slab, ClipShape)>,
}

impl GrowingCanvas {
    /// The clip, if anything was painted.
    pub fn into_clip(self) -> Option<(crate::batch::Slab, ClipShape)> {
        self.made
    }
}

impl Canvas for GrowingCanvas {
    fn bytes(&mut self, shape: &ClipShape) -> Result<&mut [u8]> {
        if self.made.is_none() {
            let too_large = || {
                Error::Argument(format!(
                    "a clip of {} frames of {}x{} does not fit into memory",
                    shape.frames, shape.width, shape.height
                ))
            };
            let bytes = shape.bytes().ok_or_else(too_large)?;
            let (lent, parts) =
                crate::batch::Slab::lend(&crate::batch::Pool::new(0), 1, bytes).ok_or_else(too_large)?;
            drop(parts);
            let slab = lent.collect().ok().expect("its parts were dropped");
            self.made = Some((slab, *shape));
        }
        let (slab, _) = self.made.as_mut().expect("just made");
        Ok(slab.bytes_mut())
    }

    fn shape(&self) -> Option<ClipShape> {
        self.made.as_ref().map(|(_, shape)| *shape)
    }
}

/// What one worker needs to make clips: a decoder and a painter, both reused.
pub struct Workbench {
    /// Its decoder.
    pub decoder: FrameDecoder,
    painter: Painter,
    /// Bytes read from sources by finished clips.
    pub bytes_read: u64,
}

impl Workbench {
    /// For one recipe.
    pub fn new(recipe: Recipe) -> Self {
        Self { decoder: FrameDecoder::new(), painter: Painter::new(recipe), bytes_read: 0 }
    }

    /// For one recipe, with several threads for each clip.
    pub fn with_threads(recipe: Recipe, threads: u32) -> Self {
        Self { decoder: FrameDecoder::with_threads(threads), ..Self::new(recipe) }
    }

    /// What it makes.
    pub fn recipe(&self) -> &Recipe {
        self.painter.recipe()
    }

    /// Decodes `frames` (any order, repeats allowed) and paints them as pictures 0, 1, … of a clip; random numbers are
    /// those of `key`.
    pub fn make(
        &mut self,
        reader: &mut PacketReader,
        frames: &[DisplayIndex],
        key: Key,
        canvas: &mut dyn Canvas,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        self.recipe().check_frames(frames.len())?;
        self.painter.begin(key);
        let index = reader.index().clone();
        let mut places: HashMap<DecodeIndex, Vec<usize>> = HashMap::with_capacity(frames.len());
        for (t, frame) in frames.iter().enumerate() {
            places.entry(index.frames[frame.at()].packet).or_default().push(t);
        }
        let before = reader.bytes_read();
        let turn = index.info.turn;
        let painter = &mut self.painter;
        let mut shape: Option<ClipShape> = None;
        for run in plan::runs(&index, frames) {
            self.decoder.run(reader, &run, watch, |packet, frame| {
                let times = places.get(&packet).map_or(&[][..], Vec::as_slice);
                let shape = match shape {
                    Some(shape) => shape,
                    None => {
                        let size = painter.output_size(frame, turn).map_err(|e| e.of_video(&index.site))?;
                        *shape.insert(painter.shape(frames.len(), size))
                    }
                };
                for &t in times {
                    painter.paint(
                        &index.site_of(frames[t]),
                        frame,
                        turn,
                        &shape,
                        canvas.bytes(&shape)?,
                        t,
                    )?;
                }
                Ok(())
            })?;
        }
        self.bytes_read += reader.bytes_read() - before;
        Ok(())
    }
}
