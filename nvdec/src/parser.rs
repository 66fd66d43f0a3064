//! Wraps the driver's video parser, which reports sequences, pictures to decode and pictures to
//! display. No panic unwinds into C, and callbacks reach their target only during `parse`.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use crate::Result;
use crate::cuvid::{Cuvid, RawParser};
use crate::format::Codec;
use crate::sys;

/// Receives the parser's callbacks. Return values are those of the C interface: 0 means failure.
pub(crate) trait Callbacks {
    /// A sequence starts, changes or is repeated. Returns how many pictures the decoder can hold.
    fn sequence(&mut self, format: &sys::CUVIDEOFORMAT) -> c_int;
    /// A picture is to be decoded. Its pointers are valid until this returns.
    fn decode(&mut self, picture: &mut sys::CUVIDPICPARAMS) -> c_int;
    /// A picture is to be displayed. Its surface may be reused after this returns.
    fn display(&mut self, info: &sys::CUVIDPARSERDISPINFO) -> c_int;
}

/// A parser for one stream. It is created for one pass and not reused: a rewound parser loses
/// pictures and does not report a sequence that it already knows.
pub(crate) struct Parser {
    cuvid: &'static Cuvid,
    raw: RawParser,
    context: NonNull<CallbackContext>,
}

/// The data behind `pUserData`.
struct CallbackContext {
    target: Cell<Option<NonNull<dyn Callbacks>>>,
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the parser is an opaque handle that may be used from any thread, by one at a time;
// `context` is owned, and its target is set only while `parse` runs, which borrows the parser
// mutably.
unsafe impl Send for Parser {}

impl Parser {
    pub(crate) fn new(cuvid: &'static Cuvid, codec: Codec) -> Result<Parser> {
        let context = Box::new(CallbackContext {
            target: Cell::new(None),
            panic: Cell::new(None),
        });
        let context = NonNull::from(Box::leak(context));
        let mut parameters = sys::CUVIDPARSERPARAMS {
            CodecType: codec.to_raw(),
            // A placeholder: the sequence callback returns the actual number.
            ulMaxNumDecodeSurfaces: 1,
            // Pictures wait for mapping in our own queue; the parser reports them for display as
            // early as possible.
            ulMaxDisplayDelay: 0,
            ulErrorThreshold: 0,
            pUserData: context.as_ptr().cast(),
            pfnSequenceCallback: Some(on_sequence),
            pfnDecodePicture: Some(on_decode),
            pfnDisplayPicture: Some(on_display),
            ..Default::default()
        };
        // SAFETY: the callbacks interpret `pUserData` as a CallbackContext, which lives until Drop
        // has destroyed the parser.
        match unsafe { cuvid.create_parser(&mut parameters) } {
            Ok(raw) => Ok(Parser {
                cuvid,
                raw,
                context,
            }),
            Err(error) => {
                // SAFETY: leaked above, and there is no other owner, because no parser was created.
                drop(unsafe { Box::from_raw(context.as_ptr()) });
                Err(error)
            }
        }
    }

    /// Passes data to the parser, which reports what it finds to `target`. Returns the driver's
    /// code, which does not necessarily reflect a failed callback. A panic of `target` is resumed
    /// here.
    pub(crate) fn parse(
        &mut self,
        data: &[u8],
        flags: u32,
        timestamp: i64,
        target: &mut dyn Callbacks,
    ) -> Result<c_int> {
        // SAFETY: the context lives as long as the parser, and is only reached by shared
        // references.
        let context = unsafe { self.context.as_ref() };
        // SAFETY: only the lifetime changes; the target is taken out again below, before its borrow
        // ends.
        let target: NonNull<dyn Callbacks> = unsafe { std::mem::transmute(NonNull::from(target)) };
        context.target.set(Some(target));
        let code = self.cuvid.parse(self.raw, data, flags, timestamp);
        context.target.set(None);
        if let Some(panic) = context.panic.take() {
            resume_unwind(panic);
        }
        code
    }
}

impl Drop for Parser {
    fn drop(&mut self) {
        // In a forked child the parser belongs to the parent: nothing is called, and the context is
        // leaked.
        if self.cuvid.driver().check_process().is_ok() {
            // Callbacks during this call find no target. An error cannot be reported from a
            // destructor.
            let _ = self.cuvid.destroy_parser(self.raw);
            // SAFETY: leaked in `new`; the parser that used it is destroyed.
            drop(unsafe { Box::from_raw(self.context.as_ptr()) });
        }
    }
}

/// Calls the target, if there is one. Nothing unwinds into C: a panic is stored for `parse` and
/// returned as a failure.
///
/// # Safety
/// `user` must point to the parser's CallbackContext.
unsafe fn with_target(user: *mut c_void, call: impl FnOnce(&mut dyn Callbacks) -> c_int) -> c_int {
    // SAFETY: by this function's contract; the context lives as long as the parser, which is making
    // this call.
    let context = unsafe { &*user.cast::<CallbackContext>() };
    let Some(mut target) = context.target.get() else {
        return 1; // no target: the parser is being destroyed
    };
    // SAFETY: set by `parse`, which is running further up on this thread's stack and does not use
    // the target meanwhile.
    let target = unsafe { target.as_mut() };
    catch_unwind(AssertUnwindSafe(|| call(target))).unwrap_or_else(|panic| {
        context.panic.set(Some(panic));
        0
    })
}

unsafe extern "C" fn on_sequence(user: *mut c_void, format: *mut sys::CUVIDEOFORMAT) -> c_int {
    // SAFETY: the driver passes `pUserData`, and a format that is valid until the return, or null.
    unsafe {
        format.as_ref().map_or(0, |format| {
            with_target(user, |target| target.sequence(format))
        })
    }
}

unsafe extern "C" fn on_decode(user: *mut c_void, picture: *mut sys::CUVIDPICPARAMS) -> c_int {
    // SAFETY: the driver passes `pUserData`, and a picture that is valid until the return, or null.
    unsafe {
        picture.as_mut().map_or(0, |picture| {
            with_target(user, |target| target.decode(picture))
        })
    }
}

unsafe extern "C" fn on_display(user: *mut c_void, info: *mut sys::CUVIDPARSERDISPINFO) -> c_int {
    // Null marks the end of the stream, where that notification was requested.
    // SAFETY: the driver passes `pUserData`, and an info that is valid until the return, or null.
    unsafe {
        info.as_ref()
            .map_or(1, |info| with_target(user, |target| target.display(info)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Target {
        seen: Vec<&'static str>,
        panics: bool,
    }

    impl Callbacks for Target {
        fn sequence(&mut self, _: &sys::CUVIDEOFORMAT) -> c_int {
            self.seen.push("sequence");
            12
        }

        fn decode(&mut self, _: &mut sys::CUVIDPICPARAMS) -> c_int {
            assert!(!self.panics, "on purpose");
            self.seen.push("decode");
            1
        }

        fn display(&mut self, _: &sys::CUVIDPARSERDISPINFO) -> c_int {
            self.seen.push("display");
            0
        }
    }

    fn context(target: &mut Target) -> CallbackContext {
        let target: &mut dyn Callbacks = target;
        // SAFETY: only the lifetime changes; every test's target outlives its context.
        let target: NonNull<dyn Callbacks> = unsafe { std::mem::transmute(NonNull::from(target)) };
        CallbackContext {
            target: Cell::new(Some(target)),
            panic: Cell::new(None),
        }
    }

    fn user(context: &CallbackContext) -> *mut c_void {
        std::ptr::from_ref(context).cast_mut().cast()
    }

    #[test]
    fn callbacks_reach_the_target_and_return_its_answer() {
        let mut target = Target {
            seen: Vec::new(),
            panics: false,
        };
        let context = context(&mut target);
        let (mut format, mut picture, mut info) = Default::default();
        // SAFETY: the context and the arguments of the callbacks outlive the calls.
        let answers = unsafe {
            let answers = (
                on_sequence(user(&context), &mut format),
                on_decode(user(&context), &mut picture),
            );
            (answers, on_display(user(&context), &mut info))
        };
        assert_eq!(answers, ((12, 1), 0));
        assert_eq!(target.seen, ["sequence", "decode", "display"]);
    }

    #[test]
    fn a_panic_does_not_cross_c_and_is_kept() {
        let mut target = Target {
            seen: Vec::new(),
            panics: true,
        };
        let context = context(&mut target);
        // SAFETY: as above.
        let answer = unsafe { on_decode(user(&context), &mut Default::default()) };
        assert_eq!(answer, 0);
        let text = context
            .panic
            .take()
            .and_then(|panic| panic.downcast::<&str>().ok());
        assert_eq!(text.as_deref(), Some(&"on purpose"));
    }

    #[test]
    fn callbacks_without_target_or_picture_do_nothing() {
        let mut target = Target {
            seen: Vec::new(),
            panics: false,
        };
        let context = context(&mut target);
        // SAFETY: as above; null is what the driver passes at the end of a stream.
        unsafe {
            assert_eq!(
                on_display(user(&context), std::ptr::null_mut()),
                1,
                "the end of a stream"
            );
            assert_eq!(on_decode(user(&context), std::ptr::null_mut()), 0);
            context.target.set(None);
            assert_eq!(
                on_decode(user(&context), &mut Default::default()),
                1,
                "muted"
            );
        }
        assert!(target.seen.is_empty());
    }
}
