//! Reads the packets of a test video in a parser's format (Annex B for H.264 and HEVC), and the
//! frames' recorded hashes.

use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use ffmpeg_sys_next as ffi;

pub struct Packet {
    pub data: Vec<u8>,
    pub discard: bool,
    pub key: bool,
}

pub struct Video {
    pub codec: i32,
    pub headers: Vec<u8>,
    pub packets: Vec<Packet>,
}

/// The folder of the generated media.
pub fn media() -> PathBuf {
    let folder = std::env::var_os("FRAMESPOOL_MEDIA").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/media"));
    assert!(
        folder.join("manifest.json").is_file(),
        "no test media at {}: run scripts/setup.sh tests, which makes them",
        folder.display()
    );
    folder
}

/// Recorded hashes of a video's frames, in presentation order.
pub fn recorded(path: &str) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(media().join("frames").join(format!("{path}.txt"))).ok()?;
    Some(
        text.lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .map(str::to_owned)
            .collect(),
    )
}

/// NVDEC's number of a codec.
fn number(name: &str) -> Option<i32> {
    Some(match name {
        "h264" => 4,
        "hevc" => 8,
        "vp8" => 9,
        "vp9" => 10,
        "av1" => 11,
        _ => return None,
    })
}

/// Bytes that libavformat reads at a time.
const WINDOW: usize = 64 << 10;

/// Reads from the file in `opaque`: an FFmpeg without protocols cannot open files.
unsafe extern "C" fn read(opaque: *mut c_void, buffer: *mut u8, len: c_int) -> c_int {
    // SAFETY: `open` gave it a file that outlives the calls, and libavformat a buffer of `len`
    // bytes.
    let (file, buffer) = unsafe {
        (
            &mut *opaque.cast::<File>(),
            std::slice::from_raw_parts_mut(buffer, len.max(0) as usize),
        )
    };
    match file.read(buffer) {
        Ok(0) => ffi::AVERROR_EOF,
        Ok(read) => read as c_int,
        Err(_) => ffi::AVERROR_EXTERNAL,
    }
}

unsafe extern "C" fn seek(opaque: *mut c_void, offset: i64, whence: c_int) -> i64 {
    // SAFETY: as in `read`.
    let file = unsafe { &mut *opaque.cast::<File>() };
    let sought = match whence & 0xff {
        _ if whence & ffi::AVSEEK_SIZE != 0 => file.metadata().map(|meta| meta.len()),
        0 => file.seek(SeekFrom::Start(offset.max(0) as u64)),
        1 => file.seek(SeekFrom::Current(offset)),
        _ => file.seek(SeekFrom::End(offset)),
    };
    sought.map_or(-1, |at| at as i64)
}

pub fn open(path: &str) -> Option<Video> {
    let mut file = File::open(media().join(path)).ok()?;
    // SAFETY: libavformat's calls in the documented order, on our own objects, each freed once.
    unsafe {
        ffi::av_log_set_level(ffi::AV_LOG_QUIET);
        let opaque = (&raw mut file).cast();
        let mut io = ffi::avio_alloc_context(
            ffi::av_malloc(WINDOW).cast(),
            WINDOW as c_int,
            0,
            opaque,
            Some(read),
            None,
            Some(seek),
        );
        let mut input = ffi::avformat_alloc_context();
        (*input).pb = io;
        (*input).flags |= ffi::AVFMT_FLAG_CUSTOM_IO;
        if ffi::avformat_open_input(&mut input, null(), null(), null_mut()) < 0 {
            return None;
        }
        ffi::avformat_find_stream_info(input, null_mut());
        let at = ffi::av_find_best_stream(
            input,
            ffi::AVMediaType::AVMEDIA_TYPE_VIDEO,
            -1,
            -1,
            null_mut(),
            0,
        );
        let stream = *(*input).streams.add(usize::try_from(at).ok()?);
        let par = (*stream).codecpar;
        let codec = number(
            CStr::from_ptr(ffi::avcodec_get_name((*par).codec_id))
                .to_str()
                .ok()?,
        )?;
        let filter = match codec {
            4 => c"h264_mp4toannexb",
            8 => c"hevc_mp4toannexb",
            _ => c"null",
        };
        let mut bsf = null_mut();
        ffi::av_bsf_alloc(ffi::av_bsf_get_by_name(filter.as_ptr()), &mut bsf);
        ffi::avcodec_parameters_copy((*bsf).par_in, par);
        if ffi::av_bsf_init(bsf) < 0 {
            return None;
        }
        let out = (*bsf).par_out;
        let bytes = usize::try_from((*out).extradata_size).unwrap_or(0);
        let mut headers = Vec::new();
        if bytes > 0 && matches!(codec, 4 | 8) {
            headers = std::slice::from_raw_parts((*out).extradata, bytes).to_vec();
        } else if codec == 11 && bytes > 4 && *(*out).extradata == 0x81 {
            headers = std::slice::from_raw_parts((*out).extradata, bytes)[4..].to_vec();
        }
        let mut packets = Vec::new();
        let mut packet = ffi::av_packet_alloc();
        while ffi::av_read_frame(input, packet) >= 0 {
            if (*packet).stream_index != at {
                ffi::av_packet_unref(packet);
                continue;
            }
            ffi::av_bsf_send_packet(bsf, packet);
            while ffi::av_bsf_receive_packet(bsf, packet) >= 0 {
                let data =
                    std::slice::from_raw_parts((*packet).data, (*packet).size as usize).to_vec();
                let discard = (*packet).flags & ffi::AV_PKT_FLAG_DISCARD != 0;
                let key = (*packet).flags & ffi::AV_PKT_FLAG_KEY != 0;
                packets.push(Packet { data, discard, key });
                ffi::av_packet_unref(packet);
            }
        }
        ffi::av_packet_free(&mut packet);
        ffi::av_bsf_free(&mut bsf);
        ffi::avformat_close_input(&mut input);
        ffi::av_freep((&raw mut (*io).buffer).cast());
        ffi::avio_context_free(&mut io);
        Some(Video {
            codec,
            headers,
            packets,
        })
    }
}
