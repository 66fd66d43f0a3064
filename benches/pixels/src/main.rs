//! The Rust worker of run.py: processes requests from stdin and answers each with one JSON line.
//!
//! Reading, first allocations and preparations that serve all frames are not timed. Arguments: a
//! library's name, and a folder of inputs.
//!
//! Requests: `check CASE PATH` and `time CASE RING FRAMES FIRST_CLIP` (see README.md).

mod crates;
mod inputs;
mod framespool;
mod read;

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

use inputs::{Inputs, CHECKED_FRAMES, CLIP};

type BoxError = Box<dyn Error>;

/// A library that converts planes to pixels.
trait Adapter {
    /// Name and version.
    fn version(&self) -> String;

    /// Untimed: prepares everything that serves all frames of a case. Returns the bytes of a
    /// frame's result.
    fn prepare(&mut self, case: &str, clips: Range<usize>) -> Result<usize, BoxError>;

    /// Timed: prepares a new clip.
    fn begin_clip(&mut self, _clip: usize) -> Result<(), BoxError> {
        Ok(())
    }

    /// Timed: one frame of the inputs, of the current clip.
    fn frame(&mut self, index: usize, out: &mut [u8]) -> Result<(), BoxError>;

    /// Scratch memory for rows, if the library reports it.
    fn scratch_bytes(&self) -> Option<usize> {
        None
    }
}

fn load_adapter(name: &str, inputs: Inputs) -> Result<Box<dyn Adapter>, BoxError> {
    Ok(match name {
        "framespool" => Box::new(framespool::Framespool::new(inputs)),
        "fir_planes" => Box::new(crates::FirPlanes::new(inputs)),
        "yuv_fir" => Box::new(crates::YuvFir::new(inputs)),
        "yuv" => Box::new(crates::Yuv::new(inputs)),
        "read" => Box::new(read::Read::new(inputs)),
        _ => return Err(format!("no side {name}").into()),
    })
}

/// Results are in a ring buffer as long as the inputs, like those of a batch.
type Slots = HashMap<String, Vec<Vec<u8>>>;

fn answer(side: &mut dyn Adapter, slots: &mut Slots, request: &str) -> Result<String, BoxError> {
    let words: Vec<&str> = request.split_whitespace().collect();
    match words[..] {
        ["check", case, path] => {
            let length = side.prepare(case, 0..CHECKED_FRAMES.len())?;
            let mut saved = std::fs::File::create(path)?;
            let mut out = vec![0; length];
            for (clip, index) in CHECKED_FRAMES.into_iter().enumerate() {
                side.begin_clip(clip)?;
                side.frame(index, &mut out)?;
                saved.write_all(&out)?;
            }
            Ok("{}".into())
        }
        ["time", case, ring, frames, first_clip] => {
            let [ring, frames, first_clip] = [ring, frames, first_clip].map(str::parse::<usize>);
            let (ring, frames, first_clip) = (ring?, frames?, first_clip?);
            let length = side.prepare(case, first_clip..first_clip + frames.div_ceil(CLIP))?;
            let slots = slots.entry(case.to_owned()).or_default();
            while slots.len() < ring {
                slots.push(vec![1; length]);
            }
            let (wall, cpu) = (Instant::now(), cpu_time());
            for n in 0..frames {
                if n % CLIP == 0 {
                    side.begin_clip(first_clip + n / CLIP)?;
                }
                side.frame(n % ring, &mut slots[n % ring])?;
            }
            let (cpu, wall) = (cpu_time() - cpu, wall.elapsed());
            black_box(slots);
            let scratch = side.scratch_bytes().map_or("null".into(), |bytes| bytes.to_string());
            Ok(format!(
                r#"{{"cpu_ms": {}, "wall_ms": {}, "frames": {frames}, "scratch_bytes": {scratch}}}"#,
                cpu.as_secs_f64() * 1e3,
                wall.as_secs_f64() * 1e3,
            ))
        }
        _ => Err(format!("no such request: {request}").into()),
    }
}

/// CPU time of this process, all threads.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn main() -> Result<(), BoxError> {
    let [name, folder, width, height] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "SIDE FOLDER WIDTH HEIGHT")?;
    let mut side = load_adapter(&name, Inputs::read(folder.as_ref(), width.parse()?, height.parse()?)?)?;
    let mut slots = Slots::new();
    println!(r#"{{"version": {:?}}}"#, side.version());
    for request in std::io::stdin().lock().lines() {
        let line = answer(side.as_mut(), &mut slots, &request?)
            .unwrap_or_else(|error| format!(r#"{{"error": {:?}}}"#, error.to_string()));
        println!("{line}");
    }
    Ok(())
}
