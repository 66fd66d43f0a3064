//! Compares the kernel that deinterlaces with the reference.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::host;
use crate::strategies::{deinterlaces, formats};
use crate::support::{config, noise};

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn deinterlaced_planes_equal_the_reference(
        format in formats(),
        deinterlace in deinterlaces(),
        lead in 0usize..8,
        seed in any::<u64>(),
    ) {
        let frame = noise(format, seed);
        let expected: Vec<_> = (0..format.components())
            .map(|component| reference::codes(&frame.view(), Some(deinterlace), component))
            .collect();
        let codes = host::deinterlaced_codes(deinterlace, &frame.view(), format.components(), lead & !1);
        prop_assert_eq!(codes, expected);
    }
}

#[test]
fn misaligned_memory_is_refused() {
    let plane = DevicePlane {
        address: 0,
        stride_bytes: 8,
    };
    let color = Colorimetry {
        matrix: MatrixCoefficients::Bt709,
        range: ColorRange::Full,
    };
    let planes = DevicePlanes::Gray(plane);
    let frame = DeviceFrame {
        width: 8,
        height: 8,
        depth_bits: 8,
        shift: 0,
        planes,
        color,
    };
    let deinterlace = Deinterlace {
        method: DeinterlaceMethod::Bob,
        kept: Field::Top,
    };
    let refused = deinterlace.launches(&frame, 0x1008).map(|_| ());
    assert_eq!(
        refused,
        Err(PassError::Misaligned {
            what: "out",
            address: 0x1008,
            alignment: 16
        })
    );
}
