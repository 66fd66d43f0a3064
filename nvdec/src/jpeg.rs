//! In: JPEG files in host memory.
//! Out: their planes in device memory, as stored: no upsampling, no change of color, ordered in a stream of the decoder's own.
//! Never: links libnvjpeg, fails where it is missing other than with [`crate::Error::NoNvjpeg`], or says that its pixels are a CPU's.
//!
//! **Pixels.** JPEG does not define its inverse transform to the bit, and nvJPEG has one of its own: a sample may differ by a little
//! from libjpeg's, and from one backend to the other. So this is no road to take in silence where the CPU's is the reference.
//!
//! **Order.** On Hopper the hardware backend's writes do not wait for what the caller's stream holds, nor for events that this stream
//! waits for: they begin when the call is made (measured in public on an H100, nvJPEG 12.3 to 13.2: torchcodec pull request 1634,
//! torchvision pull request 9606), against the documentation, by which all work goes through the stream. Only a wait on the host
//! helps. The way out here does not depend on which backend or GPU it is:
//!
//! * A decoder has two sets of planes and states, used in turn. When planes are handed out and the next call comes, an event is
//!   recorded behind their readers; before the set is decoded into again (the call after that), *the host waits for this event*, and
//!   for everything before it in the stream. At the moment of any decode call the host therefore knows that nobody reads or writes
//!   what the call may write at once: planes, the state's own buffers, the copy of the file.
//! * The wait is that of one worker for its own work of two pictures ago; while it is over, which is the rule, it costs one question.
//!   Nothing waits for the device, nor for other workers.
//! * That the *end* of decoding is ordered in the stream (who is enqueued there after the call sees whole planes) is taken from the
//!   documentation; the measurements above do not speak against it. `docs/gpu-verification.md` lists both.
//!
//! ```no_run
//! use framespool_nvdec::{cuda::Device, jpeg::{JpegDecoder, JpegHeader}};
//! let mut decoder = JpegDecoder::new(&Device::open(0)?)?;
//! let stream = decoder.stream().clone();
//! let file = std::fs::read("picture.jpg").expect("it can be read");
//! if decoder.supports(&JpegHeader::parse(&file)?).is_ok() {
//!     let planes = decoder.decode(&file)?;
//!     // Kernels that read planes.planes[0].address and so on go into `stream` while `planes` is alive.
//!     drop(planes);
//!     stream.synchronize()?;
//! }
//! # Ok::<(), framespool_nvdec::Error>(())
//! ```

mod decoder;
mod header;
mod nvjpeg;
mod nvjpeg_driver;
mod plane_layout;
pub mod sys;
#[cfg(test)]
mod tests;

pub use decoder::{DecodedImage, JpegDecoder, Plane};
pub use header::{CodingProcess, ColorModel, JpegHeader};
pub use nvjpeg::{available, Backend};
pub use plane_layout::check_supported;
