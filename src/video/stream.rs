//! In: a video. Out: all its frames, one after another in presentation order, each decoded once.
//! A thread of its own decodes ahead, a few frames at most.
//! Never: delivers a frame out of order, or one from behind damage.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{bounded, Receiver, RecvTimeoutError, Sender};

use super::{Canvas, GrowingCanvas, Video, Workbench};
use crate::batch::Slab;
use crate::error::{Error, Result};
use crate::pixels::ClipShape;
use crate::plan;
use crate::source::calling;
use crate::units::DisplayIndex;

/// Frames that are decoded ahead of the consumer.
const AHEAD: usize = 4;

/// A frame: a clip of one picture.
pub type Picture = (Slab, ClipShape);

/// All frames of a video, in order.
pub struct FrameStream {
    frames: Option<Receiver<Result<Picture>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    made_in: u32,
}

impl FrameStream {
    /// Starts decoding at this workbench.
    pub fn start(video: &Video, bench: Workbench) -> Result<Self> {
        let (sender, frames) = bounded(AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let (video, stopped) = (video.clone(), stop.clone());
        let thread = Builder::new()
            .name("video-stream".into())
            .spawn(move || {
                let watched = stopped.clone();
                let _calling = calling(move || go_on(&watched), None);
                produce(&video, bench, &sender, &stopped);
            })
            .map_err(|e| {
                Error::Argument(format!("no thread can be started: {e}; raise the process limit"))
            })?;
        Ok(Self { frames: Some(frames), stop, thread: Some(thread), made_in: std::process::id() })
    }

    /// The next frame; `None` at the end, and after an error. `watch` is called while waiting.
    pub fn next(&mut self, watch: &dyn Fn() -> Result<()>) -> Result<Option<Picture>> {
        let used_in = std::process::id();
        if used_in != self.made_in {
            return Err(Error::Forked { what: "iterator over a Video", made_in: self.made_in, used_in });
        }
        let Some(frames) = &self.frames else { return Ok(None) };
        loop {
            match frames.recv_timeout(Duration::from_millis(50)) {
                Ok(frame) => return frame.map(Some),
                Err(RecvTimeoutError::Timeout) => watch()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

impl Drop for FrameStream {
    fn drop(&mut self) {
        if std::process::id() != self.made_in {
            // A fork's child has neither the thread nor whoever may have held the channel's lock.
            std::mem::forget((self.frames.take(), self.thread.take()));
            return;
        }
        self.stop.store(true, Ordering::Relaxed);
        self.frames = None; // a thread that waits to hand over a frame wakes up
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn go_on(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(())
}

fn produce(video: &Video, mut bench: Workbench, out: &Sender<Result<Picture>>, stop: &AtomicBool) {
    let index = video.index();
    let all: Vec<DisplayIndex> = (0..index.num_frames()).map(DisplayIndex).collect();
    let mut place = vec![u32::MAX; index.packets.len()];
    for frame in &all {
        place[index.frames[frame.at()].packet.at()] = frame.0;
    }
    let watch = || go_on(stop);
    let turn = index.info.turn;
    let mut reader = video.reader();
    let pool = bench.pool.clone();
    let mut early: BTreeMap<u32, Picture> = BTreeMap::new();
    let mut next = 0;
    for run in plan::runs(index, &all) {
        let done = bench.run(&mut reader, run, &watch, &mut |painter, packet, picture| {
            let number = place[packet.at()];
            if number < next {
                // It was handed over already: the GPU gave the run up, and the CPU does it from its begin.
                return Ok(());
            }
            let size = painter.size_of_picture(picture, turn).map_err(|e| e.of_video(&index.site))?;
            let shape = painter.shape(1, size);
            let mut canvas = GrowingCanvas::of(pool.clone());
            let site = index.site_of(DisplayIndex(number));
            painter.paint(&site, picture, turn, &shape, canvas.target(&shape)?, 0)?;
            early.extend(canvas.into_clip()?.map(|picture| (number, picture)));
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
