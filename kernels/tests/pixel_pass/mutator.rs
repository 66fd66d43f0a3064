//! Replaces up to three numbers of a valid request by random ones.

use framespool_kernels::*;
use proptest::prelude::*;

/// A number and the field that it replaces.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    field: usize,
    number: u32,
    long: i64,
    real: f64,
}

pub fn mutations() -> BoxedStrategy<Vec<Mutation>> {
    let number = prop_oneof![
        4 => 0u32..70,
        1 => 65_530u32..65_540,
        1 => u32::MAX - 3..=u32::MAX,
        1 => any::<u32>(),
    ];
    let ends = vec![
        i64::MIN,
        i64::MIN + 1,
        -(1 << 61),
        (1 << 61) - 1,
        1 << 61,
        i64::MAX,
    ];
    let long = prop_oneof![
        any::<i64>(),
        prop::sample::select(ends),
        (any::<i64>(), 0u32..64).prop_map(|(v, s)| v >> s)
    ];
    let ends = vec![
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        -0.0,
    ];
    let real = prop_oneof![
        -1e5..1e5,
        proptest::num::f64::ANY,
        prop::sample::select(ends)
    ];
    let one =
        (0usize..FIELDS, number, long, real).prop_map(|(field, number, long, real)| Mutation {
            field,
            number,
            long,
            real,
        });
    prop::collection::vec(one, 0..=3).boxed()
}

const FIELDS: usize = 40;

pub fn mutate_geometry(
    geometry: &mut Geometry,
    Mutation {
        field,
        number,
        long,
        ..
    }: Mutation,
) {
    let fields = [
        &mut geometry.crop.x,
        &mut geometry.crop.y,
        &mut geometry.crop.width,
        &mut geometry.crop.height,
        &mut geometry.crop_subpixels.0,
        &mut geometry.crop_subpixels.1,
        &mut geometry.resized.0,
        &mut geometry.resized.1,
        &mut geometry.window.x,
        &mut geometry.window.y,
        &mut geometry.window.width,
        &mut geometry.window.height,
    ];
    if let Some(at) = fields.into_iter().nth(field) {
        *at = number;
    }
    let part = (long & 3) as usize;
    match (&mut geometry.placement, field) {
        (Placement::Canvas { size, x, y }, 12..=15) => {
            *[&mut size.0, &mut size.1, x, y][field - 12] = number
        }
        (Placement::Warp(warp), 12) => warp.size.0 = number,
        (Placement::Warp(warp), 13) => warp.size.1 = number,
        (Placement::Warp(warp), 14) => warp.to_x[part % 3] = long,
        (Placement::Warp(warp), 15) => warp.to_y[part % 3] = long,
        _ => {}
    }
}

pub fn mutate_output_spec(
    spec: &mut OutputSpec,
    Mutation {
        field,
        number,
        long,
        real,
    }: Mutation,
) {
    let (r, k) = (number as usize % 3, (long & 0xFF) as usize % 3);
    match field {
        16 => spec.color.matrix[r][k] = real,
        17 => spec.color.matrix = [[real, -real, real], [-real, real, -real], [real; 3]],
        18 => spec.color.mean[r][k] = real,
        19 => spec.color.offset[r] = real,
        20 => spec.fill.base[r] = real,
        21 => spec.fill.mean[r][k] = real,
        22 => spec.dtype = Dtype::U8,
        23 => {
            spec.normalize = Some(Normalize {
                mean: [real as f32; 3],
                std: [number as f32; 3],
            })
        }
        24 => {
            spec.normalize = Some(Normalize {
                mean: [0.5; 3],
                std: [real as f32; 3],
            })
        }
        25..=29 => {
            for mask in &mut spec.masks {
                match &mut mask.region {
                    MaskRegion::Rect(rect) => {
                        let Rect {
                            x,
                            y,
                            width,
                            height,
                        } = rect;
                        *[x, y, width, height][k + (field == 29) as usize] = number;
                    }
                    MaskRegion::Grid(grid) => grid.limit = long as u64,
                }
            }
        }
        _ => {}
    }
}

fn mutate_plane(
    plane: &mut Plane<'_>,
    Mutation {
        field,
        number,
        long,
        ..
    }: Mutation,
) {
    match field {
        30 => plane.stride_bytes = number as usize,
        31 => plane.stride_bytes = long as usize,
        32 => plane.data = &plane.data[..(number as usize).min(plane.data.len())],
        _ => {}
    }
}

pub fn mutate_frame(frame: &mut FrameView<'_>, mutation: Mutation) {
    let Mutation { field, number, .. } = mutation;
    match field {
        33 => frame.width = number,
        34 => frame.height = number,
        35 => frame.depth_bits = number as u8,
        36 => frame.shift = number as u8,
        37 => frame.color.matrix = MatrixCoefficients::Rgb,
        _ => {}
    }
    match &mut frame.planes {
        Planes::Gray(plane) => mutate_plane(plane, mutation),
        Planes::PlanarRgb(planes) => mutate_plane(&mut planes[number as usize % 3], mutation),
        Planes::PackedRgb {
            plane,
            pixel_bytes,
            offsets,
        } => {
            mutate_plane(plane, mutation);
            match field {
                38 => *pixel_bytes = number as u8,
                39 => offsets[number as usize % 3] = number as u8,
                _ => {}
            }
        }
        Planes::Yuv {
            planes,
            log2_chroma_w,
            log2_chroma_h,
        } => {
            mutate_plane(&mut planes[number as usize % 3], mutation);
            *[log2_chroma_w, log2_chroma_h][number as usize % 2] ^=
                u8::from(field == 38) * number as u8;
        }
        Planes::SemiPlanar {
            luma,
            chroma,
            log2_chroma_w,
            log2_chroma_h,
        } => {
            mutate_plane(if number % 2 == 0 { luma } else { chroma }, mutation);
            *[log2_chroma_w, log2_chroma_h][number as usize % 2] ^=
                u8::from(field == 38) * number as u8;
        }
    }
}

pub fn mutate_slot(
    length: &mut usize,
    strides: &mut [usize; 3],
    Mutation { number, long, .. }: Mutation,
) {
    match number % 5 {
        // Longer strides: see `strides_of_single_elements_are_never_multiplied`.
        0 => strides[number as usize % 3] = long as usize >> 2,
        1 | 2 => strides[number as usize % 3] = number as usize,
        _ => *length = (*length).min(number as usize),
    }
}
