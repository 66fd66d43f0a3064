//! Captures libav's log: keeps the first error line per thread, or per multithreaded decoder, until cleared.
//! Prints nothing.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::{Mutex, Once, PoisonError};

use ffmpeg_sys_next as ffi;

thread_local! {
    /// The first error that libav logged on this thread since [`clear`].
    static THREAD_ERROR: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Collects the log of a decoder with several threads: its context's `opaque` points here.
#[derive(Debug, Default)]
pub(super) struct ErrorSink(Mutex<Option<String>>);

impl ErrorSink {
    pub fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub fn first(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The sink of the decoder that logged a line.
///
/// # Safety
/// `class` is what libav gave to the log callback, which is still running.
unsafe fn error_sink_of<'a>(class: *mut c_void) -> Option<&'a ErrorSink> {
    // SAFETY: libav's log contexts begin with a pointer to their class; null is allowed.
    let kind = unsafe { class.cast::<*const ffi::AVClass>().as_ref() }?;
    // SAFETY: returns a static class.
    if *kind != unsafe { ffi::avcodec_get_class() } {
        return None;
    }
    // SAFETY: it is a codec context. Only `Decoder::open` sets `opaque`, to a sink that outlives the context
    // and the threads that work for it; their contexts are copies.
    unsafe { (*class.cast::<ffi::AVCodecContext>()).opaque.cast::<ErrorSink>().as_ref() }
}

/// Messages that do not affect pictures: they occur when decoding starts at a random access point other than
/// the first one, because reference marking commands refer to pictures before it.
const IGNORED_MESSAGES: [&str; 3] =
    ["mmco: unref short failure", "number of reference frames", "reference count overflow"];

/// Redirects libav's log into thread-local storage; must be called before any other libav function.
pub fn capture() {
    static ONCE: Once = Once::new();
    // SAFETY: the callback has the required signature and is callable from any thread at any time.
    ONCE.call_once(|| unsafe { ffi::av_log_set_callback(Some(on_log)) });
}

/// Clears the error of this thread.
pub fn clear() {
    THREAD_ERROR.with(|error| error.borrow_mut().take());
}

/// The first error logged on this thread since [`clear`].
pub fn first() -> Option<String> {
    THREAD_ERROR.with(|error| error.borrow().clone())
}

/// `what`, followed by libav's error message if there is one.
pub(crate) fn with_logged_error(what: &str) -> String {
    match first() {
        Some(line) => format!("{what} ({line})"),
        None => what.to_owned(),
    }
}

/// C's `va_list` as a parameter. On x86-64 it is an array, which C passes as a pointer; elsewhere it is passed as it is.
#[cfg(target_arch = "x86_64")]
type VaList = *mut ffi::__va_list_tag;
#[cfg(not(target_arch = "x86_64"))]
type VaList = ffi::va_list;

unsafe extern "C" fn on_log(class: *mut c_void, level: c_int, format: *const c_char, args: VaList) {
    // Where a slice ends too early, this line is the only report in time, and libavcodec does not log it as
    // an error: the error flag comes with the frame, after B pictures that refer to it.
    // SAFETY: libav's formats are C strings.
    let conceals = || unsafe { CStr::from_ptr(format) }.to_bytes().starts_with(b"concealing ");
    if level > ffi::AV_LOG_ERROR && !conceals() {
        return;
    }
    // Only the first line is kept. Damaged files log one for every packet, and formatting it would take longer than
    // parsing the packet.
    // SAFETY: `class` is libav's, and this is the callback.
    let sink = unsafe { error_sink_of(class) };
    let is_kept = match sink {
        Some(sink) => sink.0.lock().unwrap_or_else(PoisonError::into_inner).is_some(),
        None => THREAD_ERROR
            .try_with(|error| error.try_borrow().is_ok_and(|error| error.is_some()))
            .unwrap_or(true),
    };
    if is_kept {
        return;
    }
    let mut line = [0 as c_char; 512];
    let mut print_prefix: c_int = 1;
    // SAFETY: libav passes a live class pointer, format and argument list; the buffer's true length is given.
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
    if IGNORED_MESSAGES.iter().any(|ignored| text.contains(ignored)) {
        return;
    }
    // "[h264 @ 0x7f..] text": the address means nothing to a reader and differs from run to run.
    let said = || {
        let text = text.trim();
        text.rsplit_once("] ").map_or(text, |(_, rest)| rest).to_owned()
    };
    if let Some(sink) = sink {
        sink.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(said);
        return;
    }
    // A panic must not cross into C: `try_with` and `try_borrow_mut` fail quietly at thread end or on
    // re-entry.
    let _ = THREAD_ERROR.try_with(|error| {
        let Ok(mut error) = error.try_borrow_mut() else { return };
        error.get_or_insert_with(said);
    });
}
