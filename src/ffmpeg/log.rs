//! Captures libav's log: keeps the first error line per thread, or per multithreaded decoder, until
//! cleared, and distinguishes errors that concern no pixel. Prints nothing.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use ffmpeg_sys_next as ffi;

use super::codec_params::codec_name;
use crate::codecs;

/// The errors that libav logged since the last [`clear`].
#[derive(Debug, Default)]
struct Logged {
    /// The first one that may mean damage to a picture.
    damage: Option<String>,
    /// The first one of [`HARMLESS`].
    harmless: Option<String>,
}

thread_local! {
    /// What libav logged on this thread.
    static THREAD: RefCell<Logged> = const { RefCell::new(Logged { damage: None, harmless: None }) };
}

/// Collects the log of a decoder with several threads: its context's `opaque` points here.
#[derive(Debug, Default)]
pub(super) struct ErrorSink(Mutex<Logged>);

impl ErrorSink {
    fn lock(&self) -> MutexGuard<'_, Logged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clear(&self) {
        *self.lock() = Logged::default();
    }

    pub(super) fn first(&self) -> Option<String> {
        self.lock().damage.clone()
    }

    pub(crate) fn first_harmless(&self) -> Option<String> {
        self.lock().harmless.clone()
    }
}

/// The codec context that logged a line; `None` for a context of another class.
///
/// # Safety
/// `class` is what libav gave to the log callback, which is still running.
unsafe fn codec_context<'a>(class: *mut c_void) -> Option<&'a ffi::AVCodecContext> {
    // SAFETY: libav's log contexts begin with a pointer to their class; null is allowed.
    let kind = unsafe { class.cast::<*const ffi::AVClass>().as_ref() }?;
    // SAFETY: returns a static class.
    if *kind != unsafe { ffi::avcodec_get_class() } {
        return None;
    }
    // SAFETY: it is a codec context.
    unsafe { class.cast::<ffi::AVCodecContext>().as_ref() }
}

/// Whether an error of a context's decoder concerns no pixel.
fn is_harmless(context: &ffi::AVCodecContext, message: &str) -> bool {
    // SAFETY: a codec is static; the enum field is read as an integer.
    let id = unsafe {
        let codec = context.codec.as_ref();
        codec.map(|codec| std::ptr::addr_of!(codec.id).cast::<u32>().read())
    };
    id.is_some_and(|id| {
        codecs::by_name(&codec_name(id))
            .harmless_messages()
            .iter()
            .any(|start| message.starts_with(start))
    })
}

/// Redirects libav's log into thread-local storage; must be called before any other libav function.
pub fn capture() {
    static ONCE: Once = Once::new();
    // SAFETY: the callback has the required signature and is callable from any thread at any time.
    ONCE.call_once(|| unsafe { ffi::av_log_set_callback(Some(on_log)) });
}

/// Clears the errors of this thread.
pub fn clear() {
    THREAD.with(|logged| logged.take());
}

/// The first error logged on this thread since [`clear`] that may mean damage to a picture.
pub fn first() -> Option<String> {
    THREAD.with(|logged| logged.borrow().damage.clone())
}

/// The first error logged on this thread since [`clear`] that concerns no pixel.
pub(crate) fn first_harmless() -> Option<String> {
    THREAD.with(|logged| logged.borrow().harmless.clone())
}

/// `what`, followed by libav's error message if there is one.
pub(crate) fn with_logged_error(what: &str) -> String {
    match first().or_else(first_harmless) {
        Some(line) => format!("{what} ({line})"),
        None => what.to_owned(),
    }
}

/// C's `va_list` as a parameter. On x86-64 it is an array, which C passes as a pointer; elsewhere
/// it is passed as it is.
#[cfg(target_arch = "x86_64")]
type VaList = *mut ffi::__va_list_tag;
#[cfg(not(target_arch = "x86_64"))]
type VaList = ffi::va_list;

unsafe extern "C" fn on_log(class: *mut c_void, level: c_int, format: *const c_char, args: VaList) {
    // Where a slice ends too early, this line is the only report in time, and libavcodec does not
    // log it as an error: the error flag comes with the frame, after B pictures that refer to it.
    let conceals = || {
        // SAFETY: libav's formats are C strings.
        let format = unsafe { CStr::from_ptr(format) };
        format.to_bytes().starts_with(b"concealing ")
    };
    if level > ffi::AV_LOG_ERROR && !conceals() {
        return;
    }
    // SAFETY: `class` is libav's, and this is the callback.
    let context = unsafe { codec_context(class) };
    // SAFETY: only `Decoder::open` sets `opaque`, to a sink that outlives the context and the
    // threads that work for it; their contexts are copies.
    let sink = context.and_then(|context| unsafe { context.opaque.cast::<ErrorSink>().as_ref() });
    // Only the first line is kept. Damaged files log one for every packet, and formatting it would
    // take longer than parsing the packet.
    let is_kept = match sink {
        Some(sink) => sink.lock().damage.is_some(),
        None => THREAD
            .try_with(|logged| {
                logged
                    .try_borrow()
                    .is_ok_and(|logged| logged.damage.is_some())
            })
            .unwrap_or(true),
    };
    if is_kept {
        return;
    }
    let mut line = [0 as c_char; 512];
    // Without libav's prefix "[h264 @ 0x7f..]": the address means nothing to a reader and differs
    // from run to run.
    let mut print_prefix: c_int = 0;
    // SAFETY: libav passes a live class pointer, format and argument list; the buffer's true length
    // is given.
    let written = unsafe {
        ffi::av_log_format_line2(
            class,
            level,
            format,
            args,
            line.as_mut_ptr(),
            line.len() as c_int,
            &mut print_prefix,
        )
    };
    if written < 0 {
        return;
    }
    // SAFETY: av_log_format_line2 always ends the buffer with a NUL.
    let text = unsafe { CStr::from_ptr(line.as_ptr()) }.to_string_lossy();
    let text = text.trim();
    let harmless = context.is_some_and(|context| is_harmless(context, text));
    let keep = |logged: &mut Logged| {
        let kept = if harmless {
            &mut logged.harmless
        } else {
            &mut logged.damage
        };
        kept.get_or_insert_with(|| text.to_owned());
    };
    if let Some(sink) = sink {
        keep(&mut sink.lock());
        return;
    }
    // A panic must not cross into C: `try_with` and `try_borrow_mut` fail quietly at thread end or
    // on re-entry.
    let _ = THREAD.try_with(|logged| logged.try_borrow_mut().map(|mut logged| keep(&mut logged)));
}
