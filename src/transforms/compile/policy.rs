//! torchvision's `RandAugment` and `TrivialAugmentWide`: their lists of operations and the
//! magnitudes of each.

use framespool_kernels::{Interpolation, RgbOperation};

use super::super::color_matrix;
use super::super::params::inverse_affine;
use super::Compiler;
use crate::rng::Rng;

/// How operations are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyKind {
    /// `num_ops` operations, all of one magnitude.
    RandAugment { num_ops: u32, magnitude: u32 },
    /// One operation of a random magnitude.
    TrivialAugmentWide,
}

/// Arguments of one of the two transforms.
pub(super) struct Policy {
    pub kind: PolicyKind,
    /// Number of magnitudes.
    pub bins: u32,
    pub interpolation: Interpolation,
    pub fill: [f64; 3],
}

/// The operations, in torchvision's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
}

const OPERATIONS: [Operation; 14] = [
    Operation::Identity,
    Operation::ShearX,
    Operation::ShearY,
    Operation::TranslateX,
    Operation::TranslateY,
    Operation::Rotate,
    Operation::Brightness,
    Operation::Color,
    Operation::Contrast,
    Operation::Sharpness,
    Operation::Posterize,
    Operation::Solarize,
    Operation::AutoContrast,
    Operation::Equalize,
];

impl Compiler {
    /// Draws and applies the operations; records their numbers in torchvision's list, and their
    /// magnitudes.
    pub(super) fn augment(
        &mut self,
        policy: &Policy,
        rng: &mut Rng,
        record: &mut dyn FnMut(&'static str, &[f64]),
    ) {
        let count = match policy.kind {
            PolicyKind::RandAugment { num_ops, .. } => num_ops,
            PolicyKind::TrivialAugmentWide => 1,
        };
        let (mut numbers, mut magnitudes) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let number = rng.next_below(OPERATIONS.len() as u64) as usize;
            // Always draws three numbers, so that one operation does not change the parameters of
            // the next.
            let drawn = rng.next_below(u64::from(policy.bins)) as u32;
            let negative = rng.next_f64() < 0.5;
            let bin = match policy.kind {
                PolicyKind::RandAugment { magnitude, .. } => magnitude,
                PolicyKind::TrivialAugmentWide => drawn,
            };
            let share = f64::from(bin) / f64::from(policy.bins - 1);
            let operation = OPERATIONS[number];
            let magnitude = magnitude(operation, policy.kind, share, self.draft.size());
            let magnitude = if negative && is_signed(operation) {
                -magnitude
            } else {
                magnitude
            };
            self.apply_operation(operation, magnitude, policy);
            numbers.push(number as f64);
            magnitudes.push(magnitude);
        }
        record("operations", &numbers);
        record("magnitudes", &magnitudes);
    }

    fn apply_operation(&mut self, operation: Operation, magnitude: f64, policy: &Policy) {
        let (width, height) = self.draft.size();
        let mut warp = |degrees: f64, shear: (f64, f64), shift: (f64, f64), center: (f64, f64)| {
            let back = inverse_affine(degrees, 1.0, shear, shift, center);
            self.warp(&back, (width, height), policy.interpolation, policy.fill);
        };
        let shear = magnitude.atan().to_degrees();
        let (corner, none) = ((0.0, 0.0), (0.0, 0.0));
        match operation {
            Operation::Identity => {}
            Operation::ShearX => warp(0.0, (shear, 0.0), none, corner),
            Operation::ShearY => warp(0.0, (0.0, shear), none, corner),
            Operation::TranslateX => warp(0.0, none, (magnitude.trunc(), 0.0), corner),
            Operation::TranslateY => warp(0.0, none, (0.0, magnitude.trunc()), corner),
            // Counterclockwise, about the middle.
            Operation::Rotate => warp(
                -magnitude,
                none,
                none,
                (f64::from(width) / 2.0, f64::from(height) / 2.0),
            ),
            Operation::Brightness => self.change(&color_matrix::brightness(1.0 + magnitude)),
            Operation::Color => self.change(&color_matrix::saturation(1.0 + magnitude)),
            Operation::Contrast => self.change(&color_matrix::contrast(1.0 + magnitude)),
            Operation::Sharpness => self.operate(RgbOperation::sharpness(1.0 + magnitude)),
            Operation::Posterize => self.operate(RgbOperation::posterize(magnitude as u32)),
            Operation::Solarize => self.operate(RgbOperation::solarize(255.0 * magnitude)),
            Operation::AutoContrast => self.operate(RgbOperation::Autocontrast),
            Operation::Equalize => self.operate(RgbOperation::Equalize),
        }
    }
}

/// Whether the magnitude gets a random sign.
fn is_signed(operation: Operation) -> bool {
    !matches!(
        operation,
        Operation::Identity
            | Operation::Posterize
            | Operation::Solarize
            | Operation::AutoContrast
            | Operation::Equalize
    )
}

/// The magnitude of an operation at a share, 0 to 1, of its range: `_AUGMENTATION_SPACE` of
/// torchvision's classes.
fn magnitude(
    operation: Operation,
    kind: PolicyKind,
    share: f64,
    (width, height): (u32, u32),
) -> f64 {
    let wide = kind == PolicyKind::TrivialAugmentWide;
    let shift = |side: u32| {
        if wide {
            32.0
        } else {
            150.0 / 331.0 * f64::from(side)
        }
    };
    match operation {
        Operation::Identity | Operation::AutoContrast | Operation::Equalize => 0.0,
        Operation::ShearX | Operation::ShearY => share * if wide { 0.99 } else { 0.3 },
        Operation::TranslateX => share * shift(width),
        Operation::TranslateY => share * shift(height),
        Operation::Rotate => share * if wide { 135.0 } else { 30.0 },
        Operation::Brightness | Operation::Color | Operation::Contrast | Operation::Sharpness => {
            share * if wide { 0.99 } else { 0.9 }
        }
        Operation::Posterize => (8.0 - share * if wide { 6.0 } else { 4.0 }).round_ties_even(),
        Operation::Solarize => 1.0 - share,
    }
}
