//! Statistics of the numbers of features, and normalization with them.

use framespool::error::{Error, Result};

use super::NumberType;

/// Statistics of one value of a feature over all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Smallest and largest number.
    pub range: (f64, f64),
    /// Mean, and standard deviation of all rows (not of a sample of them).
    pub mean_std: (f64, f64),
    /// As requested, by linear interpolation.
    pub quantiles: Vec<f64>,
}

impl NumberType {
    /// Bytes of a number.
    fn size(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::Float64 | Self::Int64 => 8,
            Self::Bool => 1,
        }
    }

    fn decode(self, bytes: &[u8]) -> f64 {
        let four = || bytes.try_into().unwrap_or_default();
        let eight = || bytes.try_into().unwrap_or_default();
        match self {
            Self::Float32 => f64::from(f32::from_ne_bytes(four())),
            Self::Float64 => f64::from_ne_bytes(eight()),
            Self::Int64 => i64::from_ne_bytes(eight()) as f64,
            Self::Bool => f64::from(bytes.first().copied().unwrap_or(0)),
        }
    }
}

/// Statistics of each of the `width` values of a row, over all rows.
///
/// # Errors
/// `Argument` if there is no row, or a number is NaN or infinite.
pub fn statistics(
    bytes: &[u8],
    kind: NumberType,
    width: usize,
    quantiles: &[f64],
) -> Result<Vec<Statistics>> {
    let size = kind.size();
    let rows = bytes.len() / (size * width).max(1);
    if rows == 0 {
        return Err(Error::Argument("has no rows".into()));
    }
    let mut found = Vec::with_capacity(width);
    for at in 0..width {
        let mut values: Vec<f64> = (0..rows)
            .map(|row| kind.decode(&bytes[(row * width + at) * size..][..size]))
            .collect();
        if let Some(row) = values.iter().position(|value| !value.is_finite()) {
            return Err(Error::Argument(format!(
                "value {at} of row {row} is {}",
                values[row]
            )));
        }
        let mean = values.iter().sum::<f64>() / rows as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        values.sort_unstable_by(f64::total_cmp);
        let quantile = |part: &f64| {
            let place = part.clamp(0.0, 1.0) * (rows - 1) as f64;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            values[below] + (values[above] - values[below]) * place.fract()
        };
        found.push(Statistics {
            range: (values[0], values[rows - 1]),
            mean_std: (mean, (squares / rows as f64).sqrt()),
            quantiles: quantiles.iter().map(quantile).collect(),
        });
    }
    Ok(found)
}

/// Replaces each number by `factor * (number - offset) / divisor - shift`, in the precision of the
/// numbers. `scales` are the offset and the divisor of each value of a row.
///
/// # Errors
/// `Argument` for numbers that are not floating point.
pub fn normalize(
    bytes: &mut [u8],
    kind: NumberType,
    scales: &[(f64, f64)],
    factor: f64,
    shift: f64,
) -> Result<()> {
    macro_rules! normalize {
        ($float:ty) => {
            for (row, (offset, divisor)) in bytes
                .chunks_exact_mut(size_of::<$float>())
                .zip(scales.iter().cycle())
            {
                let number = <$float>::from_ne_bytes(row.try_into().unwrap_or_default());
                let scaled = factor as $float * (number - *offset as $float) / *divisor as $float;
                row.copy_from_slice(&(scaled - shift as $float).to_ne_bytes());
            }
        };
    }
    match kind {
        NumberType::Float32 => normalize!(f32),
        NumberType::Float64 => normalize!(f64),
        _ => {
            return Err(Error::Argument(
                "has integers, which cannot be normalized".into(),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_each_value() {
        let rows = [[1.0f32, 5.0], [2.0, 5.0], [4.0, 5.0], [9.0, 5.0]];
        let bytes: Vec<u8> = rows
            .iter()
            .flatten()
            .flat_map(|v| v.to_ne_bytes())
            .collect();
        let found = statistics(&bytes, NumberType::Float32, 2, &[0.0, 0.5, 0.9]).unwrap();
        assert_eq!(found[0].range, (1.0, 9.0));
        assert_eq!(found[0].mean_std, (4.0, (38.0f64 / 4.0).sqrt()));
        assert_eq!(found[0].quantiles[..2], [1.0, 3.0]);
        assert!((found[0].quantiles[2] - 7.5).abs() < 1e-12);
        assert_eq!(
            (found[1].range, found[1].mean_std),
            ((5.0, 5.0), (5.0, 0.0))
        );
        let wrong = statistics(&f64::NAN.to_ne_bytes(), NumberType::Float64, 1, &[]);
        assert!(
            wrong
                .unwrap_err()
                .to_string()
                .contains("value 0 of row 0 is NaN")
        );
        assert!(statistics(&[], NumberType::Bool, 1, &[]).is_err());
    }

    #[test]
    fn numbers_are_normalized_in_their_precision() {
        let mut bytes: Vec<u8> = [0.1f32, 7.0, 0.3, 9.0]
            .iter()
            .flat_map(|v| v.to_ne_bytes())
            .collect();
        let scales = [(0.2, 0.7), (1.0, 3.0)];
        normalize(&mut bytes, NumberType::Float32, &scales, 2.0, 1.0).unwrap();
        let expected = |v: f32, o: f32, d: f32| (2.0 * (v - o) / d - 1.0).to_ne_bytes();
        assert_eq!(bytes[..4], expected(0.1, 0.2, 0.7));
        assert_eq!(bytes[12..], expected(9.0, 1.0, 3.0));
        assert!(normalize(&mut bytes, NumberType::Int64, &scales, 1.0, 0.0).is_err());
    }
}
