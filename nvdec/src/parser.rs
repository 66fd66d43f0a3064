//! In: access units, and somebody to be called back.
//! Out: sequences, pictures to decode and pictures to show, in the driver's order.
//! Never: lets a panic cross C, or calls anybody outside `parse`.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::NonNull;

use crate::api::{Cuvid, RawParser};
use crate::format::Codec;
use crate::sys;
use crate::Result;

/// Who is told what the parser finds. The answers are those of the C interface: 0 is failure.
pub(crate) trait Callbacks {
    /// A sequence begins, changes or is repeated; answers how many pictures the decoder has room for.
    fn sequence(&mut self, format: &sys::CUVIDEOFORMAT) -> c_int;
    /// A picture is to be decoded. Its pointers are good until the return.
    fn decode(&mut self, picture: &mut sys::CUVIDPICPARAMS) -> c_int;
    /// A picture is to be shown. Its surface may be given to another one after the return.
    fn display(&mut self, info: &sys::CUVIDPARSERDISPINFO) -> c_int;
}

/// A parser for one stream. It is made for a run and not used again: parsers that are rewound lose pictures, and say nothing of a
/// sequence that they know already.
pub(crate) struct Parser {
    cuvid: &'static Cuvid,
    raw: RawParser,
    link: NonNull<Link>,
}

/// What the driver's callbacks find behind `pUserData`.
struct Link {
    target: Cell<Option<NonNull<dyn Callbacks>>>,
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the parser is an opaque number that any one thread may use; `link` is owned, and its target is set only while `parse`
// runs, which borrows the parser mutably.
unsafe impl Send for Parser {}

impl Parser {
    pub fn new(cuvid: &'static Cuvid, codec: Codec) -> Result<Parser> {
        let link = Box::new(Link { target: Cell::new(None), panic: Cell::new(None) });
        let link = NonNull::from(Box::leak(link));
        let mut parameters = sys::CUVIDPARSERPARAMS {
            CodecType: codec.number(),
            // A placeholder: the sequence callback answers the number.
            ulMaxNumDecodeSurfaces: 1,
            // Pictures are mapped late by our own queue; the parser shows them as soon as their turn is known.
            ulMaxDisplayDelay: 0,
            ulErrorThreshold: 0,
            pUserData: link.as_ptr().cast(),
            pfnSequenceCallback: Some(on_sequence),
            pfnDecodePicture: Some(on_decode),
            pfnDisplayPicture: Some(on_display),
            ..Default::default()
        };
        // SAFETY: the callbacks take `pUserData` for a Link, which lives until Drop has destroyed the parser.
        match unsafe { cuvid.create_parser(&mut parameters) } {
            Ok(raw) => Ok(Parser { cuvid, raw, link }),
            Err(error) => {
                // SAFETY: leaked above, and nobody else has it: there is no parser.
                drop(unsafe { Box::from_raw(link.as_ptr()) });
                Err(error)
            }
        }
    }

    /// Gives the parser some bytes, and `target` what it finds. Answers the driver's code; a callback's own failure need not show
    /// in it. A panic of `target` goes on here.
    pub fn parse(
        &mut self,
        data: &[u8],
        flags: u32,
        timestamp: i64,
        target: &mut dyn Callbacks,
    ) -> Result<c_int> {
        // SAFETY: the link lives as long as the parser, and is only reached by shared references.
        let link = unsafe { self.link.as_ref() };
        // SAFETY: only the lifetime changes; the target is taken out again below, before its borrow ends.
        let target: NonNull<dyn Callbacks> = unsafe { std::mem::transmute(NonNull::from(target)) };
        link.target.set(Some(target));
        let code = self.cuvid.parse(self.raw, data, flags, timestamp);
        link.target.set(None);
        if let Some(panic) = link.panic.take() {
            resume_unwind(panic);
        }
        code
    }
}

impl Drop for Parser {
    fn drop(&mut self) {
        // In a forked child, whose parser is its parent's, nothing is called and the link stays.
        if self.cuvid.driver().check_process().is_ok() {
            // Callbacks that fire here find no target. A failure cannot be told to anybody.
            let _ = self.cuvid.destroy_parser(self.raw);
            // SAFETY: leaked in `new`; the parser that knew it is gone.
            drop(unsafe { Box::from_raw(self.link.as_ptr()) });
        }
    }
}

/// Calls the target, if there is one. Nothing unwinds into C: a panic is kept for `parse` and answered as a failure.
///
/// # Safety
/// `user` is the parser's Link.
unsafe fn with_target(user: *mut c_void, call: impl FnOnce(&mut dyn Callbacks) -> c_int) -> c_int {
    // SAFETY: by this function's contract; alive because the parser is, which is calling.
    let link = unsafe { &*user.cast::<Link>() };
    let Some(mut target) = link.target.get() else {
        return 1; // muted: the parser is being destroyed
    };
    // SAFETY: set by `parse`, which is running further up on this thread and does not touch the target meanwhile.
    let target = unsafe { target.as_mut() };
    catch_unwind(AssertUnwindSafe(|| call(target))).unwrap_or_else(|panic| {
        link.panic.set(Some(panic));
        0
    })
}

unsafe extern "C" fn on_sequence(user: *mut c_void, format: *mut sys::CUVIDEOFORMAT) -> c_int {
    // SAFETY: the driver gives back `pUserData`, and a format that is good until the return, or null.
    unsafe { format.as_ref().map_or(0, |format| with_target(user, |target| target.sequence(format))) }
}

unsafe extern "C" fn on_decode(user: *mut c_void, picture: *mut sys::CUVIDPICPARAMS) -> c_int {
    // SAFETY: the driver gives back `pUserData`, and a picture that is good until the return, or null.
    unsafe { picture.as_mut().map_or(0, |picture| with_target(user, |target| target.decode(picture))) }
}

unsafe extern "C" fn on_display(user: *mut c_void, info: *mut sys::CUVIDPARSERDISPINFO) -> c_int {
    // Null is the end of the stream, where that was asked for.
    // SAFETY: the driver gives back `pUserData`, and an info that is good until the return, or null.
    unsafe { info.as_ref().map_or(1, |info| with_target(user, |target| target.display(info))) }
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

    fn link(target: &mut Target) -> Link {
        let target: &mut dyn Callbacks = target;
        // SAFETY: only the lifetime changes; every test's target outlives its link.
        let target: NonNull<dyn Callbacks> = unsafe { std::mem::transmute(NonNull::from(target)) };
        Link { target: Cell::new(Some(target)), panic: Cell::new(None) }
    }

    fn user(link: &Link) -> *mut c_void {
        std::ptr::from_ref(link).cast_mut().cast()
    }

    #[test]
    fn callbacks_reach_their_target_and_its_answers_come_back() {
        let mut target = Target { seen: Vec::new(), panics: false };
        let link = link(&mut target);
        let (mut format, mut picture, mut info) = Default::default();
        // SAFETY: the link and what the callbacks are given outlive the calls.
        let answers = unsafe {
            let answers = (on_sequence(user(&link), &mut format), on_decode(user(&link), &mut picture));
            (answers, on_display(user(&link), &mut info))
        };
        assert_eq!(answers, ((12, 1), 0));
        assert_eq!(target.seen, ["sequence", "decode", "display"]);
    }

    #[test]
    fn a_panic_does_not_cross_c_and_is_kept() {
        let mut target = Target { seen: Vec::new(), panics: true };
        let link = link(&mut target);
        // SAFETY: as above.
        let answer = unsafe { on_decode(user(&link), &mut Default::default()) };
        assert_eq!(answer, 0);
        let text = link.panic.take().and_then(|panic| panic.downcast::<&str>().ok());
        assert_eq!(text.as_deref(), Some(&"on purpose"));
    }

    #[test]
    fn without_a_target_or_a_picture_nothing_is_called() {
        let mut target = Target { seen: Vec::new(), panics: false };
        let link = link(&mut target);
        // SAFETY: as above; null is what the driver gives at an end.
        unsafe {
            assert_eq!(on_display(user(&link), std::ptr::null_mut()), 1, "the end of a stream");
            assert_eq!(on_decode(user(&link), std::ptr::null_mut()), 0);
            link.target.set(None);
            assert_eq!(on_decode(user(&link), &mut Default::default()), 1, "muted");
        }
        assert!(target.seen.is_empty());
    }
}
