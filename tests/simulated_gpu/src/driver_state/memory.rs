//! Allocates device and pinned memory as fenced ranges of host memory, filled with poison, and
//! looks up addresses in them. Addresses are not reused while stale pointers to them are likely.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::ptr::{null_mut, write_bytes};

use crate::call_log::{Code, INVALID_VALUE, OUT_OF_MEMORY, refuse, violation};

use super::race::AccessRecord;

const PAGE: usize = 4096;
/// Alignment that cuMemAlloc guarantees.
const ALIGNMENT: usize = 256;
/// New memory has this content, so that reads of unwritten memory are visible.
pub const POISON: u8 = 0xDB;
const FENCE: u8 = 0xFC;
/// Freed ranges whose addresses stay unused (and unreadable) for a while.
const MAX_QUARANTINED: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocationKind {
    Device,
    Pinned,
    /// The caller's own pages, registered by cuMemHostRegister.
    Registered,
    /// An output surface of a decoder: accessible only while it is mapped.
    Surface {
        decoder: usize,
        mapped: bool,
    },
}

pub struct Allocation {
    pub base: usize,
    pub bytes: usize,
    /// Without the guard pages at both ends.
    pages: (usize, usize),
    pub kind: AllocationKind,
    pub device: usize,
    pub past: Vec<AccessRecord>,
    pub serial: u64,
}

#[derive(Default)]
pub struct Memory {
    live: BTreeMap<usize, Allocation>,
    quarantine: VecDeque<(usize, usize, String)>,
    /// Decode surfaces: counted, never accessed.
    reserved_bytes: u64,
    used_bytes: u64,
    pub peak_bytes: u64,
    pub limit_bytes: u64,
    serial: u64,
}

fn round_up(n: usize, to: usize) -> usize {
    n.div_ceil(to) * to
}

impl Memory {
    pub fn new(limit_bytes: u64) -> Memory {
        Memory {
            limit_bytes,
            ..Memory::default()
        }
    }

    pub fn used(&self) -> u64 {
        self.used_bytes + self.reserved_bytes
    }

    pub fn live(&self) -> impl Iterator<Item = &Allocation> {
        self.live.values()
    }

    pub fn reserve(&mut self, bytes: u64) -> Result<(), Code> {
        if self.used() + bytes > self.limit_bytes {
            return Err(OUT_OF_MEMORY);
        }
        self.reserved_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.used());
        Ok(())
    }

    pub fn release(&mut self, bytes: u64) {
        self.reserved_bytes = self.reserved_bytes.saturating_sub(bytes);
    }

    pub fn allocate(
        &mut self,
        bytes: usize,
        kind: AllocationKind,
        device: usize,
    ) -> Result<usize, Code> {
        if bytes == 0 {
            return refuse(INVALID_VALUE, "an allocation of 0 bytes".into());
        }
        let counted = if kind == AllocationKind::Pinned {
            0
        } else {
            bytes as u64
        };
        if bytes > 1 << 40 || counted + self.used() > self.limit_bytes && counted > 0 {
            return Err(OUT_OF_MEMORY);
        }
        let span = round_up(round_up(bytes, ALIGNMENT), PAGE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice; no memory of ours
        // is concerned.
        let start = unsafe {
            libc::mmap(
                null_mut(),
                span + 2 * PAGE,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(OUT_OF_MEMORY);
        }
        let first = start as usize + PAGE;
        let base = (first + span - bytes) / ALIGNMENT * ALIGNMENT;
        // SAFETY: `first .. first + span` is the inside of the mapping made above, which has no
        // other user yet.
        unsafe {
            if libc::mprotect(first as *mut _, span, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                libc::munmap(start, span + 2 * PAGE);
                return Err(OUT_OF_MEMORY);
            }
            write_bytes(first as *mut u8, FENCE, base - first);
            write_bytes(base as *mut u8, POISON, bytes);
            write_bytes(
                (base + bytes) as *mut u8,
                FENCE,
                first + span - base - bytes,
            );
        }
        self.used_bytes += counted;
        self.peak_bytes = self.peak_bytes.max(self.used());
        self.serial += 1;
        let serial = self.serial;
        let allocation = Allocation {
            base,
            bytes,
            pages: (first, span),
            kind,
            device,
            past: Vec::new(),
            serial,
        };
        self.live.insert(base, allocation);
        Ok(base)
    }

    /// Registers pages of the caller; they stay the caller's.
    pub fn register(&mut self, base: usize, bytes: usize, device: usize) -> Result<(), Code> {
        if base == 0 || bytes == 0 || self.overlapping(base, bytes).is_some() {
            return refuse(
                INVALID_VALUE,
                format!("cuMemHostRegister of {bytes} bytes at {base:#x}, known already or empty"),
            );
        }
        self.serial += 1;
        let (pages, kind, past, serial) = (
            (base, 0),
            AllocationKind::Registered,
            Vec::new(),
            self.serial,
        );
        self.live.insert(
            base,
            Allocation {
                base,
                bytes,
                pages,
                kind,
                device,
                past,
                serial,
            },
        );
        Ok(())
    }

    fn overlapping(&self, base: usize, bytes: usize) -> Option<&Allocation> {
        let before = self
            .live
            .range(..base + bytes)
            .next_back()
            .map(|(_, a)| a)?;
        (before.base + before.bytes > base).then_some(before)
    }

    pub fn find(&self, address: usize) -> Option<&Allocation> {
        let (_, allocation) = self.live.range(..=address).next_back()?;
        (address < allocation.base + allocation.bytes).then_some(allocation)
    }

    pub fn find_mut(&mut self, address: usize) -> Option<&mut Allocation> {
        let (_, allocation) = self.live.range_mut(..=address).next_back()?;
        (address < allocation.base + allocation.bytes).then_some(allocation)
    }

    /// Describes an address in a message.
    pub fn describe(&self, address: usize) -> String {
        if let Some(a) = self.find(address) {
            let of = match a.kind {
                AllocationKind::Device => "allocation",
                AllocationKind::Pinned => "pinned allocation",
                AllocationKind::Registered => "registered range",
                AllocationKind::Surface { mapped: true, .. } => "mapped output surface",
                AllocationKind::Surface { mapped: false, .. } => {
                    "output surface that is not mapped"
                }
            };
            return format!(
                "{address:#x} (byte {} of {of} {} of {} bytes)",
                address - a.base,
                a.serial,
                a.bytes
            );
        }
        if let Some((start, _, what)) = self
            .quarantine
            .iter()
            .find(|(start, span, _)| (*start..start + span).contains(&address))
        {
            return format!(
                "{address:#x} (byte {} of the pages of {what}, freed)",
                address - start
            );
        }
        let near = self
            .live
            .values()
            .find(|a| (a.pages.0 - PAGE..a.pages.0 + a.pages.1 + PAGE).contains(&address));
        match near {
            Some(a) if address < a.base => {
                format!(
                    "{address:#x} ({} bytes before allocation {} of {} bytes)",
                    a.base - address,
                    a.serial,
                    a.bytes
                )
            }
            Some(a) => {
                let past = address - a.base - a.bytes;
                format!(
                    "{address:#x} ({past} bytes behind the end of allocation {} of {} bytes)",
                    a.serial, a.bytes
                )
            }
            None => format!("{address:#x} (no device memory)"),
        }
    }

    /// Checks that the complete range is in one live allocation that may be accessed now.
    pub fn check(&self, address: usize, bytes: usize, what: &str) -> Result<(), Code> {
        if bytes == 0 {
            return Ok(());
        }
        match self.find(address) {
            Some(a) if address + bytes <= a.base + a.bytes => Ok(()),
            _ => refuse(
                INVALID_VALUE,
                format!("{what}: {bytes} bytes at {}", self.describe(address)),
            ),
        }
    }

    fn fences_intact(&self, a: &Allocation) -> bool {
        if a.kind == AllocationKind::Registered {
            return true;
        }
        let (first, span) = a.pages;
        let end = a.base + a.bytes;
        let fence = |from: usize, to: usize| {
            // SAFETY: both fences are in the pages of a live allocation, which are readable until
            // it is freed.
            unsafe { std::slice::from_raw_parts(from as *const u8, to - from) }
                .iter()
                .all(|&b| b == FENCE)
        };
        fence(first.max(a.base.saturating_sub(PAGE)), a.base) && fence(end, first + span)
    }

    /// Checks every fence; a broken one is reported once, with the operation that ran last. Returns
    /// whether there was one.
    pub fn check_fences(&mut self, after: &str) -> bool {
        let broken: Vec<(usize, u64, usize)> = self
            .live
            .values()
            .filter(|a| !self.fences_intact(a))
            .map(|a| (a.base, a.serial, a.bytes))
            .collect();
        for &(base, serial, bytes) in &broken {
            violation(format!(
                "{after}: wrote outside of allocation {serial} of {bytes} bytes at {base:#x}"
            ));
        }
        self.restore_fences();
        !broken.is_empty()
    }

    pub fn restore_fences(&mut self) {
        for a in self.live.values().filter(|a| !self.fences_intact(a)) {
            let (first, span) = a.pages;
            // SAFETY: the same ranges as in `whole`, of a live allocation of ours.
            unsafe {
                write_bytes(first as *mut u8, FENCE, a.base - first);
                write_bytes(
                    (a.base + a.bytes) as *mut u8,
                    FENCE,
                    first + span - a.base - a.bytes,
                );
            }
        }
    }

    /// Frees the range: any later access faults.
    pub fn free(&mut self, base: usize, what: &str) -> Result<(), Code> {
        let Some(a) = self.live.get(&base) else {
            return refuse(
                INVALID_VALUE,
                format!(
                    "{what} of {}, which is no start of an allocation",
                    self.describe(base)
                ),
            );
        };
        if !self.fences_intact(a) {
            self.check_fences(what);
        }
        let Some(a) = self.live.remove(&base) else {
            return Ok(());
        };
        if a.kind == AllocationKind::Registered {
            return Ok(());
        }
        if a.kind != AllocationKind::Pinned {
            self.used_bytes -= a.bytes as u64;
        }
        let (first, span) = a.pages;
        // SAFETY: pages of our own mapping, whose allocation was just removed from the table; none
        // of our pointers points into them.
        unsafe {
            libc::mprotect(first as *mut _, span, libc::PROT_NONE);
            libc::madvise(first as *mut _, span, libc::MADV_DONTNEED);
        }
        self.quarantine.push_back((
            first,
            span,
            format!("allocation {} of {} bytes", a.serial, a.bytes),
        ));
        if self.quarantine.len() > MAX_QUARANTINED
            && let Some((first, span, _)) = self.quarantine.pop_front()
        {
            // SAFETY: the mapping made in `allocate`, guard pages included, which has long been
            // unused.
            unsafe { libc::munmap((first - PAGE) as *mut _, span + 2 * PAGE) };
        }
        Ok(())
    }
}
