//! Prepares the launch that converts codes in device memory to elements: of cached clips, and of
//! frames that the CPU made.

use super::kernel_args::{ExpandArgs, to_bytes};
use super::tables::{ALIGNMENT, TableBuffer};
use super::{BLOCK_DIM, Launch, check_aligned};
use crate::error::PassError;
use crate::lut::ElementLut;
use crate::write::{Dtype, ElementWriter};

/// An [`ElementLut`] for a GPU.
#[derive(Clone, Debug)]
pub struct DeviceLut {
    dtype: Dtype,
    tables: Vec<u8>,
}

impl DeviceLut {
    pub(crate) fn new(writer: &ElementWriter) -> Self {
        let mut buffer = TableBuffer::default();
        buffer.elements(writer);
        Self {
            dtype: writer.dtype(),
            tables: buffer.into_bytes(),
        }
    }

    /// The tables to upload to device memory, at a multiple of 16.
    pub fn tables(&self) -> &[u8] {
        &self.tables
    }

    /// Returns the launch that converts `planes` planes of `plane_codes` codes each, consecutive at
    /// `codes`, to as many elements at `out`. With `interleaved` each plane has the codes of
    /// `channels` channels in turns, else plane n is of channel n modulo `channels`. Channels are
    /// counted from `first_channel`.
    ///
    /// # Errors
    /// If `tables` or `out` is not aligned, or there is more than a grid can hold.
    pub fn launch(
        &self,
        codes: u64,
        (plane_codes, planes): (u64, u32),
        (first_channel, channels, interleaved): (usize, usize, bool),
        tables: u64,
        out: u64,
    ) -> Result<Launch, PassError> {
        let bytes = self.dtype.bytes();
        check_aligned("tables", tables, ALIGNMENT)?;
        check_aligned("out", out, bytes)?;
        let channels = channels.clamp(1, 3) as u32;
        let first_channel = (first_channel as u32).min(3 - channels);
        let plane_step = planes.clamp(1, 65_535);
        let aligned = codes.is_multiple_of(4)
            && out.is_multiple_of(4 * bytes as u64)
            && (planes <= 1 || plane_codes.is_multiple_of(4));
        let args = ExpandArgs {
            codes,
            out,
            elements: tables,
            plane: plane_codes,
            planes,
            plane_step,
            channels,
            first_channel,
            interleaved: u32::from(interleaved),
            dtype: super::launch::dtype_tag(self.dtype),
            aligned: u32::from(aligned),
            unused: 0,
        };
        let blocks = plane_codes
            .div_ceil(4 * u64::from(BLOCK_DIM.0 * BLOCK_DIM.1))
            .max(1);
        let columns = u32::try_from(blocks)
            .ok()
            .filter(|&blocks| i32::try_from(blocks).is_ok());
        let Some(columns) = columns else {
            return Err(PassError::SlotTooShort {
                have_bytes: usize::MAX,
                need_bytes: plane_codes,
            });
        };
        Ok(Launch {
            kernel: "framespool_expand",
            grid: [columns, plane_step, 1],
            block: [BLOCK_DIM.0, BLOCK_DIM.1, 1],
            shared_bytes: 0,
            args: to_bytes(&args),
            clear: None,
        })
    }
}

impl ElementLut {
    /// The same for a GPU.
    pub fn for_device(&self) -> DeviceLut {
        DeviceLut::new(self.writer())
    }
}
