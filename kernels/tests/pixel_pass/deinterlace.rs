//! Deinterlaced planes equal the reference, and a few of them equal numbers computed by hand.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::strategies::{deinterlaces, formats};
use crate::support::{config, gray, noise};

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn deinterlaced_planes_equal_the_reference(
        format in formats(),
        deinterlace in deinterlaces(),
        seed in any::<u64>(),
    ) {
        let frame = noise(format, seed);
        let mut memory = vec![0xEE; Deinterlace::memory_bytes(&frame.view()).unwrap()];
        let result = deinterlace.run(&frame.view(), &mut memory).unwrap();
        for component in 0..format.components() {
            let expected = reference::codes(&frame.view(), Some(deinterlace), component);
            prop_assert_eq!(reference::codes(&result, None, component), expected);
        }
    }
}

/// The lines of a deinterlaced frame of one column.
fn lines(values: &[u8], method: DeinterlaceMethod, kept: Field) -> Vec<u32> {
    let frame = gray(1, values.len() as u32, values);
    let mut memory = vec![0; Deinterlace::memory_bytes(&frame.view()).unwrap()];
    let result = Deinterlace { method, kept }
        .run(&frame.view(), &mut memory)
        .unwrap();
    reference::codes(&result, None, 0).concat()
}

#[test]
fn lines_of_the_other_field_are_copied_or_averaged() {
    use DeinterlaceMethod::{Bob, Linear};
    let woven = [10, 200, 21, 210, 30];
    assert_eq!(lines(&woven, Bob, Field::Top), [10, 10, 21, 21, 30]);
    assert_eq!(
        lines(&woven, Bob, Field::Bottom),
        [200, 200, 210, 210, 210],
        "no line below the last one"
    );
    assert_eq!(
        lines(&woven, Linear, Field::Top),
        [10, 16, 21, 26, 30],
        "rounded up"
    );
    assert_eq!(
        lines(&woven, Linear, Field::Bottom),
        [200, 200, 205, 210, 210],
        "one line at each border"
    );
    assert_eq!(lines(&woven[..4], Linear, Field::Top), [10, 16, 21, 21]);
    for method in [Bob, Linear] {
        assert_eq!(lines(&[7], method, Field::Bottom), [7], "the only line");
    }
}

#[test]
fn short_memory_is_an_error() {
    let frame = gray(1, 2, &[1, 2]);
    let deinterlace = Deinterlace {
        method: DeinterlaceMethod::Bob,
        kept: Field::Top,
    };
    let refused = deinterlace.run(&frame.view(), &mut [0; 31]).map(|_| ());
    assert_eq!(
        refused,
        Err(PassError::PlaneTooShort {
            plane: 0,
            have_bytes: 31,
            need_bytes: 32
        })
    );
}
