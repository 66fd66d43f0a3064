//! Provides an `AVIOContext` through which libavformat reads a [`ByteSource`].
//! No panic crosses into C, and the first error of a callback is kept for the caller.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use ffmpeg_sys_next as ffi;

use crate::error::Error;
use crate::source::ByteSource;

const BUFFER_BYTES: usize = 64 * 1024;

struct AvioState {
    source: Arc<dyn ByteSource>,
    position: u64,
    bytes_read: u64,
    error: Option<Error>,
    scratch: Vec<u8>,
}

/// Owns the context, its buffer and the state behind its callbacks.
pub(super) struct AvioContext {
    context: NonNull<ffi::AVIOContext>,
    state: *mut AvioState,
}

// SAFETY: the source is Send + Sync and the callbacks run only inside calls made through the owner.
unsafe impl Send for AvioContext {}

impl AvioContext {
    pub(super) fn new(source: Arc<dyn ByteSource>) -> Self {
        let state = Box::into_raw(Box::new(AvioState {
            source,
            position: 0,
            bytes_read: 0,
            error: None,
            scratch: Vec::new(),
        }));
        // SAFETY: the buffer comes from av_malloc as required, and the callbacks match the state
        // they are given.
        let context = unsafe {
            let buffer = ffi::av_mallocz(BUFFER_BYTES).cast::<u8>();
            assert!(!buffer.is_null(), "out of memory for an I/O buffer");
            ffi::avio_alloc_context(
                buffer,
                BUFFER_BYTES as c_int,
                0,
                state.cast::<c_void>(),
                Some(read),
                None,
                Some(seek),
            )
        };
        Self {
            context: NonNull::new(context).expect("out of memory for an I/O context"),
            state,
        }
    }

    pub(super) fn raw(&self) -> *mut ffi::AVIOContext {
        self.context.as_ptr()
    }

    /// The first error of a callback, if any; libav itself only reports "I/O error".
    pub(super) fn take_error(&mut self) -> Option<Error> {
        // SAFETY: `state` lives until Drop and no callback runs while `&mut self` is held.
        unsafe { (*self.state).error.take() }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        // SAFETY: as above; callbacks only run inside calls that borrow the owner mutably.
        unsafe { (*self.state).bytes_read }
    }
}

impl Drop for AvioContext {
    fn drop(&mut self) {
        let mut context = self.raw();
        // SAFETY: the context and its (possibly reallocated) buffer are owned here and freed once,
        // the state after them because they refer to it.
        unsafe {
            ffi::av_freep(std::ptr::addr_of_mut!((*context).buffer).cast::<c_void>());
            ffi::avio_context_free(&mut context);
            drop(Box::from_raw(self.state));
        }
    }
}

unsafe extern "C" fn read(opaque: *mut c_void, buffer: *mut u8, len: c_int) -> c_int {
    // SAFETY: `opaque` is the State given to avio_alloc_context; libavformat calls from one thread
    // at a time.
    let state = unsafe { &mut *opaque.cast::<AvioState>() };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let want = usize::try_from(len).unwrap_or(0);
        // Read into our own memory first: libav's buffer may be uninitialized, which a slice must
        // never be.
        state.scratch.resize(want.max(state.scratch.len()), 0);
        let got = state
            .source
            .read_at(state.position, &mut state.scratch[..want]);
        got.inspect(|&n| {
            state.position += n as u64;
            state.bytes_read += n as u64;
        })
    }));
    match outcome {
        Ok(Ok(0)) => ffi::AVERROR_EOF,
        Ok(Ok(n)) => {
            // SAFETY: libav gave `len` writable bytes and n <= len.
            unsafe { std::ptr::copy_nonoverlapping(state.scratch.as_ptr(), buffer, n) };
            n as c_int
        }
        Ok(Err(error)) => {
            state.error.get_or_insert(error);
            ffi::AVERROR(libc::EIO)
        }
        Err(_) => ffi::AVERROR(libc::EIO),
    }
}

unsafe extern "C" fn seek(opaque: *mut c_void, offset: i64, whence: c_int) -> i64 {
    // SAFETY: as in `read`.
    let state = unsafe { &mut *opaque.cast::<AvioState>() };
    let len = i64::try_from(state.source.len()).unwrap_or(i64::MAX);
    let target = match whence & !ffi::AVSEEK_FORCE {
        ffi::AVSEEK_SIZE => return len,
        libc::SEEK_SET => Some(offset),
        libc::SEEK_CUR => i64::try_from(state.position)
            .ok()
            .and_then(|p| p.checked_add(offset)),
        libc::SEEK_END => len.checked_add(offset),
        _ => None,
    };
    match target.and_then(|t| u64::try_from(t).ok()) {
        Some(position) => {
            state.position = position;
            position as i64
        }
        None => i64::from(ffi::AVERROR(libc::EINVAL)),
    }
}
