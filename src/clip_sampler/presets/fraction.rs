//! Exact fractions of integers, like Python's `fractions.Fraction`, for code that computes with exact times.
//! Arithmetic does not overflow: a result that needs more than 127 bits is rounded to a float.

use std::cmp::Ordering;
use std::fmt;

/// Exponent of the smallest fraction of a second that is kept; lower bits of a float are truncated.
const MIN_EXPONENT: i32 = -110;

/// A number of seconds as the caller gave it. Python code that uses `Fraction` computes exactly with integers
/// and fractions, and switches to floats when an operand is a float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seconds {
    /// A float.
    Float(f64),
    /// An integer or a fraction: numerator and denominator.
    Ratio(i64, i64),
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seconds::Float(value) => write!(f, "{value:?}"), // with a point: 1.0
            Seconds::Ratio(numerator, 1) => numerator.fmt(f),
            Seconds::Ratio(numerator, denominator) => write!(f, "{numerator}/{denominator}"),
        }
    }
}

impl Seconds {
    /// The exact value; `None` if it is not finite or the denominator is 0.
    pub(super) fn to_fraction(self) -> Option<Fraction> {
        match self {
            Seconds::Float(value) => Fraction::from_f64(value),
            Seconds::Ratio(numerator, denominator) => Fraction::new(numerator.into(), denominator.into()),
        }
    }
}

/// A fraction in lowest terms with a positive denominator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    numerator: i128,
    denominator: i128,
}

impl Fraction {
    /// 0.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// `None` if the denominator is 0 or either argument has no negative in `i128`.
    pub fn new(numerator: i128, denominator: i128) -> Option<Self> {
        if denominator == 0 || numerator == i128::MIN || denominator == i128::MIN {
            return None;
        }
        let divisor = i128::try_from(gcd(numerator.unsigned_abs(), denominator.unsigned_abs())).ok()?;
        let divisor = if denominator < 0 { -divisor } else { divisor };
        Some(Self { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// The value of a float; `None` if it is not finite or exceeds 2^60.
    pub fn from_f64(value: f64) -> Option<Self> {
        if value.is_nan() || value.abs() > (1u64 << 60) as f64 {
            return None;
        }
        let bits = value.to_bits();
        let (biased, fraction) = ((bits >> 52 & 0x7ff) as i32, (bits & ((1 << 52) - 1)) as i128);
        let (mantissa, exponent) =
            if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
        let mantissa = if value < 0.0 { -mantissa } else { mantissa };
        match exponent {
            0.. => Self::new(mantissa << exponent, 1),
            _ if exponent >= MIN_EXPONENT => Self::new(mantissa, 1 << -exponent),
            _ => Self::new(mantissa >> (MIN_EXPONENT - exponent).min(127), 1 << -MIN_EXPONENT),
        }
    }

    /// The sum; `None` if an inexact result exceeds 2^60.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.exact_sum(other).or_else(|| Self::from_f64(self.to_f64() + other.to_f64()))
    }

    fn exact_sum(self, other: Self) -> Option<Self> {
        let shared = i128::try_from(gcd(self.denominator as u128, other.denominator as u128)).ok()?;
        let (mine, others) = (self.denominator / shared, other.denominator / shared);
        let numerator =
            self.numerator.checked_mul(others)?.checked_add(other.numerator.checked_mul(mine)?)?;
        Self::new(numerator, self.denominator.checked_mul(others)?)
    }

    /// The difference; `None` if an inexact result exceeds 2^60.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.checked_add(Self { numerator: -other.numerator, ..other })
    }

    /// The product with the fraction `numerator / denominator`; `None` if the denominator is 0 or an inexact
    /// result exceeds 2^60.
    pub fn checked_mul_ratio(self, numerator: i128, denominator: i128) -> Option<Self> {
        let other = Self::new(numerator, denominator)?;
        self.exact_product(other).or_else(|| Self::from_f64(self.to_f64() * other.to_f64()))
    }

    fn exact_product(self, other: Self) -> Option<Self> {
        let a = Self::new(self.numerator, other.denominator)?;
        let b = Self::new(other.numerator, self.denominator)?;
        Self::new(a.numerator.checked_mul(b.numerator)?, a.denominator.checked_mul(b.denominator)?)
    }

    /// The quotient; `None` if `other` is 0.
    pub fn checked_div(self, other: Self) -> Option<Self> {
        self.checked_mul_ratio(other.denominator, other.numerator)
    }

    /// The largest integer that is at most `self / other`, for positive `other`.
    pub fn floor_div(self, other: Self) -> Option<i128> {
        let ratio = self.checked_div(other)?;
        Some(ratio.numerator.div_euclid(ratio.denominator))
    }

    /// The nearest float, ties to even.
    pub fn to_f64(self) -> f64 {
        let (size, divisor) = (self.numerator.unsigned_abs(), self.denominator as u128);
        let (mut whole, mut rest, mut exponent) = (size / divisor, size % divisor, 0);
        // Two more bits than a float has; the remainder only decides whether a tie is exact.
        while whole < 1 << 54 && size > 0 {
            (whole, rest, exponent) = (whole << 1, rest << 1, exponent - 1);
            if rest >= divisor {
                (whole, rest) = (whole | 1, rest - divisor);
            }
        }
        let value = (whole | u128::from(rest > 0)) as f64 * f64::powi(2.0, exponent);
        if self.numerator < 0 {
            -value
        } else {
            value
        }
    }
}

impl Ord for Fraction {
    /// Compares without products, which could overflow: first the integer parts, then the reciprocals of the
    /// remainders.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (*self, *other);
        let mut turned = false;
        loop {
            let (whole_a, whole_b) =
                (a.numerator.div_euclid(a.denominator), b.numerator.div_euclid(b.denominator));
            let (rest_a, rest_b) =
                (a.numerator.rem_euclid(a.denominator), b.numerator.rem_euclid(b.denominator));
            let order = whole_a.cmp(&whole_b);
            let order = match (order, rest_a, rest_b) {
                (Ordering::Equal, 0, _) | (Ordering::Equal, _, 0) => rest_a.cmp(&rest_b),
                (Ordering::Equal, ..) => {
                    a = Self { numerator: a.denominator, denominator: rest_a };
                    b = Self { numerator: b.denominator, denominator: rest_b };
                    turned = !turned;
                    continue;
                }
                (unequal, ..) => unequal,
            };
            return if turned { order.reverse() } else { order };
        }
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ratio(numerator: i128, denominator: i128) -> Fraction {
        Fraction::new(numerator, denominator).unwrap()
    }

    #[test]
    fn float_converts_to_its_exact_fraction() {
        assert_eq!(Fraction::from_f64(0.75), Some(ratio(3, 4)));
        assert_eq!(Fraction::from_f64(-2.5), Some(ratio(-5, 2)));
        assert_eq!(Fraction::from_f64(0.0), Some(Fraction::ZERO));
        assert_eq!(Fraction::from_f64(0.1), Some(ratio(3602879701896397, 36028797018963968)));
        assert_eq!(Fraction::from_f64(1e-300), Some(Fraction::ZERO));
        assert!([f64::NAN, f64::INFINITY, 1e19].iter().all(|&v| Fraction::from_f64(v).is_none()));
    }

    #[test]
    fn nearest_float_where_float_division_misses_it() {
        // As in Python: float(Fraction(2**53 + 1, 1)) is 2**53, (2**53 + 1) / 3 rounds once.
        assert_eq!(ratio((1 << 53) + 1, 1).to_f64(), 9007199254740992.0);
        assert_eq!(ratio(1, 3).to_f64(), 1.0 / 3.0);
        assert_eq!(ratio(-30030, 1001).to_f64(), -30.0);
        assert_eq!(Fraction::ZERO.to_f64(), 0.0);
    }

    #[test]
    fn large_fractions_are_rounded() {
        let wide = ratio(1, (1 << 100) + 1);
        let sum = wide.checked_add(ratio(1, (1 << 99) + 1)).unwrap();
        assert_eq!(sum.to_f64(), f64::powi(2.0, -100) + f64::powi(2.0, -99));
        let product = ratio(3, (1 << 60) + 1)
            .checked_mul_ratio(1, (1 << 49) + 1)
            .and_then(|x| x.checked_mul_ratio(1, (1 << 30) + 1));
        assert!(product.is_some());
        assert_eq!(ratio(i128::MAX, 1).checked_add(ratio(1, 1)), None);
        assert_eq!((Fraction::new(1, 0), ratio(1, 2).checked_mul_ratio(1, 0)), (None, None));
        assert!(Fraction::new(i128::MIN, i128::MIN).is_none());
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_cross_multiplication(
            a in -(1i128 << 40)..1 << 40, b in 1i128..1 << 20, c in -(1i128 << 40)..1 << 40, d in 1i128..1 << 20,
        ) {
            let (x, y) = (ratio(a, b), ratio(c, d));
            prop_assert_eq!(x.cmp(&y), (a * d).cmp(&(c * b)));
            prop_assert_eq!(x.checked_add(y), Fraction::new(a * d + c * b, b * d));
            prop_assert_eq!(x.checked_sub(y), Fraction::new(a * d - c * b, b * d));
            prop_assert_eq!(x.to_f64(), a as f64 / b as f64); // both operands are exact: one rounding
            prop_assert_eq!(Fraction::from_f64(x.to_f64()).unwrap().to_f64(), x.to_f64());
            if c > 0 {
                prop_assert_eq!(x.floor_div(y), Some((a * d).div_euclid(c * b)));
                prop_assert_eq!(x.checked_mul_ratio(d, c), Fraction::new(a * d, b * c));
            }
        }
    }
}
