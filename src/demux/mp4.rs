//! Reads the packets of an MP4/MOV video track from its sample tables, without reading payloads.
//! Unusual tables (several edits or sample descriptions, inconsistent counts) yield `None`:
//! libavformat reads those files. No count is trusted before its box is known to hold that many
//! entries.

pub(crate) mod boxes;
mod edit_list;
mod fragments;
mod sample_entry;
mod sample_table;
mod streams;

use std::sync::Arc;

use crate::demux::{Track, encrypted};
use crate::error::{Error, Result, Site};
use crate::ffmpeg::Demuxer;
use crate::limits::{Limits, check_index_allocatable};
use crate::media::{DisplayOrientation, StreamInfo, StreamKind, StreamSummary, list_streams};
use crate::source::ByteSource;
use crate::units::TimeBase;

use boxes::{TopLevelBoxes, children, find};
use edit_list::EditList;
use sample_table::Mp4Sample;

/// Name of the container for files that are read here; libavformat's name for it is longer.
pub(super) const CONTAINER: &str = "mov,mp4";

/// Reads video stream `stream` of an MP4/MOV file, or the one that libavformat selects as best.
/// `Ok(None)`: not an MP4 file, or an unusual one.
///
/// # Errors
/// `NotVideo` where `stream` is not a video stream.
pub fn read_track(
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    limits: &Limits,
) -> Result<Option<Track>> {
    let (site, limits) = (
        Site::file(source.name()),
        &limits.for_file_len(source.len()),
    );
    let Some(top) = TopLevelBoxes::scan(&**source, &site, limits)? else {
        return Ok(None);
    };
    check_sample_counts(&top, &site, source.len())?;
    let schemes = encryption_schemes(&top.moov);
    if let Some((_, Some(scheme))) = schemes
        .first()
        .filter(|_| schemes.iter().all(|(_, scheme)| scheme.is_some()))
    {
        return Err(encrypted(&site, scheme));
    }
    let Some(movie) = Movie::parse(&top.moov) else {
        return Ok(None);
    };
    if movie.traks.is_empty() {
        return Ok(None);
    }
    let Some(selected) = SelectedStream::select(source, &site, &top, stream)? else {
        return Ok(None);
    };
    if let Some((_, Some(scheme))) = schemes
        .iter()
        .find(|(id, scheme)| *id == selected.track_id && scheme.is_some())
    {
        return Err(encrypted(&site, scheme));
    }
    // Where two tracks have the same ID, the ID from libavformat does not identify one of them.
    let mut named = movie
        .traks
        .iter()
        .filter(|trak| trak.id == selected.track_id);
    let (Some(chosen), None) = (named.next(), named.next()) else {
        return Ok(None);
    };
    build_track(&site, limits, &top, &movie, chosen, selected)
}

/// ID and encryption scheme of each video track.
fn encryption_schemes(moov: &[u8]) -> Vec<(u32, Option<String>)> {
    let traks = children(moov)
        .filter(|(kind, _)| kind == b"trak")
        .filter_map(|(_, trak)| {
            let mdia = find(trak, b"mdia")?;
            let is_video = find(mdia, b"hdlr").and_then(|hdlr| hdlr.get(8..12)) == Some(b"vide");
            let stsd = find(find(find(mdia, b"minf")?, b"stbl")?, b"stsd").filter(|_| is_video)?;
            let tkhd = find(trak, b"tkhd")?;
            let id = read_u32_be(tkhd, if *tkhd.first()? == 1 { 20 } else { 12 })?;
            Some((id, sample_entry::encryption_scheme(stsd)))
        });
    traks.collect()
}

/// Checks the boxes of a file before libavformat reads its audio. Whether the sample tables describe
/// the packets of every audio track completely: there are no fragments, all packets have the same
/// sample description, are decoded in the order of their times, and are not encrypted.
///
/// # Errors
/// `Limit` if the file cannot hold as many samples as its tables claim; those of reading.
pub(crate) fn audio_tables_are_complete(source: &dyn ByteSource, limits: &Limits) -> Result<bool> {
    let site = Site::file(source.name());
    let Some(top) = TopLevelBoxes::scan(source, &site, limits)? else {
        return Ok(false); // not an MP4 file, or an unusual one
    };
    check_sample_counts(&top, &site, source.len())?;
    let is_plain = |stbl: &[u8]| {
        let stsd = find(stbl, b"stsd").filter(|stsd| read_u32_be(stsd, 4) == Some(1));
        let entry = stsd.and_then(|stsd| children(stsd.get(8..)?).next());
        entry.is_some_and(|(kind, _)| ![b"enca", b"drms"].contains(&&kind))
            && [b"ctts", b"senc", b"saiz"]
                .iter()
                .all(|kind| find(stbl, kind).is_none())
    };
    let is_fragmented = !top.moofs.is_empty() || find(&top.moov, b"mvex").is_some();
    let mut audio = sample_tables(&top.moov)
        .filter(|(_, is_audio)| *is_audio)
        .peekable();
    Ok(!is_fragmented
        && !top.has_outer_metadata
        && audio.peek().is_some()
        && audio.all(|(stbl, _)| is_plain(stbl)))
}

/// The `stbl` box of each track, and whether it is one of audio.
fn sample_tables(moov: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    children(moov)
        .filter(|(kind, _)| kind == b"trak")
        .filter_map(|(_, trak)| {
            let mdia = find(trak, b"mdia")?;
            let is_audio = find(mdia, b"hdlr").and_then(|hdlr| hdlr.get(8..12)) == Some(b"soun");
            Some((find(find(mdia, b"minf")?, b"stbl")?, is_audio))
        })
}

/// Checks that the file can hold as many samples as all its tracks claim: libavformat, which reads
/// the unusual files, allocates memory for each sample before it reads any.
fn check_sample_counts(top: &TopLevelBoxes, site: &Site, len: u64) -> Result<()> {
    let tables = sample_tables(&top.moov)
        .map(|(stbl, is_audio)| sample_table::claimed_samples(stbl, is_audio));
    let runs = top
        .moofs
        .iter()
        .map(|(_, moof)| fragments::claimed_samples(moof));
    Limits::check(
        site,
        "number of samples of all tracks",
        tables.chain(runs).sum(),
        Limits::max_packets_of(len),
    )?;
    Ok(())
}

/// The video stream to read.
struct SelectedStream {
    /// Its index among all streams.
    stream: u32,
    track_id: u32,
    streams: Vec<StreamSummary>,
}

impl SelectedStream {
    /// Chooses from the boxes where there is only one video stream, otherwise through libavformat.
    /// `None` where the chosen stream's ID is not a track ID.
    fn select(
        source: &Arc<dyn ByteSource>,
        site: &Site,
        top: &TopLevelBoxes,
        wanted: Option<u32>,
    ) -> Result<Option<Self>> {
        let is_video = |stream: &StreamSummary| stream.kind == StreamKind::Video;
        if let Some(listed) = streams::summarize_streams(top) {
            let mut videos = (0..)
                .zip(&listed)
                .filter(|(_, (stream, _))| is_video(stream));
            let (first, second) = (videos.next(), videos.next());
            if let (Some((stream, &(_, track_id))), None) = (first, second) {
                let streams: Vec<_> = listed.iter().map(|(stream, _)| stream.clone()).collect();
                return match wanted {
                    Some(wanted) if wanted != stream => Err(Error::NotVideo {
                        site: site.clone(),
                        stream: wanted,
                        streams: list_streams(&streams),
                    }),
                    _ => Ok(Some(Self {
                        stream,
                        track_id,
                        streams,
                    })),
                };
            }
        }
        let mut demuxer = Demuxer::open(source.clone(), false, wanted)?;
        let several = demuxer
            .stream_summaries()
            .iter()
            .filter(|stream| is_video(stream))
            .count()
            > 1;
        if several {
            // libavformat selects the best of several by what it finds in their first packets.
            demuxer = Demuxer::open(source.clone(), true, wanted)?;
        }
        let (stream, id) = demuxer.selected_stream();
        let Ok(track_id) = u32::try_from(id) else {
            return Ok(None);
        };
        Ok(Some(Self {
            stream,
            track_id,
            streams: demuxer.stream_summaries(),
        }))
    }
}

fn build_track(
    site: &Site,
    limits: &Limits,
    top: &TopLevelBoxes,
    movie: &Movie,
    chosen: &Trak,
    mut selected: SelectedStream,
) -> Result<Option<Track>> {
    let Some(params) = sample_entry::codec_params(site, chosen.stsd, limits)? else {
        return Ok(None);
    };
    if let Some(summary) = selected
        .streams
        .get_mut(selected.stream as usize)
        .filter(|stream| stream.width == 0)
    {
        // libavformat finds the picture size of some codecs only in packets.
        (summary.width, summary.height) = (params.width, params.height);
    }
    let Some(mut samples) = sample_table::samples(chosen.stbl, site, limits)? else {
        return Ok(None);
    };
    let fragmented = !top.moofs.is_empty();
    if fragmented && !fragments::append(&mut samples, site, limits, top, movie, chosen.id)? {
        return Ok(None);
    }
    check_index_allocatable(site, samples.len())?;
    let Some(edits) = EditList::parse(chosen.elst, movie.timescale, chosen.timescale, fragmented)
    else {
        return Ok(None);
    };
    let Some(time_base) = TimeBase::new(1, chosen.timescale) else {
        return Ok(None);
    };
    Ok(Some(Track {
        container: CONTAINER.into(),
        info: StreamInfo {
            stream: selected.stream,
            params,
            time_base,
            orientation: chosen.orientation,
            sample_aspect: sample_entry::pixel_aspect(chosen.stsd),
            frame_rate: None,
        },
        streams: selected.streams,
        packets: edits.apply(samples),
        damaged_units: 0,
    }))
}

/// The relevant parts of `moov`, borrowed from its bytes.
struct Movie<'a> {
    timescale: u32,
    /// Video tracks of codecs that are read here.
    traks: Vec<Trak<'a>>,
    /// The `trex` boxes.
    trex: Vec<mp4_atom::Trex>,
}

struct Trak<'a> {
    id: u32,
    timescale: u32,
    orientation: DisplayOrientation,
    stbl: &'a [u8],
    stsd: &'a [u8],
    elst: Option<&'a [u8]>,
}

impl<'a> Movie<'a> {
    fn parse(moov: &'a [u8]) -> Option<Self> {
        let mvhd = find(moov, b"mvhd")?;
        let wide = *mvhd.first()? == 1;
        let timescale = read_u32_be(mvhd, if wide { 20 } else { 12 })?;
        let movie_matrix = matrix(mvhd, if wide { 48 } else { 36 })?;
        let mut traks = Vec::new();
        for (_, trak) in children(moov).filter(|(kind, _)| kind == b"trak") {
            traks.extend(
                Trak::parse(trak, &movie_matrix)
                    .filter(|trak| sample_entry::is_supported(trak.stsd)),
            );
        }
        let mut trex = Vec::new();
        if let Some(mvex) = find(moov, b"mvex") {
            for (_, mut body) in children(mvex).filter(|(kind, _)| kind == b"trex") {
                trex.push(<mp4_atom::Trex as mp4_atom::Atom>::decode_body(&mut body).ok()?);
            }
        }
        Some(Self {
            timescale,
            traks,
            trex,
        })
    }
}

impl<'a> Trak<'a> {
    /// `None` for tracks that are not video or lack a required box.
    fn parse(trak: &'a [u8], movie_matrix: &[f64; 4]) -> Option<Self> {
        let mdia = find(trak, b"mdia")?;
        if find(mdia, b"hdlr")?.get(8..12)? != b"vide" {
            return None;
        }
        let tkhd = find(trak, b"tkhd")?;
        let wide = *tkhd.first()? == 1;
        let mdhd = find(mdia, b"mdhd")?;
        let stbl = find(find(mdia, b"minf")?, b"stbl")?;
        let [a, b, c, d] = matrix(tkhd, if wide { 52 } else { 40 })?;
        let [e, f, g, h] = *movie_matrix;
        Some(Self {
            id: read_u32_be(tkhd, if wide { 20 } else { 12 })?,
            timescale: read_u32_be(mdhd, if *mdhd.first()? == 1 { 20 } else { 12 })?,
            // Row vectors: first the track's matrix, then the movie's.
            orientation: DisplayOrientation::from_matrix(
                a * e + b * g,
                a * f + b * h,
                c * e + d * g,
                c * f + d * h,
            ),
            stbl,
            stsd: find(stbl, b"stsd")?,
            elst: find(trak, b"edts").and_then(|edts| find(edts, b"elst")),
        })
    }
}

/// `[a b; c d]` of the 3x3 matrix at `at` (16.16 fixed point; rows a b u, c d v, x y w).
fn matrix(body: &[u8], at: usize) -> Option<[f64; 4]> {
    let cell = |i: usize| Some(f64::from(read_u32_be(body, at + 4 * i)? as i32) / 65536.0);
    Some([cell(0)?, cell(1)?, cell(3)?, cell(4)?])
}

fn read_u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}
