//! Wraps an owned `AVPacket` that carries its decode index to the frame decoded from it.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use ffmpeg_sys_next as ffi;

use crate::units::DecodeIndex;

/// An owned `AVPacket`.
pub struct Packet(NonNull<ffi::AVPacket>);

// SAFETY: an AVPacket is plain data with reference-counted buffers; nothing in it is tied to a
// thread.
unsafe impl Send for Packet {}

impl Default for Packet {
    fn default() -> Self {
        Self::new()
    }
}

impl Packet {
    /// An empty packet.
    pub fn new() -> Self {
        // SAFETY: no arguments; null means out of memory.
        let raw = unsafe { ffi::av_packet_alloc() };
        Self(NonNull::new(raw).expect("out of memory for a packet header"))
    }

    pub(super) fn raw(&self) -> *mut ffi::AVPacket {
        self.0.as_ptr()
    }

    fn get(&self) -> &ffi::AVPacket {
        // SAFETY: the pointer is owned, valid, and borrowed for as long as `self`.
        unsafe { self.0.as_ref() }
    }

    /// Drops the payload.
    pub fn clear(&mut self) {
        // SAFETY: the packet is owned and valid.
        unsafe { ffi::av_packet_unref(self.raw()) };
    }

    /// Allocates a payload of `len` bytes for the caller to fill, zeroed and padded as libavcodec
    /// requires. `None` when out of memory.
    pub fn allocate(&mut self, len: usize) -> Option<&mut [u8]> {
        self.clear();
        let size = libc::c_int::try_from(len).ok()?;
        // SAFETY: the packet is owned and empty.
        if unsafe { ffi::av_new_packet(self.raw(), size) } < 0 {
            return None;
        }
        let data = self.get().data;
        // SAFETY: av_new_packet allocated `len` bytes (plus padding) that only this packet refers
        // to.
        let bytes = unsafe {
            std::ptr::write_bytes(data, 0, len);
            std::slice::from_raw_parts_mut(data, len)
        };
        Some(bytes)
    }

    /// The payload.
    pub fn data(&self) -> &[u8] {
        let packet = self.get();
        if packet.data.is_null() || packet.size <= 0 {
            return &[];
        }
        // SAFETY: libav guarantees `size` readable bytes at `data` while the packet lives.
        unsafe { std::slice::from_raw_parts(packet.data, packet.size as usize) }
    }

    /// Presentation time in ticks, if the container gives one.
    pub fn pts(&self) -> Option<i64> {
        Some(self.get().pts).filter(|&t| t != ffi::AV_NOPTS_VALUE)
    }

    /// Decoding time in ticks, if the container gives one.
    pub fn dts(&self) -> Option<i64> {
        Some(self.get().dts).filter(|&t| t != ffi::AV_NOPTS_VALUE)
    }

    /// Duration in ticks, 0 if unknown.
    pub fn duration(&self) -> i64 {
        self.get().duration
    }

    /// Byte position that the demuxer reports; its exact meaning depends on the container.
    pub fn position(&self) -> Option<u64> {
        u64::try_from(self.get().pos).ok()
    }

    /// Stream it belongs to.
    pub fn stream(&self) -> i32 {
        self.get().stream_index
    }

    /// Whether the container or its parser marks it as a keyframe.
    pub fn is_key(&self) -> bool {
        self.get().flags & ffi::AV_PKT_FLAG_KEY != 0
    }

    /// To be decoded but not shown (edit list, pre-roll).
    pub(crate) fn is_discard(&self) -> bool {
        self.get().flags & ffi::AV_PKT_FLAG_DISCARD != 0
    }

    /// The demuxer reports that a part of it is missing: the file ends inside it, or a part of the
    /// transport stream was lost.
    pub fn is_corrupt(&self) -> bool {
        self.get().flags & ffi::AV_PKT_FLAG_CORRUPT != 0
    }

    /// Sets or clears the key flag.
    pub fn set_key(&mut self, key: bool) {
        // SAFETY: owned and valid; a plain field.
        unsafe {
            if key {
                (*self.raw()).flags |= ffi::AV_PKT_FLAG_KEY;
            } else {
                (*self.raw()).flags &= !ffi::AV_PKT_FLAG_KEY;
            }
        }
    }

    /// Four characters that name the scheme of an encrypted packet, as MP4's `schm` box has them.
    pub(crate) fn encryption_scheme(&self) -> Option<String> {
        let kind = ffi::AVPacketSideDataType::AV_PKT_DATA_ENCRYPTION_INFO as u32;
        let (_, data) = self.side_data().find(|entry| entry.0 == kind)?;
        // The serialized information begins with the scheme.
        Some(String::from_utf8_lossy(data.get(..4)?).into_owned())
    }

    /// Whether it carries side data that the decoder needs (a palette, changed parameters), so that
    /// its payload alone would not decode to the same picture. Changed extradata is not counted:
    /// the index stores it.
    pub(crate) fn has_decoder_side_data(&self) -> bool {
        use ffi::AVPacketSideDataType as T;
        let needed = [T::AV_PKT_DATA_PALETTE, T::AV_PKT_DATA_PARAM_CHANGE];
        self.side_data()
            .any(|(kind, _)| needed.iter().any(|&t| t as u32 == kind))
    }

    /// Extradata that the container specifies from this packet on.
    pub fn new_extradata(&self) -> Option<&[u8]> {
        let kind = ffi::AVPacketSideDataType::AV_PKT_DATA_NEW_EXTRADATA as u32;
        self.side_data()
            .find(|entry| entry.0 == kind)
            .map(|(_, data)| data)
    }

    /// Number of samples at the begin and at the end of an audio packet that are padding of the
    /// encoder or outside the edit list.
    pub(crate) fn skipped_samples(&self) -> (u32, u32) {
        let kind = ffi::AVPacketSideDataType::AV_PKT_DATA_SKIP_SAMPLES as u32;
        let found = self.side_data().find(|entry| entry.0 == kind);
        let number = |data: &[u8], at: usize| {
            let bytes = data.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        found
            .and_then(|(_, data)| Some((number(data, 0)?, number(data, 4)?)))
            .unwrap_or((0, 0))
    }

    /// Removes the extradata. The decoder must not depend on whether the demuxer attached it: after
    /// a seek, it does so at other packets.
    pub(crate) fn remove_new_extradata(&mut self) {
        // SAFETY: the packet is owned and valid, and its array of side data agrees with its count.
        unsafe {
            let packet = self.raw();
            ffi::av_packet_side_data_remove(
                (*packet).side_data,
                &mut (*packet).side_data_elems,
                ffi::AVPacketSideDataType::AV_PKT_DATA_NEW_EXTRADATA,
            );
        }
    }

    /// Type and content of each entry of the side data.
    fn side_data(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let packet = self.get();
        let count = usize::try_from(packet.side_data_elems).unwrap_or(0);
        let entries = match packet.side_data.is_null() {
            true => &[],
            // SAFETY: libav keeps `side_data_elems` entries at `side_data`.
            false => unsafe { std::slice::from_raw_parts(packet.side_data, count) },
        };
        entries.iter().map(|entry| {
            // Read as an integer: an unknown value would be undefined behavior as a Rust enum.
            // SAFETY: the field is a 4-byte enum inside a live entry.
            let kind = unsafe { std::ptr::addr_of!(entry.type_).cast::<u32>().read() };
            if entry.data.is_null() {
                return (kind, &[][..]);
            }
            // SAFETY: libav keeps `size` bytes at `data` while the packet lives.
            (kind, unsafe {
                std::slice::from_raw_parts(entry.data, entry.size)
            })
        })
    }

    /// Tags the packet with its decode index; the decoder passes the tag on to the frame decoded
    /// from it.
    pub fn set_packet_index(&mut self, index: DecodeIndex) {
        // One is added so that "no tag" (null) differs from packet 0. Decoders copy either `opaque`
        // or, where they show an older picture again (VP9), only `pts`; so both carry the tag.
        // SAFETY: owned and valid; the pointer is only ever read back as a number.
        unsafe {
            (*self.raw()).opaque = std::ptr::without_provenance_mut(index.0 as usize + 1);
            (*self.raw()).pts = i64::from(index.0);
        }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        let mut raw = self.raw();
        // SAFETY: allocated by av_packet_alloc and freed once.
        unsafe { ffi::av_packet_free(&mut raw) };
    }
}
