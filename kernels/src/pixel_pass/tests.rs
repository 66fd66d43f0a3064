//! Claims about a pass that need its private fields.

use super::*;
use crate::Dtype;

// Otherwise tests of one backend against another compare the fastest with itself.
#[test]
fn a_pass_runs_on_the_backend_that_it_is_given() {
    for backend in Backend::available() {
        let pass = PixelPass::new(Geometry::identity(8, 8), OutputSpec::new(Dtype::U8)).unwrap();
        assert_eq!(pass.with_backend(backend).backend, backend);
    }
}
