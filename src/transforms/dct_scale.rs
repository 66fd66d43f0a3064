//! Determines how much smaller an image decoder may decode an image, and maps the geometry to the
//! smaller image. No detail that the result could show is lost: a resize by a factor of
//! `MIN_OVERSAMPLING` or more remains.

use framespool_kernels::{Filter, Geometry, MAX_SIDE, Rect};

use crate::image::DctScale;

/// The decoded image is at least this many times as large as the result, so that the antialiased
/// resize determines the detail.
const MIN_OVERSAMPLING: u64 = 2;

/// Returns the smallest decoded size that suffices for all of these.
pub(super) fn scale_for<'a>(geometries: impl Iterator<Item = &'a Geometry> + Clone) -> DctScale {
    let serves = |scale: &DctScale| {
        geometries
            .clone()
            .all(|geometry| is_sufficient(geometry, scale.divisor()))
    };
    [DctScale::Eighth, DctScale::Quarter, DctScale::Half]
        .into_iter()
        .find(serves)
        .unwrap_or(DctScale::Full)
}

fn is_sufficient(geometry: &Geometry, factor: u32) -> bool {
    // The other filters sample a few pixels, which a smaller image does not contain.
    let averages = matches!(geometry.filter, Filter::Triangle | Filter::Cubic);
    let fits = |source: u32, grid: u32, result: u32| {
        u64::from(source)
            >= MIN_OVERSAMPLING * u64::from(factor) * u64::from(grid) * u64::from(result)
    };
    averages
        && fits(
            geometry.crop.width,
            geometry.crop_subpixels.0,
            geometry.resized.0,
        )
        && fits(
            geometry.crop.height,
            geometry.crop_subpixels.1,
            geometry.resized.1,
        )
        && geometry_at_scale(geometry, (1, 1), factor).is_some()
}

/// Returns the same part of an image of this stored size in the image that is smaller by `factor`.
/// `None` if its numbers do not fit.
///
/// The smaller image begins where the image does and ends at or after its end, in the middle of a
/// pixel. Seen from the opposite side, as in a mirrored or rotated image, it begins before the
/// image.
pub(super) fn geometry_at_scale(
    geometry: &Geometry,
    stored: (u32, u32),
    factor: u32,
) -> Option<Geometry> {
    let (mirror, turns) = (
        geometry.orientation.mirror,
        geometry.orientation.quarter_turns_cw % 4,
    );
    let (from_right, from_bottom) = match turns {
        0 => (mirror, false),
        1 => (true, mirror),
        2 => (!mirror, true),
        _ => (false, !mirror),
    };
    let (across, down) = if turns % 2 == 1 {
        (stored.1, stored.0)
    } else {
        stored
    };
    let excess = |side: u32| side.div_ceil(factor) * factor - side;
    let moved = |start: u32, side: u32, grid: u32, reversed: bool| {
        let before = if reversed {
            excess(side).checked_mul(grid)?
        } else {
            0
        };
        start.checked_add(before)
    };
    let Rect {
        x,
        y,
        width,
        height,
    } = geometry.crop;
    let (grid_x, grid_y) = geometry.crop_subpixels;
    let finer = |grid: u32| grid.checked_mul(factor).filter(|&grid| grid <= MAX_SIDE);
    Some(Geometry {
        crop: Rect {
            x: moved(x, across, grid_x, from_right)?,
            y: moved(y, down, grid_y, from_bottom)?,
            width,
            height,
        },
        crop_subpixels: (finer(grid_x)?, finer(grid_y)?),
        ..*geometry
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use framespool_kernels::Orientation;

    fn resize(source: (u32, u32), to: (u32, u32)) -> Geometry {
        let all = Rect::from_size(to.0, to.1);
        Geometry {
            crop: Rect::from_size(source.0, source.1),
            resized: to,
            window: all,
            ..Geometry::identity(1, 1)
        }
    }

    #[test]
    fn scaled_image_stays_twice_the_result_size() {
        let scale = |source, to| scale_for([resize(source, to)].iter());
        assert_eq!(scale((1280, 854), (224, 224)), DctScale::Full);
        assert_eq!(scale((1280, 896), (224, 224)), DctScale::Half);
        assert_eq!(scale((4000, 3000), (224, 224)), DctScale::Quarter);
        assert_eq!(scale((4000, 3584), (224, 224)), DctScale::Eighth);
        assert_eq!(scale((640, 480), (640, 480)), DctScale::Full);
        let with = |filter| {
            scale_for(
                [Geometry {
                    filter,
                    ..resize((4000, 4000), (10, 10))
                }]
                .iter(),
            )
        };
        assert_eq!(
            [Filter::Triangle, Filter::Cubic].map(with),
            [DctScale::Eighth; 2]
        );
        assert_eq!(
            [Filter::Nearest, Filter::Bilinear, Filter::Bicubic].map(with),
            [DctScale::Full; 3]
        );
        // The decoded size must suffice for all views.
        let both = [
            resize((4000, 4000), (100, 100)),
            resize((1000, 1000), (100, 100)),
        ];
        assert_eq!(scale_for(both.iter()), DctScale::Quarter);
    }

    #[test]
    fn flipped_geometry_starts_before_the_image() {
        let stored = (101, 50); // halves: 51, with 1 of excess; 25, with none
        let turned = |mirror, quarter_turns_cw| {
            let orientation = Orientation {
                mirror,
                quarter_turns_cw,
            };
            let geometry = Geometry {
                orientation,
                ..resize((10, 10), (2, 2))
            };
            let crop = geometry_at_scale(&geometry, stored, 2).unwrap().crop;
            (crop.x, crop.y)
        };
        assert_eq!(turned(false, 0), (0, 0));
        assert_eq!(turned(true, 0), (1, 0));
        assert_eq!(turned(false, 1), (0, 0));
        assert_eq!(turned(true, 1), (0, 1));
        assert_eq!(turned(false, 2), (1, 0));
        assert_eq!(turned(true, 2), (0, 0));
        assert_eq!(turned(false, 3), (0, 1));
        assert_eq!(turned(true, 3), (0, 0));
    }
}
