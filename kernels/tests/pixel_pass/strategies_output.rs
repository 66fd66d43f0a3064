//! Proptest strategies for what follows geometry: colors, masks, dtypes, channels and layouts.
//! Only color maps may be too strong to be accepted.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::strategies::rect;

fn numbers(least: f64, most: f64) -> BoxedStrategy<[f64; 3]> {
    [least..most, least..most, least..most].boxed()
}

const NONE: [[f64; 3]; 3] = [[0.0; 3]; 3];

/// Color maps and fills, some of them far stronger than practical ones.
pub fn colors() -> BoxedStrategy<OutputSpec> {
    let sizes = || prop_oneof![4 => Just(2.0), 1 => (0.0f64..4.0).prop_map(|e| 10f64.powf(e))];
    // Each row has its own size: one strong row makes the fractions of the others coarse.
    let row = || sizes().prop_flat_map(|size| numbers(-size, size));
    let any_matrix = || [row(), row(), row()];
    // Where a component is a code value, these are midway between two coefficients.
    let midway = || numbers(-16_384.0, 16_384.0).prop_map(|row| row.map(|v| v.round() / 16_384.0));
    let matrix = prop_oneof![
        2 => Just(ColorMap::IDENTITY.matrix),
        1 => (-2.0f64..4.0).prop_map(|v| ColorMap::IDENTITY.matrix.map(|row| row.map(|one| one * v))),
        1 => numbers(0.0, 1.0).prop_map(|row| [row; 3]),
        1 => [midway(), midway(), midway()],
        4 => any_matrix(),
    ];
    let mean = || prop_oneof![2 => Just(NONE), 1 => any_matrix()];
    let constant = || {
        prop_oneof![
            1 => Just([0.0; 3]),
            2 => [0u8..=255, 0u8..=255, 0u8..=255].prop_map(|codes| codes.map(f64::from)),
            2 => numbers(-300.0, 600.0),
            1 => numbers(-1e6, 1e6),
        ]
    };
    (matrix, mean(), constant(), mean(), constant())
        .prop_map(|(matrix, mean, offset, fill_mean, base)| OutputSpec {
            color: ColorMap {
                matrix,
                mean,
                offset,
            },
            fill: Fill {
                base,
                mean: fill_mean,
            },
            ..OutputSpec::new(Dtype::U8)
        })
        .boxed()
}

/// Masks for an output of this size.
fn masks(size: (u32, u32), dtype: Dtype) -> BoxedStrategy<Vec<Mask>> {
    let limit = prop_oneof![Just(0u64), Just(1 << 32), 0..=1u64 << 32];
    let steps = || prop_oneof![any::<[u32; 2]>(), [0u32..1 << 30, 0u32..1 << 30]];
    let grid =
        (steps(), steps(), any::<[u32; 2]>(), limit).prop_map(|(step_x, step_y, start, limit)| {
            MaskRegion::Grid(MaskGrid {
                step_x,
                step_y,
                start,
                limit,
            })
        });
    let region = prop_oneof![rect(size.0, size.1).prop_map(MaskRegion::Rect), grid];
    let code = || any::<[u8; 3]>().prop_map(MaskFill::CodeValue);
    let values = prop_oneof![
        [-3f32..3.0, -3f32..3.0, -3f32..3.0],
        [
            proptest::num::f32::ANY,
            proptest::num::f32::ANY,
            proptest::num::f32::ANY
        ]
    ];
    let element = if dtype.is_integer() {
        code().boxed()
    } else {
        values.prop_map(MaskFill::Element).boxed()
    };
    let fill = prop_oneof![
        code().boxed(),
        element,
        any::<u64>().prop_map(MaskFill::Noise).boxed()
    ];
    prop::collection::vec(
        (region, fill).prop_map(|(region, fill)| Mask { region, fill }),
        0..4,
    )
    .boxed()
}

/// Tone mapping or none.
pub fn tones() -> BoxedStrategy<Option<ToneMap>> {
    let curve = prop_oneof![Just(HdrCurve::Pq), Just(HdrCurve::Hlg)];
    let bt2020 = [[0.708, 0.292], [0.170, 0.797], [0.131, 0.046]];
    let p3 = [[0.680, 0.320], [0.265, 0.690], [0.150, 0.060]];
    let primaries = prop_oneof![Just(bt2020), Just(p3)];
    // A small number of them, so that their tables are reused.
    let peaks = prop::sample::select(vec![(1000.0, 203.0), (10_000.0, 10.0), (10.0, 10_000.0)]);
    let tone =
        (curve, primaries, peaks).prop_map(|(curve, primaries, (source_peak, target_peak))| {
            ToneMap {
                curve,
                primaries,
                source_peak,
                target_peak,
            }
        });
    prop::option::weighted(0.3, tone).boxed()
}

/// Tone mapping, masks, normalisation, dtype and channels, for an output of this size.
pub fn output_specs(size: (u32, u32)) -> BoxedStrategy<OutputSpec> {
    let dtype = prop::sample::select(vec![
        Dtype::U8,
        Dtype::F16,
        Dtype::BF16,
        Dtype::F32,
        Dtype::U16,
    ]);
    let channels = prop_oneof![2 => Just(Channels::Three), 1 => Just(Channels::One)];
    let std =
        prop_oneof![3 => 0.05f32..2.0, 1 => (-35.0f64..38.0).prop_map(|e| 10f64.powf(e) as f32)];
    let std = [std.clone(), std.clone(), std];
    let mean = prop_oneof![[-2f32..2.0, -2f32..2.0, -2f32..2.0], Just([0.0; 3])];
    let normalize = prop::option::of((mean, std).prop_map(|(mean, std)| Normalize { mean, std }));
    (colors(), dtype, channels, normalize, tones())
        .prop_flat_map(move |(spec, dtype, channels, normalize, tone)| {
            let normalize = normalize.filter(|_| !dtype.is_integer());
            masks(size, dtype).prop_map(move |masks| OutputSpec {
                tone,
                masks,
                normalize,
                dtype,
                channels,
                ..spec.clone()
            })
        })
        .boxed()
}

/// Strides of channels, rows and columns, without the sizes that they depend on.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The order of channels, rows and columns, innermost first.
    order: [usize; 3],
    /// Unused elements after each of them.
    gaps: [usize; 3],
}

impl Layout {
    pub fn strides(&self, lengths: [usize; 3]) -> [usize; 3] {
        let (mut strides, mut next) = ([0; 3], 1);
        for (axis, gap) in self.order.into_iter().zip(self.gaps) {
            strides[axis] = next + gap;
            next = strides[axis] * lengths[axis];
        }
        strides
    }
}

pub fn layouts() -> BoxedStrategy<Layout> {
    let orders = [
        [0, 2, 1],
        [2, 1, 0],
        [2, 0, 1],
        [1, 2, 0],
        [0, 1, 2],
        [1, 0, 2],
    ];
    let gap = || prop_oneof![2 => Just(0usize), 1 => 0usize..5];
    (prop::sample::select(orders.to_vec()), [gap(), gap(), gap()])
        .prop_map(|(order, gaps)| Layout { order, gaps })
        .boxed()
}
