//! Prepares the launches of an operation on R, G, B codes in device memory.

use super::kernel_args::{OperationArgs, to_bytes};
use super::tables::ALIGNMENT;
use super::{BLOCK_DIM, Launch, check_aligned};
use crate::error::PassError;
use crate::rgb_operation::RgbOperation;

/// Bytes of the counts of all codes, and of the tables that are computed from them.
const HISTOGRAM_BYTES: usize = 3 * 256 * 8;
const CHANNEL_TABLES_BYTES: usize = 3 * 256;
/// Shared memory with the codes of a tile.
const TILE_BYTES: u32 = 3 * BLOCK_DIM.0 * BLOCK_DIM.1 * 2;

/// As `Operation` in `cuda/args.h`.
mod tag {
    pub(super) const TABLE: u32 = 0;
    pub(crate) const HUE: u32 = 1;
    pub(crate) const SHARPNESS: u32 = 2;
    pub(crate) const BLUR_ROWS: u32 = 3;
    pub(crate) const BLUR_COLUMNS: u32 = 4;
    pub(crate) const HISTOGRAM: u32 = 5;
    pub(crate) const AUTOCONTRAST_TABLE: u32 = 6;
    pub(crate) const EQUALIZE_TABLE: u32 = 7;
}

/// An [`RgbOperation`] for frames of one size in device memory.
#[derive(Clone, Debug)]
pub struct DeviceOperation {
    operation: RgbOperation,
    size: (u32, u32),
    tables: Vec<u8>,
}

impl RgbOperation {
    /// The same for a GPU, for frames of this size.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn for_device(&self, size: (u32, u32)) -> Result<DeviceOperation, PassError> {
        self.check(size)?;
        let words = |weights: &[u32]| {
            weights
                .iter()
                .flat_map(|weight| weight.to_ne_bytes())
                .collect::<Vec<_>>()
        };
        let tables = match self {
            Self::Table(table) => table.to_vec(),
            Self::Blur { columns, rows } => [words(columns), words(rows)].concat(),
            Self::Hue(_) | Self::Autocontrast | Self::Equalize | Self::Sharpness(_) => Vec::new(),
        };
        Ok(DeviceOperation {
            operation: self.clone(),
            size,
            tables,
        })
    }
}

impl DeviceOperation {
    /// The tables to upload to device memory, at a multiple of 16; may be empty.
    pub fn tables(&self) -> &[u8] {
        &self.tables
    }

    /// Bytes of scratch device memory, at a multiple of 16; may be 0.
    pub fn scratch_bytes(&self) -> usize {
        match self.operation {
            RgbOperation::Autocontrast | RgbOperation::Equalize => {
                HISTOGRAM_BYTES + CHANNEL_TABLES_BYTES
            }
            RgbOperation::Blur { .. } => 2 * 3 * self.size.0 as usize * self.size.1 as usize,
            RgbOperation::Table(_) | RgbOperation::Hue(_) | RgbOperation::Sharpness(_) => 0,
        }
    }

    /// Returns the launches that read the planes R, G, B at `source`, without gaps, and write as
    /// many codes at `out`, other memory.
    ///
    /// # Errors
    /// If `tables` or `scratch` is not aligned.
    pub fn launches(
        &self,
        source: u64,
        out: u64,
        tables: u64,
        scratch: u64,
    ) -> Result<Vec<Launch>, PassError> {
        check_aligned("tables", tables, ALIGNMENT)?;
        check_aligned("scratch", scratch, ALIGNMENT)?;
        let (width, height) = self.size;
        let all = OperationArgs {
            source,
            out,
            table: tables,
            width,
            height,
            ..OperationArgs::default()
        };
        let launches = match &self.operation {
            RgbOperation::Table(_) => vec![self.launch(all)],
            RgbOperation::Hue(shift) => {
                vec![self.launch(OperationArgs {
                    operation: tag::HUE,
                    amount: *shift,
                    ..all
                })]
            }
            RgbOperation::Sharpness(amount) => {
                vec![self.launch(OperationArgs {
                    operation: tag::SHARPNESS,
                    amount: *amount,
                    ..all
                })]
            }
            RgbOperation::Autocontrast => self.by_histogram(all, tag::AUTOCONTRAST_TABLE, scratch),
            RgbOperation::Equalize => self.by_histogram(all, tag::EQUALIZE_TABLE, scratch),
            RgbOperation::Blur { columns, rows } => {
                let (across, down) = (columns.len() as u32, rows.len() as u32);
                let first = OperationArgs {
                    operation: tag::BLUR_ROWS,
                    taps: across,
                    out: scratch,
                    ..all
                };
                let table = tables + 4 * u64::from(across);
                let second = OperationArgs {
                    operation: tag::BLUR_COLUMNS,
                    taps: down,
                    source: scratch,
                    table,
                    ..all
                };
                vec![self.launch(first), self.launch(second)]
            }
        };
        Ok(launches)
    }

    fn by_histogram(&self, all: OperationArgs, table_operation: u32, scratch: u64) -> Vec<Launch> {
        let table = scratch + HISTOGRAM_BYTES as u64;
        let counts = OperationArgs {
            operation: tag::HISTOGRAM,
            histogram: scratch,
            ..all
        };
        let entries = OperationArgs {
            operation: table_operation,
            histogram: scratch,
            out: table,
            ..all
        };
        let looked_up = OperationArgs {
            operation: tag::TABLE,
            table,
            channel_step: 256,
            ..all
        };
        let (counts, entries) = (self.launch(counts), self.launch(entries));
        vec![
            Launch {
                clear: Some((scratch, HISTOGRAM_BYTES)),
                shared_bytes: TILE_BYTES,
                ..counts
            },
            Launch {
                grid: [1, 1, 1],
                ..entries
            },
            self.launch(looked_up),
        ]
    }

    fn launch(&self, args: OperationArgs) -> Launch {
        let (width, height) = self.size;
        Launch {
            kernel: "framespool_rgb_operation",
            grid: [width.div_ceil(BLOCK_DIM.0), height.div_ceil(BLOCK_DIM.1), 1],
            block: [BLOCK_DIM.0, BLOCK_DIM.1, 1],
            shared_bytes: 0,
            args: to_bytes(&args),
            clear: None,
        }
    }
}
