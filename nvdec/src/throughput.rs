//! Measures how many pictures per second the NVDEC engines decode with no further processing, for
//! benchmarks. The result is an upper bound for every loader on the device.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::cuda::Device;
use crate::cuvid::Cuvid;
use crate::format::{Codec, SequenceInfo};
use crate::parser::{Callbacks, Parser};
use crate::pool::DecoderPool;
use crate::pool::decoder::Decoder;
use crate::pool::decoder_cache::CachedDecoder;
use crate::session::cuvid_driver::CuvidDriver;
use crate::session::decode_pass::DecoderDriver;
use crate::sys;
use crate::{Error, Result};

/// How many displayed pictures may wait to be mapped, as in a session.
const MAP_LAG: usize = 3;

/// Result of a throughput measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DecodeThroughput {
    /// Pictures decoded by all threads together.
    pub pictures: u64,
    /// Pictures mapped.
    pub mapped: u64,
    /// Seconds from the first unit to the last picture.
    pub seconds: f64,
    /// Number of threads, each with its own decoder.
    pub sessions: u32,
}

impl DecodeThroughput {
    /// Pictures decoded per second.
    pub fn pictures_per_second(&self) -> f64 {
        self.pictures as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Decodes the units repeatedly in `sessions` threads for about `seconds` seconds, mapping every
/// `map_every`-th displayed picture (0: none). The first unit must be a random access point.
///
/// # Errors
/// The first error of any thread.
pub fn measure(
    device: &Arc<Device>,
    codec: Codec,
    headers: &[u8],
    units: &[Vec<u8>],
    sessions: u32,
    map_every: u32,
    seconds: f64,
) -> Result<DecodeThroughput> {
    if units.is_empty() || sessions == 0 {
        return Err(Error::Misuse(
            "the measurement needs at least one access unit and one session",
        ));
    }
    let pool = DecoderPool::for_device(device)?;
    let begin = Instant::now();
    let until = begin + Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
    let results: Vec<Result<(u64, u64)>> = std::thread::scope(|scope| {
        let work = |_| {
            let pool = &pool;
            let run = move || run_session(device, pool, codec, headers, units, map_every, until);
            Builder::new()
                .name("nvdec-throughput".to_owned())
                .spawn_scoped(scope, run)
        };
        let threads: Vec<_> = (0..sessions).map(work).collect();
        let join = |thread: std::io::Result<
            std::thread::ScopedJoinHandle<'_, Result<(u64, u64)>>,
        >| match thread {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => Err(Error::Misuse(
                "the system could not create a thread for a session; use fewer sessions",
            )),
        };
        threads.into_iter().map(join).collect()
    });
    let mut throughput = DecodeThroughput {
        seconds: begin.elapsed().as_secs_f64(),
        sessions,
        ..DecodeThroughput::default()
    };
    for result in results {
        let (pictures, mapped) = result?;
        throughput.pictures += pictures;
        throughput.mapped += mapped;
    }
    Ok(throughput)
}

fn run_session(
    device: &Arc<Device>,
    pool: &Arc<DecoderPool>,
    codec: Codec,
    headers: &[u8],
    units: &[Vec<u8>],
    map_every: u32,
    until: Instant,
) -> Result<(u64, u64)> {
    device.make_current()?;
    let cuvid = Cuvid::get()?;
    let driver = CuvidDriver {
        pool: pool.clone(),
        stream: device.create_stream()?,
    };
    let mut sink = DiscardingSession {
        driver,
        codec,
        decoder: None,
        map_every,
        displayed: 0,
        pending: VecDeque::new(),
        counts: (0, 0),
        last: None,
        error: None,
    };
    while Instant::now() < until {
        let mut parser = Parser::new(cuvid, codec)?;
        let mut parse =
            |data: &[u8], flags: u32, timestamp: usize, sink: &mut DiscardingSession| {
                let code = parser.parse(data, flags, timestamp as i64, sink)?;
                sink.error.take().map_or(Ok(()), Err)?;
                cuvid.driver().check("cuvidParseVideoData", code)
            };
        if !headers.is_empty() {
            parse(headers, 0, 0, &mut sink)?;
        }
        for (position, unit) in units.iter().enumerate() {
            parse(unit, sys::CUVID_PKT_TIMESTAMP, position, &mut sink)?;
            sink.map_down_to(MAP_LAG)?;
            if Instant::now() >= until {
                break;
            }
        }
        parse(&[], sys::CUVID_PKT_ENDOFSTREAM, 0, &mut sink)?;
        sink.map_down_to(0)?;
    }
    // Decoding is asynchronous, so wait for the last picture.
    if let (Some(index), Some(decoder)) = (sink.last, &mut sink.decoder) {
        let (address, _) = sink.driver.map(decoder, index)?;
        sink.driver.unmap(decoder, address)?;
    }
    if let Some(decoder) = sink.decoder.take() {
        sink.driver.put(decoder);
    }
    Ok(sink.counts)
}

/// Decodes all pictures, maps some, and keeps none.
struct DiscardingSession {
    driver: CuvidDriver,
    codec: Codec,
    decoder: Option<CachedDecoder<Decoder>>,
    map_every: u32,
    displayed: u32,
    pending: VecDeque<i32>,
    /// Numbers of pictures decoded and mapped.
    counts: (u64, u64),
    last: Option<i32>,
    error: Option<Error>,
}

impl DiscardingSession {
    fn map_down_to(&mut self, pending: usize) -> Result<()> {
        while self.pending.len() > pending {
            let (Some(index), Some(decoder)) = (self.pending.pop_front(), &mut self.decoder) else {
                break;
            };
            let (address, _) = self.driver.map(decoder, index)?;
            self.counts.1 += 1;
            self.driver.unmap(decoder, address)?;
        }
        Ok(())
    }

    fn store_error(&mut self, result: Result<c_int>) -> c_int {
        result.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            0
        })
    }

    fn prepare_decoder(&mut self, format: &sys::CUVIDEOFORMAT) -> Result<c_int> {
        let sequence = SequenceInfo::from_cuvid(self.codec, format)?;
        let is_reusable = |decoder| {
            self.driver.compatibility(decoder, &sequence)
                == crate::pool::decoder_config::Compatibility::Reuse
        };
        if !self.decoder.as_ref().is_some_and(is_reusable) {
            self.map_down_to(0)?;
            if let Some(decoder) = self.decoder.take() {
                self.driver.put(decoder);
            }
            (self.decoder, self.last) = (Some(self.driver.take(&sequence)?.0), None);
        }
        Ok(self
            .decoder
            .as_ref()
            .map_or(0, |decoder| self.driver.surfaces(decoder) as c_int))
    }

    fn submit(&mut self, picture: &mut sys::CUVIDPICPARAMS) -> Result<c_int> {
        let index = picture.CurrPicIdx;
        if let Some(position) = self.pending.iter().rposition(|&pending| pending == index) {
            self.map_down_to(self.pending.len() - 1 - position)?;
        }
        let decoder = self.decoder.as_mut().ok_or(Error::Misuse(
            "the parser reported a picture before any sequence",
        ))?;
        self.driver.decode(decoder, picture)?;
        self.counts.0 += u64::from(picture.second_field == 0);
        self.last = Some(index);
        Ok(1)
    }
}

impl Callbacks for DiscardingSession {
    fn sequence(&mut self, format: &sys::CUVIDEOFORMAT) -> c_int {
        let result = self.prepare_decoder(format);
        self.store_error(result)
    }

    fn decode(&mut self, picture: &mut sys::CUVIDPICPARAMS) -> c_int {
        let result = self.submit(picture);
        self.store_error(result)
    }

    fn display(&mut self, info: &sys::CUVIDPARSERDISPINFO) -> c_int {
        self.displayed = self.displayed.wrapping_add(1);
        if self.map_every != 0 && self.displayed.is_multiple_of(self.map_every) {
            self.pending.push_back(info.picture_index);
        }
        1
    }
}
