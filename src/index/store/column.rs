//! In: one property of all packets or frames, as a list of numbers. Out: few bytes, and the same list back.
//! Ticks have a common step, times grow evenly, flags repeat: numbers are counted in their step from the least one, as they
//! are, as differences, or as differences of those, with or without runs, whichever is shortest.
//! Never: makes room for more numbers than it was told to expect.

use super::bytes::{fold, put_number, put_signed, unfold, Reader};

/// With runs, a number `e` is written as `2 e`, and `n` more of the same as `2 n + 1`. This one, which would be a run
/// of none, stands in front of numbers too large to be doubled.
const LARGE: u64 = 1;

/// Appends a list.
pub fn put(out: &mut Vec<u8>, values: &[i64]) {
    let Some(&least) = values.iter().min() else { return };
    let from_least = values.iter().map(|v| v.wrapping_sub(least) as u64);
    let step = from_least.clone().fold(0, common).max(1);
    let steps: Vec<u64> = from_least.map(|u| u / step).collect();
    put_signed(out, least);
    put_number(out, step);
    let ways = (0..3u8).flat_map(|depth| [depth << 1, depth << 1 | 1]);
    let shortest = ways.map(|way| written(&steps, way)).min_by_key(Vec::len);
    out.extend(shortest.unwrap_or_default());
}

/// A list of `count` numbers.
pub fn get(reader: &mut Reader<'_>, count: usize) -> Option<Vec<i64>> {
    if count == 0 {
        return Some(Vec::new());
    }
    let (least, step) = (reader.signed()?, reader.number()?);
    let way = reader.byte().filter(|&way| way < 6)?;
    // One byte may stand for very many numbers, so `count` alone must not size anything yet.
    let mut values = Vec::with_capacity(count.min(1 << 16));
    let mut undo = Undo { depth: way >> 1, last: 0, slope: 0 };
    let mut value = |e: u64| least.wrapping_add(undo.next(e).wrapping_mul(step) as i64);
    if way & 1 == 0 {
        for _ in 0..count {
            values.push(value(reader.number()?));
        }
        return Some(values);
    }
    let mut last = 0;
    while values.len() < count {
        let token = reader.number()?;
        if token & 1 == 0 || token == LARGE {
            last = if token == LARGE { reader.number()? } else { token >> 1 };
            values.push(value(last));
        } else {
            let run = usize::try_from(token >> 1).ok().filter(|&run| run <= count - values.len())?;
            values.extend((0..run).map(|_| value(last)));
        }
    }
    Some(values)
}

fn written(steps: &[u64], way: u8) -> Vec<u8> {
    let mut out = vec![way];
    let (mut last, mut slope) = (0u64, 0u64);
    let residues = steps.iter().map(|&at| {
        let difference = at.wrapping_sub(last);
        let residue = match way >> 1 {
            0 => at,
            1 => fold(difference as i64),
            _ => fold(difference.wrapping_sub(slope) as i64),
        };
        (last, slope) = (at, difference);
        residue
    });
    if way & 1 == 0 {
        residues.for_each(|e| put_number(&mut out, e));
        return out;
    }
    let (mut same, mut run) = (0, 0u64);
    let end_run = |out: &mut Vec<u8>, run: &mut u64| {
        if *run > 0 {
            put_number(out, *run << 1 | 1);
            *run = 0;
        }
    };
    for e in residues {
        if e == same {
            run += 1;
            continue;
        }
        end_run(&mut out, &mut run);
        if e >> 63 == 0 {
            put_number(&mut out, e << 1);
        } else {
            put_number(&mut out, LARGE);
            put_number(&mut out, e);
        }
        same = e;
    }
    end_run(&mut out, &mut run);
    out
}

/// Sums up what was written as differences.
struct Undo {
    depth: u8,
    last: u64,
    slope: u64,
}

impl Undo {
    fn next(&mut self, residue: u64) -> u64 {
        match self.depth {
            0 => return residue,
            1 => self.slope = unfold(residue) as u64,
            _ => self.slope = self.slope.wrapping_add(unfold(residue) as u64),
        }
        self.last = self.last.wrapping_add(self.slope);
        self.last
    }
}

/// Greatest common divisor.
fn common(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(values: &[i64]) -> usize {
        let mut out = Vec::new();
        put(&mut out, values);
        let mut reader = Reader::new(&out);
        assert_eq!(get(&mut reader, values.len()).as_deref(), Some(values));
        assert!(reader.rest().is_empty());
        out.len()
    }

    #[test]
    fn what_is_regular_takes_hardly_any_bytes() {
        let even: Vec<i64> = (0..10_000).map(|i| -1024 + 512 * i).collect();
        assert!(there_and_back(&even) < 16);
        assert!(there_and_back(&[7; 10_000]) < 16);
        let reordered: Vec<i64> =
            (0..400).map(|i| [0, 2048, 1024, 512][i % 4] + 512 * (i as i64 / 4 * 4)).collect();
        assert!(there_and_back(&reordered) < 420);
    }

    #[test]
    fn extremes_and_irregular_numbers_come_back() {
        there_and_back(&[]);
        there_and_back(&[i64::MIN]);
        there_and_back(&[i64::MIN, i64::MAX, 0, -1, i64::MIN, i64::MIN, i64::MAX]);
        there_and_back(&[5, 5, 5, 900_000, 5, 5, -1_000_000_007]);
    }

    proptest::proptest! {
        #[test]
        fn every_list_comes_back(values: Vec<i64>, steps in proptest::collection::vec(-3i64..300, 0..200), step: i32) {
            there_and_back(&values);
            there_and_back(&steps.iter().map(|s| s * i64::from(step)).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_a_list_or_nothing(bytes: Vec<u8>, count in 0usize..2000) {
            if let Some(values) = get(&mut Reader::new(&bytes), count) {
                assert_eq!(values.len(), count);
            }
        }
    }
}
