//! Reads the properties and packets of a video or audio stream through libavformat.
//! A read error is never reported as the end of the file.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use ffmpeg_sys_next as ffi;

use super::audio_decoder::audio_params;
use super::codec_params::{
    NameBy, NameOf, codec_name, codec_params, codec_with_extradata, display_orientation,
    error_text, named,
};
use super::io::AvioContext;
use super::signatures::{self, Mismatch};
use super::{Packet, log};
use crate::containers;
use crate::error::{Error, Result, Site};
use crate::limits::Limits;
use crate::media::{
    AudioParams, StreamHeader, StreamInfo, StreamKind, StreamSummary, list_streams,
};
use crate::source::ByteSource;
use crate::units::TimeBase;

/// An open container with one chosen stream.
pub struct Demuxer {
    context: NonNull<ffi::AVFormatContext>,
    io: AvioContext, // declared after the context: it must outlive it
    site: Site,
    stream: c_int,
    skipped_corrupt: u32,
}

// SAFETY: libavformat contexts may be used from any thread, one at a time, which `&mut self`
// ensures.
unsafe impl Send for Demuxer {}

impl Demuxer {
    /// Opens the container and selects the video stream: the one with index `wanted`, or the one
    /// that libavformat selects as best. `probe` lets libavformat read the first packets for
    /// properties that headers lack (slow; needed once per file, when it is indexed), including
    /// those by which it selects the best of several video streams.
    pub fn open(source: Arc<dyn ByteSource>, probe: bool, wanted: Option<u32>) -> Result<Self> {
        Self::open_kind(source, StreamKind::Video, probe, wanted)
    }

    /// Opens the container and selects the audio stream: the one with index `wanted`, or the one
    /// that libavformat selects as best. Reads the first packets only of containers without a
    /// header that lists the streams.
    ///
    /// # Errors
    /// `NoAudio`, and those of opening.
    pub(crate) fn open_audio(source: Arc<dyn ByteSource>, wanted: Option<u32>) -> Result<Self> {
        Self::open_kind(source, StreamKind::Audio, false, wanted)
    }

    fn open_kind(
        source: Arc<dyn ByteSource>,
        kind: StreamKind,
        probe: bool,
        wanted: Option<u32>,
    ) -> Result<Self> {
        log::capture();
        log::clear();
        let site = Site::file(source.name());
        if source.is_empty() {
            return Err(Error::empty(&site));
        }
        let mut io = AvioContext::new(source.clone());
        // SAFETY: a context of our own, freed below or by avformat_open_input on failure.
        let mut raw = unsafe { ffi::avformat_alloc_context() };
        if raw.is_null() {
            return Err(Error::malformed(&site, "out of memory"));
        }
        // SAFETY: `raw` is valid; the I/O context outlives it.
        let code = unsafe {
            (*raw).pb = io.raw();
            (*raw).flags |= ffi::AVFMT_FLAG_CUSTOM_IO;
            (*raw).io_open = Some(deny_external_open);
            ffi::avformat_open_input(&mut raw, ptr::null(), ptr::null(), ptr::null_mut())
        };
        if code < 0 {
            let error = open_error(&site, &mut io, code, "no known container starts like this");
            return Err(match error {
                Error::Malformed { .. } => signatures::unsupported_container(&read_head(&source)?)
                    .map_or(error, |container| unsupported_container(&site, container)),
                other => other,
            });
        }
        let context = NonNull::new(raw).expect("avformat_open_input succeeded");
        let mut this = Self {
            context,
            io,
            site,
            stream: -1,
            skipped_corrupt: 0,
        };
        this.check_format(&source)?;
        // SAFETY: the context is open.
        let flags = unsafe { this.context.as_ref() }.ctx_flags;
        let lists_streams = flags & ffi::AVFMTCTX_NOHEADER == 0;
        let is_audio = kind == StreamKind::Audio;
        if probe || (is_audio && !lists_streams) {
            this.probe()?;
        }
        this.stream = match kind {
            // Only streams of a known sample rate are selected, which the header may lack.
            StreamKind::Audio => match this.choose_audio_stream(wanted) {
                Err(Error::NoAudio { .. }) if lists_streams => {
                    this.probe()?;
                    this.choose_audio_stream(wanted)?
                }
                chosen => chosen?,
            },
            _ => this.choose_stream(wanted)?,
        };
        for (i, stream) in this.streams().iter().enumerate() {
            if i as c_int != this.stream {
                // SAFETY: stream pointers stay valid while the context is open.
                unsafe { (**stream).discard = ffi::AVDiscard::AVDISCARD_ALL };
            }
        }
        Ok(this)
    }

    /// Lets libavformat read the first packets for properties that headers lack.
    fn probe(&mut self) -> Result<()> {
        // SAFETY: the context is open.
        let code = unsafe { ffi::avformat_find_stream_info(self.raw(), ptr::null_mut()) };
        if code < 0 {
            let what = "its streams cannot be parsed";
            return Err(open_error(&self.site, &mut self.io, code, what));
        }
        Ok(())
    }

    /// Checks that the file begins like the format for which libavformat takes it.
    fn check_format(&self, source: &Arc<dyn ByteSource>) -> Result<()> {
        let format = self.container();
        if !signatures::is_detected_by_content(&format) {
            return Ok(());
        }
        match signatures::check_format(&format, &read_head(source)?) {
            Ok(()) => Ok(()),
            Err(Mismatch::Container(container)) => {
                Err(unsupported_container(&self.site, container))
            }
            Err(Mismatch::RawStream(begin)) => Err(Error::malformed(
                &self.site,
                format!(
                    "no known container starts like this, and a raw {format} stream begins with {begin}"
                ),
            )),
        }
    }

    fn raw(&self) -> *mut ffi::AVFormatContext {
        self.context.as_ptr()
    }

    fn streams(&self) -> &[*mut ffi::AVStream] {
        // SAFETY: libavformat keeps `nb_streams` pointers at `streams`.
        unsafe {
            let context = self.context.as_ref();
            if context.nb_streams == 0 {
                return &[];
            }
            std::slice::from_raw_parts(context.streams, context.nb_streams as usize)
        }
    }

    fn choose_stream(&mut self, wanted: Option<u32>) -> Result<c_int> {
        let streams = self.stream_summaries();
        if let Some(wanted) = wanted {
            return match (streams.get(wanted as usize), c_int::try_from(wanted)) {
                (Some(stream), Ok(wanted)) if stream.kind == StreamKind::Video => Ok(wanted),
                _ => Err(Error::NotVideo {
                    site: self.site.clone(),
                    stream: wanted,
                    streams: list_streams(&streams),
                }),
            };
        }
        let best = self.best_stream();
        if best.is_some_and(|best| self.is_tile(best)) {
            let what = "the first tile as a video, because the picture of this AVIF or HEIF image is a grid of tiles; \
                        read an AVIF with decode_image, or convert the image"
                .to_owned();
            return Err(Error::Unsupported {
                site: self.site.clone(),
                what,
            });
        }
        best.ok_or_else(|| {
            let name = |stream: &StreamSummary| match stream.kind {
                StreamKind::AttachedPicture => format!("{} cover art", stream.codec),
                _ if stream.codec == "none" => "data".into(),
                _ => stream.codec.clone(),
            };
            let reason = match &streams[..] {
                [] => "it contains no streams".into(),
                held => format!(
                    "it holds {}",
                    held.iter().map(name).collect::<Vec<_>>().join(", ")
                ),
            };
            Error::NoVideo {
                site: self.site.clone(),
                reason,
            }
        })
    }

    fn choose_audio_stream(&mut self, wanted: Option<u32>) -> Result<c_int> {
        let streams = self.stream_summaries();
        let no_audio = |reason: String| Error::NoAudio {
            site: self.site.clone(),
            reason,
        };
        if let Some(wanted) = wanted {
            return match (streams.get(wanted as usize), c_int::try_from(wanted)) {
                (Some(stream), Ok(wanted)) if stream.kind == StreamKind::Audio => Ok(wanted),
                _ => Err(no_audio(format!(
                    "stream {wanted} is not one; the file has {}",
                    list_streams(&streams)
                ))),
            };
        }
        let audio = ffi::AVMediaType::AVMEDIA_TYPE_AUDIO;
        // SAFETY: the context is open, and no decoder is requested.
        let best =
            unsafe { ffi::av_find_best_stream(self.raw(), audio, -1, -1, ptr::null_mut(), 0) };
        match best {
            0.. => Ok(best),
            _ => Err(no_audio(format!("the file has {}", list_streams(&streams)))),
        }
    }

    /// Whether a stream is a part of a picture.
    fn is_tile(&self, stream: c_int) -> bool {
        // SAFETY: libavformat keeps `nb_stream_groups` pointers at `stream_groups`, and
        // `nb_streams` pointers at the `streams` of each group. The type is read as an integer,
        // since unknown values would be undefined.
        unsafe {
            let context = self.context.as_ref();
            (0..context.nb_stream_groups as usize).any(|group| {
                let group = *context.stream_groups.add(group);
                let kind = ptr::addr_of!((*group).type_).cast::<u32>().read();
                kind == ffi::AVStreamGroupParamsType::AV_STREAM_GROUP_PARAMS_TILE_GRID as u32
                    && (0..(*group).nb_streams as usize)
                        .any(|n| (**(*group).streams.add(n)).index == stream)
            })
        }
    }

    /// The video stream that `av_find_best_stream` selects. It would select attached pictures too,
    /// so their type is changed during the call.
    fn best_stream(&mut self) -> Option<c_int> {
        let pictures: Vec<*mut ffi::AVStream> = self
            .streams()
            .iter()
            .copied()
            .filter(|&stream| kind_of(stream) == StreamKind::AttachedPicture)
            .collect();
        let set = |kind| {
            for &stream in &pictures {
                // SAFETY: live stream of our own context, which nothing else reads meanwhile.
                unsafe { (*(*stream).codecpar).codec_type = kind };
            }
        };
        set(ffi::AVMediaType::AVMEDIA_TYPE_ATTACHMENT);
        let video = ffi::AVMediaType::AVMEDIA_TYPE_VIDEO;
        // SAFETY: the context is open, and no decoder is requested.
        let best =
            unsafe { ffi::av_find_best_stream(self.raw(), video, -1, -1, ptr::null_mut(), 0) };
        set(video);
        Some(best).filter(|&best| best >= 0)
    }

    /// All streams of the container, by index.
    pub(crate) fn stream_summaries(&self) -> Vec<StreamSummary> {
        let summary = |&stream: &*mut ffi::AVStream| {
            let kind = kind_of(stream);
            // SAFETY: live stream; the codec's number is read as an integer since unknown values
            // would be undefined.
            let (id, width, height, frames, disposition) = unsafe {
                let par = (*stream).codecpar;
                let id = ptr::addr_of!((*par).codec_id).cast::<u32>().read();
                (
                    id,
                    (*par).width,
                    (*par).height,
                    (*stream).nb_frames,
                    (*stream).disposition,
                )
            };
            let side = |side: c_int| u32::try_from(side).unwrap_or(0);
            let is_video = kind == StreamKind::Video;
            StreamSummary {
                kind,
                codec: codec_name(id),
                width: if is_video { side(width) } else { 0 },
                height: if is_video { side(height) } else { 0 },
                num_frames: u64::try_from(frames)
                    .ok()
                    .filter(|&frames| is_video && frames > 0),
                is_default: disposition & ffi::AV_DISPOSITION_DEFAULT != 0,
            }
        };
        self.streams().iter().map(summary).collect()
    }

    /// Index of the chosen stream, and its ID in the container (MP4: the track ID).
    pub(crate) fn selected_stream(&self) -> (u32, i32) {
        // SAFETY: live stream.
        (self.stream as u32, unsafe {
            (*self.streams()[self.stream as usize]).id
        })
    }

    /// Short name of the container format, such as "matroska,webm".
    pub fn container(&self) -> String {
        // SAFETY: an open context has a format whose name is a static string.
        unsafe { CStr::from_ptr((*self.context.as_ref().iformat).name) }
            .to_string_lossy()
            .into_owned()
    }

    /// Number of damaged units that were skipped so far.
    pub(crate) fn skipped_corrupt(&self) -> u32 {
        self.skipped_corrupt
    }

    /// Bytes read from the source so far.
    pub fn bytes_read(&self) -> u64 {
        self.io.bytes_read()
    }

    /// Properties of the chosen stream.
    pub fn info(&self, limits: &Limits) -> Result<StreamInfo> {
        let stream = self.streams()[self.stream as usize];
        // SAFETY: live stream and codec parameters.
        let (stream, par) = unsafe { (&*stream, &*(*stream).codecpar) };
        let time_base = time_base(stream.time_base)
            .ok_or_else(|| Error::malformed(&self.site, "the video stream has no time base"))?;
        let params = codec_params(&self.site, par, limits)?;
        let rate = |r: ffi::AVRational| {
            Some((u32::try_from(r.num).ok()?, u32::try_from(r.den).ok()?))
                .filter(|r| r.0 > 0 && r.1 > 0)
        };
        // SAFETY: context and stream are live; a null frame is allowed.
        let guessed = unsafe {
            ffi::av_guess_frame_rate(
                self.raw(),
                ptr::from_ref(stream).cast_mut(),
                ptr::null_mut(),
            )
        };
        Ok(StreamInfo {
            stream: self.stream as u32,
            params,
            time_base,
            orientation: display_orientation(par),
            sample_aspect: match (
                rate(stream.sample_aspect_ratio),
                rate(par.sample_aspect_ratio),
            ) {
                (Some(stated), Some(coded)) if is_rounded(stated, coded, par.width) => Some(coded),
                (stated, coded) => stated.or(coded),
            },
            frame_rate: rate(guessed),
        })
    }

    /// Parameters and time base of the chosen audio stream, as the container states them.
    pub(crate) fn audio_info(&self, limits: &Limits) -> Result<(AudioParams, TimeBase)> {
        let stream = self.streams()[self.stream as usize];
        // SAFETY: live stream and codec parameters.
        let (stream, par) = unsafe { (&*stream, &*(*stream).codecpar) };
        let time_base = time_base(stream.time_base)
            .ok_or_else(|| Error::malformed(&self.site, "the audio stream has no time base"))?;
        let codec = codec_with_extradata(&self.site, par, limits)?;
        Ok((audio_params(&self.site, par, codec)?, time_base))
    }

    /// The packets of the chosen stream that the sample tables of a file without fragments list;
    /// `None` for containers without them.
    pub(crate) fn sample_table(&self) -> Option<Vec<TableEntry>> {
        if !containers::by_name(&self.container()).has_sample_tables {
            return None;
        }
        let stream = self.streams()[self.stream as usize];
        // SAFETY: live stream; entry pointers are valid until the context changes.
        unsafe {
            let count = ffi::avformat_index_get_entries_count(stream);
            // An edit list may repeat samples.
            if count <= 0 || (*stream).nb_frames != i64::from(count) {
                return None;
            }
            let entry = |at| {
                let entry = ffi::avformat_index_get_entry(stream, at).as_ref()?;
                let is_hidden = entry.flags() & AVINDEX_DISCARD_FRAME != 0;
                Some(TableEntry {
                    offset: u64::try_from(entry.pos).ok()?,
                    size: u32::try_from(entry.size()).ok()?,
                    time: entry.timestamp,
                    is_hidden,
                })
            };
            (0..count).map(entry).collect()
        }
    }

    /// Properties that the headers of the chosen stream state; complete only where the demuxer was
    /// opened with `probe`.
    pub fn header(&self) -> StreamHeader {
        // SAFETY: live stream and codec parameters.
        let (stream, par) = unsafe {
            let stream = &*self.streams()[self.stream as usize];
            (stream, &*stream.codecpar)
        };
        let seconds = |ticks: i64| time_base(stream.time_base).map(|base| base.seconds(ticks));
        let rate = stream.r_frame_rate;
        let rate = (
            u32::try_from(rate.num).unwrap_or(0),
            u32::try_from(rate.den).unwrap_or(0),
        );
        // SAFETY: enum fields of live parameters, read as integers.
        let (primaries, transfer, matrix, field_order) = unsafe {
            (
                ptr::addr_of!(par.color_primaries).cast::<i32>().read(),
                ptr::addr_of!(par.color_trc).cast::<i32>().read(),
                ptr::addr_of!(par.color_space).cast::<i32>().read(),
                ptr::addr_of!(par.field_order).cast::<u32>().read(),
            )
        };
        let stated = |number: i32, name: NameOf| {
            Some(number)
                .filter(|&n| n != 2)
                .and_then(|n| named(n, name))
        };
        // SAFETY: libavutil's functions take any number and return a static string, a static
        // descriptor, or null; the numbers go through the C type without becoming Rust enum values
        // first.
        let (pixel_format, descriptor, color_primaries, color_transfer, color_space) = unsafe {
            let describe: unsafe extern "C" fn(c_int) -> *const ffi::AVPixFmtDescriptor =
                std::mem::transmute(
                    ffi::av_pix_fmt_desc_get
                        as unsafe extern "C" fn(
                            ffi::AVPixelFormat,
                        )
                            -> *const ffi::AVPixFmtDescriptor,
                );
            (
                named(
                    par.format,
                    std::mem::transmute::<NameBy<ffi::AVPixelFormat>, NameOf>(
                        ffi::av_get_pix_fmt_name,
                    ),
                ),
                describe(par.format).as_ref(),
                stated(
                    primaries,
                    std::mem::transmute::<NameBy<ffi::AVColorPrimaries>, NameOf>(
                        ffi::av_color_primaries_name,
                    ),
                ),
                stated(
                    transfer,
                    std::mem::transmute::<NameBy<ffi::AVColorTransferCharacteristic>, NameOf>(
                        ffi::av_color_transfer_name,
                    ),
                ),
                stated(
                    matrix,
                    std::mem::transmute::<NameBy<ffi::AVColorSpace>, NameOf>(
                        ffi::av_color_space_name,
                    ),
                ),
            )
        };
        StreamHeader {
            duration_seconds: Some(stream.duration).filter(|&d| d > 0).and_then(seconds),
            start_seconds: Some(stream.start_time)
                .filter(|&t| t != ffi::AV_NOPTS_VALUE)
                .and_then(seconds),
            bit_rate: par.bit_rate,
            num_frames: u64::try_from(stream.nb_frames).ok().filter(|&n| n > 0),
            frame_rate: Some(rate).filter(|r| r.0 > 0 && r.1 > 0),
            sample_aspect: (par.sample_aspect_ratio.num, par.sample_aspect_ratio.den),
            pixel_format,
            field_order: ["progressive", "tt", "bb", "tb", "bt"]
                .get(
                    (field_order as usize)
                        .wrapping_sub(ffi::AVFieldOrder::AV_FIELD_PROGRESSIVE as usize),
                )
                .copied(),
            bit_depth: descriptor.and_then(|d| u32::try_from(d.comp[0].depth).ok()),
            color_primaries,
            color_transfer,
            color_space,
        }
    }

    /// Reads the next packet of the chosen stream; `false` at the end. Damaged units that
    /// libavformat can skip are skipped and counted; other errors are returned as errors, not as an
    /// early end.
    pub(crate) fn next_packet(&mut self, packet: &mut Packet) -> Result<bool> {
        log::clear();
        let mut retries = 0;
        loop {
            packet.clear();
            // SAFETY: context and packet are live and ours.
            let code = unsafe { ffi::av_read_frame(self.raw(), packet.raw()) };
            if let Some(error) = self.io.take_error() {
                return Err(error);
            }
            match code {
                ffi::AVERROR_EOF => return Ok(false),
                0.. if packet.stream() == self.stream => return Ok(true),
                0.. => {}
                // Some demuxers report a damaged unit and continue with the next call. Bounded, so
                // that none can loop forever.
                ffi::AVERROR_INVALIDDATA if retries < 1000 => {
                    retries += 1;
                    self.skipped_corrupt += 1;
                }
                code if code == ffi::AVERROR(libc::EAGAIN) && retries < 1000 => retries += 1,
                code => {
                    return Err(Error::malformed(
                        &self.site,
                        log::with_logged_error(&format!("reading stopped: {}", error_text(code))),
                    ));
                }
            }
        }
    }

    /// Seeks to a packet at or before `dts` where the container allows it. The caller must
    /// determine the position that was reached: containers only seek approximately.
    pub(crate) fn seek_before(&mut self, dts: i64) -> bool {
        // SAFETY: context is live; the stream number is valid.
        unsafe { ffi::av_seek_frame(self.raw(), self.stream, dts, ffi::AVSEEK_FLAG_BACKWARD) >= 0 }
    }
}

impl Drop for Demuxer {
    fn drop(&mut self) {
        let mut raw = self.raw();
        // SAFETY: opened by avformat_open_input, closed once; custom I/O is left to `AvioContext`.
        unsafe { ffi::avformat_close_input(&mut raw) };
    }
}

/// `AVINDEX_DISCARD_FRAME`: outside the edit list.
const AVINDEX_DISCARD_FRAME: c_int = 2;

/// A packet that a sample table lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub offset: u64,
    pub size: u32,
    /// In ticks, edit list applied.
    pub time: i64,
    /// To be decoded but not heard.
    pub is_hidden: bool,
}

/// Whether a sample aspect ratio may be the rounded form of the one in the stream: libavformat
/// computes it from the display width of an MP4 track, in whole pixels, if the track does not state
/// it otherwise.
fn is_rounded(stated: (u32, u32), coded: (u32, u32), width: c_int) -> bool {
    let display_width =
        |ratio: (u32, u32)| f64::from(width) * f64::from(ratio.0) / f64::from(ratio.1);
    stated != coded && (0.0..1.0).contains(&(display_width(coded) - display_width(stated)))
}

/// Called by libavformat to open files that a file refers to: parts of a playlist, a track in
/// another file. Refused: a video is one file here, and with an FFmpeg that follows such
/// references, the author of a file would choose what this process reads and which servers it
/// contacts.
unsafe extern "C" fn deny_external_open(
    _: *mut ffi::AVFormatContext,
    _: *mut *mut ffi::AVIOContext,
    _: *const libc::c_char,
    _: c_int,
    _: *mut *mut ffi::AVDictionary,
) -> c_int {
    ffi::AVERROR(libc::EPERM)
}

fn read_head(source: &Arc<dyn ByteSource>) -> Result<Vec<u8>> {
    let mut head = vec![0; signatures::HEAD_BYTES];
    let len = source.read_at(0, &mut head)?;
    head.truncate(len);
    Ok(head)
}

fn unsupported_container(site: &Site, container: &str) -> Error {
    Error::Unsupported {
        site: site.clone(),
        what: format!("the container {container}"),
    }
}

fn open_error(site: &Site, io: &mut AvioContext, code: c_int, what: &str) -> Error {
    if let Some(error) = io.take_error() {
        return error;
    }
    Error::malformed(
        site,
        log::with_logged_error(&format!("{what}: {}", error_text(code))),
    )
}

fn time_base(r: ffi::AVRational) -> Option<TimeBase> {
    TimeBase::new(u32::try_from(r.num).ok()?, u32::try_from(r.den).ok()?)
}

fn kind_of(stream: *mut ffi::AVStream) -> StreamKind {
    // SAFETY: a live stream; the type is read as an integer since unknown values would be
    // undefined.
    let (kind, disposition) = unsafe {
        (
            ptr::addr_of!((*(*stream).codecpar).codec_type)
                .cast::<i32>()
                .read(),
            (*stream).disposition,
        )
    };
    let is = |media: ffi::AVMediaType| kind == media as i32;
    if is(ffi::AVMediaType::AVMEDIA_TYPE_VIDEO) {
        let attached = disposition & ffi::AV_DISPOSITION_ATTACHED_PIC != 0;
        if attached {
            StreamKind::AttachedPicture
        } else {
            StreamKind::Video
        }
    } else if is(ffi::AVMediaType::AVMEDIA_TYPE_AUDIO) {
        StreamKind::Audio
    } else if is(ffi::AVMediaType::AVMEDIA_TYPE_SUBTITLE) {
        StreamKind::Subtitle
    } else if is(ffi::AVMediaType::AVMEDIA_TYPE_ATTACHMENT) {
        StreamKind::Attachment
    } else {
        StreamKind::Data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    #[test]
    fn external_references_are_not_opened() {
        let mut ivf = b"DKIF\0\0\x20\0VP80\x10\0\x10\0".to_vec();
        ivf.extend(
            [30u32, 1, 0, 0]
                .iter()
                .flat_map(|number| number.to_le_bytes()),
        );
        let demuxer =
            Demuxer::open(Arc::new(MemorySource::new("a.ivf", ivf)), false, None).unwrap();
        let mut opened = ptr::null_mut();
        // SAFETY: the context is open, the URL is NUL-terminated, and `opened` is valid for writes.
        let code = unsafe {
            let open = (*demuxer.raw()).io_open.expect("set when it was opened");
            open(
                demuxer.raw(),
                &mut opened,
                c"file:Cargo.toml".as_ptr(),
                1,
                ptr::null_mut(),
            )
        };
        assert_eq!(code, ffi::AVERROR(libc::EPERM), "{}", error_text(code));
        assert!(opened.is_null());
    }
}
