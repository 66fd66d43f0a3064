//! Provides memory for the planes of an image, reused from image to image.
//! Memory of a huge image is freed when much smaller ones follow.

use crate::error::{Error, Result, Site};

/// Memory of a typical image: 8 megapixels as RGB. Up to this size it is always kept.
const MAX_KEPT_BYTES: usize = 24 << 20;
/// Planes begin on a cache line.
const ALIGN: usize = 64;

/// One block of memory that grows as needed.
#[derive(Default)]
pub(super) struct PlaneBuffer {
    block: Vec<u8>,
}

impl PlaneBuffer {
    /// Memory for up to three planes. Its content is left over from earlier images.
    pub(super) fn reserve(&mut self, site: &Site, sizes: [usize; 3]) -> Result<[&mut [u8]; 3]> {
        let padded = sizes.map(|size| size.next_multiple_of(ALIGN));
        let need = padded.iter().sum::<usize>() + ALIGN;
        let too_much = self.block.len() > MAX_KEPT_BYTES && need < self.block.len() / 2;
        if need > self.block.len() || too_much {
            self.block = Vec::new(); // first, so that both never exist at once
            let failed = |_| Error::io(site, std::io::ErrorKind::OutOfMemory.into());
            self.block.try_reserve_exact(need).map_err(failed)?;
            self.block.resize(need, 0);
        }
        let skip = self.block.as_ptr().align_offset(ALIGN).min(ALIGN);
        let (first, rest) = self.block[skip..].split_at_mut(padded[0]);
        let (second, rest) = rest.split_at_mut(padded[1]);
        Ok([
            &mut first[..sizes[0]],
            &mut second[..sizes[1]],
            &mut rest[..sizes[2]],
        ])
    }

    /// Frees the memory if it is larger than that of a typical image.
    pub(super) fn release(&mut self) {
        if self.block.len() > MAX_KEPT_BYTES {
            self.block = Vec::new();
        }
    }

    #[cfg(test)]
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.block.capacity()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn planes_are_sized_aligned_and_disjoint() {
        let site = Site::file(&Arc::from("m"));
        let mut memory = PlaneBuffer::default();
        for sizes in [
            [0, 0, 0],
            [1, 0, 0],
            [1000, 500, 501],
            [3, 65, 7],
            [100_000, 1, 64],
        ] {
            let planes = memory.reserve(&site, sizes).unwrap();
            assert_eq!([planes[0].len(), planes[1].len(), planes[2].len()], sizes);
            for (n, plane) in planes.into_iter().enumerate() {
                assert_eq!(plane.as_ptr().align_offset(ALIGN), 0);
                plane.fill(n as u8);
            }
        }
    }

    #[test]
    fn memory_of_a_huge_image_is_released() {
        let site = Site::file(&Arc::from("m"));
        let mut memory = PlaneBuffer::default();
        memory.reserve(&site, [1000, 0, 0]).unwrap();
        memory.reserve(&site, [MAX_KEPT_BYTES * 4, 0, 0]).unwrap();
        memory.reserve(&site, [MAX_KEPT_BYTES * 3, 0, 0]).unwrap();
        assert!(
            memory.capacity_bytes() > MAX_KEPT_BYTES * 4,
            "one as large again: kept"
        );
        memory.reserve(&site, [1000, 1000, 1000]).unwrap();
        assert!(
            memory.capacity_bytes() < 10_000,
            "small ones again: {}",
            memory.capacity_bytes()
        );
        memory.reserve(&site, [MAX_KEPT_BYTES * 4, 0, 0]).unwrap();
        memory.release();
        assert_eq!(memory.capacity_bytes(), 0);
        memory.reserve(&site, [MAX_KEPT_BYTES / 2, 0, 0]).unwrap();
        memory.reserve(&site, [1, 0, 0]).unwrap();
        memory.release();
        assert!(
            memory.capacity_bytes() > MAX_KEPT_BYTES / 2,
            "usual ones keep it"
        );
    }

    #[test]
    fn unavailable_memory_is_an_error() {
        let site = Site::file(&Arc::from("m.jpg"));
        let error = PlaneBuffer::default()
            .reserve(&site, [isize::MAX as usize / 2, 0, 0])
            .unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }
}
