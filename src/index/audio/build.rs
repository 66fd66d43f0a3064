//! Builds the index of a file's audio: from the sample table of an MP4 file where that suffices, else
//! in one pass of libavformat over its audio packets.

use std::ops::Range;
use std::sync::Arc;

use super::packet_samples::PacketSamples;
use super::{AudioIndex, AudioPacket, are_ascending};
use crate::containers::{self, DamageMark};
use crate::demux::encrypted;
use crate::demux::libavformat::PayloadLocator;
use crate::demux::mp4;
use crate::error::{Error, Result, Site};
use crate::ffmpeg::audio_decoder::{AudioDecoder, Decoded, DecodedFormat};
use crate::ffmpeg::{Demuxer, Packet, TableEntry};
use crate::limits::{Limits, reserve};
use crate::media::AudioParams;
use crate::source::{ByteSource, check_interrupt};
use crate::units::TimeBase;

/// Number of packets that are decoded to learn the format of the stream: the first one may be
/// empty, and SBR of AAC is detected in the first.
const PACKETS_FOR_FORMAT: usize = 4;

/// Files with at most this number of packets are read completely.
const FEW_PACKETS: usize = 16;

/// Shortest time that counts as missing: times of packets of MPEG-PS deviate by milliseconds.
const LEAST_GAP_SECONDS: f64 = 0.01;

/// The same after a corrupt packet, of which a demuxer may make several shorter ones.
const LEAST_SHIFT_SECONDS: f64 = 0.002;

/// Longest time that counts as missing, in samples: 64 days at 48 kHz.
const MAX_GAP_SAMPLES: f64 = (1u64 << 38) as f64;

/// Position after which no audio counts as missing, so that numbers stay exact.
const MAX_POSITION: i64 = 1 << 52;

/// Number of packets whose times must agree that audio is missing before them.
const PACKETS_OF_GAP: usize = 16;

/// Number of packets after a corrupt one that may be misplaced: those of one PES packet, of which
/// only the first has a time.
const MISPLACED_PACKETS: usize = 64;

/// Number of packets after which an interrupt is noticed.
const PACKETS_PER_CHECK: usize = 256;

/// Indexes audio stream `stream` of a file, or the best one.
///
/// # Errors
/// `NoAudio` if there is none; those of reading; `Decode` if the first packets cannot be decoded.
pub fn build(
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    limits: &Limits,
) -> Result<AudioIndex> {
    let site = Site::file(source.name());
    let limits = &limits.for_file_len(source.len());
    let has_complete_tables = mp4::audio_tables_are_complete(&**source, limits)?;
    let mut demuxer = Demuxer::open_audio(source.clone(), stream)?;
    let (stream, _) = demuxer.selected_stream();
    let (stated, time_base) = demuxer.audio_info(limits)?;
    let mut counter = SampleCounter::new(&site, stated)?;
    let table = match has_complete_tables && !counter.reads_all_payloads() {
        true => demuxer.sample_table(),
        false => None,
    };
    let mut listed = None;
    if let Some(entries) = table {
        check_sizes(&site, &entries, source.len(), limits)?;
        listed = read_table(&mut demuxer, &entries, &mut counter)?;
        if listed.is_none() {
            demuxer = Demuxer::open_audio(source.clone(), Some(stream))?;
            counter = SampleCounter::new(&site, counter.into_params())?;
        }
    }
    let (found, direct) = match listed {
        Some(found) => (found, true),
        None => read_all(source, &mut demuxer, &mut counter, limits)?,
    };
    let counted = counter.finish()?;
    let is_joined =
        containers::by_name(&demuxer.container()).damage_mark == DamageMark::PacketOrNext;
    place(
        site,
        stream,
        (counted, time_base),
        &found,
        direct,
        is_joined,
    )
}

/// Reads all packets. Also returns whether each has an offset.
fn read_all(
    source: &Arc<dyn ByteSource>,
    demuxer: &mut Demuxer,
    counter: &mut SampleCounter,
    limits: &Limits,
) -> Result<(Vec<FoundPacket>, bool)> {
    let site = counter.site.clone();
    let mark = containers::by_name(&demuxer.container()).damage_mark;
    let mut skipped_corrupt = 0;
    let mut locator = Some(PayloadLocator::new(source.clone()));
    let mut found: Vec<FoundPacket> = Vec::new();
    let mut packet = Packet::new();
    while demuxer.next_packet(&mut packet)? {
        if found.len().is_multiple_of(PACKETS_PER_CHECK) {
            check_interrupt()?;
        }
        let count = found.len() as u64 + 1;
        Limits::check(&site, "number of audio packets", count, limits.packets)?;
        let len = packet.data().len() as u64;
        Limits::check(&site, "audio packet size", len, limits.packet_bytes)?;
        reserve(&site, &mut found, 1)?;
        let offset = match &mut locator {
            Some(locator) => locator.find(&packet)?,
            None => None,
        };
        if offset.is_none() {
            locator = None; // if one packet must be read through the demuxer, all are
        }
        let (samples, delay) = counter.count(&packet)?;
        let is_after_gap = demuxer.skipped_corrupt() > skipped_corrupt;
        skipped_corrupt = demuxer.skipped_corrupt();
        let (first, last) = packet.skipped_samples();
        found.push(FoundPacket {
            offset: offset.unwrap_or(0),
            size: len as u32,
            pts: packet.pts(),
            samples,
            // A frame that was decoded repeats what the container states of its packet.
            skipped: (if first > 0 { first } else { delay }, last),
            is_hidden: packet.is_discard(),
            is_corrupt: counter.is_corrupt(&packet, mark)
                || (mark == DamageMark::Joined && is_after_gap),
        });
    }
    count_corrupt_as_usual(&mut found);
    // Of the packets after a mark, the first may contain parts of two packets, and the second one
    // may begin with the rest.
    let spread = match mark {
        DamageMark::PacketOrNext => 2,
        DamageMark::PacketAndAfter => 1,
        _ => 0,
    };
    for _ in 0..spread {
        for number in (1..found.len()).rev() {
            found[number].is_corrupt |= found[number - 1].is_corrupt;
        }
    }
    Ok((found, locator.is_some()))
}

/// The headers of corrupt packets may be parts of other data: they have as many samples as nearly all
/// packets, if there is such a number.
fn count_corrupt_as_usual(found: &mut [FoundPacket]) {
    let intact = || found.iter().filter(|packet| !packet.is_corrupt);
    let Some(usual) = intact()
        .nth(intact().count() / 2)
        .map(|packet| packet.samples)
    else {
        return;
    };
    let others = intact().filter(|packet| packet.samples != usual).count();
    if usual.is_some() && others <= found.len() / 16 {
        for packet in found.iter_mut().filter(|packet| packet.is_corrupt) {
            packet.samples = usual;
        }
    }
}

/// Checks the sizes that a sample table states: it may place every packet in the same bytes.
fn check_sizes(site: &Site, entries: &[TableEntry], len: u64, limits: &Limits) -> Result<()> {
    let mut all = 0u64;
    for entry in entries {
        let size = u64::from(entry.size);
        Limits::check(site, "audio packet size", size, limits.packet_bytes)?;
        all += size;
    }
    Limits::check(
        site,
        "size of all audio packets",
        all,
        Limits::max_payload_of(len),
    )?;
    Ok(())
}

/// Takes the packets from the sample table of an MP4 file, and reads only the first and the last
/// ones. `None` if the table does not suffice.
fn read_table(
    demuxer: &mut Demuxer,
    entries: &[TableEntry],
    counter: &mut SampleCounter,
) -> Result<Option<Vec<FoundPacket>>> {
    let Some((last, _)) = entries.split_last().filter(|_| entries.len() > FEW_PACKETS) else {
        return Ok(None);
    };
    // Parts of packets between edits are known only to the demuxer.
    let heard = entries.iter().skip_while(|entry| entry.is_hidden);
    if heard
        .skip_while(|entry| !entry.is_hidden)
        .any(|entry| !entry.is_hidden)
    {
        return Ok(None);
    }
    let mut found: Vec<FoundPacket> = Vec::new();
    reserve(&counter.site, &mut found, entries.len())?;
    for entry in entries {
        found.push(FoundPacket {
            offset: entry.offset,
            size: entry.size,
            pts: Some(entry.time),
            samples: counter.samples_of(entry.size as usize),
            skipped: (0, 0),
            is_hidden: entry.is_hidden,
            is_corrupt: false,
        });
    }
    let is = |packet: &Packet, entry: &TableEntry| {
        packet.position() == Some(entry.offset)
            && packet.data().len() == entry.size as usize
            && packet.pts() == Some(entry.time)
            && packet.encryption_scheme().is_none()
    };
    let mut packet = Packet::new();
    for (entry, found) in entries.iter().zip(&mut found).take(PACKETS_FOR_FORMAT) {
        if !demuxer.next_packet(&mut packet)? || !is(&packet, entry) {
            return Ok(None);
        }
        counter.count(&packet)?;
        found.skipped = packet.skipped_samples();
    }
    // Padding at the end is that of the last packet, or of the last one that is heard.
    let Some(first_read) = entries.iter().rposition(|entry| !entry.is_hidden) else {
        return Ok(None);
    };
    if !demuxer.seek_before(entries[first_read].time) {
        return Ok(None);
    }
    let mut at = None;
    loop {
        if !demuxer.next_packet(&mut packet)? {
            return Ok(None);
        }
        let number = match at {
            Some(at) => at + 1,
            None => match entries.iter().rposition(|entry| is(&packet, entry)) {
                Some(number) => number,
                None => return Ok(None),
            },
        };
        at = Some(number);
        if number >= entries.len() || !is(&packet, &entries[number]) {
            return Ok(None);
        }
        if counter.check_configuration(number, &packet).is_err() {
            return Ok(None); // the packets between have not been read: one of them may be the first
        }
        if number >= first_read {
            found[number].skipped.1 = packet.skipped_samples().1;
        }
        if is(&packet, last) {
            counter.keep_last(&packet);
            return Ok(Some(found));
        }
    }
}

/// A packet as the container describes it.
struct FoundPacket {
    offset: u64,
    size: u32,
    pts: Option<i64>,
    /// `None`: as many as every packet.
    samples: Option<u32>,
    /// Padding at its begin and at its end.
    skipped: (u32, u32),
    is_hidden: bool,
    is_corrupt: bool,
}

/// The format of the stream, and the number of samples of a packet that does not state it.
struct CountedFormat {
    params: AudioParams,
    packet_samples: u32,
    in_last: Option<LastPacket>,
}

/// What is particular about the last packet.
#[derive(Clone, Copy)]
enum LastPacket {
    /// It has this number of samples.
    Samples(u32),
    /// The decoder returns this number of samples more at the end of the stream.
    More(u32),
}

/// Counts the samples of packets.
struct SampleCounter {
    site: Site,
    params: AudioParams,
    by: PacketSamples,
    decoder: AudioDecoder,
    planes: Vec<Vec<f32>>,
    num_packets: usize,
    format: Option<DecodedFormat>,
    packet_samples: u32,
    first_error: Option<String>,
    /// The last packet of a codec whose last packet may be shorter.
    last: Option<Packet>,
}

impl SampleCounter {
    fn new(site: &Site, params: AudioParams) -> Result<Self> {
        Ok(Self {
            site: site.clone(),
            by: PacketSamples::of(&params),
            decoder: AudioDecoder::open(site, &params)?,
            params,
            planes: Vec::new(),
            num_packets: 0,
            format: None,
            packet_samples: 0,
            first_error: None,
            last: None,
        })
    }

    /// The number of samples of the next packet, `None` if it is the same for all packets, and that
    /// of those from there on that the decoder knows to be no audio.
    fn count(&mut self, packet: &Packet) -> Result<(Option<u32>, u32)> {
        if let Some(scheme) = packet.encryption_scheme() {
            return Err(encrypted(&self.site, &scheme));
        }
        self.check_configuration(self.num_packets, packet)?;
        let is_first = self.num_packets < PACKETS_FOR_FORMAT || self.format.is_none();
        self.num_packets += 1;
        let decoded = match is_first || matches!(self.by, PacketSamples::Decoded) {
            true => self.decode(packet)?,
            false => None,
        };
        let samples = match self.by {
            PacketSamples::Decoded => {
                return Ok(decoded.map_or((Some(0), 0), |(samples, delay)| (Some(samples), delay)));
            }
            PacketSamples::Constant => {
                self.keep_last(packet);
                None
            }
            PacketSamples::Pcm { .. } => self.samples_of(packet.data().len()),
            // A damaged packet has the length of the others: what follows keeps its time.
            PacketSamples::Header(read) => read(packet.data()),
        };
        Ok((samples, 0))
    }

    /// Checks that the container does not change the configuration, without which the payload of
    /// these codecs has no meaning.
    fn check_configuration(&self, number: usize, packet: &Packet) -> Result<()> {
        let codec = &self.params.codec.name;
        let needs_it = matches!(&codec[..], "aac" | "alac");
        match packet.new_extradata() {
            Some(changed) if needs_it && changed != self.params.extradata => {
                Err(Error::Unsupported {
                    site: self.site.clone(),
                    what: format!(
                        "a change of the configuration of '{codec}' at audio packet {number}"
                    ),
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether a packet lacks audio by the demuxer's mark. That of uncompressed audio has as many
    /// samples as bytes: the last one of a file is often shorter, for which libavformat marks it. Nor
    /// does FLAC need packets that are missing before this one.
    fn is_corrupt(&self, packet: &Packet, mark: DamageMark) -> bool {
        let is_whole = matches!(self.by, PacketSamples::Pcm { .. })
            || (mark == DamageMark::BeforePacket && self.params.codec.name == "flac");
        packet.is_corrupt() && !is_whole
    }

    /// Whether the number of samples of a packet depends on its payload, or a parser determines
    /// where packets begin.
    fn reads_all_payloads(&self) -> bool {
        let is_table = matches!(&self.params.codec.name[..], "aac" | "alac");
        !is_table && !matches!(self.by, PacketSamples::Pcm { .. })
    }

    /// The number of samples of a packet of this size; `None` if it is the same for all.
    fn samples_of(&self, size: usize) -> Option<u32> {
        match self.by {
            PacketSamples::Pcm { bytes } => {
                Some(size as u32 / (bytes * self.params.channels.max(1)))
            }
            _ => None,
        }
    }

    /// Keeps the last packet of a codec whose last packet may be shorter.
    fn keep_last(&mut self, packet: &Packet) {
        if self.params.codec.name != "alac" {
            return;
        }
        let mut last = Packet::new();
        if let Some(data) = last.allocate(packet.data().len()) {
            data.copy_from_slice(packet.data());
            self.last = Some(last);
        }
    }

    fn into_params(self) -> AudioParams {
        self.params
    }

    /// Decodes a packet, and returns its number of samples and its delay.
    fn decode(&mut self, packet: &Packet) -> Result<Option<(u32, u32)>> {
        self.planes.iter_mut().for_each(Vec::clear);
        match self.decoder.decode(packet, &mut self.planes) {
            Ok(Some(Decoded { format, delay })) => {
                if matches!(self.by, PacketSamples::Decoded)
                    && let Some(before) = self.format
                    && before != format
                {
                    return Err(Error::Unsupported {
                        site: self.site.clone(),
                        what:
                            "a change of the sample rate or of the channels within the audio stream"
                                .into(),
                    });
                }
                self.format = Some(format);
                let samples = self.planes.first().map_or(0, Vec::len) as u32;
                self.packet_samples = self.packet_samples.max(samples);
                Ok(Some((samples, delay)))
            }
            Ok(None) => Ok(None),
            Err(reason) => {
                self.first_error.get_or_insert(reason);
                Ok(None)
            }
        }
    }

    fn finish(mut self) -> Result<CountedFormat> {
        let Some(format) = self.format else {
            let reason = match (self.first_error, self.num_packets) {
                (Some(error), _) => format!("no packet of its audio can be decoded: {error}"),
                (None, 0) => {
                    return Err(Error::NoAudio {
                        site: self.site,
                        reason: "its audio stream has no packets".into(),
                    });
                }
                (None, _) => "its audio stream has no samples".into(),
            };
            return Err(Error::malformed(&self.site, reason));
        };
        self.planes.iter_mut().for_each(Vec::clear);
        let in_last = match self.last.take() {
            Some(last) => self
                .decoder
                .decode(&last, &mut self.planes)
                .ok()
                .map(|_| LastPacket::Samples as fn(u32) -> LastPacket),
            None => matches!(self.by, PacketSamples::Decoded)
                .then(|| self.decoder.drain(&mut self.planes).ok())
                .flatten()
                .map(|_| LastPacket::More as fn(u32) -> LastPacket),
        };
        let counted = self.planes.first().map_or(0, Vec::len) as u32;
        Ok(CountedFormat {
            params: AudioParams {
                sample_rate: format.sample_rate,
                channels: format.channels,
                channel_mask: format.channel_mask,
                profile: self.decoder.profile(),
                ..self.params
            },
            packet_samples: self.packet_samples,
            in_last: in_last.map(|is| is(counted)),
        })
    }
}

/// Marks the packets between one whose time is right and a corrupt one before it as corrupt: the
/// demuxer counts on from a packet to the next one that has a time of its own. They end where that
/// one begins.
fn place_between(packets: &mut [AudioPacket], corrupt: Range<usize>, missing: i64) {
    let begin = packets[corrupt.end].position + missing;
    for packet in &mut packets[corrupt] {
        packet.is_corrupt = true;
        packet.position = packet.position.min(begin);
        let left = u32::try_from(begin - packet.position).unwrap_or(u32::MAX);
        packet.kept = packet.kept.min(left);
    }
}

/// Gives each packet its position. `is_joined`: see [`DamageMark::PacketOrNext`].
fn place(
    site: Site,
    stream: u32,
    (format, time_base): (CountedFormat, TimeBase),
    found: &[FoundPacket],
    direct: bool,
    is_joined: bool,
) -> Result<AudioIndex> {
    let rate = f64::from(format.params.sample_rate);
    let tick = time_base.seconds(1) * rate;
    let mut packets = Vec::new();
    reserve(&site, &mut packets, found.len())?;
    // How much later the container's clock is than the position, in samples; NaN if it is unknown.
    let mut lateness: Vec<f64> = Vec::new();
    reserve(&site, &mut lateness, found.len())?;
    let mut next = 0;
    // Samples to skip that the packets so far did not have.
    let mut to_skip = 0u32;
    for (number, packet) in found.iter().enumerate() {
        let is_last = number + 1 == found.len();
        let samples = packet.samples.unwrap_or(format.packet_samples);
        let samples = match format.in_last {
            Some(LastPacket::Samples(counted)) if is_last => counted,
            Some(LastPacket::More(held)) if is_last => samples.saturating_add(held),
            _ => samples,
        };
        to_skip = to_skip.saturating_add(packet.skipped.0);
        let skipped = to_skip.min(samples);
        to_skip -= skipped;
        let kept = match packet.is_hidden {
            true => 0,
            false => (samples - skipped).saturating_sub(packet.skipped.1),
        };
        let time = packet.pts.filter(|_| kept > 0);
        lateness.push(time.map_or(f64::NAN, |pts| {
            time_base.seconds(pts) * rate + f64::from(skipped) - next as f64
        }));
        packets.push(AudioPacket {
            place: match direct {
                true => packet.offset as i64,
                false => packet.pts.unwrap_or(i64::MIN),
            },
            position: next,
            size: packet.size,
            kept,
            skipped,
            is_corrupt: packet.is_corrupt,
        });
        next += i64::from(kept);
    }
    let begin = lateness.iter().copied().find(|late| !late.is_nan());
    let begin = begin.unwrap_or(0.0);
    let mut missing = 0;
    // The last packet that is marked as corrupt, as long as packets after it may be misplaced.
    let mut corrupt: Option<usize> = None;
    for number in 0..packets.len() {
        corrupt = corrupt.filter(|corrupt| number - corrupt <= MISPLACED_PACKETS);
        // Times are rounded to ticks, and those of some demuxers are wrong for a few packets: only a
        // difference that stays is a gap.
        let tolerance = match corrupt {
            Some(_) => LEAST_SHIFT_SECONDS * rate,
            None => (f64::from(packets[number].kept) / 2.0).max(LEAST_GAP_SECONDS * rate),
        };
        let tolerance = tolerance.max(2.0 * tick);
        let ahead = |late: &f64| late - begin - missing as f64;
        let now = ahead(&lateness[number]);
        let following = lateness[number..lateness.len().min(number + PACKETS_OF_GAP)].iter();
        if now > tolerance {
            let gap = following.map(ahead).fold(f64::INFINITY, f64::min);
            if gap > tolerance && gap < MAX_GAP_SAMPLES && missing < MAX_POSITION {
                missing += gap.round() as i64;
                // The demuxer of a transport stream does not report lost headers, nor that it joins
                // what was before them with what follows.
                let damaged = corrupt.or_else(|| is_joined.then(|| number.saturating_sub(1)));
                if let Some(damaged) = damaged {
                    place_between(&mut packets, damaged..number, missing);
                }
                packets[number].is_corrupt |= is_joined;
            }
        } else if now < -tolerance
            && let Some(damaged) = corrupt
        {
            // Where a packet is damaged, a demuxer may also return one too many.
            let shift = following.map(ahead).fold(f64::NEG_INFINITY, f64::max);
            let next = packets[number].position + missing + shift.round() as i64;
            if shift < -tolerance && next >= packets[damaged].position {
                missing += shift.round() as i64;
                place_between(&mut packets, damaged..number, missing);
            }
        }
        if packets[number].is_corrupt {
            corrupt = Some(number);
        }
        packets[number].position += missing;
    }
    Ok(AudioIndex {
        site,
        stream,
        // Times are rounded to ticks; that the audio begins with the clock is no coincidence.
        begin_seconds: if begin.abs() > tick {
            begin / rate
        } else {
            0.0
        },
        len: next + missing,
        params: format.params,
        ascending: are_ascending(&packets),
        packets,
        direct,
    })
}
