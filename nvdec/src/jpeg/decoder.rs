//! In: JPEG files, one after the other, of one worker.
//! Out: each one's planes on the device, good for work in the decoder's stream until the next call.
//! Never: writes where the host does not know that nobody reads, whatever order the library keeps (see [`super`]).

use std::marker::PhantomData;
use std::sync::Arc;

use super::api::Backend;
use super::engine::{Engine, Real};
use super::facts::Facts;
use super::layout::{suits, suits_hardware, Layout};
use crate::cuda::{Device, Stream};
use crate::{Error, Result};

/// Sets of planes and states. Two: one is decoded into while the other one's readers run.
const SETS: usize = 2;

/// Planes larger than this are not kept for smaller pictures.
const KEPT_BYTES: usize = 64 << 20;

/// Decodes JPEG files into planes on a device. One per worker: one thread at a time, any thread.
pub struct JpegDecoder {
    core: Core<Real>,
}

/// One plane of 8-bit samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneAt {
    /// Where it begins in device memory.
    pub address: u64,
    /// Bytes from row to row.
    pub pitch_bytes: usize,
}

/// A decoded picture: YCbCr in full range of BT.601, or gray, as it is stored in the file (its EXIF turn not applied).
///
/// Good for work that is enqueued in the decoder's stream while this value is alive; that work may run later.
#[derive(Debug)]
pub struct Planes<'a> {
    /// Width in samples of luma.
    pub width: u32,
    /// Height in samples of luma.
    pub height: u32,
    /// Luma, blue and red chroma; luma alone (the rest zeros) where the picture is gray. A chroma plane has
    /// `width / 2^log2_w` by `height / 2^log2_h` samples, rounded up.
    pub planes: [PlaneAt; 3],
    /// How much less chroma there is, as powers of two, horizontally and vertically; `None` for gray.
    pub log2_chroma: Option<(u8, u8)>,
    /// What decoded it.
    pub backend: Backend,
    decoder: PhantomData<&'a mut ()>,
}

impl JpegDecoder {
    /// A decoder that uses the JPEG engines where there are some and the file suits them, and else the CPU's Huffman decoder with the
    /// GPU's ordinary units.
    ///
    /// # Errors
    /// [`Error::NoJpeg`] where there is no libnvjpeg.
    pub fn new(device: &Arc<Device>) -> Result<JpegDecoder> {
        JpegDecoder::with(device, &[Backend::Hardware, Backend::Hybrid])
    }

    /// A decoder that uses these backends, the first that takes a file. For measurements and checks.
    ///
    /// # Errors
    /// [`Error::NoJpeg`] where there is no libnvjpeg; [`Error::Unsupported`] where the device has none of them.
    pub fn with(device: &Arc<Device>, backends: &[Backend]) -> Result<JpegDecoder> {
        Ok(JpegDecoder { core: Core::new(Real::new(device)?, backends)? })
    }

    /// The stream in which planes are good. Of the decoder's device, and nobody else's.
    pub fn stream(&self) -> &Arc<Stream> {
        self.core.engine.stream()
    }

    /// The backends that it chooses from, best first.
    pub fn backends(&self) -> &[Backend] {
        &self.core.backends
    }

    /// How many JPEG engines the device has; 0 where it has none or the library does not use them.
    pub fn engines(&self) -> Result<u32> {
        self.core.engine.engines()
    }

    /// Whether a file with this header is worth a try. The library may still refuse it.
    ///
    /// # Errors
    /// The reason, in words, why not.
    pub fn takes(&self, facts: &Facts) -> Result<(), String> {
        self.core.takes(facts)
    }

    /// Starts decoding a file. Its bytes may be reused at return.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where nvJPEG does not take it, [`Error::BadJpeg`] where it is damaged (nvJPEG notices less damage than
    /// libjpeg): the CPU can be asked instead. [`Error::OutOfMemory`], and others that concern the machine.
    pub fn decode(&mut self, file: &[u8]) -> Result<Planes<'_>> {
        self.core.decode(file)
    }
}

/// The decoder, whatever it runs on.
pub(crate) struct Core<E: Engine> {
    sets: [Set<E>; SETS],
    pub engine: E,
    backends: Vec<Backend>,
    /// The set that was handed out last.
    last: usize,
}

/// Planes of one picture, and what its decoding needs until it is over.
struct Set<E: Engine> {
    states: Vec<(Backend, E::State)>,
    /// A copy of the file: by when the library has read it, its documentation does not say.
    file: Vec<u8>,
    memory: Option<E::Memory>,
    use_: Use<E::Mark>,
}

/// Who may still use a set.
enum Use<M> {
    /// Nobody: the host knows it.
    None,
    /// Whoever was enqueued before the mark.
    Until(M),
    /// Whoever is in the stream.
    Open,
}

impl<E: Engine> Core<E> {
    pub fn new(mut engine: E, wanted: &[Backend]) -> Result<Core<E>> {
        let mut backends = Vec::new();
        for &backend in wanted {
            if engine.has(backend)? {
                backends.push(backend);
            }
        }
        if backends.is_empty() {
            return Err(Error::Unsupported { reason: format!("nvJPEG has none of {wanted:?} on this GPU") });
        }
        let set = || Set { states: Vec::new(), file: Vec::new(), memory: None, use_: Use::None };
        Ok(Core { engine, backends, sets: [set(), set()], last: 0 })
    }

    pub fn takes(&self, facts: &Facts) -> Result<(), String> {
        suits(facts)?;
        match self.backends == [Backend::Hardware] && !suits_hardware(facts) {
            true => Err("the JPEG engines take baseline files of one scan, not 4:1:1 or 4:1:0".to_owned()),
            false => Ok(()),
        }
    }

    pub fn decode(&mut self, file: &[u8]) -> Result<Planes<'_>> {
        let facts = Facts::read(file)?;
        self.takes(&facts).map_err(|reason| Error::Unsupported { reason })?;
        self.close_last()?;
        let next = (self.last + 1) % SETS;
        self.wait_for(next)?;
        self.last = next;
        // From here on the set is nobody's but ours.
        let outcome = self.decode_into(next, &facts, file);
        if outcome.is_err() {
            // What was begun comes to its end before anything of the set is used again or freed.
            self.sets[next].use_ = Use::Open;
            self.wait_for(next)?;
        }
        let (layout, backend) = outcome?;
        let set = &self.sets[next];
        let (block, _) = set.memory.as_ref().map_or((0, 0), E::place);
        let mut planes = [PlaneAt::default(); 3];
        for (plane, at) in planes.iter_mut().enumerate().take(layout.planes) {
            *at = PlaneAt { address: layout.address(block, plane), pitch_bytes: layout.pitches[plane] };
        }
        let (width, height, log2_chroma) = (facts.width, facts.height, layout.log2_chroma);
        Ok(Planes { width, height, planes, log2_chroma, backend, decoder: PhantomData })
    }

    /// Marks the end of the last set's readers: whoever read planes was enqueued by now.
    fn close_last(&mut self) -> Result<()> {
        let set = &mut self.sets[self.last];
        if matches!(set.use_, Use::Open) {
            set.use_ = Use::Until(self.engine.mark()?);
        }
        Ok(())
    }

    /// Waits on the host until nobody uses a set. This, not the order of the stream, is what keeps readers from harm.
    fn wait_for(&mut self, set: usize) -> Result<()> {
        match &self.sets[set].use_ {
            Use::None => (),
            Use::Until(mark) => self.engine.wait(mark)?,
            Use::Open => self.engine.settle()?,
        }
        self.sets[set].use_ = Use::None;
        Ok(())
    }

    fn decode_into(&mut self, at: usize, facts: &Facts, file: &[u8]) -> Result<(Layout, Backend)> {
        let set = &mut self.sets[at];
        set.file.clear();
        set.file.extend_from_slice(file);
        let info = self.engine.info(self.backends[0], &set.file)?;
        let layout = Layout::of(facts, &info)?;
        self.make_room(at, layout.bytes)?;
        let mut refusal = Error::Unsupported { reason: "no backend of nvJPEG takes this file".to_owned() };
        for which in 0..self.backends.len() {
            let backend = self.backends[which];
            let begun = match backend {
                Backend::Hardware if !suits_hardware(facts) => continue,
                Backend::Hardware => match self.engine.suits(&self.sets[at].file) {
                    Ok(true) => self.start(at, backend, &layout),
                    Ok(false) => continue,
                    Err(error) => Err(error),
                },
                _ => self.start(at, backend, &layout),
            };
            match begun {
                Ok(()) => return Ok((layout, backend)),
                // Refused by this one; whatever it began is over, and the next one may write to the same planes.
                Err(error @ Error::Unsupported { .. }) => refusal = error,
                Err(error) => return Err(error),
            }
        }
        Err(refusal)
    }

    /// Memory of at least so many bytes in a set that nobody uses.
    fn make_room(&mut self, at: usize, bytes: usize) -> Result<()> {
        let set = &mut self.sets[at];
        let have = set.memory.as_ref().map_or(0, |memory| E::place(memory).1);
        // Rounded up: pictures of a data set differ by little.
        let need = bytes.next_multiple_of(1 << 20);
        if have < need || (have > KEPT_BYTES && need <= KEPT_BYTES) {
            set.memory = None; // first, so that both need not fit
            set.memory = Some(self.engine.allocate(need)?);
        }
        Ok(())
    }

    fn start(&mut self, at: usize, backend: Backend, layout: &Layout) -> Result<()> {
        let set = &mut self.sets[at];
        let known = set.states.iter().position(|(of, _)| *of == backend);
        let mut state = match known {
            Some(known) => set.states.swap_remove(known).1,
            None => self.engine.state(backend)?,
        };
        let (block, _) = set.memory.as_ref().map_or((0, 0), E::place);
        let (image, is_gray) = (layout.image(block), layout.planes == 1);
        set.use_ = Use::Open;
        // The file's copy and the planes are the set's, which nobody uses (`wait_for`) and which is neither changed nor freed before the
        // host has waited again: in `wait_for`, which `decode` calls first, or in `drop`. Readers are in the stream.
        let outcome = self.engine.decode(&mut state, &set.file, is_gray, &image);
        match outcome {
            Ok(()) => set.states.push((backend, state)),
            Err(_) => {
                // A state that failed is not used again; what it may have begun comes first.
                let settled = self.engine.settle();
                drop(state);
                settled?;
            }
        }
        outcome
    }
}

impl<E: Engine> Drop for Core<E> {
    fn drop(&mut self) {
        // States and memory go after it: nothing runs that uses them. Where the device does not answer there is nothing to keep.
        let _ = self.engine.settle();
    }
}
