//! Maps 16-bit R, G, B of high dynamic range video to 15-bit R, G, B of standard dynamic range
//! (SPEC.md, "Tone"). The curves are tables; no floating point is used per frame.

use std::sync::{Arc, Mutex, PoisonError};

use crate::colorimetry::{
    COMPONENT_BITS, ColorRange, Colorimetry, ComponentModel, MatrixCoefficients,
};
use crate::error::PassError;
use crate::types::{Matrix3, TONE_MAP_PEAKS, product};

/// The transfer function of high dynamic range video (ITU-R BT.2100).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HdrCurve {
    /// Perceptual quantization, SMPTE ST 2084: display light.
    Pq,
    /// Hybrid log-gamma, ARIB STD-B67: scene light.
    Hlg,
}

/// Tone mapping to standard dynamic range: the EETF of ITU-R BT.2390 on luminance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToneMap {
    /// The transfer function of the source.
    pub curve: HdrCurve,
    /// x and y of the source's red, green and blue (CIE 1931); white is D65.
    pub primaries: [[f64; 2]; 3],
    /// Luminance in cd/m2 up to which source values are distinguished; brighter values are clipped
    /// to it.
    pub source_peak: f64,
    /// Luminance in cd/m2 that is mapped to white.
    pub target_peak: f64,
}

/// A checked tone mapping as tables.
#[derive(Debug, PartialEq)]
pub(crate) struct ToneTables {
    /// Light of a 16-bit code, in 2^-31 of the curve's maximum: one entry for every 16 codes, and
    /// one more.
    pub light: Vec<u32>,
    /// Gain by luminance in the same unit: the factor that converts light to 2^-24 of the target's
    /// white, with 24 bits of fraction. Its indices are those of `place`.
    pub gain: Vec<u32>,
    /// Components by light in 2^-24 of white, with the same indices.
    pub code: Vec<u32>,
    /// Luminance of red, green and blue, in 2^-14.
    pub weights: [u32; 3],
    /// Matrix to the primaries of BT.709, in 2^-24: near the gamut's boundary, large numbers almost
    /// cancel.
    pub gamut: [[i32; 3]; 3],
}

/// The result of tone mapping.
pub(crate) const TONE_MAPPED: (Colorimetry, u8, ComponentModel) = (
    Colorimetry {
        matrix: MatrixCoefficients::Rgb,
        range: ColorRange::Full,
    },
    COMPONENT_BITS as u8,
    ComponentModel::Rgb,
);

const LIGHT_BITS: u32 = 31;
const WHITE_BITS: u32 = 24;
/// Light above this multiple of white need not be distinguished: the gamut's factors are far
/// smaller.
const MAX_LIGHT: u64 = 1 << (WHITE_BITS + 6);
/// BT.709's red, green and blue.
const BT709: [[f64; 2]; 3] = [[0.64, 0.33], [0.30, 0.60], [0.15, 0.06]];
const D65: [f64; 2] = [0.3127, 0.3290];
/// The tables used most recently.
static TABLE_CACHE: Mutex<Vec<(ToneMap, Arc<ToneTables>)>> = Mutex::new(Vec::new());
const TABLE_CACHE_SIZE: usize = 16;

impl ToneMap {
    pub(crate) fn tables(&self) -> Result<Arc<ToneTables>, PassError> {
        let mut made = TABLE_CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tone)) = made.iter().find(|(known, _)| known == self) {
            return Ok(Arc::clone(tone));
        }
        let tone = Arc::new(ToneTables::new(self)?);
        if made.len() == TABLE_CACHE_SIZE {
            made.remove(0);
        }
        made.push((*self, Arc::clone(&tone)));
        Ok(tone)
    }
}

/// The EOTF of ST 2084: cd/m2 of a signal from 0 to 1.
fn pq_light(signal: f64) -> f64 {
    let power = signal.powf(1.0 / M2);
    10_000.0 * ((power - C1).max(0.0) / (C2 - C3 * power)).powf(1.0 / M1)
}

/// Its inverse.
fn pq_signal(light: f64) -> f64 {
    let power = (light / 10_000.0).powf(M1);
    ((C1 + C2 * power) / (1.0 + C3 * power)).powf(M2)
}

const M1: f64 = 2610.0 / 16_384.0;
const M2: f64 = 2523.0 / 4096.0 * 128.0;
const C1: f64 = 3424.0 / 4096.0;
const C2: f64 = 2413.0 / 4096.0 * 32.0;
const C3: f64 = 2392.0 / 4096.0 * 32.0;

/// The inverse of HLG's OETF: scene light, from 0 to 1.
fn hlg_light(signal: f64) -> f64 {
    const A: f64 = 0.178_832_77;
    let (b, c) = (1.0 - 4.0 * A, 0.5 - A * (4.0 * A).ln());
    if signal <= 0.5 {
        signal * signal / 3.0
    } else {
        (((signal - c) / A).exp() + b) / 12.0
    }
}

/// HLG's system gamma for a display of this peak (BT.2100, table 5 note 5f: another formula outside
/// 400 to 2000 cd/m2).
fn hlg_gamma(peak: f64) -> f64 {
    if (400.0..=2000.0).contains(&peak) {
        1.2 + 0.42 * (peak / 1000.0).log10()
    } else {
        1.2 * 1.111f64.powf((peak / 1000.0).log2())
    }
}

/// BT.2390's EETF from black to black, on luminance in cd/m2.
fn eetf(light: f64, source_peak: f64, target_peak: f64) -> f64 {
    let most = pq_signal(source_peak);
    let signal = (pq_signal(light) / most).min(1.0);
    let highest = pq_signal(target_peak) / most;
    if highest >= 1.0 {
        return light.min(source_peak);
    }
    // Below 0 the knee would raise black.
    let knee = (1.5 * highest - 0.5).max(0.0);
    if signal < knee {
        return light;
    }
    let t = (signal - knee) / (1.0 - knee);
    let (t2, t3) = (t * t, t * t * t);
    let bent = (2.0 * t3 - 3.0 * t2 + 1.0) * knee
        + (t3 - 2.0 * t2 + t) * (1.0 - knee)
        + (3.0 * t2 - 2.0 * t3) * highest;
    pq_light(bent * most)
}

fn inverse(m: &Matrix3) -> Matrix3 {
    let minor = |r: usize, c: usize| {
        let (r0, r1, c0, c1) = ((r + 1) % 3, (r + 2) % 3, (c + 1) % 3, (c + 2) % 3);
        m[r0][c0] * m[r1][c1] - m[r0][c1] * m[r1][c0]
    };
    let determinant: f64 = (0..3).map(|c| m[0][c] * minor(0, c)).sum();
    [0, 1, 2].map(|r| [0, 1, 2].map(|c| minor(c, r) / determinant))
}

/// RGB of these primaries and white D65 to XYZ.
fn to_xyz(primaries: &[[f64; 2]; 3]) -> Matrix3 {
    let xyz = |[x, y]: [f64; 2]| [x / y, 1.0, (1.0 - x - y) / y];
    let columns = primaries.map(xyz);
    let unscaled = [0, 1, 2].map(|r| [0, 1, 2].map(|c| columns[c][r]));
    let (back, white) = (inverse(&unscaled), xyz(D65));
    let scale = back.map(|row| row[0] * white[0] + row[1] * white[1] + row[2] * white[2]);
    unscaled.map(|row| [0, 1, 2].map(|c| row[c] * scale[c]))
}

/// The number of the entry at this index of `gain` and `code`.
fn table_input(place: usize) -> u64 {
    let shift = (place / 128).saturating_sub(1);
    ((place - 128 * shift) as u64) << shift
}

/// The index of a number's entry, and how many of its bits are between that entry and the next.
fn table_index(value: u32) -> (usize, u32) {
    let shift = (32 - value.leading_zeros()).saturating_sub(8);
    (128 * shift as usize + (value >> shift) as usize, shift)
}

#[inline(always)]
fn interpolate_table(table: &[u32], value: u32) -> u32 {
    let (place, shift) = table_index(value);
    let (a, b) = (i64::from(table[place]), i64::from(table[place + 1]));
    let part = i64::from(value) & ((1 << shift) - 1);
    (a + (((b - a) * part) >> shift)) as u32
}

impl ToneTables {
    fn new(map: &ToneMap) -> Result<Self, PassError> {
        let ToneMap {
            curve,
            primaries,
            source_peak,
            target_peak,
        } = *map;
        let (least, most) = TONE_MAP_PEAKS;
        for peak in [source_peak, target_peak] {
            if !(least..=most).contains(&peak) {
                return Err(PassError::InvalidPeak { peak });
            }
        }
        let xyz = to_xyz(&primaries);
        let back = inverse(&to_xyz(&BT709));
        let gamut = product(&back, &xyz);
        let is_valid = gamut
            .iter()
            .chain(&xyz)
            .flatten()
            .all(|v| v.is_finite() && v.abs() < 100.0);
        if !is_valid || xyz[1].iter().any(|&weight| weight < 0.0) {
            return Err(PassError::InvalidPrimaries { primaries });
        }
        let whole = f64::from(1u32 << LIGHT_BITS);
        let white = f64::from(1u32 << WHITE_BITS);
        let light = |code: usize| match curve {
            HdrCurve::Pq => pq_light(code as f64 * 16.0 / 65_535.0) / 10_000.0,
            HdrCurve::Hlg => hlg_light(code as f64 * 16.0 / 65_535.0),
        };
        let gamma = hlg_gamma(source_peak);
        // Luminance of the target's display for this fraction of the curve's maximum.
        let shown = |part: f64| match curve {
            HdrCurve::Pq => eetf(10_000.0 * part, source_peak, target_peak),
            HdrCurve::Hlg => eetf(source_peak * part.powf(gamma), source_peak, target_peak),
        };
        let gain = |place: usize| {
            let part = table_input(place).max(1) as f64 / whole;
            let gain = shown(part) / (target_peak * part) * white / whole;
            (gain * white).round().min(f64::from(u32::MAX)) as u32
        };
        let code = |place: usize| {
            let part = (table_input(place) as f64 / white).min(1.0);
            (32_767.0 * part.powf(1.0 / 2.4)).round() as u32
        };
        let places = |most: u32| 0..table_index(most).0 + 2;
        let [red, _, blue] = xyz[1].map(|weight| (16_384.0 * weight).round() as u32);
        Ok(Self {
            light: (0..=4096)
                .map(|code| (light(code).min(1.0) * whole).round() as u32)
                .collect(),
            gain: places(1 << LIGHT_BITS).map(gain).collect(),
            code: places(1 << WHITE_BITS).map(code).collect(),
            weights: [red, 16_384 - red - blue, blue],
            gamut: gamut.map(|row| row.map(|v| (16_777_216.0 * v).round() as i32)),
        })
    }

    /// The components of these 16-bit codes of R, G, B.
    #[inline(always)]
    fn map_pixel(&self, codes: [u16; 3]) -> [i16; 3] {
        let light = codes.map(|code| {
            let (place, part) = (usize::from(code >> 4), u64::from(code & 15));
            let (a, b) = (
                u64::from(self.light[place]),
                u64::from(self.light[place + 1]),
            );
            (a * (16 - part) + b * part + 8) >> 4
        });
        let [r, g, b] = self.weights.map(u64::from);
        let luminance = (r * light[0] + g * light[1] + b * light[2]) >> 14;
        let gain = u64::from(interpolate_table(&self.gain, luminance as u32));
        let light = light.map(|light| (((light * gain) >> WHITE_BITS).min(MAX_LIGHT)) as i64);
        self.gamut.map(|row| {
            let sum: i64 = (0..3).map(|k| i64::from(row[k]) * light[k]).sum();
            let light = ((sum + (1 << 23)) >> 24).clamp(0, 1 << WHITE_BITS);
            interpolate_table(&self.code, light as u32) as i16
        })
    }
}

#[inline(always)]
pub(crate) fn map_row(out: [&mut [i16]; 3], codes: [&[u16]; 3], tone: &ToneTables) {
    let [r, g, b] = out;
    for i in 0..r.len() {
        [r[i], g[i], b[i]] = tone.map_pixel([codes[0][i], codes[1][i], codes[2][i]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BT2020: [[f64; 2]; 3] = [[0.708, 0.292], [0.170, 0.797], [0.131, 0.046]];

    #[test]
    fn curves_meet_the_values_of_bt_2100_and_bt_2390() {
        // BT.2408: 58 % of PQ and 75 % of HLG are reference white, 203 cd/m2.
        assert!((pq_light(0.5807) - 203.0).abs() < 1.0);
        assert!((pq_light(pq_signal(100.0)) - 100.0).abs() < 1e-9);
        let hlg = 1000.0 * hlg_light(0.75).powf(hlg_gamma(1000.0));
        assert!((hlg - 203.0).abs() < 1.0, "{hlg}");
        assert!((hlg_light(1.0) - 1.0).abs() < 1e-6 && (hlg_gamma(1000.0) - 1.2).abs() < 1e-12);
        // The source's peak becomes the target's, and what is far below the knee stays.
        assert!((eetf(1000.0, 1000.0, 203.0) - 203.0).abs() < 1e-6);
        assert_eq!(eetf(5.0, 1000.0, 203.0), 5.0);
        assert!((eetf(4000.0, 1000.0, 203.0) - 203.0).abs() < 1e-6);
    }

    #[test]
    fn gamut_is_that_of_bt_2087() {
        let map = ToneMap {
            curve: HdrCurve::Pq,
            primaries: BT2020,
            source_peak: 1000.0,
            target_peak: 203.0,
        };
        let tone = map.tables().unwrap();
        let said = [
            [1.6605, -0.5876, -0.0728],
            [-0.1246, 1.1329, -0.0083],
            [-0.0182, -0.1006, 1.1187],
        ];
        for (row, said) in tone.gamut.iter().zip(said) {
            for (value, said) in row.iter().zip(said) {
                assert!(
                    (f64::from(*value) / 16_777_216.0 - said).abs() < 2e-4,
                    "{value} {said}"
                );
            }
        }
        assert_eq!(tone.weights, [4304, 11_108, 972]); // 0.2627, 0.6780, 0.0593
    }

    #[test]
    fn every_code_has_an_entry_and_gray_stays_gray() {
        for curve in [HdrCurve::Pq, HdrCurve::Hlg] {
            for (source_peak, target_peak) in [
                (1000.0, 203.0),
                (10.0, 10_000.0),
                (10_000.0, 10.0),
                (4000.0, 100.0),
            ] {
                let map = ToneMap {
                    curve,
                    primaries: BT2020,
                    source_peak,
                    target_peak,
                };
                let tone = map.tables().unwrap();
                // Where the source is clipped, what is the same for all is a product of rounded
                // entries.
                let mut before = 0;
                for code in 0..=u16::MAX {
                    let [r, g, b] = tone.map_pixel([code; 3]);
                    assert!(
                        r.abs_diff(g) <= 4 && g.abs_diff(b) <= 4,
                        "{map:?} {code}: {r} {g} {b}"
                    );
                    assert!(
                        g >= before - before / 128 - 4,
                        "{map:?} {code}: {g} after {before}"
                    );
                    before = before.max(g);
                }
                for corner in 0..8u16 {
                    tone.map_pixel(
                        [corner & 1, corner >> 1 & 1, corner >> 2].map(|bit| bit * u16::MAX),
                    );
                }
            }
        }
    }

    #[test]
    fn invalid_peaks_and_primaries_are_refused() {
        let map = ToneMap {
            curve: HdrCurve::Pq,
            primaries: BT2020,
            source_peak: 1000.0,
            target_peak: 203.0,
        };
        for peak in [0.0, 9.0, 10_001.0, f64::NAN, f64::INFINITY] {
            let refused = ToneMap {
                target_peak: peak,
                ..map
            }
            .tables()
            .err();
            assert!(
                matches!(refused, Some(PassError::InvalidPeak { .. })),
                "{peak}"
            );
        }
        let flat = ToneMap {
            primaries: [[0.3, 0.3]; 3],
            ..map
        };
        assert!(matches!(
            flat.tables(),
            Err(PassError::InvalidPrimaries { .. })
        ));
    }
}
