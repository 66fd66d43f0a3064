//! Small damaged videos, indexed and decoded completely: frames must not depend on how they are
//! requested, or an error results. The pixels of damaged frames are not checked.

use framespool::rng::RngKey;
use framespool::transforms::transform::{Size, Target as Aim, Transform};
use framespool::transforms::{Dtype, Filter, Layout, TransformPipeline};
use framespool::units::PresentationIndex;
use framespool::video::{ClipDecoder, LazyClipOutput, Video};

use super::index::indexed;
use super::{MIB, Target, USUAL, check_error};

pub const DECODE: Target = Target {
    name: "decode",
    about: "complete videos, indexed and decoded",
    seeds: |seeds| seeds.videos(60_000, 40),
    run,
    longest: 60_000,
    memory_bytes: 256 * MIB,
    resident_bytes: Some(1536 * MIB),
    seconds: 60,
    replayed: 40,
    ..USUAL
};

const KEY: RngKey = RngKey {
    seed: 0,
    epoch: 0,
    clip: 0,
    occurrence: 0,
};
/// Maximum number of frames that are requested.
const MAX_FRAMES: u32 = 12;

fn run(input: &[u8]) {
    let Some((source, index)) = indexed(input) else {
        return;
    };
    let video = Video::with_index(source, index.clone());
    let step = index.num_frames().div_ceil(MAX_FRAMES);
    let frames: Vec<PresentationIndex> = (0..index.num_frames())
        .step_by(step as usize)
        .map(PresentationIndex)
        .collect();
    let first = made(&video, &frames);
    assert_eq!(
        first,
        made(&video, &frames),
        "different frames the second time"
    );
    // The last one alone may differ: if damage makes another valid stream, it depends on what was
    // decoded before.
    let last = [frames[frames.len() - 1]];
    if let (Some(first), Some(alone)) = (first, made(&video, &last)) {
        assert_eq!(first.len(), alone.len() * frames.len());
    }
}

/// The bytes of some frames; `None` for an error.
fn made(video: &Video, frames: &[PresentationIndex]) -> Option<Vec<u8>> {
    let aim = Aim::Exact(Size {
        height: 16,
        width: 16,
    });
    let resize = Transform::Resize {
        target: aim,
        filter: Filter::Triangle,
        display_aspect: false,
    };
    let pipeline =
        TransformPipeline::new(vec![resize], Dtype::U8, Layout::Nthwc).expect("a simple pipeline");
    let mut output = LazyClipOutput::default();
    let mut bench = ClipDecoder::new(pipeline);
    check_error(bench.decode_clip(&mut video.reader(), frames, KEY, &mut output)).ok()?;
    let (buffer, shape) = output
        .into_clip()
        .expect("no GPU is used")
        .expect("the clip was written");
    assert_eq!(shape.frames, frames.len());
    Some(buffer.bytes().expect("memory of the host")[..shape.bytes().expect("small")].to_vec())
}
