//! Checks numbers claimed by files against limits before they determine the size of an allocation.

use std::sync::Arc;

use crate::error::{Error, Result, Site};

/// Peak memory per packet while an index is built.
const INDEX_BYTES_PER_PACKET: usize = 256;
/// Number of packets that any file may have. Beyond it, a file must have four bytes per packet: an
/// MP4 sample table takes as many for the packet size alone, so a file that was truncated right
/// after its tables stays within the limit.
const MIN_PACKET_LIMIT: u64 = 1 << 16;
const MIN_BYTES_PER_PACKET: u64 = 4;
/// Payload that any file may have in total, and how many times its own size a larger one may have:
/// packets of Matroska may be compressed, and samples may share bytes.
const MIN_PAYLOAD_LIMIT: u64 = 1 << 28;
const MAX_PAYLOAD_FACTOR: u64 = 16;

/// Limits on the resources of one video. Generous for valid files, small enough to contain damaged
/// ones.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Packets (and thus frames) of one video: a day at 48 frames per second, whose index takes 1
    /// GiB while it is built.
    pub packets: u64,
    /// Payload of one packet.
    pub packet_bytes: u64,
    /// Headers that are read into memory completely: of images, tables and archives.
    pub header_bytes: u64,
    /// All `moov` and `moof` boxes of a file, likewise: the tables of the maximum number of packets
    /// take less.
    pub table_bytes: u64,
    /// Codec configuration (SPS/PPS and the like).
    pub extradata_bytes: u64,
    /// Luma samples of one picture: 16384 x 16384.
    pub picture_samples: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packets: 1 << 22,
            packet_bytes: 1 << 28,
            header_bytes: 1 << 30,
            table_bytes: 1 << 28,
            extradata_bytes: 1 << 20,
            picture_samples: 1 << 28,
        }
    }
}

impl Limits {
    /// These limits for a file of `len` bytes, which bounds the number of packets that its tables
    /// may claim.
    pub(crate) fn for_file_len(&self, len: u64) -> Self {
        Self {
            packets: self.packets.min(Self::max_packets_of(len)),
            ..self.clone()
        }
    }

    /// Maximum number of packets, over all streams, of a file of `len` bytes.
    pub(crate) fn max_packets_of(len: u64) -> u64 {
        (MIN_PACKET_LIMIT + len / MIN_BYTES_PER_PACKET).min(len)
    }

    /// Maximum size of all packets of a file of `len` bytes. Tables may place every packet in the
    /// same bytes, so that reading all of them takes far longer than reading the file.
    pub(crate) fn max_payload_of(len: u64) -> u64 {
        len.saturating_mul(MAX_PAYLOAD_FACTOR)
            .max(MIN_PAYLOAD_LIMIT)
    }

    /// Returns `value` if it is at most `cap`; `what` names the value in the error.
    pub fn check(site: &Site, what: &'static str, value: u64, cap: u64) -> Result<u64> {
        if value > cap {
            return Err(Error::Limit {
                site: site.clone(),
                what,
                value,
                cap,
            });
        }
        Ok(value)
    }
}

/// Checks that memory for `count` elements is available, by allocating and freeing it. Used before
/// other code allocates them in a way that ends the process on failure.
///
/// # Errors
/// As [`reserve`].
pub fn check_allocatable<T>(site: &Site, count: usize) -> Result<()> {
    let mut all: Vec<T> = Vec::new();
    reserve(site, &mut all, count)?;
    std::hint::black_box(&all); // keeps the compiler from removing the allocation
    Ok(())
}

/// Like [`check_allocatable`], for the index of `packets` packets.
///
/// # Errors
/// As [`reserve`].
pub(crate) fn check_index_allocatable(site: &Site, packets: usize) -> Result<()> {
    check_allocatable::<[u8; INDEX_BYTES_PER_PACKET]>(site, packets)
}

/// Reserves memory for `more` elements, a number that comes from a file.
///
/// # Errors
/// `Io` where the memory cannot be allocated: an allocation that cannot return an error would end
/// the process.
pub fn reserve<T>(site: &Site, vec: &mut Vec<T>, more: usize) -> Result<()> {
    vec.try_reserve(more).map_err(|_| {
        let bytes = more.saturating_mul(size_of::<T>());
        let reason = format!(
            "no memory for {bytes} bytes; the file is damaged, or this process needs more memory"
        );
        let source = Arc::new(std::io::Error::new(std::io::ErrorKind::OutOfMemory, reason));
        Error::Io {
            site: site.clone(),
            source,
        }
    })
}

/// Resizes `bytes` to `len`; new bytes are zero.
///
/// # Errors
/// As [`reserve`].
pub fn resize(site: &Site, bytes: &mut Vec<u8>, len: usize) -> Result<()> {
    reserve(site, bytes, len.saturating_sub(bytes.len()))?;
    bytes.resize(len, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_no_more_packets_than_it_can_hold() {
        let packets = |len| Limits::default().for_file_len(len).packets;
        assert_eq!(
            (packets(0), packets(1000)),
            (0, 1000),
            "a packet, or its size in a table, has a byte at least"
        );
        assert_eq!(packets(400_000), (1 << 16) + 100_000);
        assert_eq!(packets(u64::MAX), 1 << 22);
        // A whole day at 30 frames per second, and a file that ends right after its tables.
        let day = 24 * 3600 * 30;
        assert!(packets(4 * day) >= day);
    }

    #[test]
    fn failed_allocation_is_an_error() {
        let site = Site::file(&"a.mp4".into());
        let error = reserve(&site, &mut Vec::<u64>::new(), usize::MAX / 8).unwrap_err();
        assert_eq!(error.kind(), "io");
        assert!(
            error.to_string().contains("a.mp4: no memory for"),
            "{error}"
        );
        let mut bytes = vec![1];
        assert!(resize(&site, &mut bytes, usize::MAX).is_err());
        assert_eq!(bytes, [1]);
        resize(&site, &mut bytes, 3).unwrap();
        assert_eq!(bytes, [1, 0, 0]);
        assert!(
            check_index_allocatable(&site, 1000).is_ok()
                && check_index_allocatable(&site, usize::MAX).is_err()
        );
    }
}
