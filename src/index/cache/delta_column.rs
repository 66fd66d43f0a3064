//! Compresses one property of all packets or frames: offsets from the minimum, in units of their
//! common divisor, are stored as values, first differences or second differences, with or without
//! run lengths, the shortest of them.

use super::varint::{
    VarintReader, varint_len, write_signed_varint, write_varint, zigzag_decode, zigzag_encode,
};

/// In run-length form a number `e` is written as `2 e`, and `n` repetitions of it as `2 n + 1`.
/// This token, a run of length zero, precedes numbers too large to be doubled.
const LARGE_VALUE_TOKEN: u64 = 1;

/// Appends a list.
pub(super) fn write_column(out: &mut Vec<u8>, values: &[i64]) {
    let Some(&least) = values.iter().min() else {
        return;
    };
    let mut steps: Vec<u64> = values
        .iter()
        .map(|v| v.wrapping_sub(least) as u64)
        .collect();
    let mut step = 0;
    for &u in &steps {
        step = gcd(step, u);
        if step == 1 {
            break; // most of the time here is spent on division
        }
    }
    let step = step.max(1);
    if step > 1 {
        steps.iter_mut().for_each(|u| *u /= step);
    }
    write_signed_varint(out, least);
    write_varint(out, step);
    let ways = (0..3).flat_map(|depth| {
        let [plain, runs] = encoded_lengths(residues(&steps, depth));
        [(plain, depth, false), (runs, depth, true)]
    });
    let Some((_, depth, runs)) = ways.min() else {
        return;
    };
    out.push(depth << 1 | u8::from(runs));
    if runs {
        write_run_lengths(out, residues(&steps, depth));
    } else {
        residues(&steps, depth).for_each(|e| write_varint(out, e));
    }
}

/// Reads a list of `count` numbers.
pub(super) fn read_column(reader: &mut VarintReader<'_>, count: usize) -> Option<Vec<i64>> {
    if count == 0 {
        return Some(Vec::new());
    }
    let (least, step) = (reader.signed_varint()?, reader.varint()?);
    let way = reader.byte().filter(|&way| way < 6)?;
    // One byte may encode very many numbers, so `count` alone must not determine an allocation
    // here.
    let mut values = Vec::with_capacity(count.min(1 << 16));
    let mut decoder = DeltaDecoder {
        depth: way >> 1,
        last: 0,
        slope: 0,
    };
    let mut value = |e: u64| least.wrapping_add(decoder.next(e).wrapping_mul(step) as i64);
    if way & 1 == 0 {
        for _ in 0..count {
            values.push(value(reader.varint()?));
        }
        return Some(values);
    }
    let mut last = 0;
    while values.len() < count {
        let token = reader.varint()?;
        if token & 1 == 0 || token == LARGE_VALUE_TOKEN {
            last = if token == LARGE_VALUE_TOKEN {
                reader.varint()?
            } else {
                token >> 1
            };
            values.push(value(last));
        } else {
            let run = usize::try_from(token >> 1)
                .ok()
                .filter(|&run| run <= count - values.len())?;
            values.extend((0..run).map(|_| value(last)));
        }
    }
    Some(values)
}

/// Values, their differences, or the differences of these.
fn residues(steps: &[u64], depth: u8) -> impl Iterator<Item = u64> + '_ {
    let (mut last, mut slope) = (0u64, 0u64);
    steps.iter().map(move |&at| {
        let difference = at.wrapping_sub(last);
        let residue = match depth {
            0 => at,
            1 => zigzag_encode(difference as i64),
            _ => zigzag_encode(difference.wrapping_sub(slope) as i64),
        };
        (last, slope) = (at, difference);
        residue
    })
}

/// Encoded length in bytes without and with run lengths.
fn encoded_lengths(residues: impl Iterator<Item = u64>) -> [usize; 2] {
    let (mut plain, mut runs) = (0, 0);
    let (mut same, mut run) = (0, 0u64);
    for e in residues {
        plain += varint_len(e);
        if e == same {
            run += 1;
            continue;
        }
        if run > 0 {
            runs += varint_len(run << 1);
            run = 0;
        }
        runs += if e >> 63 == 0 {
            varint_len(e << 1)
        } else {
            1 + varint_len(e)
        };
        same = e;
    }
    [plain, runs + if run > 0 { varint_len(run << 1) } else { 0 }]
}

fn write_run_lengths(out: &mut Vec<u8>, residues: impl Iterator<Item = u64>) {
    let (mut same, mut run) = (0, 0u64);
    let end_run = |out: &mut Vec<u8>, run: &mut u64| {
        if *run > 0 {
            write_varint(out, *run << 1 | 1);
            *run = 0;
        }
    };
    for e in residues {
        if e == same {
            run += 1;
            continue;
        }
        end_run(out, &mut run);
        if e >> 63 == 0 {
            write_varint(out, e << 1);
        } else {
            write_varint(out, LARGE_VALUE_TOKEN);
            write_varint(out, e);
        }
        same = e;
    }
    end_run(out, &mut run);
}

/// Reconstructs values from differences.
struct DeltaDecoder {
    depth: u8,
    last: u64,
    slope: u64,
}

impl DeltaDecoder {
    fn next(&mut self, residue: u64) -> u64 {
        match self.depth {
            0 => return residue,
            1 => self.slope = zigzag_decode(residue) as u64,
            _ => self.slope = self.slope.wrapping_add(zigzag_decode(residue) as u64),
        }
        self.last = self.last.wrapping_add(self.slope);
        self.last
    }
}

/// Greatest common divisor.
fn gcd(a: u64, b: u64) -> u64 {
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
        for depth in 0..3 {
            let numbers: Vec<u64> = values.iter().map(|&v| v as u64).collect();
            let steps = || residues(&numbers, depth);
            let (mut plain, mut runs) = (Vec::new(), Vec::new());
            steps().for_each(|e| write_varint(&mut plain, e));
            write_run_lengths(&mut runs, steps());
            assert_eq!(encoded_lengths(steps()), [plain.len(), runs.len()]);
        }
        let mut out = Vec::new();
        write_column(&mut out, values);
        let mut reader = VarintReader::new(&out);
        assert_eq!(
            read_column(&mut reader, values.len()).as_deref(),
            Some(values)
        );
        assert!(reader.rest().is_empty());
        out.len()
    }

    #[test]
    fn regular_columns_are_small() {
        let even: Vec<i64> = (0..10_000).map(|i| -1024 + 512 * i).collect();
        assert!(there_and_back(&even) < 16);
        assert!(there_and_back(&[7; 10_000]) < 16);
        let reordered: Vec<i64> = (0..400)
            .map(|i| [0, 2048, 1024, 512][i % 4] + 512 * (i as i64 / 4 * 4))
            .collect();
        assert!(there_and_back(&reordered) < 420);
    }

    #[test]
    fn extreme_and_irregular_values_round_trip() {
        there_and_back(&[]);
        there_and_back(&[i64::MIN]);
        there_and_back(&[i64::MIN, i64::MAX, 0, -1, i64::MIN, i64::MIN, i64::MAX]);
        there_and_back(&[5, 5, 5, 900_000, 5, 5, -1_000_000_007]);
    }

    proptest::proptest! {
        #[test]
        fn every_list_round_trips(values: Vec<i64>, steps in proptest::collection::vec(-3i64..300, 0..200), step: i32) {
            there_and_back(&values);
            there_and_back(&steps.iter().map(|s| s * i64::from(step)).collect::<Vec<_>>());
        }

        #[test]
        fn arbitrary_bytes_are_a_list_or_nothing(bytes: Vec<u8>, count in 0usize..2000) {
            if let Some(values) = read_column(&mut VarintReader::new(&bytes), count) {
                assert_eq!(values.len(), count);
            }
        }
    }
}
