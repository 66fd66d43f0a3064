//! Decodes JPEG files (nvJPEG) from host memory to planes in device memory, ordered on the
//! decoder's own stream.
//!
//! Planes are output as stored: without upsampling and without color conversion. libnvjpeg is
//! opened at run time and never linked; if it is missing, the result is [`crate::Error::NoNvjpeg`].
//!
//! **Accuracy.** JPEG does not define its inverse transform to the bit, and nvJPEG has its own: a
//! sample may differ slightly from libjpeg's, and between backends. Where the CPU decoder is the
//! reference, this decoder must therefore not be used silently.
//!
//! **Stream order.** By the documentation, all work goes through the stream. On Hopper, however,
//! the hardware backend's writes wait neither for earlier work in the caller's stream nor for
//! events that this stream waits for: they start when the call is made (published measurements on
//! an H100, nvJPEG 12.3 to 13.2: torchcodec pull request 1634, torchvision pull request 9606). Only
//! a wait on the host prevents this. The solution here is the same for every backend and GPU:
//!
//! * A decoder has two sets of planes and states, used alternately. When planes were returned and
//!   the next call is made, an event is recorded after their readers. Before the set is decoded
//!   into again (the call after that), *the host waits for this event*, and so for all earlier work
//!   in the stream. At every decode call the host therefore knows that no reader or writer uses the
//!   memory that the call may write immediately: planes, the state's own buffers, and the copy of
//!   the file.
//! * The wait concerns one worker's own work of two images ago. Usually that work is done, and the
//!   wait costs one query. It waits neither for the device nor for other workers.
//! * That the *end* of decoding is ordered in the stream (work enqueued there after the call sees
//!   complete planes) is an assumption from the documentation, which the measurements above do not
//!   contradict. `docs/gpu-verification.md` lists both.
//!
//! ```no_run
//! use framespool_nvdec::{cuda::Device, jpeg::{JpegDecoder, JpegHeader}};
//! let mut decoder = JpegDecoder::new(&Device::open(0)?)?;
//! let stream = decoder.stream().clone();
//! let file = std::fs::read("image.jpg").expect("it can be read");
//! if decoder.supports(&JpegHeader::parse(&file)?).is_ok() {
//!     let planes = decoder.decode(&file)?;
//!     // Enqueue kernels that read planes.planes[0].address and so on in `stream` while `planes` is alive.
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
pub use nvjpeg::{Backend, available};
pub use plane_layout::check_supported;
