//! A simulated parser: makes sequence, decode and display callbacks in the order of NVCUVID's
//! contract. It needs no CUDA context, and invalidates a bitstream after its callback.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::abi::{
    AV1, DISCONTINUITY, DisplayInfo, END_OF_PICTURE, END_OF_STREAM, Format, H264, HEVC, NOTIFY_EOS,
    Packet, ParserParams, PicParams, TIMESTAMP, VP8, VP9,
};
use super::codec::{BufferObserver, Codec, Picture};
use super::picture_context::{self, PictureContext, PictureFormat};
use super::picture_splitter::{CodedPicture, PictureSplitter};
use super::sequence_format;
use super::surface_indices::{PictureInfo, SurfaceIndices};
use crate::call_log::{
    Code, INVALID_VALUE, NOT_SUPPORTED, behavior, behavior_is_set, note, violation,
};
use crate::cuda::slice;

/// The error code for a failed callback; the parser reports no other detail.
const CALLBACK_FAILED: Code = INVALID_VALUE;
/// AV1 pictures that keep their index: the number of reference slots.
const AV1_NUM_REF_FRAMES: usize = 8;

/// Surfaces that a parser announces in addition to the minimum, if that behavior is enabled.
const MORE_SURFACES: u8 = 6;
/// Timestamps that a parser keeps, if that behavior is enabled.
const MAX_TIMESTAMPS: usize = 16;

struct DisplayedPicture {
    _picture: Picture,
    picture_info: PictureInfo,
}

pub struct Parser {
    id: usize,
    params: ParserParams,
    splitter: PictureSplitter,
    codec: Codec,
    indices: Arc<SurfaceIndices>,
    /// The sequence announced last.
    format: Option<Format>,
    picture_format: Option<PictureFormat>,
    minimum: i32,
    count: i32,
    header_seen: bool,
    /// Whether a different sequence header arrived; it is announced with the next picture.
    sequence_due: bool,
    fed_version: u64,
    epoch: u64,
    /// Displayable pictures that wait for the display delay.
    display_queue: VecDeque<DisplayedPicture>,
    last: Option<(i32, super::headers::Slice)>,
    /// Timestamps of pictures and fields that are not displayed yet, in decode order.
    waiting_timestamps: VecDeque<i64>,
    last_timestamp: i64,
    timestamp_step: i64,
    hidden: i64,
    /// VP8, VP9, AV1 without ENDOFPICTURE: the packet that waits for the next one, if that behavior
    /// is enabled.
    held_packet: Option<(Vec<u8>, Option<i64>)>,
    av1_references: VecDeque<u64>,
    av1_next: u64,
}

// SAFETY: the user's pointer is only passed back to the user's callbacks, on the thread that calls
// the parser.
unsafe impl Send for Parser {}

impl Parser {
    pub fn new(id: usize, params: ParserParams) -> Result<Parser, Code> {
        let indices = Arc::new(SurfaceIndices::default());
        indices.resize(params.decode_surfaces as i32);
        let observer: Arc<dyn BufferObserver> = indices.clone();
        let codec = Codec::open(params.codec, Some(observer)).ok_or(NOT_SUPPORTED)?;
        Ok(Parser {
            id,
            params,
            splitter: PictureSplitter::new(params.codec),
            codec,
            indices,
            format: None,
            picture_format: None,
            minimum: 0,
            count: params.decode_surfaces as i32,
            header_seen: false,
            sequence_due: false,
            fed_version: 0,
            epoch: 0,
            display_queue: VecDeque::new(),
            last: None,
            waiting_timestamps: VecDeque::new(),
            last_timestamp: 0,
            timestamp_step: 1,
            hidden: 0,
            held_packet: None,
            av1_references: VecDeque::new(),
            av1_next: 0,
        })
    }

    pub fn parse(&mut self, packet: &Packet) -> Result<(), Code> {
        let payload = slice(packet.payload, packet.bytes as usize, "a packet's payload")?.to_vec();
        let timestamp = (packet.flags & TIMESTAMP != 0).then_some(packet.timestamp);
        let end = packet.flags & END_OF_STREAM != 0;
        if payload.is_empty() && !end && packet.flags & DISCONTINUITY == 0 {
            return Ok(());
        }
        if packet.flags & DISCONTINUITY != 0 {
            self.discontinue();
        }
        let result = self.packet(&payload, timestamp, packet.flags & END_OF_PICTURE != 0, end);
        let result = result.and_then(|()| {
            if end {
                self.end(packet.flags & NOTIFY_EOS != 0)
            } else {
                Ok(())
            }
        });
        match result {
            Err(CALLBACK_FAILED) if behavior("callback_failure_hidden") => Ok(()),
            other => other,
        }
    }

    fn packet(
        &mut self,
        payload: &[u8],
        timestamp: Option<i64>,
        whole: bool,
        end: bool,
    ) -> Result<(), Code> {
        let frames_in_packets = matches!(self.params.codec, VP8 | VP9 | AV1);
        if let Some((held, timestamp)) = self.held_packet.take() {
            self.push(&held, timestamp, false)?;
        }
        if payload.is_empty() {
            return Ok(());
        }
        if frames_in_packets && !whole && !end && behavior("packet_lag") {
            self.held_packet = Some((payload.to_vec(), timestamp));
            return Ok(());
        }
        self.push(payload, timestamp, whole)
    }

    fn push(&mut self, payload: &[u8], timestamp: Option<i64>, whole: bool) -> Result<(), Code> {
        let (pictures, dropped) = self.splitter.push(payload, timestamp, whole);
        if dropped > 0 {
            note(format!(
                "ENDOFPICTURE on a packet with more than one picture: {dropped} bytes of it are dropped"
            ));
        }
        pictures
            .into_iter()
            .try_for_each(|coded| self.picture(coded))
    }

    fn end(&mut self, notify: bool) -> Result<(), Code> {
        let last = self.splitter.finish();
        let result = last
            .map_or(Ok(()), |coded| self.picture(coded))
            .and_then(|()| self.drain());
        self.header_seen = false;
        if let (true, Some(display)) = (notify, self.params.display) {
            // SAFETY: the callback and its user data are the caller's; null reports the end.
            unsafe { display(self.params.user, std::ptr::null_mut()) };
        }
        result
    }

    fn discontinue(&mut self) {
        self.splitter.reset();
        self.held_packet = None;
        self.display_queue.clear();
        self.restart();
        self.header_seen = false;
    }

    /// Ends the use of all pictures so far as references.
    fn restart(&mut self) {
        self.codec.flush();
        self.epoch += 1;
        self.last = None;
        self.waiting_timestamps.clear();
    }

    /// Displays all remaining pictures.
    fn drain(&mut self) -> Result<(), Code> {
        let done = if self.codec.direct {
            Vec::new()
        } else {
            self.codec.decode(None).displayed
        };
        let result = self.show(done, true);
        self.display_queue.clear();
        self.restart();
        result
    }

    fn picture(&mut self, coded: CodedPicture) -> Result<(), Code> {
        self.header_seen |= coded.has_sequence;
        self.sequence_due |= coded.new_sequence;
        if coded.slices.is_empty() || !self.header_seen {
            return Ok(()); // before the first header: no callback
        }
        if self.sequence_due && coded.random_access && self.format.is_some() {
            self.drain()?;
        }
        let timestamp = self.timestamp(&coded);
        if self.codec.direct {
            return self.av1_picture(&coded, timestamp);
        }
        if let (H264, Some(sps)) = (self.params.codec, coded.sps) {
            self.codec.set_reorder(sps.reorder);
        }
        self.indices.freeze();
        let done = if self.fed_version == coded.version {
            self.codec.decode(Some(&coded.data))
        } else {
            self.codec
                .decode(Some(&[coded.headers.as_slice(), &coded.data].concat()))
        };
        self.fed_version = coded.version;
        // Before its own picture H.264 may use buffers for lost ones, HEVC uses them after it.
        let mine = if self.params.codec == HEVC {
            done.taken.first()
        } else {
            done.taken.last()
        };
        let result = self.decode(&coded, mine.map(|(serial, _)| *serial), timestamp);
        self.indices.thaw();
        result?;
        if self.params.codec == VP9 {
            self.hidden += i64::from(coded.hidden);
        }
        let by_packet = matches!(self.params.codec, VP8 | VP9).then_some(timestamp);
        let delayed = self.hidden * self.timestamp_step;
        self.show_at(done.displayed, by_packet.map(|t| t + delayed))
    }

    /// A picture's own timestamp; a picture without one gets a guess.
    fn timestamp(&mut self, coded: &CodedPicture) -> i64 {
        let timestamp = coded
            .timestamp
            .unwrap_or(self.last_timestamp + self.timestamp_step);
        let step = timestamp - self.last_timestamp;
        if step > 0 {
            self.timestamp_step = step;
        }
        self.last_timestamp = timestamp;
        self.waiting_timestamps.push_back(timestamp);
        if self.waiting_timestamps.len() > MAX_TIMESTAMPS {
            self.waiting_timestamps.pop_front();
        }
        timestamp
    }

    /// The timestamp with which a picture is displayed; 0 if more than 16 later ones waited at a
    /// time.
    fn queued_timestamp(&mut self, timestamp: i64) -> i64 {
        let waiting = self
            .waiting_timestamps
            .iter()
            .position(|&waiting| waiting == timestamp);
        match waiting {
            None if behavior_is_set("timestamp_queue") => 0,
            None => timestamp,
            Some(at) => self.waiting_timestamps.remove(at).unwrap_or(timestamp),
        }
    }

    fn decode(
        &mut self,
        coded: &CodedPicture,
        serial: Option<u64>,
        timestamp: i64,
    ) -> Result<(), Code> {
        let slice = coded.slice.unwrap_or_default();
        let Some(serial) = serial else {
            let paired = self.last.filter(|(_, first)| {
                slice.field
                    && first.field
                    && first.bottom != slice.bottom
                    && first.frame_num == slice.frame_num
            });
            return match paired {
                Some((index, _)) => {
                    self.last = None;
                    self.call_decode(coded, index, true)
                }
                None => Ok(()), // the parser ignores it: damaged, or a leading picture without its references
            };
        };
        self.announce(coded)?;
        let disposable = self.params.codec == H264 && !coded.reference;
        let picture_info = PictureInfo {
            timestamp,
            progressive: true,
            top_first: !slice.bottom,
            disposable,
            ..PictureInfo::default()
        };
        let mut index = self.indices.assign(serial, picture_info);
        if index.is_none() {
            self.show(Vec::new(), true)?;
            self.indices.thaw();
            index = self.indices.assign(serial, picture_info);
        }
        let index = index.unwrap_or_else(|| {
            let (held, count, minimum) = (self.indices.held(), self.count, self.minimum);
            let whose = if count >= minimum {
                "the simulated parser miscounted"
            } else {
                "too few surfaces were returned"
            };
            violation(format!(
                "parser: {held} pictures are held, {count} surfaces, {minimum} announced: {whose}"
            ));
            0
        });
        self.last = Some((index, slice));
        self.call_decode(coded, index, false)
    }

    /// Makes the sequence callback, if one is due.
    fn announce(&mut self, coded: &CodedPicture) -> Result<(), Code> {
        let Some((format, picture_format)) =
            sequence_format::describe(self.params.codec, self.codec.raw(), coded)
        else {
            return Err(NOT_SUPPORTED);
        };
        let repeated = behavior("sequence_repeated") && coded.has_sequence && coded.random_access;
        if self.format == Some(format) && !self.sequence_due && !repeated {
            return Ok(());
        }
        self.show(Vec::new(), true)?; // pictures that are already displayable come first
        self.sequence_due = false;
        (self.format, self.picture_format) = (Some(format), Some(picture_format));
        let mut announced = format;
        if behavior_is_set("more_surfaces") {
            announced.min_decode_surfaces = (format.min_decode_surfaces + MORE_SURFACES).min(32);
        }
        self.minimum = i32::from(announced.min_decode_surfaces);
        if behavior_is_set("minimum_zero") {
            announced.min_decode_surfaces = 0;
            self.minimum = i32::from(format.min_decode_surfaces);
        }
        let Some(callback) = self.params.sequence else {
            return Ok(());
        };
        // SAFETY: the caller's callback and user data; the format lives through the call.
        let answer = picture_context::during_sequence(|| unsafe {
            callback(self.params.user, &mut announced)
        });
        if answer <= 0 {
            (self.header_seen, self.format) = (false, None);
            return Err(CALLBACK_FAILED);
        }
        if answer > 1 {
            self.count = answer;
        }
        if answer > 32 || self.count < self.minimum {
            violation(format!(
                "sequence callback returned {answer}: {} surfaces for a stream that needs {}, 32 at most",
                self.count, self.minimum
            ));
        }
        self.indices.resize(self.count.min(32));
        Ok(())
    }

    fn call_decode(
        &mut self,
        coded: &CodedPicture,
        index: i32,
        second_field: bool,
    ) -> Result<(), Code> {
        let (Some(picture_format), Some(callback)) = (self.picture_format, self.params.decode)
        else {
            return Ok(());
        };
        let (mut bitstream, mut offsets) = (Vec::new(), Vec::new());
        for &(start, end) in &coded.slices {
            offsets.push(bitstream.len() as u32);
            if matches!(self.params.codec, H264 | HEVC) {
                bitstream.extend_from_slice(&[0, 0, 1]);
            }
            bitstream.extend_from_slice(&coded.data[start..end]);
        }
        let slice = coded.slice.unwrap_or_default();
        let context = Arc::new(PictureContext {
            parser: self.id,
            epoch: self.epoch,
            index,
            second_field,
            picture_format,
            headers: coded.headers.clone(),
            version: coded.version,
            data: coded.data.clone(),
            submitted: AtomicBool::new(false),
        });
        let mut params = PicParams {
            width_mbs: picture_format.width.div_ceil(16) as i32,
            height_mbs: picture_format.height.div_ceil(16) as i32,
            index,
            field: i32::from(slice.field),
            bottom_field: i32::from(slice.bottom),
            second_field: i32::from(second_field),
            bytes: bitstream.len() as u32,
            bitstream: bitstream.as_ptr(),
            slices: offsets.len() as u32,
            slice_offsets: offsets.as_ptr(),
            reference: i32::from(coded.reference),
            intra: i32::from(coded.intra),
            reserved: [0; 30],
            codec_specific: [0; 1024],
        };
        let address = bitstream.as_ptr() as usize;
        // SAFETY: the caller's callback and user data; the parameters and what they point at live
        // through the call.
        let answer = picture_context::during(&context, address, || unsafe {
            callback(self.params.user, &mut params)
        });
        if !second_field || context.submitted.load(Ordering::Relaxed) {
            picture_context::set_stale(self.id, index, !context.submitted.load(Ordering::Relaxed));
        }
        bitstream.fill(0xDD); // a caller that kept the pointer reads this
        offsets.fill(u32::MAX);
        if answer == 0 {
            Err(CALLBACK_FAILED)
        } else {
            Ok(())
        }
    }

    fn show(&mut self, pictures: Vec<Picture>, all: bool) -> Result<(), Code> {
        self.queue(pictures, None);
        self.call_display(if all {
            0
        } else {
            self.params.display_delay as usize
        })
    }

    fn show_at(&mut self, pictures: Vec<Picture>, timestamp: Option<i64>) -> Result<(), Code> {
        self.queue(pictures, timestamp);
        self.call_display(self.params.display_delay as usize)
    }

    fn queue(&mut self, pictures: Vec<Picture>, timestamp: Option<i64>) {
        for picture in pictures {
            let Some(mut picture_info) =
                Codec::serial_of(&picture).and_then(|serial| self.indices.picture_info(serial))
            else {
                continue; // synthesized for a lost one
            };
            let flags = picture.raw().flags;
            picture_info.progressive = flags & ffmpeg_sys_next::AV_FRAME_FLAG_INTERLACED == 0;
            picture_info.top_first = flags & ffmpeg_sys_next::AV_FRAME_FLAG_TOP_FIELD_FIRST != 0;
            picture_info.timestamp = timestamp.unwrap_or(picture_info.timestamp);
            self.display_queue.push_back(DisplayedPicture {
                _picture: picture,
                picture_info,
            });
        }
    }

    fn call_display(&mut self, keep: usize) -> Result<(), Code> {
        while self.display_queue.len() > keep {
            let Some(DisplayedPicture {
                _picture,
                picture_info,
            }) = self.display_queue.pop_front()
            else {
                break;
            };
            let timestamp = match self.params.codec {
                H264 | HEVC => self.queued_timestamp(picture_info.timestamp),
                _ => picture_info.timestamp,
            };
            let mut info = DisplayInfo {
                index: picture_info.index.unwrap_or(0),
                progressive_frame: i32::from(picture_info.progressive),
                top_field_first: i32::from(picture_info.top_first),
                repeat_first_field: 0,
                timestamp,
            };
            let Some(callback) = self.params.display else {
                continue;
            };
            // SAFETY: the caller's callback and user data; the info lives through the call.
            let answer = unsafe { callback(self.params.user, &mut info) };
            if picture_info.disposable {
                self.indices.release(info.index);
            }
            if answer == 0 {
                return Err(CALLBACK_FAILED);
            }
        }
        Ok(())
    }

    /// dav1d outputs what a temporal unit displays; hidden frames are not output. Coarser than
    /// NVDEC: one decode callback per unit.
    fn av1_picture(&mut self, coded: &CodedPicture, timestamp: i64) -> Result<(), Code> {
        let done = self.codec.decode(Some(&coded.data));
        if done.displayed.is_empty() {
            return Ok(());
        }
        self.announce(coded)?;
        let serial = self.av1_next;
        self.av1_next += 1;
        let picture_info = PictureInfo {
            timestamp,
            progressive: true,
            top_first: true,
            ..PictureInfo::default()
        };
        let Some(index) = self.indices.assign(serial, picture_info) else {
            violation("parser: AV1 pictures ran out of indices".into());
            return Err(NOT_SUPPORTED);
        };
        self.av1_references.push_back(serial);
        let result = self.call_decode(coded, index, false);
        let picture_info = PictureInfo {
            index: Some(index),
            ..picture_info
        };
        self.display_queue.push_back(DisplayedPicture {
            _picture: Picture::empty(),
            picture_info,
        });
        let result = result.and_then(|()| self.call_display(self.params.display_delay as usize));
        if self.av1_references.len() > AV1_NUM_REF_FRAMES
            && let Some(old) = self.av1_references.pop_front()
        {
            self.indices.on_freed(old);
        }
        result
    }
}

impl Drop for Parser {
    fn drop(&mut self) {
        picture_context::forget_parser(self.id);
    }
}
