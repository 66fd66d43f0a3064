use super::*;

#[test]
fn float_without_normalize_runs_from_0_to_1() {
    let writer = ElementWriter::new(Dtype::F32, None).unwrap();
    assert_eq!(f32::from_ne_bytes(writer.element_of_u8(0, 0)), 0.0);
    assert_eq!(f32::from_ne_bytes(writer.element_of_u8(2, 255)), 1.0);
}

#[test]
fn normalize_is_one_fused_multiply_add() {
    let n = Normalize {
        mean: [0.485, 0.456, 0.406],
        std: [0.229, 0.224, 0.225],
    };
    let writer = ElementWriter::new(Dtype::F32, Some(n)).unwrap();
    for value in 0..=255 {
        let exact = (f64::from(value) / 255.0 - 0.456) / 0.224;
        assert!(
            (f64::from(f32::from_ne_bytes(writer.element_of_u8(1, value))) - exact).abs() < 1e-6
        );
    }
}

#[test]
fn noise_has_mean_0_and_deviation_1() {
    let writer = ElementWriter::new(Dtype::F32, None).unwrap();
    let draw = |n: u64| {
        f32::from_ne_bytes(
            writer.noise_element(
                (n + 1)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    .rotate_left(17)
                    .wrapping_mul(0xD6E8_FEB8_6659_FD93),
            ),
        )
    };
    let values: Vec<f64> = (0..100_000).map(|n| f64::from(draw(n))).collect();
    let mean = values.iter().sum::<f64>() / 1e5;
    let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
    assert!(
        mean.abs() < 0.02 && (deviation - 1.0).abs() < 0.02,
        "{mean} {deviation}"
    );
}

#[test]
fn a_zero_std_and_a_normalized_u8_are_refused() {
    let n = Normalize {
        mean: [0.0; 3],
        std: [1.0, 0.0, 1.0],
    };
    assert_eq!(
        ElementWriter::new(Dtype::F32, Some(n)).err(),
        Some(PassError::InvalidNormalize {
            channel: 1,
            mean: 0.0,
            std: 0.0
        })
    );
    let n = Normalize {
        mean: [0.0; 3],
        std: [1.0; 3],
    };
    assert_eq!(
        ElementWriter::new(Dtype::U8, Some(n)).err(),
        Some(PassError::NormalizeNeedsFloat)
    );
}
