//! Converts CMYK pixels to RGB with the same bits as Pillow, without color profiles.
//! The input is inverted, as Adobe's programs store it: 255 is no ink.

/// Replaces each four bytes by R, G, B and a byte without meaning.
///
/// Pillow treats every CMYK JPEG as inverted and computes `(255 - k) - c * (255 - k) / 255`,
/// rounded.
pub(super) fn to_rgb(pixels: &mut [u8]) {
    for pixel in pixels.chunks_exact_mut(4) {
        let light = u32::from(pixel[3]);
        for value in &mut pixel[..3] {
            let ink = u32::from(255 - *value) * light + 128;
            *value = light.saturating_sub((ink + (ink >> 8)) >> 8) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn cmyk_ink_on_white_and_black() {
        let mut pixels = [
            255, 255, 255, 255, 0, 255, 255, 255, 255, 0, 128, 255, 10, 20, 30, 0, 200, 100, 0, 128,
        ];
        super::to_rgb(&mut pixels);
        let rgb: Vec<_> = pixels.chunks(4).map(|p| [p[0], p[1], p[2]]).collect();
        // 128 - (55 * 128 / 255 = 27.6), 128 - (155 * 128 / 255 = 77.8), 128 - 128
        assert_eq!(
            rgb,
            [
                [255, 255, 255],
                [0, 255, 255],
                [255, 0, 128],
                [0, 0, 0],
                [100, 50, 0]
            ]
        );
    }
}
