//! Decodes the JPEG files of one worker to planes on the device, which are valid in the decoder's
//! stream until the next call. It writes only where the host knows that no reader is active, for
//! any order of the library (see [`super`]).

use std::marker::PhantomData;
use std::sync::Arc;

use super::header::JpegHeader;
use super::nvjpeg::Backend;
use super::nvjpeg_driver::{CudaNvjpeg, NvjpegDriver};
use super::plane_layout::{PlaneLayout, check_supported, is_hardware_candidate};
use crate::cuda::{Device, Stream};
use crate::{Error, Result};

/// Sets of planes and states. With two, one is decoded into while the readers of the other one run.
const NUM_SETS: usize = 2;

/// Blocks larger than this are freed when a smaller image is decoded.
const MAX_RETAINED_BYTES: usize = 64 << 20;

/// Decodes JPEG files into planes on a device. One per worker: it may be used from any thread, but
/// by one thread at a time.
pub struct JpegDecoder {
    core: DecoderCore<CudaNvjpeg>,
}

/// One plane of 8-bit samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plane {
    /// Its start address in device memory.
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch_bytes: usize,
}

/// A decoded image: YCbCr in full range of BT.601, or gray, as stored in the file (the EXIF
/// orientation is not applied).
///
/// Valid for work that is enqueued in the decoder's stream while this value is alive; that work may
/// run later.
#[derive(Debug)]
pub struct DecodedImage<'a> {
    /// Width in luma samples.
    pub width: u32,
    /// Height in luma samples.
    pub height: u32,
    /// Luma, blue and red chroma, or luma alone (the rest zeros) for a gray image. A chroma plane
    /// has `width / 2^log2_w` by `height / 2^log2_h` samples, rounded up.
    pub planes: [Plane; 3],
    /// Base-2 logarithm of the chroma subsampling, horizontally and vertically; `None` for gray.
    pub log2_chroma: Option<(u8, u8)>,
    /// The backend that decoded it.
    pub backend: Backend,
    decoder: PhantomData<&'a mut ()>,
}

impl JpegDecoder {
    /// Creates a decoder that uses the JPEG engines if the device has some and they support the
    /// file, and else the CPU's Huffman decoder with the GPU's ordinary units.
    ///
    /// # Errors
    /// [`Error::NoNvjpeg`] if there is no libnvjpeg.
    pub fn new(device: &Arc<Device>) -> Result<JpegDecoder> {
        JpegDecoder::with_backends(device, &[Backend::Hardware, Backend::Hybrid])
    }

    /// Creates a decoder that uses these backends: the first that accepts a file. For measurements
    /// and checks.
    ///
    /// # Errors
    /// [`Error::NoNvjpeg`] if there is no libnvjpeg; [`Error::Unsupported`] if the device has none
    /// of the backends.
    pub fn with_backends(device: &Arc<Device>, backends: &[Backend]) -> Result<JpegDecoder> {
        Ok(JpegDecoder {
            core: DecoderCore::new(CudaNvjpeg::new(device)?, backends)?,
        })
    }

    /// The stream in which planes are valid. It belongs to this decoder alone.
    pub fn stream(&self) -> &Arc<Stream> {
        self.core.driver.stream()
    }

    /// The available backends, in order of preference.
    pub fn backends(&self) -> &[Backend] {
        &self.core.backends
    }

    /// How many JPEG engines the device has; 0 if it has none or the library does not use them.
    pub fn engines(&self) -> Result<u32> {
        self.core.driver.engines()
    }

    /// Checks whether decoding a file with this header should be attempted. The library may still
    /// reject it.
    ///
    /// # Errors
    /// The reason for rejection, as text.
    pub fn supports(&self, header: &JpegHeader) -> Result<(), String> {
        self.core.supports(header)
    }

    /// Starts decoding a file. Its bytes may be reused when this returns.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if nvJPEG does not support the file, [`Error::BadJpeg`] if the file
    /// is damaged (nvJPEG detects less damage than libjpeg): decode it on the CPU instead.
    /// [`Error::OutOfMemory`], and others that concern the machine.
    pub fn decode(&mut self, file: &[u8]) -> Result<DecodedImage<'_>> {
        self.core.decode(file)
    }
}

/// The decoder, generic over the driver.
pub(crate) struct DecoderCore<E: NvjpegDriver> {
    sets: [BufferSet<E>; NUM_SETS],
    pub driver: E,
    backends: Vec<Backend>,
    /// The set that was returned last.
    last: usize,
}

/// The planes of one image, and the resources that its decoding needs until it is complete.
struct BufferSet<E: NvjpegDriver> {
    states: Vec<(Backend, E::DecodeState)>,
    /// A copy of the file: the documentation does not say when the library has finished reading it.
    file: Vec<u8>,
    memory: Option<E::Memory>,
    pending_work: PendingWork<E::Event>,
}

/// Which users of a set may still be active.
enum PendingWork<E> {
    /// None: the host knows it.
    None,
    /// Only work that was enqueued before the event.
    UpToEvent(E),
    /// Any work in the stream.
    Unrecorded,
}

impl<E: NvjpegDriver> DecoderCore<E> {
    pub(super) fn new(mut driver: E, wanted: &[Backend]) -> Result<DecoderCore<E>> {
        let mut backends = Vec::new();
        for &backend in wanted {
            if driver.has_backend(backend)? {
                backends.push(backend);
            }
        }
        if backends.is_empty() {
            return Err(Error::Unsupported {
                reason: format!("nvJPEG has no backend of {wanted:?} on this GPU"),
            });
        }
        let set = || BufferSet {
            states: Vec::new(),
            file: Vec::new(),
            memory: None,
            pending_work: PendingWork::None,
        };
        Ok(DecoderCore {
            driver,
            backends,
            sets: [set(), set()],
            last: 0,
        })
    }

    pub(super) fn supports(&self, header: &JpegHeader) -> Result<(), String> {
        check_supported(header)?;
        match self.backends == [Backend::Hardware] && !is_hardware_candidate(header) {
            true => Err(
                "the JPEG engines support baseline files of one scan, not 4:1:1 or 4:1:0"
                    .to_owned(),
            ),
            false => Ok(()),
        }
    }

    pub(super) fn decode(&mut self, file: &[u8]) -> Result<DecodedImage<'_>> {
        let header = JpegHeader::parse(file)?;
        self.supports(&header)
            .map_err(|reason| Error::Unsupported { reason })?;
        self.record_last_use()?;
        let next = (self.last + 1) % NUM_SETS;
        self.wait_until_idle(next)?;
        self.last = next;
        // From here on, only this call uses the set.
        let outcome = self.decode_into(next, &header, file);
        if outcome.is_err() {
            // Decoding that was started must finish before anything in the set is used again or
            // freed.
            self.sets[next].pending_work = PendingWork::Unrecorded;
            self.wait_until_idle(next)?;
        }
        let (layout, backend) = outcome?;
        let set = &self.sets[next];
        let (block, _) = set.memory.as_ref().map_or((0, 0), E::address_and_len);
        let mut planes = [Plane::default(); 3];
        for (plane, at) in planes.iter_mut().enumerate().take(layout.planes) {
            *at = Plane {
                address: layout.address(block, plane),
                pitch_bytes: layout.pitches[plane],
            };
        }
        let (width, height, log2_chroma) = (header.width, header.height, layout.log2_chroma);
        Ok(DecodedImage {
            width,
            height,
            planes,
            log2_chroma,
            backend,
            decoder: PhantomData,
        })
    }

    /// Records an event after the last set's readers: all readers of its planes are enqueued by
    /// now.
    fn record_last_use(&mut self) -> Result<()> {
        let set = &mut self.sets[self.last];
        if matches!(set.pending_work, PendingWork::Unrecorded) {
            set.pending_work = PendingWork::UpToEvent(self.driver.record_event()?);
        }
        Ok(())
    }

    /// Blocks on the host until a set is unused. This wait, not the stream order, protects readers.
    fn wait_until_idle(&mut self, set: usize) -> Result<()> {
        match &self.sets[set].pending_work {
            PendingWork::None => (),
            PendingWork::UpToEvent(event) => self.driver.wait(event)?,
            PendingWork::Unrecorded => self.driver.synchronize()?,
        }
        self.sets[set].pending_work = PendingWork::None;
        Ok(())
    }

    fn decode_into(
        &mut self,
        at: usize,
        header: &JpegHeader,
        file: &[u8],
    ) -> Result<(PlaneLayout, Backend)> {
        let set = &mut self.sets[at];
        set.file.clear();
        set.file.extend_from_slice(file);
        let info = self.driver.image_info(self.backends[0], &set.file)?;
        let layout = PlaneLayout::of(header, &info)?;
        self.ensure_capacity(at, layout.bytes)?;
        let mut refusal = Error::Unsupported {
            reason: "no backend of nvJPEG supports this file".to_owned(),
        };
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
                // This backend rejected it; the work that it started is done, so the next one may
                // write to the same planes.
                Err(error @ Error::Unsupported { .. }) => refusal = error,
                Err(error) => return Err(error),
            }
        }
        Err(refusal)
    }

    /// Returns memory of at least this many bytes in an unused set.
    fn ensure_capacity(&mut self, at: usize, bytes: usize) -> Result<()> {
        let set = &mut self.sets[at];
        let have = set
            .memory
            .as_ref()
            .map_or(0, |memory| E::address_and_len(memory).1);
        // Rounded up, because images of a data set differ little in size.
        let need = bytes.next_multiple_of(1 << 20);
        if have < need || (have > MAX_RETAINED_BYTES && need <= MAX_RETAINED_BYTES) {
            set.memory = None; // first, so that both blocks need not fit at the same time
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
        // The file's copy and the planes belong to the set. It is unused (`wait_until_idle`), and
        // it is neither changed nor freed before the host has waited again: in `wait_until_idle`,
        // which `decode` calls first, or in `drop`. Readers are enqueued in the stream.
        let outcome = self.driver.decode(&mut state, &set.file, is_gray, &image);
        match outcome {
            Ok(()) => set.states.push((backend, state)),
            Err(_) => {
                // A state that failed is not used again. Work that it may have started must finish
                // first.
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
        // States and memory are dropped after this, when no work uses them. If the device fails,
        // nothing runs.
        let _ = self.driver.synchronize();
    }
}
