//! Compares the elements of the LUT kernel with those of `ElementLut`.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::host;
use crate::support::{config, hash};

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn elements_equal_the_cpus(
        plane in prop_oneof![0usize..40, 1000usize..5000],
        planes in 1u32..7,
        (first, channels) in prop_oneof![Just((0usize, 3usize)), (0usize..3).prop_map(|first| (first, 1))],
        take_turns in any::<bool>(),
        dtype in prop::sample::select(vec![Dtype::U8, Dtype::F16, Dtype::BF16, Dtype::F32]),
        lead in 0usize..8,
        seed in any::<u64>(),
    ) {
        let normalize = Normalize { mean: [0.4, 0.5, 0.6], std: [0.2, 0.3, 0.4] };
        let expand = ElementLut::new(dtype, (dtype != Dtype::U8).then_some(normalize)).unwrap();
        let plane = if take_turns { plane / channels * channels } else { plane };
        let codes: Vec<u8> = (0..plane as u64 * u64::from(planes)).map(|n| hash(seed, n, 0, 0) as u8).collect();
        let mut expected = vec![0; codes.len() * dtype.bytes()];
        if plane > 0 {
            let out = expected.chunks_mut(plane * dtype.bytes());
            for (number, (codes, out)) in codes.chunks(plane).zip(out).enumerate() {
                let turns = if take_turns { (first, channels) } else { (first + number % channels, 1) };
                expand.run(codes, turns, out);
            }
        }
        let turns = (first, channels, take_turns);
        let got = host::expand(&expand, &codes, (plane, planes), turns, lead, dtype.bytes());
        prop_assert_eq!(got, expected);
    }
}
