//! The command `fuzz`: `fuzz seeds DIR`, `fuzz run [TARGET…]`, `fuzz show TARGET FILE…`, `fuzz
//! list`. It writes seeds as files for the guided fuzzer, prints a table of a run, or shows the
//! result of one input. A run of a target ends at the first failure.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use framespool_fuzz::random_driver::{self, RunLimits};
use framespool_fuzz::seeds::Seeds;
use framespool_fuzz::{TARGETS, Target, resource_limits, target};

const USAGE: &str = "fuzz list | fuzz seeds DIR | fuzz show TARGET FILE… | fuzz run [--seconds S] [--inputs N] [--seed N] [--keep DIR] [TARGET…]";

fn main() -> ExitCode {
    resource_limits::begin();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => list(),
        ["seeds", folder] => seeds(Path::new(folder)),
        ["show", name, ..] => show(name, &words[2..]),
        ["run", ..] => run(&words[1..]),
        _ => Err(USAGE.into()),
    };
    done.map_or_else(
        |reason| {
            eprintln!("{reason}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn list() -> Result<(), String> {
    TARGETS
        .iter()
        .for_each(|target| println!("{:<14} {:>8} {}", target.name, target.longest, target.about));
    Ok(())
}

fn seeds(folder: &Path) -> Result<(), String> {
    let seeds = Seeds::find();
    for target in TARGETS {
        let place = folder.join(target.name);
        let failed = |error| format!("{}: {error}", place.display());
        std::fs::create_dir_all(&place).map_err(failed)?;
        for (number, input) in seeds.of(target).iter().enumerate() {
            std::fs::write(place.join(format!("seed-{number:04}")), input).map_err(failed)?;
        }
    }
    Ok(())
}

fn show(name: &str, files: &[String]) -> Result<(), String> {
    let target = target(name)?;
    for file in files {
        let input = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        resource_limits::run(target, &input).map_err(|reason| format!("{file}: {reason}"))?;
        println!("{file}: {} bytes, no failure", input.len());
    }
    Ok(())
}

fn run(words: &[String]) -> Result<(), String> {
    let mut amount = RunLimits {
        inputs: u64::MAX,
        at_most: None,
        seed: 1,
    };
    let (mut keep, mut chosen) = (PathBuf::from("target/fuzz"), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: &String| {
            text.parse::<u64>()
                .map_err(|_| format!("'{text}' is not a number"))
        };
        match word.as_str() {
            "--seconds" => amount.at_most = Some(Duration::from_secs(number(value()?)?)),
            "--inputs" => amount.inputs = number(value()?)?,
            "--seed" => amount.seed = number(value()?)?,
            "--keep" => keep = value()?.into(),
            name => chosen.push(target(name)?),
        }
    }
    if amount.inputs == u64::MAX && amount.at_most.is_none() {
        return Err(format!("--seconds or --inputs is required: {USAGE}"));
    }
    std::fs::create_dir_all(&keep).map_err(|error| format!("{}: {error}", keep.display()))?;
    random_driver::watch_for_hangs(keep.clone())?;
    let chosen: Vec<&Target> = if chosen.is_empty() {
        TARGETS.iter().collect()
    } else {
        chosen
    };
    let seeds = Seeds::find();
    let (mut failed, mut all) = (Vec::new(), 0);
    println!(
        "{:<14} {:>6} {:>12} {:>10}",
        "target", "seeds", "inputs", "a second"
    );
    for target in chosen {
        match random_driver::run(target, &seeds.of(target), amount, &keep) {
            Ok(done) => {
                all += done.inputs;
                let rate = done.inputs as f64 / done.took.as_secs_f64().max(1e-9);
                println!(
                    "{:<14} {:>6} {:>12} {rate:>10.0}",
                    target.name, done.seeds, done.inputs
                );
            }
            Err(reason) => {
                println!("{:<14} FAILED", target.name);
                failed.push(reason);
            }
        }
    }
    println!("{:<14} {:>6} {all:>12}", "all", "");
    if failed.is_empty() {
        return Ok(());
    }
    Err(failed.join("\n"))
}
