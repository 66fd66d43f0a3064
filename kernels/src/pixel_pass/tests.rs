//! Tests of a pass that need its private fields.

use super::*;
use crate::Dtype;

// Without this test, comparisons between backends could compare the fastest one with itself.
#[test]
fn pass_runs_on_the_requested_backend() {
    for backend in Backend::available() {
        let pass = PixelPass::new(Geometry::identity(8, 8), OutputSpec::new(Dtype::U8)).unwrap();
        assert_eq!(pass.with_backend(backend).backend, backend);
    }
}
