//! Integration tests of the engine, in one program so that FFmpeg is linked once.

#[path = "../common/mod.rs"]
mod common;

mod color;
mod corpus;
mod corruption;
mod corruption_ts;
mod decoder_threads;
mod disposable_frames;
mod image;
mod index_cache;
mod index_cache_processes;
mod loader_invariance;
mod loader_panics;
mod mpeg_timestamps;
mod ogg_timestamps;
mod overwritten_packets;
mod parameter_sets;
mod picture_order;
mod reference_graph;
mod refused_files;
mod sei;
mod split_invariance;
mod timestamps;
mod vvc;
