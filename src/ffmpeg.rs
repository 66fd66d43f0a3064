//! Wraps libavformat and libavcodec in safe types. Each C object has one owner, every return code
//! becomes a `Result`, and no callback unwinds into C.

pub(crate) mod audio_decoder;
pub(crate) mod codec_params;
pub mod decoder;
mod demuxer;
pub mod frame;
pub mod frame_view;
mod io;
pub mod log;
mod packet;
pub mod parser;
mod signatures;

pub use decoder::{Decoder, Received};
pub use demuxer::Demuxer;
pub(crate) use demuxer::TableEntry;
pub use frame::{Frame, PixelLayout};
pub use packet::Packet;
pub use parser::{ParsedPicture, Parser};

/// Version of the linked FFmpeg, for messages and reports.
pub fn version() -> String {
    decoder::version()
}

/// Whether the decoders of the linked FFmpeg use its assembly code on this machine.
pub fn uses_assembly() -> bool {
    decoder::uses_assembly()
}
