//! In: a byte source, packets, codec parameters. Out: safe handles on libavformat and libavcodec.
//! One owner per C object, every return code a `Result`, no callback unwinds into C.
//! Never: a decision about which packets or frames are wanted.

pub mod decoder;
pub mod demuxer;
pub mod frame;
mod io;
pub mod log;
pub mod packet;
pub mod parser;

pub use decoder::{Decoder, Received};
pub use demuxer::Demuxer;
pub use frame::{Frame, PixelLayout};
pub use packet::Packet;
pub use parser::{Parsed, Parser};

/// Version of the FFmpeg inside, for messages and reports.
pub fn version() -> String {
    decoder::version()
}
