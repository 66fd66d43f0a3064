//! In: the codes of clips that wait in device memory.
//! Out: the launch that turns them into elements.
//! Never: knows of frames.

use super::args::{bytes_of, ExpandArgs};
use super::tables::{Blob, ALIGNMENT};
use super::{check_aligned, Launch, TILE};
use crate::error::PassError;
use crate::expand::Expand;
use crate::write::{Dtype, Writer};

/// An [`Expand`] for a GPU.
#[derive(Clone, Debug)]
pub struct DeviceExpand {
    dtype: Dtype,
    tables: Vec<u8>,
}

impl DeviceExpand {
    pub(crate) fn new(writer: &Writer) -> Self {
        let mut blob = Blob::default();
        blob.elements(writer);
        Self { dtype: writer.dtype(), tables: blob.into_bytes() }
    }

    /// What must be in device memory, at a multiple of 16, for the launches.
    pub fn tables(&self) -> &[u8] {
        &self.tables
    }

    /// The launch that turns `planes` planes of `plane_codes` codes each, one after another at `codes`, into as many elements at `out`.
    /// With `take_turns` each plane has its codes of `channels` channels in turn, else plane n is of channel n modulo `channels`.
    ///
    /// # Errors
    /// If `tables` or `out` is not aligned, or there is more than a grid can hold.
    pub fn launch(
        &self,
        codes: u64,
        (plane_codes, planes): (u64, u32),
        (channels, take_turns): (usize, bool),
        tables: u64,
        out: u64,
    ) -> Result<Launch, PassError> {
        let bytes = self.dtype.bytes();
        check_aligned("tables", tables, ALIGNMENT)?;
        check_aligned("out", out, bytes)?;
        let channels = channels.clamp(1, 3) as u32;
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
            first_channel: 0,
            take_turns: u32::from(take_turns),
            dtype: super::plan::dtype_number(self.dtype),
            aligned: u32::from(aligned),
            unused: 0,
        };
        let blocks = plane_codes.div_ceil(4 * u64::from(TILE.0 * TILE.1)).max(1);
        let columns = u32::try_from(blocks).ok().filter(|&blocks| i32::try_from(blocks).is_ok());
        let Some(columns) = columns else {
            return Err(PassError::SlotShort { have_bytes: usize::MAX, need_bytes: plane_codes });
        };
        Ok(Launch {
            kernel: "framespool_expand",
            grid: [columns, plane_step, 1],
            block: [TILE.0, TILE.1, 1],
            shared_bytes: 0,
            args: bytes_of(&args),
            clear: None,
        })
    }
}

impl Expand {
    /// The same for a GPU.
    pub fn for_device(&self) -> DeviceExpand {
        DeviceExpand::new(self.writer())
    }
}
