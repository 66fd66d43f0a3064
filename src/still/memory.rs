//! Provides memory for the planes of an image, reused from image to image.
//! Memory of a huge image is freed when much smaller ones follow.

use crate::error::{Error, Result, Site};

/// Memory of a typical image: 8 megapixels as RGB. Up to this size it is always kept.
const KEEP_BYTES: usize = 24 << 20;
/// Planes begin on a cache line.
const ALIGN: usize = 64;

/// One block of memory that grows as needed.
#[derive(Default)]
pub(super) struct Memory {
    block: Vec<u8>,
}

impl Memory {
    /// Memory for up to three planes. Its content is left over from earlier images.
    pub fn lend(&mut self, site: &Site, sizes: [usize; 3]) -> Result<[&mut [u8]; 3]> {
        let padded = sizes.map(|size| size.next_multiple_of(ALIGN));
        let need = padded.iter().sum::<usize>() + ALIGN;
        let too_much = self.block.len() > KEEP_BYTES && need < self.block.len() / 2;
        if need > self.block.len() || too_much {
            self.block = Vec::new(); // first, so that both never exist at once
            let failed = |_| Error::io(site, std::io::ErrorKind::OutOfMemory.into());
            self.block.try_reserve_exact(need).map_err(failed)?;
            self.block.resize(need, 0);
        }
        let skip = self.block.as_ptr().align_offset(ALIGN).min(ALIGN);
        let (first, rest) = self.block[skip..].split_at_mut(padded[0]);
        let (second, rest) = rest.split_at_mut(padded[1]);
        Ok([&mut first[..sizes[0]], &mut second[..sizes[1]], &mut rest[..sizes[2]]])
    }

    /// Frees the memory if it is larger than that of a typical image.
    pub fn rest(&mut self) {
        if self.block.len() > KEEP_BYTES {
            self.block = Vec::new();
        }
    }

    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        self.block.capacity()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn planes_are_as_long_as_asked_aligned_and_apart() {
        let site = Site::file(&Arc::from("m"));
        let mut memory = Memory::default();
        for sizes in [[0, 0, 0], [1, 0, 0], [1000, 500, 501], [3, 65, 7], [100_000, 1, 64]] {
            let planes = memory.lend(&site, sizes).unwrap();
            assert_eq!([planes[0].len(), planes[1].len(), planes[2].len()], sizes);
            for (n, plane) in planes.into_iter().enumerate() {
                assert_eq!(plane.as_ptr().align_offset(ALIGN), 0);
                plane.fill(n as u8);
            }
        }
    }

    #[test]
    fn a_huge_pictures_memory_is_given_back() {
        let site = Site::file(&Arc::from("m"));
        let mut memory = Memory::default();
        memory.lend(&site, [1000, 0, 0]).unwrap();
        memory.lend(&site, [KEEP_BYTES * 4, 0, 0]).unwrap();
        memory.lend(&site, [KEEP_BYTES * 3, 0, 0]).unwrap();
        assert!(memory.held_bytes() > KEEP_BYTES * 4, "one as large again: kept");
        memory.lend(&site, [1000, 1000, 1000]).unwrap();
        assert!(memory.held_bytes() < 10_000, "small ones again: {}", memory.held_bytes());
        memory.lend(&site, [KEEP_BYTES * 4, 0, 0]).unwrap();
        memory.rest();
        assert_eq!(memory.held_bytes(), 0);
        memory.lend(&site, [KEEP_BYTES / 2, 0, 0]).unwrap();
        memory.lend(&site, [1, 0, 0]).unwrap();
        memory.rest();
        assert!(memory.held_bytes() > KEEP_BYTES / 2, "usual ones keep it");
    }

    #[test]
    fn memory_that_nobody_has_is_an_error() {
        let site = Site::file(&Arc::from("m.jpg"));
        let error = Memory::default().lend(&site, [isize::MAX as usize / 2, 0, 0]).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }
}
