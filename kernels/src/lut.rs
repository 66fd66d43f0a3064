//! Converts 8-bit codes, as a pass of dtype `U8` without masks writes them, to the elements that a
//! pass with another dtype or with a normalization writes.

use crate::error::PassError;
use crate::simd::Backend;
use crate::write::{Dtype, ElementWriter, Normalize, STREAMING_BYTES};

/// Converts codes to elements.
#[derive(Clone, Debug)]
pub struct ElementLut(ElementWriter);

impl ElementLut {
    /// # Errors
    /// If a pass would reject the normalization.
    pub fn new(dtype: Dtype, normalize: Option<Normalize>) -> Result<Self, PassError> {
        ElementWriter::new(dtype, normalize).map(Self)
    }

    pub(crate) fn writer(&self) -> &ElementWriter {
        &self.0
    }

    /// Writes the elements of `codes`, which are of one channel, or of `channels` interleaved,
    /// starting with `first`.
    ///
    /// # Panics
    /// If `out` has another length than the elements.
    pub fn run(&self, codes: &[u8], (first, channels): (usize, usize), out: &mut [u8]) {
        assert_eq!(
            out.len(),
            codes.len() * self.0.dtype().bytes(),
            "an element for each code"
        );
        let (backend, streaming) = (Backend::detect(), out.len() >= STREAMING_BYTES);
        backend.write_codes(&self.0, codes, (first, channels), out, streaming);
        if streaming {
            backend.fence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_equal_the_writers_in_both_layouts() {
        let normalize = Normalize {
            mean: [0.4, 0.5, 0.6],
            std: [0.2, 0.3, 0.4],
        };
        let mut short: Vec<u8> = (0..=255).flat_map(|c| [c, 255 - c, c / 2]).collect();
        // Stored past the caches on some backends.
        let long = short.repeat(STREAMING_BYTES / short.len());
        // Neither whole blocks nor whole pixels.
        short.pop();
        for (codes, dtype) in [
            (&short, Dtype::U16),
            (&short, Dtype::F16),
            (&short, Dtype::BF16),
            (&short, Dtype::F32),
            (&long, Dtype::F16),
        ] {
            let normalize = (!dtype.is_integer()).then_some(normalize);
            let writer = ElementWriter::new(dtype, normalize).unwrap();
            let expand = ElementLut::new(dtype, normalize).unwrap();
            let n = dtype.bytes();
            let mut out = vec![0; codes.len() * n];
            expand.run(codes, (0, 3), &mut out);
            for (i, &code) in codes.iter().enumerate() {
                assert_eq!(
                    out[i * n..(i + 1) * n],
                    writer.element_of_u8(i % 3, code)[..n],
                    "{dtype:?} {i}"
                );
            }
            let mut plane = vec![0; codes.len() * n];
            expand.run(codes, (2, 1), &mut plane);
            for (element, &code) in plane.chunks(n).zip(codes) {
                assert_eq!(element, &writer.element_of_u8(2, code)[..n], "{dtype:?}");
            }
        }
        let mut same = [0; 3];
        ElementLut::new(Dtype::U8, None)
            .unwrap()
            .run(&[7, 8, 9], (0, 3), &mut same);
        assert_eq!(same, [7, 8, 9]);
    }
}
