//! Decodes images with a state: operations that write planes, in the caller's stream or, by the
//! hardware, independently of it. Use or destruction of a state while its last image may still be
//! in progress is a violation.

use super::jpeg_file::{Header, decode};
use super::{
    EXECUTION_FAILED, HARDWARE, INVALID_PARAMETER, Image, Instance, JPEG_NOT_SUPPORTED, Y,
    to_nvjpeg_status,
};
use crate::call_log::{Code, behavior, refuse, violation};
use crate::driver_state::driver_state;
use crate::driver_state::race::{AccessKind, MemoryAccess, StreamId};
use crate::driver_state::streams::{Stream, Work};

/// Approximate device memory of a state.
const BYTES: u64 = 1 << 20;

pub struct State {
    pub instance: usize,
    device: usize,
    batch_format: Option<i32>,
    /// The hardware's internal stream, which is not visible to callers.
    hidden: StreamId,
    /// The last image: its operation, and the stream of the request.
    last: Option<(StreamId, u64, StreamId)>,
}

impl State {
    pub fn new(instance: usize, of: Instance) -> Result<State, Code> {
        let mut driver_state = driver_state();
        driver_state
            .memory
            .reserve(BYTES)
            .map_err(to_nvjpeg_status)?;
        let hidden = driver_state.handle() as StreamId;
        Ok(State {
            instance,
            device: of.device,
            batch_format: None,
            hidden,
            last: None,
        })
    }

    /// Destroys the state.
    pub fn destroy(&mut self) {
        if self.may_be_running(None) {
            violation(
                "nvjpegJpegStateDestroy while its last picture may be in progress: wait on the host first"
                    .into(),
            );
        }
        let mut driver_state = driver_state();
        let _ = driver_state.synchronize_device(self.device);
        driver_state.streams.remove(&self.hidden);
        driver_state.memory.release(BYTES);
    }

    /// Whether the host does not know that the last image is complete, and `next` is not ordered
    /// after it.
    fn may_be_running(&self, next: Option<StreamId>) -> bool {
        let Some((stream, op_index, asked_in)) = self.last else {
            return false;
        };
        // In one stream, images of the software backends follow each other.
        let follows = next == Some(asked_in) && stream == asked_in;
        !follows && !driver_state().host.includes(stream, op_index)
    }

    fn check_instance(&self, instance: usize, call: &str) -> Result<(), Code> {
        if self.instance == instance {
            return Ok(());
        }
        refuse(
            INVALID_PARAMETER,
            format!("{call} with a state of another instance"),
        )
    }

    pub fn initialize_batched(&mut self, instance: usize, format: i32) -> Result<(), Code> {
        let call = "nvjpegDecodeBatchedInitialize";
        self.check_instance(instance, call)?;
        if self.may_be_running(None) {
            violation(format!(
                "{call} while the state's last picture may be in progress"
            ));
        }
        self.batch_format = Some(format);
        Ok(())
    }

    pub fn batch_format(&self, instance: usize) -> Result<i32, Code> {
        self.check_instance(instance, "nvjpegDecodeBatched")?;
        match self.batch_format {
            Some(format) => Ok(format),
            None => refuse(
                INVALID_PARAMETER,
                "nvjpegDecodeBatched before nvjpegDecodeBatchedInitialize".into(),
            ),
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
        self.check_instance(handle, call)?;
        let header = Header::read(file)?;
        if !header.supported_by(instance.backend) || (header.components == 1) != (format == Y) {
            return Err(JPEG_NOT_SUPPORTED);
        }
        let planes = decode(&header, file)?;
        let stream = driver_state()
            .stream(raw_stream, self.device, call)
            .map_err(to_nvjpeg_status)?;
        let hardware = instance.backend == HARDWARE;
        if self.may_be_running((!hardware).then_some(stream)) {
            violation(format!(
                "{call} while the state's last picture may be in progress: wait on the host first"
            ));
        }
        let (mut accesses, mut writes) = (Vec::new(), Vec::new());
        for (n, plane) in planes.into_iter().enumerate() {
            let (at, pitch) = (image.channel[n], image.pitch[n]);
            if pitch < plane.width {
                return refuse(
                    INVALID_PARAMETER,
                    format!(
                        "{call}: plane {n} has a pitch of {pitch} for rows of {}",
                        plane.width
                    ),
                );
            }
            // What the header requires: rows times pitch, including the last one.
            let bytes = pitch * plane.height;
            if driver_state()
                .usable(at, bytes, &format!("{call}: plane {n}, {bytes} bytes"))
                .is_err()
            {
                return Err(EXECUTION_FAILED);
            }
            accesses.push(MemoryAccess {
                from: at,
                bytes,
                kind: AccessKind::Write,
            });
            writes.push((at, pitch, plane));
        }
        let wide = behavior("jpeg_wide");
        let work: Work = Box::new(move || {
            for (at, pitch, plane) in writes {
                for (row, samples) in plane.samples.chunks(plane.width).enumerate() {
                    put(at + row * pitch, samples);
                    if wide {
                        put(
                            at + row * pitch + plane.width,
                            &vec![0xa7; pitch - plane.width],
                        );
                    }
                }
            }
            Ok(())
        });
        self.submit(stream, hardware, accesses, work, call)
            .map_err(to_nvjpeg_status)
    }

    fn submit(
        &mut self,
        stream: StreamId,
        hardware: bool,
        accesses: Vec<MemoryAccess>,
        work: Work,
        call: &str,
    ) -> Result<(), Code> {
        let late = behavior("jpeg_late");
        let mut driver_state = driver_state();
        if !hardware {
            let op_index = driver_state.submit(stream, call.to_owned(), accesses, work)?;
            self.last = Some((stream, op_index, stream));
            return Ok(());
        }
        // Work in the caller's stream, or that it waits for, does not precede it; later work in the
        // stream does wait.
        let device = self.device;
        driver_state
            .streams
            .entry(self.hidden)
            .or_insert_with(|| Stream::new(device, false));
        let op_index = driver_state.submit(
            self.hidden,
            format!("{call} by the hardware"),
            accesses,
            work,
        )?;
        let clock = driver_state
            .streams
            .get(&self.hidden)
            .map(|s| s.clock.clone())
            .unwrap_or_default();
        if !late {
            driver_state.run_until(self.hidden, op_index);
        }
        driver_state.wait(stream, (self.hidden, op_index, &clock));
        self.last = Some((self.hidden, op_index, stream));
        Ok(())
    }
}

#[allow(unsafe_code)]
fn put(to: usize, bytes: &[u8]) {
    // SAFETY: the range was checked against a live allocation when decoding was requested, and is
    // checked again before this runs.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
}
