//! Reads the arguments of a call from an input's bytes; now and then an argument is an unusual
//! value. Missing bytes are zeros, so every prefix of an input is an input too. No input is
//! rejected.

use arbitrary::Unstructured;

/// An input and the read position.
pub struct FuzzInput<'a>(Unstructured<'a>);

impl<'a> FuzzInput<'a> {
    /// Reads from these bytes.
    pub fn new(input: &'a [u8]) -> Self {
        Self(Unstructured::new(input))
    }

    /// Returns a byte.
    pub fn byte(&mut self) -> u8 {
        self.0.arbitrary().unwrap_or(0)
    }

    /// Returns a bool.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns a number below `n`.
    pub fn next_below(&mut self, n: usize) -> usize {
        let bytes = usize::from(self.byte())
            | if n > 256 {
                usize::from(self.byte()) << 8
            } else {
                0
            };
        bytes % n.max(1)
    }

    /// Returns one of these.
    pub fn one_of<T: Clone>(&mut self, these: &[T]) -> T {
        these[self.next_below(these.len())].clone()
    }

    /// Returns a value, or `None`.
    pub fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| value(self))
    }

    /// Returns a small number of values.
    pub fn some<T>(&mut self, most: usize, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.next_below(most + 1))
            .map(|_| value(self))
            .collect()
    }

    /// Returns a small count, as in ordinary use, and now and then an edge of 32 bits.
    pub fn count(&mut self) -> u32 {
        match self.byte() {
            kind @ 0..200 => u32::from(kind) % 40,
            200..215 => self.0.arbitrary::<u16>().unwrap_or(0).into(),
            215..230 => self.0.arbitrary().unwrap_or(0),
            230 => (1 << 24) - 1,
            231 => 1 << 24,
            232 => (1 << 24) + 1,
            233 => i32::MAX as u32,
            234 => 1 << 31,
            235 => u32::MAX - 1,
            _ => u32::MAX,
        }
    }

    /// Returns a 64-bit count.
    pub fn long(&mut self) -> u64 {
        match self.byte() {
            0..160 => self.count().into(),
            160..220 => self.0.arbitrary().unwrap_or(0),
            220 => 1 << 32,
            221 => 1 << 53,
            222 => i64::MAX as u64,
            223 => i64::MAX as u64 + 1,
            _ => u64::MAX,
        }
    }

    /// Returns a signed 64-bit number.
    pub fn signed(&mut self) -> i64 {
        match self.byte() {
            0..100 => i64::from(self.count()),
            100..200 => -i64::from(self.count()),
            200 => i64::MIN,
            201 => i64::MIN + 1,
            202 => i64::MAX,
            _ => self.0.arbitrary().unwrap_or(0),
        }
    }

    /// Returns a float of any kind.
    pub fn number(&mut self) -> f64 {
        match self.byte() {
            0..80 => f64::from(self.byte()) / 64.0,
            80..130 => f64::from(self.count()),
            130..150 => -f64::from(self.byte()) / 16.0,
            150..200 => self.0.arbitrary().unwrap_or(0.0),
            200 => f64::NAN,
            201 => f64::INFINITY,
            202 => f64::NEG_INFINITY,
            203 => f64::MAX,
            204 => f64::MIN,
            205 => f64::MIN_POSITIVE,
            206 => 5e-324,
            207 => -0.0,
            208 => 1e-9,
            209 => 1e300,
            210 => 1.0 - f64::EPSILON / 2.0,
            211 => 1.0 + f64::EPSILON,
            212 => (1u64 << 53) as f64,
            213 => i64::MAX as f64,
            _ => f64::from(self.byte()) * 8.0,
        }
    }

    /// Returns up to `most` bytes.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = self.next_below(most + 1).min(self.0.len());
        self.0.bytes(len).unwrap_or(&[])
    }

    /// Returns up to `most` bytes as text; invalid UTF-8 is replaced.
    pub fn text(&mut self, most: usize) -> String {
        String::from_utf8_lossy(self.bytes(most)).into_owned()
    }

    /// Returns all remaining bytes.
    pub fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_input_equals_zeros() {
        let mut case = FuzzInput::new(&[]);
        assert_eq!(
            (case.byte(), case.count(), case.long(), case.signed()),
            (0, 0, 0, 0)
        );
        assert_eq!(
            (case.number(), case.text(9).as_str(), case.rest()),
            (0.0, "", &[][..])
        );
    }

    #[test]
    fn every_edge_of_a_float_is_reached() {
        let found: Vec<f64> = (0..=255)
            .map(|kind| FuzzInput::new(&[kind, 3]).number())
            .collect();
        let has = |wanted: fn(&f64) -> bool| found.iter().any(wanted);
        assert!(has(|n| n.is_nan()) && has(|n| n.is_infinite()) && has(|n| n.is_subnormal()));
        assert!(has(|n| *n < 0.0) && has(|n| *n > 1e299 && n.is_finite()));
    }
}
