//! Decodes audio packets to planes of 32-bit floating-point samples.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use ffmpeg_sys_next as ffi;

use super::codec_params::error_text;
use super::{Packet, log};
use crate::error::{Error, Result, Site};
use crate::limits::Limits;
use crate::media::{AudioParams, Codec};

/// Maximum number of channels: as many as a WAVE mask names, and more than any codec here has.
pub(crate) const MAX_CHANNELS: u32 = 64;

/// Maximum sample rate, in Hz.
pub(crate) const MAX_SAMPLE_RATE: u32 = 768_000;

/// One audio decoder. It decodes on the calling thread.
pub(crate) struct AudioDecoder {
    context: NonNull<ffi::AVCodecContext>,
    frame: NonNull<ffi::AVFrame>,
}

// SAFETY: a codec context and a frame may move between threads as long as one uses them at a time,
// which `&mut self` ensures.
unsafe impl Send for AudioDecoder {}

/// What a decoder makes of packets, as the last frame states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodedFormat {
    pub sample_rate: u32,
    pub channels: u32,
    /// See [`AudioParams::channel_mask`].
    pub channel_mask: u64,
}

/// The samples of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub format: DecodedFormat,
    /// Number of samples from here on that the decoder, if it began with this packet of the stream,
    /// knows to be no audio.
    pub delay: u32,
}

/// The parameters of a stream's audio codec.
pub(super) fn audio_params(
    site: &Site,
    par: &ffi::AVCodecParameters,
    (codec, extradata): (Codec, Vec<u8>),
) -> Result<AudioParams> {
    let sample_rate = u32::try_from(par.sample_rate).unwrap_or(0);
    Limits::check(
        site,
        "audio sample rate",
        sample_rate.into(),
        MAX_SAMPLE_RATE.into(),
    )?;
    let (channels, channel_mask) = layout(&par.ch_layout);
    Limits::check(
        site,
        "number of audio channels",
        channels.into(),
        MAX_CHANNELS.into(),
    )?;
    Ok(AudioParams {
        codec,
        tag: par.codec_tag,
        extradata,
        sample_rate,
        channels,
        channel_mask,
        bits_per_coded_sample: par.bits_per_coded_sample,
        block_align: par.block_align,
        bit_rate: par.bit_rate,
        profile: par.profile,
    })
}

/// The mask of channels in an order for which there is no mask, such as ambisonic ones.
pub(crate) const CUSTOM_CHANNELS: u64 = u64::MAX;

/// Number of channels and WAVE mask of a layout.
fn layout(layout: &ffi::AVChannelLayout) -> (u32, u64) {
    let is = |order: u32, other: ffi::AVChannelOrder| order == other as u32;
    // SAFETY: the order is read as an integer, since unknown values would be undefined; the mask is
    // the active member of the union in the native order.
    let mask = unsafe {
        match ptr::addr_of!(layout.order).cast::<u32>().read() {
            order if is(order, ffi::AVChannelOrder::AV_CHANNEL_ORDER_NATIVE) => layout.u.mask,
            order if is(order, ffi::AVChannelOrder::AV_CHANNEL_ORDER_UNSPEC) => 0,
            _ => CUSTOM_CHANNELS,
        }
    };
    (u32::try_from(layout.nb_channels).unwrap_or(0), mask)
}

impl AudioDecoder {
    /// Opens a decoder.
    pub(crate) fn open(site: &Site, params: &AudioParams) -> Result<Self> {
        log::capture();
        log::clear();
        let out_of_memory = || Error::malformed(site, "out of memory for an audio decoder");
        // SAFETY: the number goes through the C type; unknown numbers find nothing.
        let codec = unsafe {
            let find: unsafe extern "C" fn(u32) -> *const ffi::AVCodec = std::mem::transmute(
                ffi::avcodec_find_decoder
                    as unsafe extern "C" fn(ffi::AVCodecID) -> *const ffi::AVCodec,
            );
            find(params.codec.id)
        };
        if codec.is_null() {
            return Err(Error::Unsupported {
                site: site.clone(),
                what: format!("audio codec '{}'", params.codec.name),
            });
        }
        // SAFETY: a known codec; no arguments.
        let (context, frame) = unsafe {
            (
                NonNull::new(ffi::avcodec_alloc_context3(codec)),
                NonNull::new(ffi::av_frame_alloc()),
            )
        };
        // Both are freed by `drop`, if both exist; the process is out of memory otherwise.
        let (Some(context), Some(frame)) = (context, frame) else {
            return Err(out_of_memory());
        };
        let this = Self { context, frame };
        let padding = ffi::AV_INPUT_BUFFER_PADDING_SIZE as usize;
        // SAFETY: the context is live and not open yet; the extradata are allocated with av_mallocz
        // and padded as required, and freed with the context.
        let code = unsafe {
            let c = context.as_ptr();
            (*c).codec_tag = params.tag;
            (*c).sample_rate = c_int::try_from(params.sample_rate).unwrap_or(0);
            (*c).bits_per_coded_sample = params.bits_per_coded_sample;
            (*c).block_align = params.block_align;
            (*c).bit_rate = params.bit_rate;
            (*c).thread_count = 1;
            (*c).flags |= ffi::AV_CODEC_FLAG_BITEXACT as c_int;
            if has_checksums(&params.codec) {
                (*c).err_recognition |= (ffi::AV_EF_CRCCHECK | ffi::AV_EF_EXPLODE) as c_int;
            }
            // The index knows which samples are padding: the decoder must return all.
            (*c).flags2 |= ffi::AV_CODEC_FLAG2_SKIP_MANUAL as c_int;
            let channels = c_int::try_from(params.channels).unwrap_or(0);
            let is_set = ![0, CUSTOM_CHANNELS].contains(&params.channel_mask)
                && ffi::av_channel_layout_from_mask(&mut (*c).ch_layout, params.channel_mask) >= 0
                && (*c).ch_layout.nb_channels == channels;
            if !is_set && channels > 0 {
                ffi::av_channel_layout_uninit(&mut (*c).ch_layout);
                ffi::av_channel_layout_default(&mut (*c).ch_layout, channels);
            }
            if !params.extradata.is_empty() {
                let len = params.extradata.len();
                (*c).extradata = ffi::av_mallocz(len + padding).cast::<u8>();
                if (*c).extradata.is_null() {
                    return Err(out_of_memory());
                }
                ptr::copy_nonoverlapping(params.extradata.as_ptr(), (*c).extradata, len);
                (*c).extradata_size = len as c_int;
            }
            // The noise of AC-3 then depends on the packet, and not on those before it.
            let mut options = ptr::null_mut();
            ffi::av_dict_set(&mut options, c"cons_noisegen".as_ptr(), c"1".as_ptr(), 0);
            let code = ffi::avcodec_open2(c, codec, &mut options);
            ffi::av_dict_free(&mut options);
            code
        };
        if code < 0 {
            return Err(Error::malformed(
                site,
                log::with_logged_error(&format!(
                    "the audio decoder rejects it: {}",
                    error_text(code)
                )),
            ));
        }
        Ok(this)
    }

    /// FFmpeg's number of the codec's profile, once packets were decoded.
    pub(crate) fn profile(&self) -> i32 {
        // SAFETY: the context is live.
        unsafe { self.context.as_ref() }.profile
    }

    /// Discards the decoder's state, as far as that has a limited length in packets.
    pub(crate) fn flush(&mut self) {
        // SAFETY: live and open.
        unsafe { ffi::avcodec_flush_buffers(self.context.as_ptr()) };
    }

    /// Decodes one packet, and appends its samples to `planes`, one for each channel; if all are
    /// empty, their number becomes that of the channels. `None` if the packet has no samples.
    pub(crate) fn decode(
        &mut self,
        packet: &Packet,
        planes: &mut Vec<Vec<f32>>,
    ) -> std::result::Result<Option<Decoded>, String> {
        // SAFETY: a live packet; libavcodec keeps its own reference to the payload.
        unsafe { self.send(packet.raw(), planes) }
    }

    /// Appends the samples that the decoder still holds after the last packet.
    pub(crate) fn drain(
        &mut self,
        planes: &mut Vec<Vec<f32>>,
    ) -> std::result::Result<Option<Decoded>, String> {
        // SAFETY: a null packet starts draining.
        unsafe { self.send(ptr::null(), planes) }
    }

    /// # Safety
    /// `packet` is live or null.
    unsafe fn send(
        &mut self,
        packet: *const ffi::AVPacket,
        planes: &mut Vec<Vec<f32>>,
    ) -> std::result::Result<Option<Decoded>, String> {
        log::clear();
        let failed = |code: c_int| Err(log::with_logged_error(&error_text(code)));
        // SAFETY: the context is live, the packet as the caller states.
        let code = unsafe { ffi::avcodec_send_packet(self.context.as_ptr(), packet) };
        if code < 0 {
            return failed(code);
        }
        let mut decoded: Option<Decoded> = None;
        loop {
            // SAFETY: both live; libavcodec drops the frame's old content itself.
            let code =
                unsafe { ffi::avcodec_receive_frame(self.context.as_ptr(), self.frame.as_ptr()) };
            match code {
                0.. => {
                    let format = self.append(planes)?;
                    let all = decoded.get_or_insert(Decoded { format, delay: 0 });
                    if all.format != format {
                        return Err("its sample rate or its channels change".into());
                    }
                    all.delay = all.delay.saturating_add(self.delay());
                }
                ffi::AVERROR_EOF => return Ok(decoded),
                code if code == ffi::AVERROR(libc::EAGAIN) => return Ok(decoded),
                code => return failed(code),
            }
        }
    }

    /// The number of samples that the decoder would remove from the begin of the frame.
    fn delay(&self) -> u32 {
        // SAFETY: the frame is live; an entry of the side data, which it owns, has `size` bytes.
        unsafe {
            let kind = ffi::AVFrameSideDataType::AV_FRAME_DATA_SKIP_SAMPLES;
            let entry = ffi::av_frame_get_side_data(self.frame.as_ptr(), kind).as_ref();
            entry
                .filter(|entry| entry.size >= 4 && !entry.data.is_null())
                .map_or(0, |entry| {
                    u32::from_le(entry.data.cast::<u32>().read_unaligned())
                })
        }
    }

    /// Appends the samples of the frame.
    fn append(&self, planes: &mut Vec<Vec<f32>>) -> std::result::Result<DecodedFormat, String> {
        // SAFETY: the frame was filled by the decoder.
        let frame = unsafe { self.frame.as_ref() };
        let (channels, channel_mask) = layout(&frame.ch_layout);
        let count = channels as usize;
        let samples = usize::try_from(frame.nb_samples).unwrap_or(0);
        if count == 0 || channels > MAX_CHANNELS || frame.sample_rate <= 0 {
            return Err(format!(
                "the decoder returns {count} channels at {} Hz",
                frame.sample_rate
            ));
        }
        // Those of an earlier packet may have been more or fewer.
        if planes.iter().all(Vec::is_empty) {
            planes.resize_with(count, Vec::new);
        }
        if planes.len() != count {
            return Err(format!(
                "the number of channels changes from {} to {count}",
                planes.len()
            ));
        }
        let known = [
            (ffi::AVSampleFormat::AV_SAMPLE_FMT_U8, Element::U8, false),
            (ffi::AVSampleFormat::AV_SAMPLE_FMT_S16, Element::S16, false),
            (ffi::AVSampleFormat::AV_SAMPLE_FMT_S32, Element::S32, false),
            (ffi::AVSampleFormat::AV_SAMPLE_FMT_FLT, Element::F32, false),
            (ffi::AVSampleFormat::AV_SAMPLE_FMT_DBL, Element::F64, false),
            (ffi::AVSampleFormat::AV_SAMPLE_FMT_U8P, Element::U8, true),
            (ffi::AVSampleFormat::AV_SAMPLE_FMT_S16P, Element::S16, true),
            (ffi::AVSampleFormat::AV_SAMPLE_FMT_S32P, Element::S32, true),
            (ffi::AVSampleFormat::AV_SAMPLE_FMT_FLTP, Element::F32, true),
            (ffi::AVSampleFormat::AV_SAMPLE_FMT_DBLP, Element::F64, true),
        ];
        let Some(&(_, element, planar)) = known
            .iter()
            .find(|(format, ..)| *format as c_int == frame.format)
        else {
            return Err(format!("sample format {} is not supported", frame.format));
        };
        for (channel, plane) in planes.iter_mut().enumerate() {
            let (at, first, step) = match planar {
                true => (channel, 0, 1),
                false => (0, channel, count),
            };
            // SAFETY: a planar frame has a pointer for each channel at `extended_data`, an
            // interleaved one a single pointer; each leads to `nb_samples` elements of the format,
            // times the number of channels if they are interleaved, aligned for the element.
            unsafe {
                let data = *frame.extended_data.add(at);
                if data.is_null() {
                    return Err("the decoder returns no samples".into());
                }
                let len = samples * step;
                match element {
                    Element::U8 => {
                        let all = std::slice::from_raw_parts(data, len);
                        extend(plane, all, (first, step), |v| {
                            (f32::from(v) - 128.0) / 128.0
                        });
                    }
                    Element::S16 => {
                        let all = std::slice::from_raw_parts(data.cast::<i16>(), len);
                        extend(plane, all, (first, step), |v| f32::from(v) / 32768.0);
                    }
                    Element::S32 => {
                        let all = std::slice::from_raw_parts(data.cast::<i32>(), len);
                        extend(plane, all, (first, step), |v| {
                            (f64::from(v) / 2_147_483_648.0) as f32
                        });
                    }
                    Element::F32 => {
                        let all = std::slice::from_raw_parts(data.cast::<f32>(), len);
                        extend(plane, all, (first, step), |v| v);
                    }
                    Element::F64 => {
                        let all = std::slice::from_raw_parts(data.cast::<f64>(), len);
                        extend(plane, all, (first, step), |v| v as f32);
                    }
                }
            }
        }
        Ok(DecodedFormat {
            sample_rate: frame.sample_rate as u32,
            channels,
            channel_mask,
        })
    }
}

/// Whether packets have checksums, by which the decoder finds damage. It ignores them by default.
fn has_checksums(codec: &Codec) -> bool {
    matches!(&codec.name[..], "flac" | "ac3" | "eac3" | "mp2" | "mp3")
}

/// Element type of decoded samples.
#[derive(Clone, Copy)]
enum Element {
    U8,
    S16,
    S32,
    F32,
    F64,
}

fn extend<T: Copy>(
    plane: &mut Vec<f32>,
    all: &[T],
    (first, step): (usize, usize),
    convert: impl Fn(T) -> f32,
) {
    plane.extend(all.iter().skip(first).step_by(step).map(|&v| convert(v)));
}

impl Drop for AudioDecoder {
    fn drop(&mut self) {
        let (mut context, mut frame) = (self.context.as_ptr(), self.frame.as_ptr());
        // SAFETY: owned, freed once.
        unsafe {
            ffi::av_frame_free(&mut frame);
            ffi::avcodec_free_context(&mut context);
        }
    }
}
