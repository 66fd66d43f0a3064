//! Queries and caches what a device can decode: codecs, formats, size limits and the number of
//! engines. Results are cached because the driver's query is slow.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::cuda::Device;
use crate::cuvid::Cuvid;
use crate::format::{Chroma, Codec, StreamFormat, SurfaceFormat};
use crate::sys;
use crate::{Error, Result};

/// Decoding capabilities of a device for one codec, chroma format and bit depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Whether the device decodes this combination.
    pub supported: bool,
    /// How many of its engines decode it.
    pub engines: u32,
    /// The smallest supported width and height.
    pub min_size: (u32, u32),
    /// The largest supported width and height.
    pub max_size: (u32, u32),
    /// The largest supported number of macroblocks (of 256 pixels) per picture.
    pub max_macroblocks: u32,
    /// Bit mask of the output layouts that it supports, indexed by the number of [`SurfaceFormat`].
    pub surface_formats: u16,
}

/// The capabilities of a device. Each combination is queried once per process and cached.
pub fn query(device: &Device, codec: Codec, chroma: Chroma, depth_bits: u8) -> Result<Caps> {
    static CACHE: Mutex<BTreeMap<(u32, Codec, Chroma, u8), Caps>> = Mutex::new(BTreeMap::new());
    let cuvid = Cuvid::get()?;
    let key = (device.ordinal(), codec, chroma, depth_bits);
    if let Some(caps) = CACHE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&key)
    {
        return Ok(*caps);
    }
    let mut raw_caps = sys::CUVIDDECODECAPS {
        eCodecType: codec.to_raw(),
        eChromaFormat: chroma.to_raw(),
        nBitDepthMinus8: u32::from(depth_bits.saturating_sub(8)),
        ..Default::default()
    };
    // Not under the lock: two threads may issue the same query at first, which is harmless.
    device.with_current(|| cuvid.decoder_caps(&mut raw_caps))?;
    let caps = Caps {
        supported: raw_caps.bIsSupported != 0,
        engines: raw_caps.nNumNVDECs.into(),
        min_size: (raw_caps.nMinWidth.into(), raw_caps.nMinHeight.into()),
        max_size: (raw_caps.nMaxWidth, raw_caps.nMaxHeight),
        max_macroblocks: raw_caps.nMaxMBCount,
        surface_formats: raw_caps.nOutputFormatMask,
    };
    CACHE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(key, caps);
    Ok(caps)
}

/// How many decoding engines the device has. Queried for H.264, which every engine decodes.
///
/// # Errors
/// [`Error::Unsupported`] if it has none; [`Error::NoNvcuvid`] if the driver's video library is
/// missing.
pub fn engines(device: &Device) -> Result<u32> {
    match query(device, Codec::H264, Chroma::C420, 8)?.engines {
        0 => Err(Error::Unsupported {
            reason: format!(
                "{device:?} has no NVDEC engine, as a MIG slice without one or a GPU for computing only"
            ),
        }),
        engines => Ok(engines),
    }
}

impl Caps {
    /// Checks that a stream is within the limits.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn check(&self, format: &StreamFormat) -> Result<(), String> {
        let (name, (width, height)) = (format.name(), format.coded_size);
        if !self.supported {
            return Err(format!("{name} is not decoded by this GPU"));
        }
        let ((min_width, min_height), (max_width, max_height)) = (self.min_size, self.max_size);
        if width < min_width || height < min_height {
            return Err(format!(
                "this GPU decodes {name} from {min_width}x{min_height} on, but the frames are {width}x{height}"
            ));
        }
        if width > max_width || height > max_height {
            return Err(format!(
                "this GPU decodes {name} up to {max_width}x{max_height}, but the frames are {width}x{height}"
            ));
        }
        let (blocks, max_macroblocks) = (macroblocks((width, height)), self.max_macroblocks);
        if blocks > u64::from(max_macroblocks) {
            return Err(format!(
                "this GPU decodes {name} up to {max_macroblocks} macroblocks, but frames of {width}x{height} have {blocks}"
            ));
        }
        let surface_format = format.surface_format();
        if !self.supports_output(surface_format) {
            return Err(format!(
                "this GPU decodes {name}, but cannot output it as {surface_format:?}"
            ));
        }
        Ok(())
    }

    /// Whether pictures can be output in this layout.
    pub fn supports_output(&self, surface_format: SurfaceFormat) -> bool {
        u32::from(self.surface_formats) >> surface_format.to_raw() & 1 == 1
    }

    /// Whether a decoder can be created for pictures up to this size.
    pub(crate) fn supports_size(&self, size: (u32, u32)) -> bool {
        size.0 <= self.max_size.0
            && size.1 <= self.max_size.1
            && macroblocks(size) <= self.max_macroblocks.into()
    }
}

fn macroblocks((width, height): (u32, u32)) -> u64 {
    u64::from(width.div_ceil(16)) * u64::from(height.div_ceil(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps {
        supported: true,
        engines: 7,
        min_size: (48, 16),
        max_size: (4096, 4096),
        max_macroblocks: 65536,
        surface_formats: 0b11,
    };

    fn stream(
        codec: Codec,
        chroma: Chroma,
        depth_bits: u8,
        coded_size: (u32, u32),
    ) -> StreamFormat {
        StreamFormat {
            codec,
            chroma,
            depth_bits,
            coded_size,
            min_surfaces: 4,
        }
    }

    #[test]
    fn unsupported_streams_are_named_in_the_reason() {
        let stream = |chroma, depth, size| stream(Codec::H264, chroma, depth, size);
        let none = Caps {
            supported: false,
            ..CAPS
        };
        let reason = none
            .check(&stream(Chroma::C420, 10, (1920, 1080)))
            .unwrap_err();
        assert_eq!(reason, "H.264 4:2:0 10 bit is not decoded by this GPU");
        assert!(CAPS.check(&stream(Chroma::C420, 8, (48, 16))).is_ok());
        assert!(
            CAPS.check(&stream(Chroma::C420, 8, (46, 16)))
                .unwrap_err()
                .contains("from 48x16 on")
        );
        assert!(
            CAPS.check(&stream(Chroma::C420, 8, (4098, 16)))
                .unwrap_err()
                .contains("up to 4096x4096")
        );
        let few = Caps {
            max_macroblocks: 8159,
            ..CAPS
        };
        assert!(
            few.check(&stream(Chroma::C420, 8, (1920, 1088)))
                .unwrap_err()
                .contains("8160")
        );
        assert!(
            CAPS.check(&stream(Chroma::C444, 8, (640, 480)))
                .unwrap_err()
                .contains("Yuv444")
        );
        assert!(CAPS.check(&stream(Chroma::C420, 10, (640, 480))).is_ok());
    }
}
