//! Compares the kernel of operations on codes with the CPU.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::host;
use crate::support::{config, hash};

fn operations() -> impl Strategy<Value = RgbOperation> {
    let odd = |taps: u32| 2 * taps + 1;
    prop_oneof![
        (0u32..=8).prop_map(RgbOperation::posterize),
        (0.0..=256.0).prop_map(RgbOperation::solarize),
        Just(RgbOperation::invert()),
        (-0.5..=0.5).prop_map(RgbOperation::hue),
        Just(RgbOperation::Autocontrast),
        Just(RgbOperation::Equalize),
        prop_oneof![0.0..=2.0, Just(100.0)].prop_map(RgbOperation::sharpness),
        ((0u32..3, 0u32..3), 0.05..4.0).prop_map(
            move |((across, down), sigma)| RgbOperation::blur((odd(across), odd(down)), sigma)
        ),
    ]
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn codes_equal_the_cpus(
        operation in operations(),
        size in prop_oneof![(3u32..9, 3u32..9), (3u32..90, 3u32..70)],
        spread in prop::sample::select(vec![0u64, 3, 60, 255]),
        lead in 0usize..8,
        seed in any::<u64>(),
    ) {
        let count = 3 * u64::from(size.0) * u64::from(size.1);
        let codes: Vec<u8> =
            (0..count).map(|n| (hash(seed, n, 0, 0) % (spread + 1) + (seed % (256 - spread))) as u8).collect();
        let mut expected = codes.clone();
        operation.apply(&mut expected, size, &mut OperationScratch::default()).unwrap();
        prop_assert_eq!(host::operate(&operation, &codes, size, lead), expected);
    }
}
