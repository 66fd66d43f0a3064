//! Row buffers of a pixel pass.

/// Row buffers. One per worker, reused for every pass and frame.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// A vertically filtered row of a plane with several components.
    pub(super) interleaved: Vec<i16>,
    /// A vertically filtered row of one component.
    pub(super) filtered: Vec<i16>,
    pub(super) components: [Vec<i16>; 3],
    /// A tone-mapped row.
    pub(super) tone_mapped: [Vec<i16>; 3],
    /// Sixteen filtered rows, the same interleaved, and sixteen rows of each component: used if
    /// rows are computed in blocks.
    pub(super) block: [Vec<i16>; 2],
    pub(super) block_components: [Vec<i16>; 3],
    /// The components of the complete window, if a warp or a mean needs them.
    pub(super) window: [Vec<i16>; 3],
    pub(super) rgb: [Vec<u8>; 3],
    /// The same in 16 bits.
    pub(super) rgb_u16: [Vec<u16>; 3],
    /// Rows of R, G, B that are transposed together.
    pub(super) tile: [Vec<u8>; 3],
    pub(super) tile_rows: usize,
}

impl Scratch {
    /// Empty; grows on first use.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        let blocks = self.block.iter().chain(&self.block_components);
        let words = [&self.interleaved, &self.filtered]
            .into_iter()
            .chain(&self.components)
            .chain(&self.tone_mapped)
            .chain(&self.window)
            .chain(blocks);
        words.map(|row| row.capacity() * 2).sum::<usize>()
            + self
                .rgb
                .iter()
                .chain(&self.tile)
                .map(Vec::capacity)
                .sum::<usize>()
            + self
                .rgb_u16
                .iter()
                .map(|row| row.capacity() * 2)
                .sum::<usize>()
    }

    pub(super) fn resize(&mut self, width: usize, use_u16: bool, maps: bool) {
        self.tile_rows = 0;
        for row in self.tone_mapped.iter_mut().filter(|_| maps) {
            row.resize(width, 0);
        }
        for row in &mut self.components {
            row.resize(width, 0);
        }
        for row in &mut self.rgb {
            row.resize(width, 0);
        }
        for row in self.rgb_u16.iter_mut().filter(|_| use_u16 || maps) {
            row.resize(width, 0);
        }
    }
}
