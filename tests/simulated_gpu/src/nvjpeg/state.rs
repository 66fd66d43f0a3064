//! In: pictures to decode with a state.
//! Out: operations that write planes: in the caller's stream, or, by the hardware, beside it.
//! Never: lets a state be used, or end, while its last picture may still be under way, without saying so.

use super::picture::{decode, Header};
use super::{
    translated, Image, Instance, EXECUTION_FAILED, HARDWARE, INVALID_PARAMETER, JPEG_NOT_SUPPORTED, Y,
};
use crate::ledger::{mood, refuse, violation, Code};
use crate::world::race::{Access, StreamId, Touch};
use crate::world::streams::{Stream, Work};
use crate::world::world;

/// What a state takes of the device, roughly.
const BYTES: u64 = 1 << 20;

pub struct State {
    pub instance: usize,
    device: usize,
    batch_format: Option<i32>,
    /// Where the hardware works: a stream that nobody else sees.
    hidden: StreamId,
    /// The last picture: its operation, and the stream that it was asked for in.
    last: Option<(StreamId, u64, StreamId)>,
}

impl State {
    pub fn new(instance: usize, of: Instance) -> Result<State, Code> {
        let mut world = world();
        world.memory.reserve(BYTES).map_err(translated)?;
        let hidden = world.handle() as StreamId;
        Ok(State { instance, device: of.device, batch_format: None, hidden, last: None })
    }

    /// The end of it.
    pub fn end(&mut self) {
        if self.under_way(None) {
            violation(
                "nvjpegJpegStateDestroy while its last picture may be under way: wait on the host first"
                    .into(),
            );
        }
        let mut world = world();
        let _ = world.synchronize_device(self.device);
        world.streams.remove(&self.hidden);
        world.memory.release(BYTES);
    }

    /// Whether the host does not know that the last picture is over, and nothing else puts `next` behind it.
    fn under_way(&self, next: Option<StreamId>) -> bool {
        let Some((stream, place, asked_in)) = self.last else { return false };
        // In one stream, pictures of the software backends follow each other.
        let follows = next == Some(asked_in) && stream == asked_in;
        !follows && !world().host.covers(stream, place)
    }

    fn belongs(&self, instance: usize, call: &str) -> Result<(), Code> {
        if self.instance == instance {
            return Ok(());
        }
        refuse(INVALID_PARAMETER, format!("{call} with a state of another instance"))
    }

    pub fn begin_batches(&mut self, instance: usize, format: i32) -> Result<(), Code> {
        let call = "nvjpegDecodeBatchedInitialize";
        self.belongs(instance, call)?;
        if self.under_way(None) {
            violation(format!("{call} while the state's last picture may be under way"));
        }
        self.batch_format = Some(format);
        Ok(())
    }

    pub fn batch_format(&self, instance: usize) -> Result<i32, Code> {
        self.belongs(instance, "nvjpegDecodeBatched")?;
        match self.batch_format {
            Some(format) => Ok(format),
            None => {
                refuse(INVALID_PARAMETER, "nvjpegDecodeBatched before nvjpegDecodeBatchedInitialize".into())
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub fn decode(
        &mut self,
        handle: usize,
        instance: Instance,
        file: &[u8],
        format: i32,
        image: &Image,
        raw_stream: usize,
        call: &str,
    ) -> Result<(), Code> {
        self.belongs(handle, call)?;
        let header = Header::read(file)?;
        if !header.suits(instance.backend) || (header.components == 1) != (format == Y) {
            return Err(JPEG_NOT_SUPPORTED);
        }
        let planes = decode(&header, file)?;
        let stream = world().stream(raw_stream, self.device, call).map_err(translated)?;
        let hardware = instance.backend == HARDWARE;
        if self.under_way((!hardware).then_some(stream)) {
            violation(format!(
                "{call} while the state's last picture may be under way: wait on the host first"
            ));
        }
        let (mut touches, mut writes) = (Vec::new(), Vec::new());
        for (n, plane) in planes.into_iter().enumerate() {
            let (at, pitch) = (image.channel[n], image.pitch[n]);
            if pitch < plane.width {
                return refuse(
                    INVALID_PARAMETER,
                    format!("{call}: plane {n} has a pitch of {pitch} for rows of {}", plane.width),
                );
            }
            // What the header asks for: rows times pitch, the last one too.
            let bytes = pitch * plane.height;
            if world().usable(at, bytes, &format!("{call}: plane {n}, {bytes} bytes")).is_err() {
                return Err(EXECUTION_FAILED);
            }
            touches.push(Touch { from: at, bytes, access: Access::Write });
            writes.push((at, pitch, plane));
        }
        let wide = mood("jpeg_wide");
        let work: Work = Box::new(move || {
            for (at, pitch, plane) in writes {
                for (row, samples) in plane.samples.chunks(plane.width).enumerate() {
                    put(at + row * pitch, samples);
                    if wide {
                        put(at + row * pitch + plane.width, &vec![0xa7; pitch - plane.width]);
                    }
                }
            }
            Ok(())
        });
        self.submit(stream, hardware, touches, work, call).map_err(translated)
    }

    fn submit(
        &mut self,
        stream: StreamId,
        hardware: bool,
        touches: Vec<Touch>,
        work: Work,
        call: &str,
    ) -> Result<(), Code> {
        let late = mood("jpeg_late");
        let mut world = world();
        if !hardware {
            let place = world.submit(stream, call.to_owned(), touches, work)?;
            self.last = Some((stream, place, stream));
            return Ok(());
        }
        // Nothing that the caller's stream holds or waits for comes first; what comes later in it does wait.
        let device = self.device;
        world.streams.entry(self.hidden).or_insert_with(|| Stream::new(device, false));
        let place = world.submit(self.hidden, format!("{call} by the hardware"), touches, work)?;
        let clock = world.streams.get(&self.hidden).map(|s| s.clock.clone()).unwrap_or_default();
        if !late {
            world.force(self.hidden, place);
        }
        world.wait(stream, (self.hidden, place, &clock));
        self.last = Some((self.hidden, place, stream));
        Ok(())
    }
}

#[allow(unsafe_code)]
fn put(to: usize, bytes: &[u8]) {
    // SAFETY: the range was checked against a live allocation when the picture was asked for, and is again before this runs.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
}
