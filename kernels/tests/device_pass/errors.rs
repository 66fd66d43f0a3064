//! Checks that contradictory requests give the CPU's errors, and that device-specific errors are
//! reported without a launch.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::host::{UNTOUCHED, args_bytes, refusal, run};
use crate::mutator::{mutate_frame, mutate_geometry, mutate_output_spec, mutate_slot, mutations};
use crate::strategies::{formats, placed};
use crate::strategies_output::{layouts, output_specs};
use crate::support::{Format, config, noise};

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn device_accepts_and_refuses_like_the_cpu(
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
        let mut data = vec![UNTOUCHED; length];
        let [channel_stride, row_stride, column_stride] = strides;
        let mut out = OutputSlot { data: &mut data, channel_stride, row_stride, column_stride };
        let on_cpu = pass.run(&frame, &mut out, &mut Scratch::new()).map(|()| data);
        let got = run(&pass, &frame, strides, length, 0);
        prop_assert_eq!(got.is_ok(), on_cpu.is_ok(), "{:?} {:?}", got.err(), on_cpu.err());
        let faults = mutations.len() + slot.map_or(0, |slot| slot.len());
        match (got, on_cpu) {
            (Ok(got), Ok(on_cpu)) => prop_assert!(got == on_cpu),
            // If a request has several errors, each backend may report a different one.
            (got, on_cpu) if faults == 1 => prop_assert_eq!(got, on_cpu),
            _ => {}
        }
    }
}

fn format() -> DeviceFormat {
    let picture = noise(
        Format {
            padding_bytes: 0,
            ..Format::i420(16, 8)
        },
        1,
    );

    picture.view().format()
}

fn frame(addresses: [u64; 3], strides: [usize; 3]) -> DeviceFrame {
    let plane = |n: usize| DevicePlane {
        address: addresses[n],
        stride_bytes: strides[n],
    };
    let GenericFrame {
        width,
        height,
        depth_bits,
        shift,
        color,
        ..
    } = format();
    let planes = DevicePlanes::Yuv {
        planes: [plane(0), plane(1), plane(2)],
        log2_chroma_w: 1,
        log2_chroma_h: 1,
    };
    DeviceFrame {
        width,
        height,
        depth_bits,
        shift,
        planes,
        color,
    }
}

#[test]
fn mismatched_frames_and_addresses_are_refused() {
    let geometry = Geometry::identity(16, 8);
    let pass = PixelPass::new(geometry, OutputSpec::new(Dtype::F32))
        .unwrap()
        .for_device(&format())
        .unwrap();
    assert_eq!(pass.scratch_bytes(), 0);
    let good = frame([0x1000, 0x2000, 0x3001], [16, 8, 8]);
    let slot = DeviceSlot {
        address: 0x8000,
        channel_stride: 1,
        row_stride: 48,
        column_stride: 3,
    };
    let launches = |frame: &DeviceFrame, tables, slot| {
        pass.launches(frame, tables, 0, slot).map(|all| all.len())
    };
    assert_eq!(launches(&good, 0x4000, slot), Ok(1));
    assert_eq!(
        launches(&frame([0x1000, 0x2000, 0x3000], [16, 7, 8]), 0x4000, slot),
        Err(PassError::StrideTooShort {
            plane: 1,
            stride_bytes: 7,
            row_bytes: 8
        })
    );
    assert_eq!(
        launches(
            &frame([0x1000, 0x2000, u64::MAX - 20], [16, 8, 8]),
            0x4000,
            slot
        ),
        Err(PassError::PlaneTooShort {
            plane: 2,
            have_bytes: 20,
            need_bytes: 32
        })
    );
    let other = DeviceFrame { width: 15, ..good };
    assert_eq!(
        launches(&other, 0x4000, slot),
        Err(PassError::FormatMismatch)
    );
    assert!(
        PassError::FormatMismatch
            .to_string()
            .contains("prepare a pass for it")
    );
    let refused = launches(&good, 0x4008, slot).unwrap_err();
    assert_eq!(
        refused,
        PassError::Misaligned {
            what: "tables",
            address: 0x4008,
            alignment: 16
        }
    );
    assert_eq!(
        refused.to_string(),
        "tables is at 0x4008 in device memory; the address must be a multiple of 16"
    );
    assert_eq!(
        launches(
            &good,
            0x4000,
            DeviceSlot {
                address: 0x8002,
                ..slot
            }
        ),
        Err(PassError::Misaligned {
            what: "slot",
            address: 0x8002,
            alignment: 4
        })
    );
    let (channel_stride, row_stride, column_stride) = (1, 3, 3);
    assert_eq!(
        launches(&good, 0x4000, DeviceSlot { row_stride, ..slot }),
        Err(PassError::SlotOverlaps {
            channel_stride,
            row_stride,
            column_stride
        })
    );
    for stride in [usize::MAX, usize::MAX / 2, 1 << 62] {
        let far = launches(
            &good,
            0x4000,
            DeviceSlot {
                row_stride: stride,
                ..slot
            },
        );
        assert!(
            matches!(far, Err(PassError::SlotTooShort { .. })),
            "{far:?}"
        );
    }
}

#[test]
fn scratch_is_aligned_and_sums_are_cleared_for_a_mean() {
    let mean = ColorMap {
        mean: [[0.1; 3]; 3],
        ..ColorMap::IDENTITY
    };
    let warp = Warp {
        size: (4, 4),
        to_x: [0; 3],
        to_y: [0; 3],
        interpolation: Interpolation::Nearest,
    };
    let warped = Geometry {
        placement: Placement::Warp(warp),
        ..Geometry::identity(16, 8)
    };
    let slot = DeviceSlot {
        address: 0x8000,
        channel_stride: 1,
        row_stride: 48,
        column_stride: 3,
    };
    let good = frame([0x1000, 0x2000, 0x3000], [16, 8, 8]);
    let plain = OutputSpec::new(Dtype::U8);
    for (geometry, spec, cleared) in [
        (
            Geometry::identity(16, 8),
            OutputSpec {
                color: mean,
                ..plain.clone()
            },
            true,
        ),
        (warped, plain, false),
    ] {
        let pass = PixelPass::new(geometry, spec)
            .unwrap()
            .for_device(&format())
            .unwrap();
        assert_eq!(pass.scratch_bytes(), 32 + 3 * 16 * 8 * 2);
        let launches = pass.launches(&good, 0, 0x5000, slot).unwrap();
        let kernels: Vec<_> = launches
            .iter()
            .map(|launch| (launch.kernel, launch.clear))
            .collect();
        let clear = cleared.then_some((0x5000, 32));
        assert_eq!(
            kernels,
            [("framespool_window", clear), ("framespool_finish", None)]
        );
        let refused = pass.launches(&good, 0, 0x5004, slot);
        assert_eq!(
            refused.unwrap_err(),
            PassError::Misaligned {
                what: "scratch",
                address: 0x5004,
                alignment: 16
            }
        );
    }
}

#[test]
fn windows_too_large_to_be_held_are_refused() {
    let whole = Geometry::identity(65_535, 65_535);
    let mean = ColorMap {
        mean: [[0.1; 3]; 3],
        ..ColorMap::IDENTITY
    };
    let pass = PixelPass::new(
        whole,
        OutputSpec {
            color: mean,
            ..OutputSpec::new(Dtype::U8)
        },
    )
    .unwrap();
    let format = DeviceFormat {
        width: 65_535,
        height: 65_535,
        planes: GenericPlanes::Gray(FormatOnly),
        ..format()
    };
    let refused = pass.for_device(&format).map(|_| ());
    assert_eq!(
        refused,
        Err(PassError::WindowTooLarge {
            width: 65_535,
            height: 65_535
        })
    );
}

#[test]
fn unknown_kernels_and_block_sizes_are_refused() {
    assert_eq!(args_bytes("framespool_nothing"), 0);
    assert_eq!(refusal("framespool_nothing", [32, 8, 1]), 1);
    let kernels = [
        "framespool_pixels",
        "framespool_window",
        "framespool_finish",
        "framespool_expand",
        "framespool_rgb_operation",
        "framespool_deinterlace",
    ];
    for kernel in kernels {
        assert!(args_bytes(kernel) > 0);
        assert_eq!(refusal(kernel, [256, 1, 1]), 2);
        assert_eq!(refusal(kernel, [32, 8, 1]), 0);
        assert!(
            PTX.contains(&format!(".entry {kernel}(")),
            "{kernel} is not in the PTX"
        );
    }
}
