//! Checks that valid requests with up to three numbers replaced give a result or a typed error,
//! from the pass and the reference.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::mutator::{mutate_frame, mutate_geometry, mutate_output_spec, mutate_slot, mutations};
use crate::strategies::{formats, placed};
use crate::strategies_output::{layouts, output_specs};
use crate::support::{config, noise};

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn no_request_panics(
        ((format, geometry), spec) in formats().prop_flat_map(placed)
            .prop_flat_map(|case| (Just(case), output_specs(case.1.output_size()))),
        mutations in mutations(),
        slot in prop::option::weighted(0.2, mutations()),
        layout in layouts(),
        seed in any::<u64>(),
    ) {
        let picture = noise(format, seed);
        let (mut frame, mut geometry, mut spec) = (picture.view(), geometry, spec);
        for &mutation in &mutations {
            mutate_geometry(&mut geometry, mutation);
            mutate_output_spec(&mut spec, mutation);
            mutate_frame(&mut frame, mutation);
        }
        let Ok(mut pass) = PixelPass::new(geometry, spec.clone()) else { return Ok(()) };
        let (width, height) = pass.output_size();
        let small = u64::from(width) * u64::from(height) <= 1 << 17;
        let lengths = [spec.channels.count(), height as usize, width as usize];
        let mut strides = layout.strides(lengths);
        let last = |axis: usize| strides[axis] * (lengths[axis] - 1);
        let elements = if small { last(0) + last(1) + last(2) + 1 } else { 0 };
        let mut length = elements * spec.dtype.bytes();
        for &mutation in slot.iter().flatten() {
            mutate_slot(&mut length, &mut strides, mutation);
        }
        let mut data = vec![7; length];
        let [channel_stride, row_stride, column_stride] = strides;
        let mut out = OutputSlot { data: &mut data, channel_stride, row_stride, column_stride };
        let done = pass.run(&frame, &mut out, &mut Scratch::new());
        if let Err(refused) = done {
            prop_assert!(!refused.to_string().is_empty());
            prop_assert!(data.iter().all(|&byte| byte == 7), "nothing may be written before a refusal");
        }
        if small && u64::from(geometry.window.width) * u64::from(geometry.window.height) <= 1 << 14 {
            let image = reference::integer(&frame, &geometry, &spec);
            prop_assert!(image.is_ok() || done.is_err(), "{:?}", image.unwrap_err());
            if let Ok(image) = image {
                reference::elements(&image, &spec);
            }
        }
    }
}
