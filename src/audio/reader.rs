//! Reads windows of samples: packets, decoding, channels, sample rate.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use lru::LruCache;

use super::mix::Mix;
use super::resample::{MAX_DECIMATION, MAX_RATE, Resampler};
use super::restart::{Restart, Run};
use super::{AudioFormat, AudioWindow, check_window, samples_in};
use crate::containers;
use crate::error::{Error, Result};
use crate::ffmpeg::audio_decoder::{AudioDecoder, Decoded};
use crate::ffmpeg::{Demuxer, Packet};
use crate::index::audio::{AudioIndex, AudioPacket, opus_samples};
use crate::limits::{Limits, resize};
use crate::source::{ByteSource, check_interrupt};

/// Packets whose payloads are at most this far apart are read at once: headers of blocks are between
/// them, not pictures.
const MAX_READ_GAP: u64 = 64;
/// Maximum number of bytes that are read at once.
const MAX_READ_BYTES: u64 = 1 << 20;
/// Maximum number of samples of a window over all channels of the stream, before they are mixed and
/// resampled.
const MAX_STORED_SAMPLES: u64 = 1 << 29;
/// Number of packets that show how many samples packets have.
const PACKETS_FOR_LENGTH: usize = 16;
/// Maximum number of samples that the decoder of Opus holds back: the delay of its resampler.
const MAX_LAG: i64 = 240;
/// Farthest begin of a window, in samples from the begin of the stream.
const FARTHEST_SAMPLE: i64 = 1 << 60;
/// Number of kept resamplers: the rates of a dataset are few.
const MAX_RESAMPLERS: NonZeroUsize = NonZeroUsize::new(16).expect("positive");

type Rates = (u32, u32);

/// Resamplers of this process: their coefficients take a millisecond to compute.
static RESAMPLERS: Mutex<Option<LruCache<Rates, Arc<Resampler>>>> = Mutex::new(None);

/// The resampler of two rates; `None` if a rate is out of range. Waits for no lock, which in a
/// forked child could be one that no thread releases.
fn resampler(rates: Rates) -> Option<Arc<Resampler>> {
    let known = RESAMPLERS.try_lock().ok();
    let known = known.and_then(|mut kept| kept.as_mut()?.get(&rates).cloned());
    if known.is_some() {
        return known;
    }
    let made = Arc::new(Resampler::new(rates.0, rates.1)?);
    if let Ok(mut kept) = RESAMPLERS.try_lock() {
        kept.get_or_insert_with(|| LruCache::new(MAX_RESAMPLERS))
            .put(rates, made.clone());
    }
    Some(made)
}

/// Number of samples that packets have. Those that an edit list hides have none.
fn packet_samples(packets: &[AudioPacket]) -> u32 {
    let samples = packets
        .iter()
        .map(|packet| packet.kept.saturating_add(packet.skipped));
    let heard = samples.filter(|&samples| samples > 0);
    heard.take(PACKETS_FOR_LENGTH).max().unwrap_or(0)
}

/// Reads windows of the audio of one file.
pub struct AudioReader {
    source: Arc<dyn ByteSource>,
    index: Arc<AudioIndex>,
    restart: Restart,
    /// A decoder that is not in use.
    decoder: Option<AudioDecoder>,
    /// An open demuxer, and the packet that it returns next.
    demuxer: Option<(Demuxer, usize)>,
    bytes_read: u64,
}

impl AudioReader {
    pub(super) fn new(source: Arc<dyn ByteSource>, index: Arc<AudioIndex>) -> Self {
        Self {
            restart: Restart::of(&index.params, packet_samples(&index.packets).into()),
            source,
            index,
            decoder: None,
            demuxer: None,
            bytes_read: 0,
        }
    }

    /// The index of the file.
    pub fn index(&self) -> &Arc<AudioIndex> {
        &self.index
    }

    /// Bytes of packets read so far, directly from the source.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// As [`Self::read`], up to the end of the stream.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_to_end(&mut self, begin_seconds: f64, format: AudioFormat) -> Result<AudioWindow> {
        let index = self.index.clone();
        let rate = format.sample_rate.unwrap_or(index.params.sample_rate);
        let all = index.len_at(rate); // as many as the resampled stream has
        let before = ((begin_seconds - index.begin_seconds) * f64::from(rate)).round();
        let seconds = (all as f64 - before).max(0.0) / f64::from(rate);
        self.read(begin_seconds, seconds, format)
    }

    /// Reads the samples of a time span on the file's clock. Samples outside the
    /// stream are 0, and not in `valid`. The samples lie on a grid that begins with the first
    /// sample of the stream: the window begins with the one that is nearest to `begin_seconds`.
    ///
    /// # Errors
    /// `Decode` for a damaged packet; those of reading; `Clip` if the channels cannot be converted;
    /// `Limit` if the window is too long.
    pub fn read(
        &mut self,
        begin_seconds: f64,
        seconds: f64,
        format: AudioFormat,
    ) -> Result<AudioWindow> {
        let rate = format.sample_rate.unwrap_or(self.index.params.sample_rate);
        // Far outside of any stream the exact place does not matter, and numbers stay small.
        let farthest = FARTHEST_SAMPLE as f64;
        let first = ((begin_seconds - self.index.begin_seconds) * f64::from(rate))
            .round()
            .clamp(-farthest, farthest) as i64;
        self.read_at(first, samples_in(seconds, rate), format)
    }

    /// As [`Self::read`], for `len` samples of a channel from sample `first` of the grid on.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_at(&mut self, first: i64, len: u64, format: AudioFormat) -> Result<AudioWindow> {
        let index = self.index.clone();
        let params = &index.params;
        let rate = format.sample_rate.unwrap_or(params.sample_rate);
        let channels = format.channels.unwrap_or(params.channels);
        let site = &index.site;
        check_window(site, len, channels)?;
        let mix = Mix::new(params.channel_mask, params.channels, channels).ok_or_else(|| {
            let mono = Mix::new(params.channel_mask, params.channels, 1);
            Error::Clip {
                site: site.clone(),
                reason: format!(
                    "its audio has {} channels, for which there is no standard conversion to {channels}; use channels=None{}",
                    params.channels,
                    mono.map_or("", |_| " or 1")
                ),
            }
        })?;
        let resampler = resampler((params.sample_rate, rate)).ok_or_else(|| Error::Clip {
            site: site.clone(),
            reason: format!(
                "its audio has {} Hz, which cannot be converted to {rate} Hz: rates are from 1 to {MAX_RATE} Hz, and at most {MAX_DECIMATION} times lower than that of the file",
                params.sample_rate
            ),
        })?;
        let first = first.clamp(-FARTHEST_SAMPLE, FARTHEST_SAMPLE);
        let window = first..first + len as i64;
        let stream_end = resampler.output_len(index.len.max(0) as u64);
        let stream_end = i64::try_from(stream_end).unwrap_or(i64::MAX);
        let audible = window.start.clamp(0, stream_end)..window.end.clamp(0, stream_end);
        let mut samples = vec![0.0; len as usize * channels as usize];
        let mut valid = Vec::new();
        if !audible.is_empty() {
            let needed = resampler.input_range(audible.clone());
            let needed = needed.start.clamp(0, index.len)..needed.end.clamp(0, index.len);
            Limits::check(
                site,
                "number of stored audio samples of a window",
                (needed.end.abs_diff(needed.start)).saturating_mul(params.channels.into()),
                MAX_STORED_SAMPLES,
            )?;
            let planes = mix.apply(self.decode(&needed)?);
            let skip = (audible.start - window.start) as usize;
            let count = (audible.end - audible.start) as usize;
            for (channel, plane) in planes.iter().enumerate() {
                let output = &mut samples[channel * len as usize..][skip..skip + count];
                resampler.run(plane, needed.start, audible.start, output);
            }
            valid = self.valid(&audible, rate, window.start);
        }
        Ok(AudioWindow {
            samples,
            channels,
            sample_rate: rate,
            begin_seconds: index.begin_seconds + first as f64 / f64::from(rate),
            valid,
        })
    }

    /// The samples of a window at `rate` that lie within packets.
    fn valid(&self, window: &Range<i64>, rate: u32, begin: i64) -> Vec<Range<usize>> {
        let (from, to) = (i128::from(self.index.params.sample_rate), i128::from(rate));
        // The first sample at or after a position.
        let after = |position: i64| -((-i128::from(position) * to).div_euclid(from)) as i64;
        let input = |at: i64| (i128::from(at) * from).div_euclid(to) as i64;
        let packets = self
            .index
            .packets_of(&(input(window.start)..input(window.end) + 1));
        let mut valid: Vec<Range<usize>> = Vec::new();
        for packet in &self.index.packets[packets] {
            let end = packet.position + i64::from(packet.kept);
            let span = after(packet.position).clamp(window.start, window.end)
                ..after(end).clamp(window.start, window.end);
            let span = (span.start - begin) as usize..(span.end - begin) as usize;
            match valid.last_mut() {
                _ if span.is_empty() => {}
                Some(last) if last.end == span.start => last.end = span.end,
                _ => valid.push(span),
            }
        }
        valid
    }

    /// Decodes the samples at these positions, in planes of the stream's channels.
    fn decode(&mut self, positions: &Range<i64>) -> Result<Vec<Vec<f32>>> {
        let index = self.index.clone();
        let channels = index.params.channels as usize;
        let mut planes = vec![vec![0.0; (positions.end - positions.start) as usize]; channels];
        let mut decoded: Vec<Vec<f32>> = Vec::new();
        let size_of = |packet: usize| index.packets[packet].size;
        for run in self.restart.runs(index.packets_of(positions), size_of) {
            check_interrupt()?;
            let Run {
                before,
                used,
                needed,
                intact,
            } = run;
            // What a decoder keeps of another window does not reach further than the packets before
            // this one, of which the begin of the stream has none.
            let mut decoder = match self.decoder.take().filter(|_| before.start > 0) {
                Some(decoder) => decoder,
                None => AudioDecoder::open(&index.site, &index.params)?,
            };
            // Opus: how many of the samples so far the decoder still holds, and the position after
            // them. It returns them with the next packet, so that one more is read.
            let may_lag = index.params.codec.name == "opus";
            let (mut lag, mut lag_end) = (0, 0);
            let end = index.packets.len().min(used.end + usize::from(may_lag));
            self.read_packets(before.start..end, &mut |number, packet| {
                decoded.iter_mut().for_each(Vec::clear);
                let result = decoder.decode(packet, &mut decoded);
                let entry = &index.packets[number];
                let stated = i64::from(entry.skipped) + i64::from(entry.kept);
                let mut received = decoded.first().map_or(0, Vec::len) as i64;
                // Position of the first sample of the packet itself.
                let first = entry.position - i64::from(entry.skipped);
                let (lag_before, lag_end_before) = (lag, lag_end);
                if may_lag && result.is_ok() {
                    // Not those of the index, which has none for a hidden packet.
                    let own = i64::from(opus_samples(packet.data()).unwrap_or(0));
                    lag = (lag + own - received).max(0);
                    lag_end = first + own;
                }
                if number >= used.end && lag_before == 0 {
                    return Ok(());
                }
                let failed = |reason: String| {
                    let rate = f64::from(index.params.sample_rate);
                    let seconds = index.begin_seconds + entry.position as f64 / rate;
                    Error::Decode {
                        site: index.site.clone(),
                        reason: format!(
                            "audio packet {number} at {seconds:.3} s cannot be decoded: {reason}"
                        ),
                    }
                };
                // Decoders of most codecs do not notice it.
                if entry.is_corrupt && number >= intact && number < used.end {
                    return Err(failed("the demuxer marks it as corrupt".into()));
                }
                if number < needed {
                    return Ok(());
                }
                let result = result.map_err(failed)?;
                if number < used.start {
                    return Ok(());
                }
                let fits = result.is_none_or(|Decoded { format, .. }| {
                    format.sample_rate == index.params.sample_rate
                        && format.channels == index.params.channels
                });
                if number + 1 == index.packets.len() {
                    // What it still holds belongs to the last packet.
                    let _ = decoder.drain(&mut decoded);
                    received = decoded.first().map_or(0, Vec::len) as i64;
                }
                // FLAC packets of several frames state only the length of the first.
                let has_more =
                    received > stated && entry.kept > 0 && index.params.codec.name == "flac";
                let least = stated - if may_lag { MAX_LAG } else { 0 };
                if !fits || received < least || has_more {
                    return Err(failed(match fits {
                        true => format!("it has {received} samples, {stated} are expected"),
                        false => "its sample rate or its channels change".into(),
                    }));
                }
                // Copies those decoded samples, of which sample 0 has position `at`, that are kept.
                let mut copy = |at: i64, kept: Range<i64>| {
                    let begin = positions.start.max(kept.start).max(at);
                    let end = positions.end.min(kept.end).min(at + received);
                    if begin < end {
                        let from = (begin - at) as usize..(end - at) as usize;
                        let to =
                            (begin - positions.start) as usize..(end - positions.start) as usize;
                        for (plane, decoded) in planes.iter_mut().zip(&decoded) {
                            plane[to.clone()].copy_from_slice(&decoded[from.clone()]);
                        }
                    }
                };
                let kept_of =
                    |entry: &AudioPacket| entry.position..entry.position + i64::from(entry.kept);
                if lag_before > 0 && number > used.start {
                    // They belong to the packet before, also if audio is missing between the two.
                    let kept = kept_of(&index.packets[number - 1]);
                    copy(
                        lag_end_before - lag_before,
                        kept.start..kept.end.min(lag_end_before),
                    );
                }
                if number < used.end {
                    copy(first - lag_before, kept_of(entry));
                }
                Ok(())
            })?;
            if self.restart.allows_reuse(&index.params) {
                decoder.flush();
                self.decoder = Some(decoder);
            }
        }
        Ok(planes)
    }

    /// Reads these packets in order.
    fn read_packets(
        &mut self,
        packets: Range<usize>,
        visit: &mut dyn FnMut(usize, &Packet) -> Result<()>,
    ) -> Result<()> {
        match self.index.direct {
            true => self.read_direct(packets, visit),
            false => self.read_through_demuxer(packets, visit),
        }
    }

    fn read_direct(
        &mut self,
        packets: Range<usize>,
        visit: &mut dyn FnMut(usize, &Packet) -> Result<()>,
    ) -> Result<()> {
        let index = self.index.clone();
        let range = |entry: &AudioPacket| {
            let offset = entry.place as u64;
            offset..offset.saturating_add(entry.size.into())
        };
        self.source
            .prefetch(&mut index.packets[packets.clone()].iter().map(range));
        let mut packet = Packet::new();
        let mut bytes = Vec::new();
        let mut next = packets.start;
        while next < packets.end {
            let begin = index.packets[next].place as u64;
            let (mut end, mut stop) = (begin, next);
            while let Some(entry) = index.packets[..packets.end].get(stop) {
                let offset = entry.place as u64;
                let is_near = offset >= end && offset - end <= MAX_READ_GAP;
                let reached = offset.saturating_add(entry.size.into());
                if stop > next && !(is_near && reached - begin <= MAX_READ_BYTES) {
                    break;
                }
                (end, stop) = (reached, stop + 1);
            }
            check_interrupt()?;
            resize(&index.site, &mut bytes, (end - begin) as usize)?;
            bytes.truncate((end - begin) as usize);
            self.source.read_exact_at(&index.site, begin, &mut bytes)?;
            self.bytes_read += end - begin;
            for (number, entry) in (next..stop).zip(&index.packets[next..stop]) {
                let at = (entry.place as u64 - begin) as usize;
                let data = packet
                    .allocate(entry.size as usize)
                    .ok_or_else(|| Error::malformed(&index.site, "out of memory for a packet"))?;
                data.copy_from_slice(&bytes[at..at + entry.size as usize]);
                visit(number, &packet)?;
            }
            next = stop;
        }
        Ok(())
    }

    /// Reads through libavformat, which seeks only approximately: packets are recognized by their
    /// time and size. Where data is missing, a demuxer that reads on from a seek may split it in
    /// another way than one that reads the whole file, so that packets are visited only when all of
    /// them are found, except those from the begin of the stream.
    fn read_through_demuxer(
        &mut self,
        packets: Range<usize>,
        visit: &mut dyn FnMut(usize, &Packet) -> Result<()>,
    ) -> Result<()> {
        let index = self.index.clone();
        let (mut demuxer, at) = match self.demuxer.take() {
            Some(opened) => opened,
            None => (self.open()?, 0),
        };
        // The number of the next packet, if it is known.
        let mut next = Some(at);
        if at != packets.start {
            next = None;
            if !self.seek(&mut demuxer, packets.start) {
                (demuxer, next) = (self.open()?, Some(0));
            }
        }
        let is = |number: usize, packet: &Packet| {
            index.packets.get(number).is_some_and(|entry| {
                let time = packet.pts().unwrap_or(i64::MIN);
                time.abs_diff(entry.place) <= 1 && packet.data().len() == entry.size as usize
            })
        };
        let mut found: Vec<Packet> = Vec::new();
        let mut has_restarted = false;
        while next.is_none_or(|next| next < packets.end) {
            check_interrupt()?;
            let mut packet = Packet::new();
            let has_packet = demuxer.next_packet(&mut packet)?;
            let number = match next {
                Some(next) => Some(next),
                None if has_packet => self.find(&packet),
                None => None,
            };
            let is_lost = match number {
                // It went too far, or its times do not tell where it is.
                None => !has_packet,
                Some(number) => {
                    (next.is_none() && number > packets.start)
                        || !has_packet
                        || !is(number, &packet)
                }
            };
            if is_lost {
                let has_visited = packets.start == 0 && number.is_some_and(|number| number > 0);
                if std::mem::replace(&mut has_restarted, true) || has_visited {
                    return Err(Error::malformed(
                        &index.site,
                        format!(
                            "audio packet {} is not found again; the file changed while it was read",
                            number.unwrap_or(packets.start)
                        ),
                    ));
                }
                found.clear();
                demuxer = self.open()?;
                next = Some(0);
                continue;
            }
            let Some(number) = number else { continue };
            next = Some(number + 1);
            if packets.start == 0 {
                visit(number, &packet)?;
            } else if number >= packets.start {
                found.push(packet);
            }
        }
        for (number, packet) in packets.clone().zip(&found) {
            visit(number, packet)?;
        }
        self.demuxer = Some((demuxer, packets.end));
        Ok(())
    }

    fn open(&self) -> Result<Demuxer> {
        Demuxer::open_audio(self.source.clone(), Some(self.index.stream))
    }

    /// Seeks to before a packet; whether that was possible.
    fn seek(&self, demuxer: &mut Demuxer, packet: usize) -> bool {
        // A little earlier, since the position may be after a packet of the same time.
        let time = self.index.packets[packet.saturating_sub(2)].place;
        time != i64::MIN
            && containers::by_name(&demuxer.container()).keeps_times_after_seek
            && demuxer.seek_before(time)
    }

    /// The number of a packet, if its time is that of exactly one.
    fn find(&self, packet: &Packet) -> Option<usize> {
        let (time, size) = (packet.pts()?, packet.data().len());
        let mut same = self.index.packets_at(time, size);
        let number = same.next()?;
        same.next().is_none().then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_packets_do_not_show_how_many_samples_packets_have() {
        let packet = |kept: u32, skipped: u32| AudioPacket {
            place: 0,
            position: 0,
            size: 1,
            kept,
            skipped,
            is_corrupt: false,
        };
        let mut packets = vec![packet(0, 0); PACKETS_FOR_LENGTH];
        assert_eq!(packet_samples(&packets), 0);
        packets.extend([packet(300, 660), packet(960, 0)]);
        assert_eq!(packet_samples(&packets), 960);
    }
}
