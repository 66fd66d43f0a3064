//! Parses coded bitstreams up to the slice and frame headers, without decoding: random access
//! points, parameter sets, references between pictures and color. Knows no container and no index;
//! a packet that is damaged or not understood is reported as such.

pub(crate) mod av1;
pub(crate) mod configuration;
pub mod disposable;
pub(crate) mod h264;
pub mod header_parser;
mod hevc;
pub(crate) mod intra;
mod mpeg12;
mod mpeg4;
pub(crate) mod nal;
pub(crate) mod parameter_set_tracker;
pub mod picture_info;
pub mod references;
pub(crate) mod sample_aspect;
mod vc1;
pub(crate) mod vp8;
pub(crate) mod vp9;
