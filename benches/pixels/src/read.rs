//! The cost of reading the three planes with almost no work: a lower bound of any pass over the
//! frame.

use std::hint::black_box;
use std::ops::Range;

use crate::inputs::Inputs;
use crate::{BoxError, Adapter};

pub struct Read {
    inputs: Inputs,
}

impl Read {
    pub fn new(inputs: Inputs) -> Self {
        Self { inputs }
    }
}

/// The exclusive or of all bytes, 64 at a time.
fn fold(bytes: &[u8]) -> u64 {
    let mut lanes = [0u64; 8];
    let mut chunks = bytes.chunks_exact(64);
    for chunk in chunks.by_ref() {
        for (lane, word) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            *lane ^= u64::from_ne_bytes(word.try_into().expect("8 bytes"));
        }
    }
    let rest = chunks.remainder().iter().fold(0, |sum, &byte| sum ^ u64::from(byte));
    lanes.into_iter().fold(rest, |sum, lane| sum ^ lane)
}

impl Adapter for Read {
    fn version(&self) -> String {
        "exclusive or of the three planes".into()
    }

    fn prepare(&mut self, _case: &str, _clips: Range<usize>) -> Result<usize, BoxError> {
        Ok(8)
    }

    fn frame(&mut self, index: usize, out: &mut [u8]) -> Result<(), BoxError> {
        let all = self.inputs.planes(index).into_iter().fold(0, |sum, plane| sum ^ fold(black_box(plane)));
        out.copy_from_slice(&all.to_ne_bytes());
        Ok(())
    }
}
