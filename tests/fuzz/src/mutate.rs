//! Changes an input in a few ways, such as damage and deliberate manipulation, with pieces of other
//! inputs of its target. The changes are a function of the random number.

use framespool::rng::Rng;

/// Numbers at limits of sizes and counts.
const EDGES: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Changes an input in place; `others` are the source of inserted pieces.
pub fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], longest: usize, rng: &mut Rng) {
    // Usually one change: several can hide each other.
    let changes = 1 + if rng.next_below(3) == 0 {
        rng.next_below(6)
    } else {
        0
    };
    for _ in 0..changes {
        change(input, others, rng);
    }
    input.truncate(longest);
}

/// Returns a position in an input; positions near the start, where headers are, are more frequent.
fn place(input: &[u8], rng: &mut Rng) -> usize {
    let reach = if rng.next_below(2) == 0 {
        input.len().min(512)
    } else {
        input.len()
    };
    rng.next_below(reach as u64) as usize
}

/// Returns the range of positions of an input.
fn stretch(input: &[u8], rng: &mut Rng) -> std::ops::Range<usize> {
    let begin = place(input, rng);
    let most = if rng.next_below(3) == 0 {
        input.len()
    } else {
        64
    };
    begin
        ..input
            .len()
            .min(begin + 1 + rng.next_below(most as u64) as usize)
}

fn change(input: &mut Vec<u8>, others: &[Vec<u8>], rng: &mut Rng) {
    if input.is_empty() {
        input.extend((0..1 + rng.next_below(16)).map(|_| rng.next_u64() as u8));
        return;
    }
    let at = place(input, rng);
    match rng.next_below(12) {
        0 | 1 => input[at] ^= 1 << rng.next_below(8),
        2 => input[at] = rng.next_u64() as u8,
        3 | 4 => put_number(
            input,
            at,
            EDGES[rng.next_below(EDGES.len() as u64) as usize],
            rng,
        ),
        5 => {
            let by = rng.next_below(35).wrapping_sub(17);
            let old = input[at..]
                .iter()
                .take(4)
                .fold(0u64, |number, &byte| number << 8 | u64::from(byte));
            put_number(input, at, old.wrapping_add(by), rng);
        }
        6 => input.truncate(at),
        7 => drop(input.drain(stretch(input, rng))),
        8 => {
            let piece = input[stretch(input, rng)].to_vec();
            input.splice(at..at, piece);
        }
        9 => {
            let (range, byte) = (stretch(input, rng), [0, 0xff, rng.next_u64() as u8]);
            input[range].fill(byte[rng.next_below(3) as usize]);
        }
        10 => {
            let other = &others[rng.next_below(others.len() as u64) as usize];
            if !other.is_empty() {
                let piece = &other[stretch(other, rng)];
                let end = input.len().min(at + piece.len());
                // Replaces as many bytes, or is inserted.
                let gone = if rng.next_below(2) == 0 {
                    at..end
                } else {
                    at..at
                };
                input.splice(gone, piece.iter().copied());
            }
        }
        _ => {
            let piece: Vec<u8> = (0..1 + rng.next_below(8))
                .map(|_| rng.next_u64() as u8)
                .collect();
            input.splice(at..at, piece);
        }
    }
}

/// Writes a number of one to eight bytes, in either byte order, as far as there is room.
fn put_number(input: &mut [u8], at: usize, number: u64, rng: &mut Rng) {
    let len = 1 << rng.next_below(4);
    let mut bytes = number.to_le_bytes()[..len].to_vec();
    if rng.next_below(2) == 0 {
        bytes.reverse();
    }
    let len = len.min(input.len() - at);
    input[at..at + len].copy_from_slice(&bytes[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use framespool::rng::{Purpose, RngKey};

    #[test]
    fn changes_are_a_function_of_their_number() {
        let made = |clip| {
            let mut input = vec![7; 100];
            let mut rng = RngKey {
                seed: 1,
                epoch: 0,
                clip,
                occurrence: 0,
            }
            .rng(Purpose::Sampling);
            mutate(&mut input, &[vec![1, 2, 3]], 1000, &mut rng);
            input
        };
        let all: std::collections::BTreeSet<Vec<u8>> = (0..1000).map(made).collect();
        assert!(all.len() > 800, "{}", all.len()); // a few changes have no effect, or the same one
        assert!((0..1000).all(|clip| all.contains(&made(clip))));
    }
}
