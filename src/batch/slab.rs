//! In: the number and size of a batch's clips.
//! Out: one aligned block of host or device memory, lent out in parts, handed over whole.
//! Never: two owners of one byte: a part is lent once, and the block is readable only when all parts are back.
#![allow(unsafe_code)]

use std::sync::Arc;

use framespool_nvdec::cuda::{Device, Event, Stream};

use super::block::{Block, DeviceBlock, Pool, ALIGN};
use super::tracks::{Spot, Target, Tracks};
use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// The memory of one batch.
pub struct Slab {
    block: Option<Block>,
    pool: Arc<Pool>,
    used: usize,
    /// On a device: the events after which all parts are written, and those after which whoever read them is done.
    events: Mutex<Box<Events>>,
}

#[derive(Default)]
struct Events {
    written: Vec<Event>,
    read: Vec<Event>,
    /// Streams of others that read it, whose work so far counts when it is given up.
    readers: Vec<u64>,
    /// Somebody's work on it could not be marked: nobody knows when it is over.
    unmarked: bool,
}

impl Slab {
    /// Memory for `clips` clips of `clip_bytes` bytes each, and its parts. Content is unspecified (of an earlier
    /// batch): every part must be filled.
    ///
    /// # Errors
    /// `Argument` if there is not that much memory, `Gpu` if the device has not.
    pub fn lend(pool: &Arc<Pool>, clips: usize, clip_bytes: usize) -> Result<(Lent, Vec<Part>)> {
        let len = clips.checked_mul(clip_bytes).filter(|&n| n <= isize::MAX as usize - ALIGN);
        let len = len.ok_or_else(|| {
            Error::Argument(format!("{clips} clips of {clip_bytes} bytes do not fit into memory"))
        })?;
        let block = pool.take(len)?;
        let before = match &block {
            Block::Host(_) => Vec::new(),
            Block::Device(block) => block.used_until.clone(),
        };
        let slab =
            Arc::new(Slab { block: Some(block), pool: pool.clone(), used: len, events: Mutex::default() });
        let parts = (0..clips)
            .map(|i| Part {
                slab: slab.clone(),
                offset: i * clip_bytes,
                len: clip_bytes,
                tracks: Tracks::new(before.clone()),
            })
            .collect();
        Ok((Lent(slab), parts))
    }

    fn block(&self) -> &Block {
        self.block.as_ref().expect("present until Drop")
    }

    /// The device that it lies on; `None` for host memory.
    pub fn device(&self) -> Option<&Arc<Device>> {
        match self.block() {
            Block::Host(_) => None,
            Block::Device(block) => Some(block.memory.device()),
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The bytes; `None` for device memory.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self.block() {
            // SAFETY: a `Slab` by itself exists only after `Lent::collect` proved that all parts are gone.
            Block::Host(block) => Some(unsafe { std::slice::from_raw_parts(block.start(), self.used) }),
            Block::Device(_) => None,
        }
    }

    /// The bytes, to be changed; `None` for device memory.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self.block() {
            // SAFETY: as above, and `self` is borrowed exclusively.
            Block::Host(block) => Some(unsafe { std::slice::from_raw_parts_mut(block.start(), self.used) }),
            Block::Device(_) => None,
        }
    }

    /// Where the bytes lie, on the host or on its device.
    pub fn address(&self) -> u64 {
        match self.block() {
            Block::Host(block) => block.start().addr() as u64,
            Block::Device(block) => block.memory.address(),
        }
    }

    /// Where the bytes lie, as a pointer for hand-over through DLPack.
    pub fn pointer(&self) -> *mut u8 {
        match self.block() {
            Block::Host(block) => block.start(),
            Block::Device(block) => std::ptr::without_provenance_mut(block.memory.address() as usize),
        }
    }

    /// Keeps only the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.used = self.used.min(len);
    }

    fn events(&self) -> MutexGuard<'_, Box<Events>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The events after which its content is there; none for host memory.
    pub fn written(&self) -> Vec<Event> {
        self.events().written.clone()
    }

    /// Work that a stream does on the whole of it: after all that was written, and before all who ask from now on.
    pub fn rework(&mut self, stream: &Stream, work: impl FnOnce(u64, &Stream) -> Result<()>) -> Result<()> {
        self.written().iter().try_for_each(|event| stream.wait(event))?;
        let worked = work(self.address(), stream).and_then(|()| Ok(stream.record()?));
        let mut events = self.events();
        events.unmarked |= worked.is_err();
        events.written = vec![worked?];
        Ok(())
    }

    /// Takes note that somebody reads it until this event: it is not written again before.
    pub fn read_until(&self, event: Event) {
        self.events().read.push(event);
    }

    /// Takes note that somebody reads it nobody knows where: it is not used again at all. Freeing it waits for whoever uses it.
    pub fn read_anywhere(&self) {
        self.events().unmarked = true;
    }

    /// Takes note that somebody reads it in a stream of their own: it is not written again before what that stream has been
    /// given by the time the slab is given up.
    pub fn read_on(&self, stream: u64) {
        let mut events = self.events();
        if !events.readers.contains(&stream) {
            events.readers.push(stream);
        }
    }

    /// Copies a stretch to the host, wherever it lies; waits until it is written.
    ///
    /// # Errors
    /// `Gpu` where the device cannot be read.
    pub fn download(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        match self.block() {
            Block::Host(_) => to.copy_from_slice(&self.bytes().unwrap_or_default()[offset..][..to.len()]),
            Block::Device(block) => {
                let stream = block.memory.device().stream()?;
                self.written().iter().try_for_each(|event| stream.wait(event))?;
                stream.download(to, block.memory.address() + offset as u64)?;
            }
        }
        Ok(())
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let Some(mut block) = self.block.take() else { return };
        let mut unmarked = false;
        if let Block::Device(DeviceBlock { used_until, memory }) = &mut block {
            let Events { written, mut read, readers, unmarked: unknown } =
                std::mem::take(&mut **self.events());
            unmarked = unknown;
            for stream in readers {
                match memory.device().record_on_foreign(stream) {
                    Ok(event) => read.push(event),
                    Err(_) => unmarked = true,
                }
            }
            // What was to be over before this content was written still counts: a part may have been left unwritten.
            used_until.extend(written.into_iter().chain(read));
            used_until.retain(|event| !event.done().unwrap_or(false));
        }
        if unmarked {
            return; // freeing device memory waits for whoever uses it
        }
        self.pool.give(block);
    }
}

/// A slab whose parts are out.
pub struct Lent(Arc<Slab>);

impl Lent {
    /// The slab, if all parts have been dropped; else itself again.
    pub fn collect(self) -> Result<Slab, Self> {
        Arc::try_unwrap(self.0).map_err(Lent)
    }
}

/// One clip's bytes, owned by whoever writes them.
pub struct Part {
    slab: Arc<Slab>,
    offset: usize,
    len: usize,
    tracks: Tracks,
}

impl Part {
    /// The bytes to fill.
    pub fn target(&mut self) -> Target<'_> {
        match self.slab.block() {
            // SAFETY: parts of a slab do not overlap and each exists once (`lend` makes them, nothing clones them); the
            // slab itself gives no access while a part is alive.
            Block::Host(block) => Target::Host(unsafe {
                std::slice::from_raw_parts_mut(block.start().add(self.offset), self.len)
            }),
            Block::Device(block) => Target::Device(Spot {
                address: block.memory.address() + self.offset as u64,
                len: self.len,
                tracks: &mut self.tracks,
            }),
        }
    }

    /// Ends the writing: readers of the slab will wait for what was enqueued.
    ///
    /// # Errors
    /// `Gpu` where the device does not answer: the content cannot be trusted.
    pub fn settle(&mut self) -> Result<()> {
        if let Some(event) = self.tracks.end()? {
            self.slab.events().written.push(event);
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        crate::sync::others_may_run();
        // A part that was given up in the middle: its writes must still be over before the memory is used again.
        if self.settle().is_err() {
            self.slab.events().unmarked = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(part: &mut Part, value: u8) {
        let Target::Host(bytes) = part.target() else { panic!("host memory was asked for") };
        bytes.fill(value);
    }

    #[test]
    fn parts_are_written_by_several_threads_and_collected_whole() {
        let pool = Pool::new(2);
        let (lent, parts) = Slab::lend(&pool, 4, 10).unwrap();
        std::thread::scope(|scope| {
            for (i, mut part) in parts.into_iter().enumerate() {
                scope.spawn(move || fill(&mut part, i as u8));
            }
        });
        let slab = lent.collect().ok().unwrap();
        assert_eq!(slab.bytes().unwrap().chunks(10).map(|c| c[9]).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(slab.address() as usize % ALIGN, 0);
    }

    #[test]
    fn a_slab_is_not_readable_while_a_part_is_out() {
        let (lent, mut parts) = Slab::lend(&Pool::new(1), 2, 1).unwrap();
        parts.truncate(1);
        let lent = lent.collect().err().expect("a part is still out");
        drop(parts);
        assert!(lent.collect().is_ok());
    }

    #[test]
    fn a_slab_that_is_cut_short_shows_its_first_bytes_alone() {
        let (lent, parts) = Slab::lend(&Pool::new(1), 3, 2).unwrap();
        parts.into_iter().enumerate().for_each(|(i, mut part)| fill(&mut part, i as u8 + 1));
        let mut slab = lent.collect().ok().unwrap();
        slab.truncate(9); // more than there is
        assert_eq!((slab.len(), slab.is_empty()), (6, false));
        slab.truncate(4);
        slab.bytes_mut().unwrap()[3] = 7;
        assert_eq!(slab.bytes().unwrap(), [1, 1, 2, 7]);
        assert_eq!(slab.pointer().addr() as u64, slab.address());
        let mut copied = [0; 2];
        slab.download(2, &mut copied).unwrap();
        assert_eq!(copied, [2, 7]);
        slab.truncate(0);
        assert_eq!((slab.len(), slab.is_empty()), (0, true));
    }

    #[test]
    fn memory_is_reused_and_absurd_sizes_are_refused() {
        let pool = Pool::new(1);
        let slab = |bytes| {
            let (lent, parts) = Slab::lend(&pool, 1, bytes).unwrap();
            drop(parts);
            lent.collect().ok().unwrap()
        };
        let first = slab(1000);
        let address = first.address() as usize;
        drop(first);
        assert_eq!(slab(1000).address() as usize, address);
        assert!(Slab::lend(&pool, usize::MAX, 2).is_err());
        // Miri ends where an allocator says no.
        assert!(cfg!(miri) || Slab::lend(&pool, 1 << 20, 1 << 40).is_err());
    }
}
