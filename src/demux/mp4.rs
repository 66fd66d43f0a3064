//! In: an MP4/MOV file. Out: its video track's packets from the sample tables alone: no payload is read.
//! Out also: `None` where the tables are unusual (several edits, several sample descriptions, inconsistent counts):
//! libavformat then decides.
//! Never: trusts a count before its box has been seen to hold it.

mod boxes;
mod edits;
mod entry;
mod fragments;
mod streams;
mod tables;

use std::sync::Arc;

use crate::demux::Track;
use crate::error::{Error, Result, Site};
use crate::ffmpeg::Demuxer;
use crate::limits::{check_room_for_index, Limits};
use crate::media::{list_streams, StreamInfo, StreamKind, StreamSummary, Turn};
use crate::source::ByteSource;
use crate::units::TimeBase;

use boxes::{children, find, Boxes};
use edits::Edits;
use tables::Sample;

/// Name of the container where it is read here; libavformat's name for it is longer.
pub const CONTAINER: &str = "mov,mp4";

/// Reads video stream `stream` of an MP4/MOV file, or the one that libavformat takes for the best. `Ok(None)`: not an MP4, or not a
/// usual one.
///
/// # Errors
/// `NotVideo` where `stream` is no video stream.
pub fn read(source: &Arc<dyn ByteSource>, stream: Option<u32>, limits: &Limits) -> Result<Option<Track>> {
    let (site, limits) = (Site::file(source.name()), &limits.within(source.len()));
    let Some(top) = Boxes::scan(&**source, &site, limits)? else { return Ok(None) };
    check_claims(&top, &site, source.len())?;
    let Some(movie) = Movie::parse(&top.moov) else { return Ok(None) };
    if movie.traks.is_empty() {
        return Ok(None);
    }
    let Some(choice) = Choice::make(source, &site, &top, stream)? else { return Ok(None) };
    // Where two tracks have the same number, libavformat's index does not say which of them it means.
    let mut named = movie.traks.iter().filter(|trak| trak.id == choice.track_id);
    let (Some(chosen), None) = (named.next(), named.next()) else { return Ok(None) };
    track(&site, limits, &top, &movie, chosen, choice)
}

/// Whether the file can hold as many samples as all its tracks claim to have: libavformat, to which much is left, takes memory
/// for each of them before it reads any.
fn check_claims(top: &Boxes, site: &Site, len: u64) -> Result<()> {
    let tables = children(&top.moov)
        .filter(|(kind, _)| kind == b"trak")
        .filter_map(|(_, trak)| find(find(find(trak, b"mdia")?, b"minf")?, b"stbl").map(tables::claimed));
    let runs = top.moofs.iter().map(|(_, moof)| fragments::claimed(moof));
    Limits::check(site, "number of samples of all tracks", tables.chain(runs).sum(), Limits::held_by(len))?;
    Ok(())
}

/// Which video stream of a file is read.
struct Choice {
    /// Its index among all streams.
    stream: u32,
    track_id: u32,
    streams: Vec<StreamSummary>,
}

impl Choice {
    /// Where only one stream can be meant, from the boxes; otherwise libavformat chooses. `None` where there is no video.
    fn make(
        source: &Arc<dyn ByteSource>,
        site: &Site,
        top: &Boxes,
        wanted: Option<u32>,
    ) -> Result<Option<Self>> {
        let is_video = |stream: &StreamSummary| stream.kind == StreamKind::Video;
        if let Some(listed) = streams::list(top) {
            let mut videos = (0..).zip(&listed).filter(|(_, (stream, _))| is_video(stream));
            let (first, second) = (videos.next(), videos.next());
            if let (Some((stream, &(_, track_id))), None) = (first, second) {
                let streams: Vec<_> = listed.iter().map(|(stream, _)| stream.clone()).collect();
                return match wanted {
                    Some(wanted) if wanted != stream => Err(Error::NotVideo {
                        site: site.clone(),
                        stream: wanted,
                        streams: list_streams(&streams),
                    }),
                    _ => Ok(Some(Self { stream, track_id, streams })),
                };
            }
        }
        let mut demuxer = Demuxer::open(source.clone(), false, wanted)?;
        let several = demuxer.stream_summaries().iter().filter(|stream| is_video(stream)).count() > 1;
        if several {
            // The best of several is told by what libavformat finds in their first packets.
            demuxer = Demuxer::open(source.clone(), true, wanted)?;
        }
        let (stream, id) = demuxer.chosen();
        let Ok(track_id) = u32::try_from(id) else { return Ok(None) };
        Ok(Some(Self { stream, track_id, streams: demuxer.stream_summaries() }))
    }
}

fn track(
    site: &Site,
    limits: &Limits,
    top: &Boxes,
    movie: &Movie,
    chosen: &Trak,
    mut choice: Choice,
) -> Result<Option<Track>> {
    let Some(params) = entry::codec_params(site, chosen.stsd, limits)? else { return Ok(None) };
    if let Some(summary) = choice.streams.get_mut(choice.stream as usize).filter(|stream| stream.width == 0) {
        // libavformat learns the size of some codecs' pictures only where it looks at packets.
        (summary.width, summary.height) = (params.width, params.height);
    }
    let Some(mut samples) = tables::samples(chosen.stbl, site, limits)? else {
        return Ok(None);
    };
    let fragmented = !top.moofs.is_empty();
    if fragmented && !fragments::append(&mut samples, site, limits, top, movie, chosen.id)? {
        return Ok(None);
    }
    check_room_for_index(site, samples.len())?;
    let Some(edits) = Edits::parse(chosen.elst, movie.timescale, chosen.timescale, fragmented) else {
        return Ok(None);
    };
    let Some(time_base) = TimeBase::new(1, chosen.timescale) else { return Ok(None) };
    Ok(Some(Track {
        container: CONTAINER.into(),
        info: StreamInfo {
            stream: choice.stream,
            params,
            time_base,
            turn: chosen.turn,
            sample_aspect: entry::pixel_aspect(chosen.stsd),
            frame_rate: None,
        },
        streams: choice.streams,
        packets: edits.apply(samples),
        damaged_units: 0,
    }))
}

/// The parts of `moov` that matter, borrowed from its bytes.
struct Movie<'a> {
    timescale: u32,
    /// Video tracks of codecs that are read here.
    traks: Vec<Trak<'a>>,
    /// (track id, `trex` body)
    trex: Vec<mp4_atom::Trex>,
}

struct Trak<'a> {
    id: u32,
    timescale: u32,
    turn: Turn,
    stbl: &'a [u8],
    stsd: &'a [u8],
    elst: Option<&'a [u8]>,
}

impl<'a> Movie<'a> {
    fn parse(moov: &'a [u8]) -> Option<Self> {
        let mvhd = find(moov, b"mvhd")?;
        let wide = *mvhd.first()? == 1;
        let timescale = be32(mvhd, if wide { 20 } else { 12 })?;
        let movie_matrix = matrix(mvhd, if wide { 48 } else { 36 })?;
        let mut traks = Vec::new();
        for (_, trak) in children(moov).filter(|(kind, _)| kind == b"trak") {
            traks.extend(Trak::parse(trak, &movie_matrix).filter(|trak| entry::is_read(trak.stsd)));
        }
        let mut trex = Vec::new();
        if let Some(mvex) = find(moov, b"mvex") {
            for (_, mut body) in children(mvex).filter(|(kind, _)| kind == b"trex") {
                trex.push(<mp4_atom::Trex as mp4_atom::Atom>::decode_body(&mut body).ok()?);
            }
        }
        Some(Self { timescale, traks, trex })
    }
}

impl<'a> Trak<'a> {
    /// `None` for tracks that are not video or lack a part.
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
            id: be32(tkhd, if wide { 20 } else { 12 })?,
            timescale: be32(mdhd, if *mdhd.first()? == 1 { 20 } else { 12 })?,
            // Row vectors: first the track's matrix, then the movie's.
            turn: Turn::from_matrix(a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h),
            stbl,
            stsd: find(stbl, b"stsd")?,
            elst: find(trak, b"edts").and_then(|edts| find(edts, b"elst")),
        })
    }
}

/// `[a b; c d]` of the 3x3 matrix at `at` (16.16 fixed point; rows a b u, c d v, x y w).
fn matrix(body: &[u8], at: usize) -> Option<[f64; 4]> {
    let cell = |i: usize| Some(f64::from(be32(body, at + 4 * i)? as i32) / 65536.0);
    Some([cell(0)?, cell(1)?, cell(3)?, cell(4)?])
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
