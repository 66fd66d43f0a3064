//! Runs earlier failures, the seeds, and a fixed number of changed ones for each target, without a
//! fuzzer and on any toolchain. With FRAMESPOOL_FUZZ_SECONDS, other changes are tried for this
//! time, for all targets together, as scripts/fuzz.sh does in CI. Otherwise it takes less than a
//! minute.

use std::path::PathBuf;
use std::time::Duration;

use framespool_fuzz::random_driver::{self, RunLimits};
use framespool_fuzz::seeds::Seeds;
use framespool_fuzz::{TARGETS, Target, resource_limits};

/// A single test, because the memory limit applies to the process.
#[test]
fn regressions_and_mutated_seeds_pass_for_all_targets() {
    resource_limits::begin();
    let (seeds, keep) = (Seeds::find(), PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    random_driver::watch_for_hangs(keep.clone()).unwrap_or_else(|said| panic!("{said}"));
    let seconds = std::env::var("FRAMESPOOL_FUZZ_SECONDS")
        .ok()
        .map(|text| text.parse::<f64>().expect("a number"));
    let each = seconds.map(|seconds| Duration::from_secs_f64(seconds / TARGETS.len() as f64));
    for target in TARGETS {
        for input in seeds.known(target) {
            resource_limits::run(target, &input)
                .unwrap_or_else(|reason| panic!("{}: {reason}", target.name));
        }
        let all = seeds.of(target);
        let run = |amount| {
            random_driver::run(target, &all, amount, &keep).unwrap_or_else(|said| panic!("{said}"))
        };
        let mut done = run(RunLimits {
            inputs: target.replayed,
            at_most: None,
            seed: 0,
        });
        if each.is_some() {
            // Different ones each time: what CI finds is printed with its input's path and can be
            // run again.
            let seed = std::process::id().into();
            done.inputs += run(RunLimits {
                inputs: u64::MAX,
                at_most: each,
                seed,
            })
            .inputs;
        }
        println!(
            "{:<14} {:>6} seeds {:>8} inputs",
            target.name, done.seeds, done.inputs
        );
    }
    failures_are_detected();
}

fn failures_are_detected() {
    let bad = |run: fn(&[u8])| Target { run, ..TARGETS[0] };
    let said =
        |run: fn(&[u8])| resource_limits::run(&bad(run), b"x").expect_err("a failing target");
    assert!(said(|_| panic!("on purpose")).contains("on purpose"));
    // A panic that is caught inside counts too.
    let caught = said(|_| drop(std::panic::catch_unwind(|| panic!("in secret"))));
    assert!(caught.contains("in secret"), "{caught}");
    let hungry = Target {
        resident_bytes: Some(1 << 20),
        ..bad(|_| ())
    };
    assert!(
        resource_limits::run(&hungry, b"x")
            .expect_err("more than a MiB")
            .contains("resident")
    );
    resource_limits::run(&bad(|_| ()), b"x").expect("no failure");
}
