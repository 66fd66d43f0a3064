//! In: one video and frame numbers.
//! Out: those frames, painted, in the order asked for, decoded in one pass per GOP.
//! Never: keeps frames.

mod colour;
mod decoder;
mod header;
mod many;
mod probe;
mod stream;

use std::collections::HashMap;
use std::sync::Arc;

use crate::batch::{Lent, Part, Pool, Slab, Target};
use crate::decode::{Counts, FrameDecoder, Step, StillPicture, StillReader, Times};
use crate::demux::read::PacketReader;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::index::{build_stream, VideoIndex};
use crate::limits::Limits;
use crate::media::CodecKind;
use crate::order::rng::Key;
use crate::pixels::{ClipShape, JpegReport, Painter, Picture as Decoded, Recipe};
use crate::plan::{self, Run};
use crate::source::ByteSource;
use crate::units::{DecodeIndex, DisplayIndex};

pub use decoder::{AnyDecoder, HardwareLane};
pub use many::decode_stills;
pub use probe::Probe;
pub use stream::{FrameStream, Picture};

/// An opened video: its bytes and its index.
#[derive(Clone)]
pub struct Video {
    source: Arc<dyn ByteSource>,
    index: Arc<VideoIndex>,
}

impl Video {
    /// Indexes the best video stream of a source; `watch` is called meanwhile and stops it by an error.
    pub fn open(source: Arc<dyn ByteSource>, watch: &dyn Fn() -> Result<()>) -> Result<Self> {
        Self::open_stream(source, None, watch)
    }

    /// The same for the stream with index `stream`, if one is asked for.
    pub fn open_stream(
        source: Arc<dyn ByteSource>,
        stream: Option<u32>,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Self> {
        let index = Arc::new(build_stream(&source, stream, &Limits::default(), watch)?);
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
    /// The clip's place for this shape; asked once per picture, always with the same shape.
    fn target(&mut self, shape: &ClipShape) -> Result<Target<'_>>;
    /// The shape, once it is known.
    fn shape(&self) -> Option<ClipShape>;
}

/// Memory that is made when the first picture shows how large it must be.
pub struct GrowingCanvas {
    pool: Arc<Pool>,
    made: Option<(Lent, Part, ClipShape)>,
}

impl Default for GrowingCanvas {
    fn default() -> Self {
        Self::of(Pool::new(0))
    }
}

impl GrowingCanvas {
    /// With memory from this pool.
    pub fn of(pool: Arc<Pool>) -> Self {
        Self { pool, made: None }
    }

    /// The clip, if anything was painted.
    ///
    /// # Errors
    /// `Gpu` where the device failed meanwhile.
    pub fn into_clip(self) -> Result<Option<(Slab, ClipShape)>> {
        let Some((lent, mut part, shape)) = self.made else { return Ok(None) };
        part.settle()?;
        drop(part);
        Ok(Some((lent.collect().ok().expect("its part was dropped"), shape)))
    }
}

impl Canvas for GrowingCanvas {
    fn target(&mut self, shape: &ClipShape) -> Result<Target<'_>> {
        if self.made.is_none() {
            let too_large = || {
                Error::Argument(format!(
                    "a clip of {shape} does not fit into memory; ask for fewer frames or smaller ones"
                ))
            };
            let bytes = shape.bytes().ok_or_else(too_large)?;
            let lent = Slab::lend(&self.pool, 1, bytes).map_err(|error| match error {
                Error::Argument(_) => too_large(),
                other => other,
            });
            let (lent, mut parts) = lent?;
            let part = parts.pop().expect("one clip has one part");
            self.made = Some((lent, part, *shape));
        }
        let (_, part, _) = self.made.as_mut().expect("just made");
        Ok(part.target())
    }

    fn shape(&self) -> Option<ClipShape> {
        self.made.as_ref().map(|(.., shape)| *shape)
    }
}

/// Blocks of device memory that a worker keeps: getting fresh ones makes the whole device wait.
const POOLED: usize = 4;

/// What one worker needs to make clips: a decoder and a painter, both reused.
pub struct Workbench {
    /// Its decoder on the CPU.
    decoder: FrameDecoder,
    /// What reads files that are pictures.
    still: StillReader,
    /// The GPU's decoder that is asked first.
    hardware: Option<AnyDecoder>,
    painter: Painter,
    /// Memory for what it makes.
    pool: Arc<Pool>,
    /// Bytes read from sources by finished clips.
    pub bytes_read: u64,
    /// Why the GPU's decoder left the last run that it left to the CPU.
    pub left_to_cpu: Option<Error>,
}

impl Workbench {
    /// For one recipe.
    pub fn new(recipe: Recipe) -> Self {
        Self::with_threads(recipe, 1)
    }

    /// For one recipe, with several threads for each clip.
    pub fn with_threads(recipe: Recipe, threads: u32) -> Self {
        Self::on(recipe, threads, None)
    }

    /// For one recipe, its results going to this GPU's memory where they are asked for there; decoded on the CPU.
    pub fn on(recipe: Recipe, threads: u32, gpu: Option<Arc<Gpu>>) -> Self {
        Self {
            decoder: FrameDecoder::with_threads(threads),
            still: StillReader::default(),
            hardware: None,
            pool: Pool::on(
                gpu.as_ref().map(|gpu| gpu.device().clone()),
                if gpu.is_some() { POOLED } else { 0 },
            ),
            painter: Painter::on(recipe, gpu),
            bytes_read: 0,
            left_to_cpu: None,
        }
    }

    /// The same, decoded by the GPU where it can.
    ///
    /// # Errors
    /// `Gpu` where the device has not what it takes.
    pub fn decoding_on(self, gpu: &Arc<Gpu>) -> Result<Self> {
        let lane = HardwareLane::new(gpu)?;
        Ok(Self { hardware: Some(AnyDecoder::Hardware(Box::new(lane))), ..self })
    }

    /// The same, JPEG files decoded by nvJPEG.
    pub fn by_nvjpeg(self) -> Self {
        Self { painter: self.painter.by_nvjpeg(), ..self }
    }

    /// What nvJPEG did since this was asked last.
    pub fn take_report(&mut self) -> JpegReport {
        self.painter.take_report()
    }

    /// The work of the CPU's decoders since it was asked last.
    pub fn take_work(&mut self) -> (Counts, Times) {
        let mut counts = std::mem::take(&mut self.decoder.counts);
        let mut times = std::mem::take(&mut self.decoder.times);
        counts += std::mem::take(&mut self.still.counts);
        times += std::mem::take(&mut self.still.times);
        (counts, times)
    }

    /// The work of the GPU's decoder since it was asked last.
    pub fn take_work_of_gpu(&mut self) -> (Counts, Times) {
        self.hardware.as_mut().map(AnyDecoder::take_work).unwrap_or_default()
    }

    /// A canvas in the memory where its results go.
    pub fn canvas(&self) -> GrowingCanvas {
        GrowingCanvas::of(self.pool.clone())
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
        let mut shape: Option<ClipShape> = None;
        for run in plan::runs(&index, frames) {
            self.run(reader, run, watch, &mut |painter, packet, picture| {
                let times = places.get(&packet).map_or(&[][..], Vec::as_slice);
                let shape = match shape {
                    Some(shape) => shape,
                    None => {
                        let size =
                            painter.size_of_picture(picture, turn).map_err(|e| e.of_video(&index.site))?;
                        *shape.insert(painter.shape(frames.len(), size))
                    }
                };
                for &t in times {
                    painter.paint(
                        &index.site_of(frames[t]),
                        picture,
                        turn,
                        &shape,
                        canvas.target(&shape)?,
                        t,
                    )?;
                }
                Ok(())
            })?;
        }
        self.bytes_read += reader.bytes_read() - before;
        Ok(())
    }

    /// Decodes one run, by the GPU as far as it can.
    fn run(
        &mut self,
        reader: &mut PacketReader,
        run: Run,
        watch: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(&mut Painter, DecodeIndex, &mut Decoded<'_>) -> Result<()>,
    ) -> Result<()> {
        let Self { decoder, still, hardware, painter, left_to_cpu, .. } = self;
        if reader.index().info.params.codec.kind == CodecKind::Still {
            still.begin(&reader.index().clone(), run);
            let mut taken =
                |packet, picture: StillPicture<'_>| each(painter, packet, &mut Decoded::Still(picture));
            while still.step(reader, watch, &mut taken)? == Step::More {}
            return Ok(());
        }
        let left = match hardware {
            Some(hardware) => {
                let mut taken = |packet, mut picture: Decoded<'_>| each(painter, packet, &mut picture);
                try_hardware(hardware, reader, run, watch, &mut taken, left_to_cpu)?
            }
            None => Some(run),
        };
        let Some(run) = left else { return Ok(()) };
        decoder.run(reader, &run, watch, |packet, frame| each(painter, packet, &mut Decoded::Host(frame)))
    }
}

/// Has the GPU's decoder do a run. Returns what of it is left to the CPU, if anything.
fn try_hardware(
    hardware: &mut AnyDecoder,
    reader: &mut PacketReader,
    run: Run,
    watch: &dyn Fn() -> Result<()>,
    each: &mut dyn FnMut(DecodeIndex, Decoded<'_>) -> Result<()>,
    reason: &mut Option<Error>,
) -> Result<Option<Run>> {
    let index = reader.index().clone();
    if let Err(error) = hardware.begin(&index, run.clone()) {
        return match error {
            Error::Unsupported { .. } | Error::Gpu { lost: false, .. } => {
                *reason = Some(error);
                Ok(Some(run))
            }
            other => Err(other),
        };
    }
    loop {
        match hardware.step(reader, watch, each) {
            Ok(Step::More) => {}
            Ok(Step::Done) => return Ok(None),
            Err(error) => {
                let left = hardware.left_to_cpu(&error);
                hardware.stop();
                let rest = match (left, &error) {
                    (Some(wanted), _) => Run::rest_of(&run, wanted, &index),
                    // What was painted may not be trusted either.
                    (None, Error::Decode { .. } | Error::Internal { .. }) => run,
                    (None, _) => return Err(error),
                };
                *reason = Some(error);
                return Ok(Some(rest));
            }
        }
    }
}
