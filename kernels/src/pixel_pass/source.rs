//! A frame as a pixel pass reads it, with the weight tables for its format.

use crate::color::FrameCoefficients;
use crate::colorimetry::{Colorimetry, ComponentModel};
use crate::frame::{CheckedFrame, CheckedPlane, FrameView, Plane};
use crate::geometry::StoredGeometry;
use crate::tone_map::ToneTables;
use crate::weights::{AxisTable, ResampleAxis};

/// Weight tables of one source format.
#[derive(Debug)]
pub(crate) struct ResampleTables {
    pub(super) format: TableKey,
    pub width: usize,
    pub height: usize,
    pub luma: PlaneTables,
    pub chroma: PlaneTables,
}

pub(crate) type TableKey = (u32, u32, (u8, u8));
pub(crate) type ColorKey = (Colorimetry, u8, ComponentModel);

#[derive(Debug)]
pub(crate) struct PlaneTables {
    pub columns: AxisTable,
    pub rows: AxisTable,
}

impl PlaneTables {
    pub(super) fn new(stored: StoredGeometry, (log2_w, log2_h): (u8, u8)) -> Self {
        let (columns, rows) = (ResampleAxis::columns(stored), ResampleAxis::rows(stored));
        Self {
            columns: AxisTable::new(columns, log2_w),
            rows: AxisTable::new(rows, log2_h),
        }
    }
}

/// One checked frame with the tables for its format.
#[derive(Clone, Copy)]
pub(super) struct FrameSource<'a> {
    pub frame: &'a FrameView<'a>,
    pub checked: &'a CheckedFrame<Plane<'a>>,
    pub tables: &'a ResampleTables,
    /// The tone mapping, and the coefficients for its codes.
    pub tone: Option<(&'a ToneTables, &'a FrameCoefficients)>,
}

impl<'a> FrameSource<'a> {
    /// The meaning of the components from which colors are computed.
    pub(super) fn model(&self) -> ComponentModel {
        if self.tone.is_some() {
            ComponentModel::Rgb
        } else {
            self.checked.model
        }
    }

    /// Width and height of the window as stored.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.tables.width, self.tables.height)
    }

    /// The planes of an 8-bit frame that keeps its size and whose chroma has half the width: its
    /// rows can be converted in place.
    pub(crate) fn unscaled_planes(
        &self,
        colors: &FrameCoefficients,
    ) -> Option<[CheckedPlane<Plane<'a>>; 3]> {
        let [Some(y), Some(u), Some(v)] = self.checked.planes else {
            return None;
        };
        let ResampleTables { luma, chroma, .. } = self.tables;
        let same =
            |axis: &AxisTable, log2: u8| axis.repeat.is_some_and(|repeat| repeat.log2 == log2);
        let columns = same(&luma.columns, 0) && same(&chroma.columns, 1);
        let rows = luma.rows.repeat.is_some() && chroma.rows.repeat.is_some();
        let even = luma.columns.first.is_multiple_of(2);
        let plain = colors.sparse
            && !colors.use_u16
            && self.tone.is_none()
            && colors.model == ComponentModel::Yuv
            && self.frame.depth_bits == 8;
        (columns && rows && even && plain).then_some([y, u, v])
    }

    /// The samples of row j of such planes.
    pub(crate) fn unscaled_row_samples(
        &self,
        planes: [CheckedPlane<Plane<'a>>; 3],
        j: usize,
    ) -> [&'a [u8]; 3] {
        let ResampleTables { luma, chroma, .. } = self.tables;
        let plane_tables = [luma, chroma, chroma];
        [0, 1, 2].map(|c| {
            let plane = planes[c].storage;
            let first = plane_tables[c].rows.taps_at(j).0 * plane.stride_bytes
                + plane_tables[c].columns.first as usize;
            &plane.data[first..][..plane_tables[c].columns.sample_count()]
        })
    }
}
