//! Decodes packets in decode order to frames, each tagged with its packet.
//! Errors and concealed pictures are always reported; neither passes for an intact frame.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ffmpeg_sys_next as ffi;

use super::codec_params::error_text;
use super::{Frame, Packet, log};
use crate::batch::poison;
use crate::codecs;
use crate::error::{Error, Result, Site};
use crate::limits::Limits;
use crate::media::CodecParams;

/// Result of [`Decoder::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The frame was filled.
    Frame,
    /// More packets are needed.
    NeedsInput,
    /// Drained: nothing more will come before a [`Decoder::flush`].
    End,
}

/// One software decoder.
pub struct Decoder {
    context: NonNull<ffi::AVCodecContext>,
    draining: bool,
    /// Collects errors of its threads; `None` for a decoder without threads, which logs on the
    /// calling thread.
    sink: Option<Arc<log::ErrorSink>>,
    threads: u32,
    /// Process that has these threads.
    owner_pid: u32,
}

// SAFETY: a codec context may move between threads as long as one uses it at a time, which `&mut
// self` ensures.
unsafe impl Send for Decoder {}

/// A codec context filled from `params`; `None` when out of memory. `codec` may be null (parsers).
pub(super) fn alloc_context(
    site: &Site,
    params: &CodecParams,
    codec: *const ffi::AVCodec,
) -> Result<Option<NonNull<ffi::AVCodecContext>>> {
    log::capture();
    // SAFETY: a null codec is allowed.
    let Some(context) = NonNull::new(unsafe { ffi::avcodec_alloc_context3(codec) }) else {
        return Ok(None);
    };
    // SAFETY: parameters of our own, freed below.
    let mut par = unsafe { ffi::avcodec_parameters_alloc() };
    if par.is_null() {
        return Ok(None);
    }
    let padding = ffi::AV_INPUT_BUFFER_PADDING_SIZE as usize;
    // SAFETY: `par` is live; enum fields are written as integers (they came from libav or ITU-T
    // H.273 tables, and libav itself checks them); extradata is allocated with av_mallocz and
    // padded as required, and freed with `par`.
    let code = unsafe {
        ptr::addr_of_mut!((*par).codec_type)
            .cast::<i32>()
            .write(ffi::AVMediaType::AVMEDIA_TYPE_VIDEO as i32);
        ptr::addr_of_mut!((*par).codec_id)
            .cast::<u32>()
            .write(params.codec.id);
        (*par).codec_tag = params.tag;
        (*par).width = c_int::try_from(params.width).unwrap_or(0);
        (*par).height = c_int::try_from(params.height).unwrap_or(0);
        (*par).bits_per_coded_sample = params.bits_per_coded_sample;
        (*par).video_delay = c_int::from(params.reorder.unwrap_or(0));
        ptr::addr_of_mut!((*par).color_primaries)
            .cast::<u32>()
            .write(u32::from(params.color.primaries));
        ptr::addr_of_mut!((*par).color_trc)
            .cast::<u32>()
            .write(u32::from(params.color.transfer));
        ptr::addr_of_mut!((*par).color_space)
            .cast::<u32>()
            .write(u32::from(params.color.matrix));
        let range = params
            .color
            .full_range
            .map_or(0, |full| if full { 2 } else { 1 });
        ptr::addr_of_mut!((*par).color_range)
            .cast::<u32>()
            .write(range);
        if !params.extradata.is_empty() {
            (*par).extradata = ffi::av_mallocz(params.extradata.len() + padding).cast::<u8>();
            if !(*par).extradata.is_null() {
                ptr::copy_nonoverlapping(
                    params.extradata.as_ptr(),
                    (*par).extradata,
                    params.extradata.len(),
                );
                (*par).extradata_size = params.extradata.len() as c_int;
            }
        }
        let code = ffi::avcodec_parameters_to_context(context.as_ptr(), par);
        ffi::avcodec_parameters_free(&mut par);
        code
    };
    if code < 0 {
        let mut raw = context.as_ptr();
        // SAFETY: allocated above, freed once.
        unsafe { ffi::avcodec_free_context(&mut raw) };
        return Err(Error::malformed(
            site,
            format!("codec parameters are rejected: {}", error_text(code)),
        ));
    }
    Ok(Some(context))
}

/// Value that fills the memory of a frame before decoding; `None` where the decoder is known to
/// write or to conceal every block, or to report that it did not. The decoders of H.264 and HEVC
/// report it only with scripts/ffmpeg.patch, which a user's own FFmpeg lacks. Data that another
/// picture left in a reused buffer must never be visible. [`poison`] fills for all codecs, which
/// does not change the output of such a decoder.
fn frame_fill_byte(params: &CodecParams) -> Option<u8> {
    let is_whole = codecs::of(&params.codec).writes_every_block();
    poison().or((!is_whole).then_some(0))
}

/// The value for [`filled_buffer`], the same for all decoders of a process that fill buffers.
static FILL_BYTE: AtomicU8 = AtomicU8::new(0);

/// Allocates the memory of a frame as libavcodec does, and fills it.
unsafe extern "C" fn filled_buffer(
    context: *mut ffi::AVCodecContext,
    frame: *mut ffi::AVFrame,
    flags: c_int,
) -> c_int {
    // SAFETY: libavcodec calls this with a live context and frame, and with valid flags.
    unsafe {
        let code = ffi::avcodec_default_get_buffer2(context, frame, flags);
        if code >= 0 {
            for buffer in (*frame).buf.iter().take_while(|buffer| !buffer.is_null()) {
                ptr::write_bytes(
                    (**buffer).data,
                    FILL_BYTE.load(Ordering::Relaxed),
                    (**buffer).size,
                );
            }
        }
        code
    }
}

impl Decoder {
    /// Opens a decoder. With one thread it decodes on the calling thread: what it logs while it has
    /// a packet concerns that packet (see [`log`]). With more threads, a logged error concerns one
    /// of the packets sent recently.
    pub fn open(site: &Site, params: &CodecParams, threads: u32) -> Result<Self> {
        log::capture();
        log::clear();
        let unsupported = || Error::Unsupported {
            site: site.clone(),
            what: format!("codec '{}'", params.codec.name),
        };
        // SAFETY: the number goes through the C type; unknown numbers find nothing.
        let codec = unsafe {
            let find: unsafe extern "C" fn(u32) -> *const ffi::AVCodec = std::mem::transmute(
                ffi::avcodec_find_decoder
                    as unsafe extern "C" fn(ffi::AVCodecID) -> *const ffi::AVCodec,
            );
            find(params.codec.id)
        };
        if codec.is_null() {
            return Err(unsupported());
        }
        let context = alloc_context(site, params, codec)?
            .ok_or_else(|| Error::malformed(site, "out of memory for a decoder"))?;
        let sink = (threads > 1).then(Arc::<log::ErrorSink>::default);
        let this = Self {
            context,
            draining: false,
            sink,
            threads,
            owner_pid: std::process::id(),
        };
        // SAFETY: the context is live and not open yet.
        let code = unsafe {
            let c = context.as_ptr();
            (*c).thread_count = c_int::try_from(threads).unwrap_or(1);
            if let Some(sink) = &this.sink {
                (*c).opaque = Arc::as_ptr(sink).cast_mut().cast();
            }
            if let Some(fill) = frame_fill_byte(params) {
                FILL_BYTE.store(fill, Ordering::Relaxed);
                (*c).get_buffer2 = Some(filled_buffer);
            }
            (*c).max_pixels = i64::try_from(Limits::default().picture_samples).unwrap_or(i64::MAX);
            // Without BITEXACT libavcodec may choose vector code that rounds differently on other
            // processors (MPEG-4 motion compensation, VP9 transforms).
            let mut flags = ffi::AV_CODEC_FLAG_COPY_OPAQUE
                | ffi::AV_CODEC_FLAG_UNALIGNED
                | ffi::AV_CODEC_FLAG_BITEXACT;
            if codecs::of(&params.codec).needs_low_delay() {
                flags |= ffi::AV_CODEC_FLAG_LOW_DELAY;
            }
            (*c).flags |= flags as c_int;
            // What SEI messages describe is no part of the decoded picture. NVDEC does not add it,
            // and in HEVC it would depend on messages before the random access point. The film grain
            // of AV1 is a part of its output.
            if codecs::of(&params.codec).nal_syntax().is_some() {
                (*c).export_side_data |= ffi::AV_CODEC_EXPORT_DATA_FILM_GRAIN as c_int;
            }
            ffi::avcodec_open2(c, codec, ptr::null_mut())
        };
        if code < 0 {
            return Err(Error::malformed(
                site,
                log::with_logged_error(&format!("the decoder rejects it: {}", error_text(code))),
            ));
        }
        Ok(this)
    }

    /// Sends one packet to the decoder. All frames must have been received before.
    pub fn send(&mut self, packet: &Packet) -> std::result::Result<(), String> {
        log::clear();
        // SAFETY: both live; libavcodec keeps its own reference to the payload.
        let code = unsafe { ffi::avcodec_send_packet(self.context.as_ptr(), packet.raw()) };
        if code < 0 {
            return Err(log::with_logged_error(&error_text(code)));
        }
        Ok(())
    }

    /// Number of threads that it was opened with.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// The first error logged since the last packet was sent or, with several threads, since the
    /// last flush: threads log errors with a delay. Without the errors that concern no pixel.
    pub fn logged_error(&self) -> Option<String> {
        self.sink
            .as_ref()
            .and_then(|sink| sink.first())
            .or_else(log::first)
    }

    /// The first logged error that concerns no pixel, since the same time.
    pub(crate) fn logged_harmless(&self) -> Option<String> {
        self.sink
            .as_ref()
            .and_then(|sink| sink.first_harmless())
            .or_else(log::first_harmless)
    }

    /// Signals the end of packets, so that the decoder outputs the frames that it still holds.
    pub fn drain(&mut self) {
        if !self.draining {
            self.draining = true;
            // SAFETY: a null packet starts draining.
            unsafe { ffi::avcodec_send_packet(self.context.as_ptr(), ptr::null()) };
        }
    }

    /// Receives the next frame if there is one.
    pub fn receive(&mut self, frame: &mut Frame) -> std::result::Result<Received, String> {
        // SAFETY: both live; libavcodec drops the frame's old content itself.
        let code = unsafe { ffi::avcodec_receive_frame(self.context.as_ptr(), frame.raw()) };
        match code {
            0.. => Ok(Received::Frame),
            ffi::AVERROR_EOF => Ok(Received::End),
            code if code == ffi::AVERROR(libc::EAGAIN) => Ok(Received::NeedsInput),
            code => Err(log::with_logged_error(&error_text(code))),
        }
    }

    /// Discards the decoder's state; the next packet must be a keyframe.
    pub fn flush(&mut self) {
        self.draining = false;
        // SAFETY: live and open.
        unsafe { ffi::avcodec_flush_buffers(self.context.as_ptr()) };
        if let Some(sink) = &self.sink {
            sink.clear(); // its threads are idle now
        }
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // A forked child does not have the threads: freeing the context would wait for them
        // forever. The sink is leaked with it.
        if std::process::id() != self.owner_pid {
            std::mem::forget(self.sink.take());
            return;
        }
        let mut raw = self.context.as_ptr();
        // SAFETY: owned, freed once.
        unsafe { ffi::avcodec_free_context(&mut raw) };
    }
}

/// Whether a codec is intra-only (MJPEG, ProRes, raw video).
pub(crate) fn is_intra_only(params: &CodecParams) -> bool {
    // SAFETY: the number goes through the C type; the result is a static descriptor or null.
    unsafe {
        let get: unsafe extern "C" fn(u32) -> *const ffi::AVCodecDescriptor = std::mem::transmute(
            ffi::avcodec_descriptor_get
                as unsafe extern "C" fn(ffi::AVCodecID) -> *const ffi::AVCodecDescriptor,
        );
        get(params.codec.id)
            .as_ref()
            .is_some_and(|d| d.props & ffi::AV_CODEC_PROP_INTRA_ONLY != 0)
    }
}

pub(super) fn uses_assembly() -> bool {
    // SAFETY: returns a static string; the other function has no arguments and may be called at any
    // time.
    let (configuration, flags) = unsafe {
        (
            CStr::from_ptr(ffi::avcodec_configuration()).to_string_lossy(),
            ffi::av_get_cpu_flags(),
        )
    };
    flags != 0
        && !["--disable-asm", "--disable-x86asm"]
            .iter()
            .any(|option| configuration.contains(option))
}

pub(super) fn version() -> String {
    // SAFETY: returns a static string.
    unsafe { CStr::from_ptr(ffi::av_version_info()) }
        .to_string_lossy()
        .into_owned()
}
