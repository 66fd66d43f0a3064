//! Decodes coded pictures one at a time with libavcodec; reports the buffers that it used and its
//! decoder errors. It uses no threads: a picture is complete when the call returns.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Once;

use ffmpeg_sys_next as ffi;

use super::abi;

thread_local! {
    static LOGGED_ERRORS: Cell<u32> = const { Cell::new(0) };
}

/// Messages logged when decoding starts at a later random access point: no damage.
const IGNORED_MESSAGES: [&[u8]; 3] = [
    b"mmco: unref short failure",
    b"number of reference frames",
    b"reference count overflow",
];

unsafe extern "C" fn on_log(
    _class: *mut c_void,
    level: c_int,
    format: *const c_char,
    _arguments: *mut ffi::__va_list_tag,
) {
    if format.is_null() {
        return;
    }
    // SAFETY: a format is a C string.
    let text = unsafe { CStr::from_ptr(format) }.to_bytes();
    let has = |part: &[u8]| text.windows(part.len()).any(|w| w == part);
    let error = level <= ffi::AV_LOG_ERROR && !IGNORED_MESSAGES.iter().any(|h| has(h));
    if error || has(b"concealing") {
        let _ = LOGGED_ERRORS.try_with(|c| c.set(c.get() + 1));
    }
}

/// A decoded frame that holds a reference to its buffer.
pub struct Picture(*mut ffi::AVFrame);

// SAFETY: a frame is data with atomically counted buffers; one owner uses it at a time.
unsafe impl Send for Picture {}

impl Picture {
    pub fn empty() -> Picture {
        // SAFETY: allocates; libavcodec rejects null (out of memory).
        Picture(unsafe { ffi::av_frame_alloc() })
    }

    pub fn raw(&self) -> &ffi::AVFrame {
        // SAFETY: allocated in `empty` or `av_frame_clone`, freed in Drop.
        unsafe { &*self.0 }
    }

    pub fn width(&self) -> usize {
        self.raw().width.max(0) as usize
    }

    pub fn height(&self) -> usize {
        self.raw().height.max(0) as usize
    }

    pub fn format(&self) -> i32 {
        self.raw().format
    }

    /// One row of a plane, with this number of bytes.
    pub fn row(&self, plane: usize, row: usize, bytes: usize) -> &[u8] {
        let frame = self.raw();
        let stride = frame.linesize[plane] as isize;
        assert!(
            bytes <= stride.unsigned_abs() && row < self.height() && !frame.data[plane].is_null()
        );
        // SAFETY: the row is in the plane: its buffer has `height` rows (fewer in chroma, which
        // callers count) of `stride` bytes.
        unsafe {
            std::slice::from_raw_parts(frame.data[plane].offset(row as isize * stride), bytes)
        }
    }
}

impl Clone for Picture {
    fn clone(&self) -> Picture {
        // SAFETY: a live frame; the clone has references of its own.
        Picture(unsafe { ffi::av_frame_clone(self.0) })
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { ffi::av_frame_free(&mut self.0) };
    }
}

/// Notified when the last reference to a buffer is released.
pub trait BufferObserver: Send + Sync {
    fn on_freed(&self, serial: u64);
}

type SharedObserver = std::sync::Arc<dyn BufferObserver>;

struct BufferHook {
    taken: RefCell<Vec<(u64, Picture)>>,
    next: Cell<u64>,
    observer: Option<SharedObserver>,
}

struct BufferTag {
    serial: u64,
    inner: *mut ffi::AVBufferRef,
    observer: SharedObserver,
}

unsafe extern "C" fn free_buffer(tag: *mut c_void, _data: *mut u8) {
    // SAFETY: made by `Box::into_raw` in `get_buffer`; libavutil frees a buffer once.
    let mut tag = unsafe { Box::from_raw(tag.cast::<BufferTag>()) };
    // SAFETY: the reference that `get_buffer` stored there.
    unsafe { ffi::av_buffer_unref(&mut tag.inner) };
    tag.observer.on_freed(tag.serial);
}

unsafe extern "C" fn get_buffer(
    context: *mut ffi::AVCodecContext,
    frame: *mut ffi::AVFrame,
    flags: c_int,
) -> c_int {
    // SAFETY: libavcodec's own arguments.
    let code = unsafe { ffi::avcodec_default_get_buffer2(context, frame, flags) };
    if code < 0 {
        return code;
    }
    // SAFETY: `opaque` is the hook of the `Codec` whose call is running; it is only ever shared.
    let hook = unsafe { &*(*context).opaque.cast::<BufferHook>() };
    let serial = hook.next.get();
    hook.next.set(serial + 1);
    if let Some(observer) = &hook.observer {
        // SAFETY: the frame is new and has its planes' buffers; the first is wrapped in one of
        // ours, which frees it.
        unsafe {
            let inner = (*frame).buf[0];
            let tag = Box::into_raw(Box::new(BufferTag {
                serial,
                inner,
                observer: observer.clone(),
            }));
            let wrapped = ffi::av_buffer_create(
                (*inner).data,
                (*inner).size,
                Some(free_buffer),
                tag.cast(),
                0,
            );
            if wrapped.is_null() {
                drop(Box::from_raw(tag));
                return -libc::ENOMEM;
            }
            (*frame).buf[0] = wrapped;
        }
        hook.taken.borrow_mut().push((serial, Picture::empty()));
    } else {
        // SAFETY: a live frame.
        hook.taken
            .borrow_mut()
            .push((serial, Picture(unsafe { ffi::av_frame_clone(frame) })));
    }
    0
}

/// The result of decoding one coded picture.
pub struct Decoded {
    /// Buffers used, in order: number, and the frame if there is no watcher.
    pub taken: Vec<(u64, Picture)>,
    /// Frames output, in presentation order.
    pub displayed: Vec<Picture>,
    pub logged_errors: u32,
    pub refused: bool,
}

pub struct Codec {
    context: *mut ffi::AVCodecContext,
    hook: Box<BufferHook>,
    pub direct: bool,
}

// SAFETY: one thread at a time (`&mut self`); nothing in it is bound to a thread.
unsafe impl Send for Codec {}

fn name_of(codec: i32) -> Option<&'static CStr> {
    Some(match codec {
        abi::H264 => c"h264",
        abi::JPEG => c"mjpeg",
        abi::HEVC => c"hevc",
        abi::VP8 => c"vp8",
        abi::VP9 => c"vp9",
        abi::AV1 => c"libdav1d",
        _ => return None,
    })
}

impl Codec {
    /// With a watcher, the codec is a parser's: freed buffers are reported to it, and steps that
    /// only affect pixels are skipped.
    pub fn open(codec: i32, observer: Option<SharedObserver>) -> Option<Codec> {
        static LISTEN: Once = Once::new();
        // SAFETY: a callback of the required type that any thread may call.
        LISTEN.call_once(|| unsafe { ffi::av_log_set_callback(Some(on_log)) });
        let name = name_of(codec)?;
        let parser = observer.is_some();
        let hook = Box::new(BufferHook {
            taken: RefCell::default(),
            next: Cell::new(0),
            observer,
        });
        // SAFETY: our own context, opened before it is shared; the hook is boxed and outlives it
        // (Drop frees the context first).
        unsafe {
            let found = ffi::avcodec_find_decoder_by_name(name.as_ptr());
            if found.is_null() {
                return None;
            }
            let context = ffi::avcodec_alloc_context3(found);
            let c = &mut *context;
            c.thread_count = 1;
            c.flags |=
                (ffi::AV_CODEC_FLAG_COPY_OPAQUE | ffi::AV_CODEC_FLAG_OUTPUT_CORRUPT) as c_int;
            if codec != abi::AV1 {
                // Engines do not add the film grain of SEI messages.
                c.export_side_data |= ffi::AV_CODEC_EXPORT_DATA_FILM_GRAIN as c_int;
                c.opaque = (&raw const *hook).cast_mut().cast();
                c.get_buffer2 = Some(get_buffer);
            }
            if parser {
                c.skip_loop_filter = ffi::AVDiscard::AVDISCARD_ALL;
                c.error_concealment = 0; // its frames are not used
            }
            if ffi::avcodec_open2(context, found, null_mut()) < 0 {
                let mut context = context;
                ffi::avcodec_free_context(&mut context);
                return None;
            }
            Some(Codec {
                context,
                hook,
                direct: codec == abi::AV1,
            })
        }
    }

    pub fn raw(&self) -> &ffi::AVCodecContext {
        // SAFETY: allocated in `open`, freed in Drop.
        unsafe { &*self.context }
    }

    /// Sets how many frames may wait for output, even if the stream's headers do not state it.
    pub fn set_reorder(&mut self, reorder: u32) {
        // SAFETY: as in `raw`, and the context has no other user.
        let context = unsafe { &mut *self.context };
        context.has_b_frames = context.has_b_frames.max(reorder as c_int);
    }

    /// Decodes one coded picture; `None` drains.
    pub fn decode(&mut self, data: Option<&[u8]>) -> Decoded {
        LOGGED_ERRORS.with(|c| c.set(0));
        let mut done = Decoded {
            taken: Vec::new(),
            displayed: Vec::new(),
            logged_errors: 0,
            refused: false,
        };
        // SAFETY: our own packet around a padded copy; libavcodec copies the payload if it keeps
        // it.
        unsafe {
            let code = match data {
                None => ffi::avcodec_send_packet(self.context, null()),
                Some(data) => {
                    let mut packet = ffi::av_packet_alloc();
                    let made = ffi::av_new_packet(packet, data.len() as c_int);
                    let mut code = made;
                    if made >= 0 {
                        std::ptr::copy_nonoverlapping(data.as_ptr(), (*packet).data, data.len());
                        code = ffi::avcodec_send_packet(self.context, packet);
                    }
                    ffi::av_packet_free(&mut packet);
                    code
                }
            };
            done.refused = code < 0;
            loop {
                let displayed = Picture::empty();
                let code = ffi::avcodec_receive_frame(self.context, displayed.0);
                if code == ffi::AVERROR(libc::EAGAIN) || code == ffi::AVERROR_EOF {
                    break;
                }
                if code < 0 {
                    done.refused = true;
                    break;
                }
                done.displayed.push(displayed);
            }
        }
        done.taken = self.hook.taken.take();
        done.logged_errors = LOGGED_ERRORS.with(Cell::get);
        done
    }

    /// Discards all frames; parameter sets stay.
    pub fn flush(&mut self) {
        // SAFETY: open.
        unsafe { ffi::avcodec_flush_buffers(self.context) };
    }

    /// The number of a displayed frame's buffer.
    pub fn serial_of(picture: &Picture) -> Option<u64> {
        let buffer = picture.raw().buf[0];
        if buffer.is_null() {
            return None;
        }
        // SAFETY: with a watcher, every frame's first buffer is ours (`get_buffer`), and its opaque
        // is a ticket of the same lifetime.
        Some(unsafe { (*ffi::av_buffer_get_opaque(buffer).cast::<BufferTag>()).serial })
    }
}

impl Drop for Codec {
    fn drop(&mut self) {
        // SAFETY: owned, freed once, before the hook.
        unsafe { ffi::avcodec_free_context(&mut self.context) };
    }
}
