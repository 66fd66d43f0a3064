//! Reimplements the parts of libstdc++'s `<random>` and `std::shuffle` that DALI uses, as on 64-bit
//! Linux. Other C++ standard libraries give other orders. Only ranges below that of the generator
//! are supported.

use rand_mt::Mt;

/// `std::minstd_rand0`: x → 16807 x mod 2^31 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinstdRand0(u32);

const MODULUS: u64 = (1 << 31) - 1;

impl MinstdRand0 {
    /// `std::minstd_rand0` seeded by `std::seed_seq{seed}`, which keeps the low 32 bits.
    pub fn from_seed_seq(seed: u64) -> Self {
        // The generator requests four 32-bit values from the seed sequence and uses the last one.
        match u64::from(seed_seq(seed as u32)[3]) % MODULUS {
            0 => Self(1), // 0 is a fixed point of the generator
            x => Self(x as u32),
        }
    }

    fn next(&mut self) -> u32 {
        self.0 = (u64::from(self.0) * 16807 % MODULUS) as u32;
        self.0
    }

    /// `std::uniform_int_distribution<int>(0, n - 1)` for `n` from 1 to 2^31 - 3: the generator's
    /// outputs, shifted to start at 0, are divided into `n` intervals of equal length; outputs past
    /// the last interval are rejected.
    pub fn uniform_int(&mut self, n: u32) -> u32 {
        let part = (MODULUS as u32 - 2) / n.max(1); // outputs are 1 to MODULUS - 1
        loop {
            let draw = self.next() - 1;
            if draw < part * n {
                return draw / part;
            }
        }
    }
}

/// The first four 32-bit values that `std::seed_seq{seed}` generates if four are requested (ISO C++
/// [rand.util.seedseq]).
fn seed_seq(seed: u32) -> [u32; 4] {
    let fold = |x: u32| x ^ x >> 27;
    let mut words = [0x8b8b_8b8b_u32; 4];
    // In the notation of the standard, with n = 4 outputs and s = 1 seed: p = 1, q = 2, m = 4 steps
    // of each kind.
    for step in 0..8_u32 {
        let [at, after, beyond, before] = [0, 1, 2, 3].map(|by| (step as usize + by) % 4);
        let place = step % 4;
        if step < 4 {
            let mixed = fold(words[at] ^ words[after] ^ words[before]).wrapping_mul(1_664_525);
            let seeded = match step {
                0 => 1,
                1 => place.wrapping_add(seed),
                _ => place,
            };
            words[after] = words[after].wrapping_add(mixed);
            words[at] = mixed.wrapping_add(seeded);
        } else {
            let sum = words[at]
                .wrapping_add(words[after])
                .wrapping_add(words[before]);
            let mixed = fold(sum).wrapping_mul(1_566_083_941);
            words[after] ^= mixed;
            words[at] = mixed.wrapping_sub(place);
        }
        let other = words[at];
        words[beyond] = if step < 4 {
            words[beyond].wrapping_add(other)
        } else {
            words[beyond] ^ other
        };
    }
    words
}

/// `std::shuffle(list, std::mt19937(seed))`.
///
/// Lists of up to 65,535 entries use one random number for two positions, longer ones use one for
/// each.
pub fn std_shuffle(list: &mut [u32], seed: u32) {
    let mut random = Mt::new(seed);
    let n = list.len() as u64;
    let mut i = 1;
    if n <= u64::from(u16::MAX) {
        if n > 0 && n.is_multiple_of(2) {
            list.swap(1, uniform_int(&mut random, 2) as usize);
            i = 2;
        }
        while i + 1 < list.len() {
            let (first, second) = (i as u64 + 1, i as u64 + 2);
            let both = uniform_int(&mut random, (first * second) as u32);
            list.swap(i, (both / second as u32) as usize);
            list.swap(i + 1, (both % second as u32) as usize);
            i += 2;
        }
    }
    while i < list.len() {
        let at = uniform_int(&mut random, (i as u64 + 1) as u32) as usize;
        list.swap(i, at);
        i += 1;
    }
}

/// `std::uniform_int_distribution(0, n - 1)` over a generator of exactly 32 bits: the high half of
/// a product; the few low halves that would bias the result are rejected (libstdc++ since GCC 11).
fn uniform_int(random: &mut Mt, n: u32) -> u32 {
    let again_below = n.wrapping_neg() % n.max(1);
    loop {
        let product = u64::from(random.next_u32()) * u64::from(n);
        if product as u32 >= again_below {
            return (product >> 32) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // All expected values here were printed by a C++ program, built with GCC 12 and its libstdc++
    // on x86-64 Linux.

    #[test]
    fn minstd_is_seeded_as_by_a_seed_seq() {
        for (seed, draws) in [
            (0, [2016241165, 1820794142, 445174844]),
            (1, [1314759747, 1707823846, 128953920]),
            (11, [1654007979, 1883776285, 276614274]),
            (0xffff_ffff, [2134614239, 599708091, 1153130066]),
            ((1 << 32) + 5, [615945375, 1322739085, 525087851]),
            (123456789, [444582879, 1008839440, 1181075015]),
            (-1_i64 as u64, [2134614239, 599708091, 1153130066]),
        ] {
            let mut random = MinstdRand0::from_seed_seq(seed);
            assert_eq!(
                [random.next(), random.next(), random.next()],
                draws,
                "seed {seed}"
            );
        }
        assert_eq!(
            MinstdRand0::from_seed_seq((1 << 32) + 5),
            MinstdRand0::from_seed_seq(5)
        );
    }

    #[test]
    fn ranges_are_cut_as_by_uniform_int_distribution() {
        let ranges = [1, 2, 7, 1000, 1_000_003, 2_000_000_000, 2_147_483_645];
        for (seed, expected) in [
            (0, [0, 1, 1, 102, 316810, 931457404, 1996302851]),
            (1, [0, 1, 0, 240, 409282, 579632763, 902041755]),
            (123456789, [0, 0, 3, 529, 104280, 527376245, 947555352]),
        ] {
            let mut random = MinstdRand0::from_seed_seq(seed);
            assert_eq!(
                ranges.map(|n| random.uniform_int(n)),
                expected,
                "seed {seed}"
            );
        }
        // With this range, 3 of 10 generator outputs are rejected.
        let mut random = MinstdRand0::from_seed_seq(5);
        let sum = checksum((0..1000).map(|_| random.uniform_int(1_500_000_000)));
        assert_eq!(sum, 11264493736043101199);
    }

    fn checksum(numbers: impl Iterator<Item = u32>) -> u64 {
        numbers.fold(0, |sum: u64, n| {
            sum.wrapping_mul(6364136223846793005)
                .wrapping_add(u64::from(n))
        })
    }

    #[test]
    fn lists_are_shuffled_as_by_std_shuffle() {
        let shuffled = |n: u32| {
            let mut list: Vec<u32> = (0..n).collect();
            std_shuffle(&mut list, 524_287);
            list
        };
        assert!(shuffled(0).is_empty());
        assert_eq!(
            (shuffled(1), shuffled(2), shuffled(3)),
            (vec![0], vec![1, 0], vec![1, 0, 2])
        );
        assert_eq!(shuffled(4), [2, 3, 1, 0]);
        assert_eq!(shuffled(10), [5, 9, 1, 6, 7, 2, 0, 4, 8, 3]);
        assert_eq!(shuffled(11), [10, 0, 2, 4, 7, 1, 6, 5, 3, 9, 8]);
        for (n, sum) in [
            (65_534, 17699132917702023835), // one random number for two positions
            (65_535, 17958177595444613669),
            (65_536, 16525023256375655348), // one random number for each position
            (70_000, 14917814208391121788),
        ] {
            assert_eq!(checksum(shuffled(n).into_iter()), sum, "{n}");
        }
    }
}
