//! Integration tests of the engine, in one program so that FFmpeg is linked once.

#[path = "../common/mod.rs"]
mod common;

mod color;
mod corpus;
mod damage;
mod index_processes;
mod index_store;
mod layering;
mod order;
mod planner;
mod references;
mod skipping;
mod still;
mod tables;
mod threads;
