//! In: JPEG files, one after the other, of one worker.
//! Out: each one's planes on the device, good for work in the decoder's stream until the next call.
//! Never: writes where the host does not know that nobody reads, whatever order the library keeps (see [`super`]).

use std::marker::PhantomData;
use std::sync::Arc;

use super::header::JpegHeader;
use super::nvjpeg::Backend;
use super::nvjpeg_driver::{CudaNvjpeg, NvjpegDriver};
use super::plane_layout::{check_supported, is_hardware_candidate, PlaneLayout};
use crate::cuda::{Device, Stream};
use crate::{Error, Result};

/// Sets of planes and states. Two: one is decoded into while the other one's readers run.
const NUM_SETS: usize = 2;

/// Planes larger than this are not kept for smaller pictures.
const MAX_RETAINED_BYTES: usize = 64 << 20;

/// Decodes JPEG files into planes on a device. One per worker: one thread at a time, any thread.
pub struct JpegDecoder {
    core: DecoderCore<CudaNvjpeg>,
}

/// One plane of 8-bit samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plane {
    /// Where it begins in device memory.
    pub address: u64,
    /// Bytes from row to row.
    pub pitch_bytes: usize,
}

/// A decoded picture: YCbCr in full range of BT.601, or gray, as it is stored in the file (its EXIF turn not applied).
///
/// Good for work that is enqueued in the decoder's stream while this value is alive; that work may run later.
#[derive(Debug)]
pub struct DecodedImage<'a> {
    /// Width in samples of luma.
    pub width: u32,
    /// Height in samples of luma.
    pub height: u32,
    /// Luma, blue and red chroma; luma alone (the rest zeros) where the picture is gray. A chroma plane has
    /// `width / 2^log2_w` by `height / 2^log2_h` samples, rounded up.
    pub planes: [Plane; 3],
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
    /// [`Error::NoNvjpeg`] where there is no libnvjpeg.
    pub fn new(device: &Arc<Device>) -> Result<JpegDecoder> {
        JpegDecoder::with_backends(device, &[Backend::Hardware, Backend::Hybrid])
    }

    /// A decoder that uses these backends, the first that takes a file. For measurements and checks.
    ///
    /// # Errors
    /// [`Error::NoNvjpeg`] where there is no libnvjpeg; [`Error::Unsupported`] where the device has none of them.
    pub fn with_backends(device: &Arc<Device>, backends: &[Backend]) -> Result<JpegDecoder> {
        Ok(JpegDecoder { core: DecoderCore::new(CudaNvjpeg::new(device)?, backends)? })
    }

    /// The stream in which planes are good. Of the decoder's device, and nobody else's.
    pub fn stream(&self) -> &Arc<Stream> {
        self.core.driver.stream()
    }

    /// The backends that it chooses from, best first.
    pub fn backends(&self) -> &[Backend] {
        &self.core.backends
    }

    /// How many JPEG engines the device has; 0 where it has none or the library does not use them.
    pub fn engines(&self) -> Result<u32> {
        self.core.driver.engines()
    }

    /// Whether a file with this header is worth a try. The library may still refuse it.
    ///
    /// # Errors
    /// The reason, in words, why not.
    pub fn supports(&self, header: &JpegHeader) -> Result<(), String> {
        self.core.supports(header)
    }

    /// Starts decoding a file. Its bytes may be reused at return.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where nvJPEG does not take it, [`Error::BadJpeg`] where it is damaged (nvJPEG notices less damage than
    /// libjpeg): the CPU can be asked instead. [`Error::OutOfMemory`], and others that concern the machine.
    pub fn decode(&mut self, file: &[u8]) -> Result<DecodedImage<'_>> {
        self.core.decode(file)
    }
}

/// The decoder, whatever it runs on.
pub(crate) struct DecoderCore<E: NvjpegDriver> {
    sets: [BufferSet<E>; NUM_SETS],
    pub driver: E,
    backends: Vec<Backend>,
    /// The set that was handed out last.
    last: usize,
}

/// Planes of one picture, and what its decoding needs until it is over.
struct BufferSet<E: NvjpegDriver> {
    states: Vec<(Backend, E::DecodeState)>,
    /// A copy of the file: by when the library has read it, its documentation does not say.
    file: Vec<u8>,
    memory: Option<E::Memory>,
    pending_work: PendingWork<E::Event>,
}

/// Who may still use a set.
enum PendingWork<E> {
    /// Nobody: the host knows it.
    None,
    /// Whoever was enqueued before the mark.
    UpToEvent(E),
    /// Whoever is in the stream.
    Unrecorded,
}

impl<E: NvjpegDriver> DecoderCore<E> {
    pub fn new(mut driver: E, wanted: &[Backend]) -> Result<DecoderCore<E>> {
        let mut backends = Vec::new();
        for &backend in wanted {
            if driver.has_backend(backend)? {
                backends.push(backend);
            }
        }
        if backends.is_empty() {
            return Err(Error::Unsupported { reason: format!("nvJPEG has none of {wanted:?} on this GPU") });
        }
        let set = || BufferSet {
            states: Vec::new(),
            file: Vec::new(),
            memory: None,
            pending_work: PendingWork::None,
        };
        Ok(DecoderCore { driver, backends, sets: [set(), set()], last: 0 })
    }

    pub fn supports(&self, header: &JpegHeader) -> Result<(), String> {
        check_supported(header)?;
        match self.backends == [Backend::Hardware] && !is_hardware_candidate(header) {
            true => Err("the JPEG engines take baseline files of one scan, not 4:1:1 or 4:1:0".to_owned()),
            false => Ok(()),
        }
    }

    pub fn decode(&mut self, file: &[u8]) -> Result<DecodedImage<'_>> {
        let header = JpegHeader::parse(file)?;
        self.supports(&header).map_err(|reason| Error::Unsupported { reason })?;
        self.record_last_use()?;
        let next = (self.last + 1) % NUM_SETS;
        self.wait_until_idle(next)?;
        self.last = next;
        // From here on the set is nobody's but ours.
        let outcome = self.decode_into(next, &header, file);
        if outcome.is_err() {
            // What was begun comes to its end before anything of the set is used again or freed.
            self.sets[next].pending_work = PendingWork::Unrecorded;
            self.wait_until_idle(next)?;
        }
        let (layout, backend) = outcome?;
        let set = &self.sets[next];
        let (block, _) = set.memory.as_ref().map_or((0, 0), E::address_and_len);
        let mut planes = [Plane::default(); 3];
        for (plane, at) in planes.iter_mut().enumerate().take(layout.planes) {
            *at = Plane { address: layout.address(block, plane), pitch_bytes: layout.pitches[plane] };
        }
        let (width, height, log2_chroma) = (header.width, header.height, layout.log2_chroma);
        Ok(DecodedImage { width, height, planes, log2_chroma, backend, decoder: PhantomData })
    }

    /// Marks the end of the last set's readers: whoever read planes was enqueued by now.
    fn record_last_use(&mut self) -> Result<()> {
        let set = &mut self.sets[self.last];
        if matches!(set.pending_work, PendingWork::Unrecorded) {
            set.pending_work = PendingWork::UpToEvent(self.driver.record_event()?);
        }
        Ok(())
    }

    /// Waits on the host until nobody uses a set. This, not the order of the stream, is what keeps readers from harm.
    fn wait_until_idle(&mut self, set: usize) -> Result<()> {
        match &self.sets[set].pending_work {
            PendingWork::None => (),
            PendingWork::UpToEvent(event) => self.driver.wait(event)?,
            PendingWork::Unrecorded => self.driver.synchronize()?,
        }
        self.sets[set].pending_work = PendingWork::None;
        Ok(())
    }

    fn decode_into(&mut self, at: usize, header: &JpegHeader, file: &[u8]) -> Result<(PlaneLayout, Backend)> {
        let set = &mut self.sets[at];
        set.file.clear();
        set.file.extend_from_slice(file);
        let info = self.driver.image_info(self.backends[0], &set.file)?;
        let layout = PlaneLayout::of(header, &info)?;
        self.ensure_capacity(at, layout.bytes)?;
        let mut refusal = Error::Unsupported { reason: "no backend of nvJPEG takes this file".to_owned() };
        for which in 0..self.backends.len() {
            let backend = self.backends[which];
            let begun = match backend {
                Backend::Hardware if !is_hardware_candidate(header) => continue,
                Backend::Hardware => match self.driver.hardware_supports(&self.sets[at].file) {
                    Ok(true) => self.start_decode(at, backend, &layout),
                    Ok(false) => continue,
                    Err(error) => Err(error),
                },
                _ => self.start_decode(at, backend, &layout),
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
    fn ensure_capacity(&mut self, at: usize, bytes: usize) -> Result<()> {
        let set = &mut self.sets[at];
        let have = set.memory.as_ref().map_or(0, |memory| E::address_and_len(memory).1);
        // Rounded up: pictures of a data set differ by little.
        let need = bytes.next_multiple_of(1 << 20);
        if have < need || (have > MAX_RETAINED_BYTES && need <= MAX_RETAINED_BYTES) {
            set.memory = None; // first, so that both need not fit
            set.memory = Some(self.driver.allocate(need)?);
        }
        Ok(())
    }

    fn start_decode(&mut self, at: usize, backend: Backend, layout: &PlaneLayout) -> Result<()> {
        let set = &mut self.sets[at];
        let known = set.states.iter().position(|(of, _)| *of == backend);
        let mut state = match known {
            Some(known) => set.states.swap_remove(known).1,
            None => self.driver.state(backend)?,
        };
        let (block, _) = set.memory.as_ref().map_or((0, 0), E::address_and_len);
        let (image, is_gray) = (layout.image(block), layout.planes == 1);
        set.pending_work = PendingWork::Unrecorded;
        // The file's copy and the planes are the set's, which nobody uses (`wait_until_idle`) and which is neither changed nor freed before the
        // host has waited again: in `wait_until_idle`, which `decode` calls first, or in `drop`. Readers are in the stream.
        let outcome = self.driver.decode(&mut state, &set.file, is_gray, &image);
        match outcome {
            Ok(()) => set.states.push((backend, state)),
            Err(_) => {
                // A state that failed is not used again; what it may have begun comes first.
                let synchronized = self.driver.synchronize();
                drop(state);
                synchronized?;
            }
        }
        outcome
    }
}

impl<E: NvjpegDriver> Drop for DecoderCore<E> {
    fn drop(&mut self) {
        // States and memory go after it: nothing runs that uses them. Where the device does not answer there is nothing to keep.
        let _ = self.driver.synchronize();
    }
}
