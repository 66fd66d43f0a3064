//! Prepares the launches that deinterlace a frame in device memory.

use super::kernel_args::{DeinterlaceArgs, to_bytes};
use super::tables::ALIGNMENT;
use super::{BLOCK_DIM, DeviceFrame, DevicePlane, Launch, check_aligned};
use crate::deinterlace::{Deinterlace, DeinterlaceMethod, Field, checked_planes};
use crate::error::PassError;

/// As `DeinterlaceMethod` in `cuda/args.h`.
mod tag {
    pub(crate) const BOB: u32 = 0;
    pub(crate) const LINEAR: u32 = 1;
}

/// Bytes of a row that a thread computes.
const THREAD_BYTES: u32 = 4;

impl Deinterlace {
    /// Returns the deinterlaced frame, whose planes are in `memory` of
    /// [`memory_bytes`](Self::memory_bytes) bytes, and the launches that write it.
    ///
    /// # Errors
    /// Those of the pass for the frame; `Misaligned` if `memory` is not at a multiple of 16.
    pub fn launches(
        self,
        frame: &DeviceFrame,
        memory: u64,
    ) -> Result<(DeviceFrame, Vec<Launch>), PassError> {
        check_aligned("out", memory, ALIGNMENT)?;
        let planes = checked_planes(frame)?;
        let out = |number: usize| {
            let (_, extent) = &planes[number];
            DevicePlane {
                address: memory + extent.offset as u64,
                stride_bytes: extent.stride_bytes,
            }
        };
        let launches = planes.iter().enumerate().map(|(number, (plane, extent))| {
            let (source, out) = (plane.storage, out(number));
            let is_aligned =
                source.address.is_multiple_of(4) && source.stride_bytes.is_multiple_of(4);
            let args = DeinterlaceArgs {
                source: source.address,
                source_stride: source.stride_bytes as u64,
                out: out.address,
                out_stride: out.stride_bytes as u64,
                row_bytes: extent.row_bytes as u32,
                rows: extent.rows as u32,
                first_kept: u32::from(self.kept == Field::Bottom),
                method: match self.method {
                    DeinterlaceMethod::Bob => tag::BOB,
                    DeinterlaceMethod::Linear => tag::LINEAR,
                },
                depth_bits: frame.depth_bits.into(),
                word_shift: frame.shift.into(),
                aligned: is_aligned.into(),
                unused: 0,
            };
            Launch {
                kernel: "framespool_deinterlace",
                grid: [
                    args.row_bytes.div_ceil(THREAD_BYTES * BLOCK_DIM.0),
                    args.rows.div_ceil(BLOCK_DIM.1),
                    1,
                ],
                block: [BLOCK_DIM.0, BLOCK_DIM.1, 1],
                shared_bytes: 0,
                args: to_bytes(&args),
                clear: None,
            }
        });
        let launches = launches.collect();
        let DeviceFrame {
            width,
            height,
            depth_bits,
            shift,
            planes: arrangement,
            color,
        } = *frame;
        let planes = arrangement.map(|number, _| out(number));
        Ok((
            DeviceFrame {
                width,
                height,
                depth_bits,
                shift,
                planes,
                color,
            },
            launches,
        ))
    }
}
