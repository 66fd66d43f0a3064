//! In: sound requests, in which up to three numbers have been replaced by any others.
//! Out: an answer or a typed error, from the pass and from its twin.
//! Never: a panic.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::damage::{damage_finish, damage_frame, damage_geometry, damage_slot, damages};
use crate::strategies::{formats, placed};
use crate::strategies_finish::{finishes, layouts};
use crate::support::{config, noise};

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn no_request_panics(
        ((format, geometry), finish) in formats().prop_flat_map(placed)
            .prop_flat_map(|case| (Just(case), finishes(case.1.output_size()))),
        damages in damages(),
        slot in prop::option::weighted(0.2, damages()),
        layout in layouts(),
        seed in any::<u64>(),
    ) {
        let picture = noise(format, seed);
        let (mut frame, mut geometry, mut finish) = (picture.view(), geometry, finish);
        for &damage in &damages {
            damage_geometry(&mut geometry, damage);
            damage_finish(&mut finish, damage);
            damage_frame(&mut frame, damage);
        }
        let Ok(mut pass) = PixelPass::new(geometry, finish.clone()) else { return Ok(()) };
        let (width, height) = pass.output_size();
        let small = u64::from(width) * u64::from(height) <= 1 << 17;
        let lengths = [finish.channels.count(), height as usize, width as usize];
        let mut strides = layout.strides(lengths);
        let last = |axis: usize| strides[axis] * (lengths[axis] - 1);
        let elements = if small { last(0) + last(1) + last(2) + 1 } else { 0 };
        let mut length = elements * finish.dtype.bytes();
        for &damage in slot.iter().flatten() {
            damage_slot(&mut length, &mut strides, damage);
        }
        let mut data = vec![7; length];
        let [channel_stride, row_stride, column_stride] = strides;
        let mut out = OutSlot { data: &mut data, channel_stride, row_stride, column_stride };
        let done = pass.run(&frame, &mut out, &mut Scratch::new());
        if let Err(refused) = done {
            prop_assert!(!refused.to_string().is_empty());
            prop_assert!(data.iter().all(|&byte| byte == 7), "nothing may be written before a refusal");
        }
        if small && u64::from(geometry.window.width) * u64::from(geometry.window.height) <= 1 << 14 {
            let image = oracle::twin(&frame, &geometry, &finish);
            prop_assert!(image.is_ok() || done.is_err(), "{:?}", image.unwrap_err());
            if let Ok(image) = image {
                oracle::elements(&image, &finish);
            }
        }
    }
}
