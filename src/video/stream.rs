//! Delivers all frames of a video in presentation order, and decodes each once.
//! A background thread decodes at most a few frames ahead.
//! No frame is delivered out of order, or from after damage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::{ClipDecoder, LazyClipOutput, Video, write_frame};
use crate::batch::BatchBuffer;
use crate::decode::plan;
use crate::error::{Error, Result, Site};
use crate::source::{check_interrupt, stop_scope};
use crate::transforms::ClipShape;
use crate::units::PresentationIndex;

/// Number of frames that are decoded ahead of the consumer.
const MAX_FRAMES_AHEAD: usize = 4;

/// A frame: a clip with a single frame.
pub type DecodedFrame = (BatchBuffer, ClipShape);

/// All frames of a video, in order.
pub struct FrameStream {
    frames: Option<Receiver<Result<DecodedFrame>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    site: Site,
    owner_pid: u32,
}

impl FrameStream {
    /// Starts decoding with `clip_decoder`.
    pub fn start(video: &Video, clip_decoder: ClipDecoder) -> Result<Self> {
        let (sender, frames) = bounded(MAX_FRAMES_AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let (video, stopped) = (video.clone(), stop.clone());
        let site = video.index().site.clone();
        let thread = Builder::new()
            .name("video-stream".into())
            .spawn(move || {
                let _scope = stop_scope(&stopped, None);
                produce(&video, clip_decoder, &sender);
            })
            .map_err(|e| {
                Error::Argument(format!(
                    "no thread can be started: {e}; raise the process limit"
                ))
            })?;
        Ok(Self {
            frames: Some(frames),
            stop,
            thread: Some(thread),
            site,
            owner_pid: std::process::id(),
        })
    }
}

/// The frames; the last item is the error that ends them, if any. The caller of this thread can
/// interrupt the wait for a frame.
impl Iterator for FrameStream {
    type Item = Result<DecodedFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        let current_pid = std::process::id();
        if current_pid != self.owner_pid {
            return Some(Err(Error::Forked {
                what: "iterator over a Video",
                owner_pid: self.owner_pid,
                current_pid,
            }));
        }
        let frames = self.frames.as_ref()?;
        loop {
            match frames.recv_timeout(Duration::from_millis(50)) {
                Ok(frame) => return Some(frame),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(interrupted) = check_interrupt() {
                        return Some(Err(interrupted));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let panic = self.thread.take()?.join().err()?;
                    return Some(Err(Error::of_panic(self.site.clone(), &*panic)));
                }
            }
        }
    }
}

impl Drop for FrameStream {
    fn drop(&mut self) {
        if std::process::id() != self.owner_pid {
            // A forked child has neither the decoding thread nor the thread that may have held the
            // channel's lock.
            std::mem::forget((self.frames.take(), self.thread.take()));
            return;
        }
        self.stop.store(true, Ordering::Relaxed);
        self.frames = None; // wakes a thread that is blocked on sending a frame
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn produce(video: &Video, mut clip_decoder: ClipDecoder, out: &Sender<Result<DecodedFrame>>) {
    let index = video.index();
    let all: Vec<PresentationIndex> = (0..index.num_frames()).map(PresentationIndex).collect();
    let mut place = vec![u32::MAX; index.packets.len()];
    for frame in &all {
        place[index.frames[frame.as_usize()].packet.as_usize()] = frame.0;
    }
    let mut reader = video.reader();
    let pool = clip_decoder.pool.clone();
    let mut early: BTreeMap<u32, DecodedFrame> = BTreeMap::new();
    let mut next = 0;
    for range in plan::plan_decode_ranges(index, &all) {
        let done = clip_decoder.run(&mut reader, range, &mut |executor, packet, picture| {
            let number = place[packet.as_usize()];
            if number < next {
                // Delivered already: the GPU decoder abandoned the range, and the CPU decodes
                // it from its start.
                return Ok(());
            }
            let mut output = LazyClipOutput::from_pool(pool.clone());
            let source = (&**index, PresentationIndex(number));
            write_frame(executor, picture, source, (0, 1), &mut None, &mut output)?;
            early.extend(output.into_clip()?.map(|picture| (number, picture)));
            while let Some(picture) = early.remove(&next) {
                next += 1;
                out.send(Ok(picture)).map_err(|_| Error::Interrupted)?;
            }
            Ok(())
        });
        if let Err(error) = done {
            if !matches!(error, Error::Interrupted) {
                let _ = out.send(Err(error));
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_thread_is_an_error_and_not_the_end_of_the_video() {
        let (sender, frames) = bounded(1);
        let decode = move || {
            let _sender: Sender<Result<DecodedFrame>> = sender;
            panic!("of a decoder");
        };
        let mut stream = FrameStream {
            frames: Some(frames),
            stop: Arc::default(),
            thread: Some(Builder::new().spawn(decode).unwrap()),
            site: Site::file(&"a.mp4".into()),
            owner_pid: std::process::id(),
        };
        let Some(Err(error @ Error::Internal { .. })) = stream.next() else {
            panic!("no error");
        };
        assert!(error.to_string().contains("of a decoder"), "{error}");
        assert!(stream.next().is_none());
    }
}
