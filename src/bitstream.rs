//! Parses coded bitstreams up to the slice and frame headers, without decoding: random access points, parameter
//! sets, references between pictures and color.
//! Knows no container and no index; a packet that is damaged or not understood is reported as such.

pub(crate) mod av1;
pub(crate) mod color_info;
pub mod disposable;
pub mod header_parser;
pub(crate) mod hevc;
pub(crate) mod nal;
pub(crate) mod parameter_set_tracker;
pub mod references;
