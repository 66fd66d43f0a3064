//! Defines time bases and frame indices as separate types, so that they cannot be mixed up.
//! Time is kept in integer ticks; only [`TimeBase::seconds`] converts it to floating point.

use std::num::NonZeroU32;

/// Index of a frame in presentation order: "frame 7" is `PresentationIndex(7)`. Never an index into
/// packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PresentationIndex(pub u32);

/// Index of a packet in decode order: an index into [`crate::index::VideoIndex::packets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecodeIndex(pub u32);

impl PresentationIndex {
    /// As an index into a slice.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl DecodeIndex {
    /// As an index into a slice.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}

/// One tick lasts `num / den` seconds. Neither can be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBase {
    num: NonZeroU32,
    den: NonZeroU32,
}

impl TimeBase {
    /// `None` when either number is zero, which a damaged header may claim.
    pub fn new(num: u32, den: u32) -> Option<Self> {
        Some(Self {
            num: NonZeroU32::new(num)?,
            den: NonZeroU32::new(den)?,
        })
    }

    /// The time base whose ticks are `parts` times shorter; `None` where its denominator overflows.
    pub fn divided(self, parts: u32) -> Option<Self> {
        Self::new(self.num(), self.den().checked_mul(parts)?)
    }

    /// Converts ticks to seconds. The only function that represents time in floating point.
    pub fn seconds(self, ticks: i64) -> f64 {
        // One multiplication and one division, so that e.g. 512 ticks of 1/12800 are exactly 0.04.
        ticks as f64 * f64::from(self.num.get()) / f64::from(self.den.get())
    }

    /// The numerator, in seconds.
    pub fn num(self) -> u32 {
        self.num.get()
    }

    /// The denominator.
    pub fn den(self) -> u32 {
        self.den.get()
    }

    /// Converts `ticks` of this base to ticks of `to`, rounded to nearest, halves away from zero.
    pub(crate) fn rescale(self, ticks: i64, to: TimeBase) -> i64 {
        let num = i128::from(ticks) * i128::from(self.num.get()) * i128::from(to.den.get());
        let den = i128::from(self.den.get()) * i128::from(to.num.get());
        let half = if num < 0 { -den / 2 } else { den / 2 };
        i64::try_from((num + half) / den).unwrap_or(if num < 0 { i64::MIN } else { i64::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_time_base_cannot_exist() {
        assert!(TimeBase::new(0, 1).is_none());
        assert!(TimeBase::new(1, 0).is_none());
    }

    #[test]
    fn rescaling_rounds_to_nearest_and_away_from_zero() {
        let (a, b) = (
            TimeBase::new(1, 1000).unwrap(),
            TimeBase::new(1, 300).unwrap(),
        );
        assert_eq!(a.rescale(5, b), 2); // 1.5 ticks
        assert_eq!(a.rescale(-5, b), -2);
        assert_eq!(a.rescale(1000, b), 300);
        assert_eq!(
            a.rescale(i64::MAX, TimeBase::new(1, u32::MAX).unwrap()),
            i64::MAX
        );
    }
}
