//! In: an MP4/MOV file. Out: its video track's packets from the sample tables alone: no payload is read.
//! Out also: `None` where the tables are unusual (several edits, several sample descriptions, inconsistent counts):
//! libavformat then decides.
//! Never: trusts a count before its box has been seen to hold it.

mod boxes;
mod edits;
mod entry;
mod fragments;
mod tables;

use crate::demux::Track;
use crate::error::{Result, Site};
use crate::limits::Limits;
use crate::media::{StreamInfo, Turn};
use crate::source::ByteSource;
use crate::units::TimeBase;

use boxes::{children, find, Boxes};
use edits::Edits;
use tables::Sample;

/// Name of the container where it is read here; libavformat's name for it is longer.
pub const CONTAINER: &str = "mov,mp4";

/// Reads the video track of an MP4/MOV file. `Ok(None)`: not one, or not a usual one.
pub fn read(source: &dyn ByteSource, limits: &Limits) -> Result<Option<Track>> {
    let site = Site::file(source.name());
    let Some(top) = Boxes::scan(source, &site, limits)? else { return Ok(None) };
    let Some(movie) = Movie::parse(&top.moov) else { return Ok(None) };
    let Some(chosen) = movie.choose() else { return Ok(None) };
    track(source, &site, limits, &top, &movie, chosen)
}

fn track(
    source: &dyn ByteSource,
    site: &Site,
    limits: &Limits,
    top: &Boxes,
    movie: &Movie,
    chosen: &Trak,
) -> Result<Option<Track>> {
    let Some(params) = entry::codec_params(site, chosen.stsd, limits)? else { return Ok(None) };
    let Some(mut samples) = tables::samples(chosen.stbl, site, limits, source.len())? else {
        return Ok(None);
    };
    let fragmented = !top.moofs.is_empty();
    if fragmented && !fragments::append(&mut samples, source, site, limits, top, movie, chosen.id)? {
        return Ok(None);
    }
    let Some(edits) = Edits::parse(chosen.elst, movie.timescale, chosen.timescale, fragmented) else {
        return Ok(None);
    };
    let Some(time_base) = TimeBase::new(1, chosen.timescale) else { return Ok(None) };
    Ok(Some(Track {
        container: CONTAINER.into(),
        info: StreamInfo {
            stream: chosen.place,
            params,
            time_base,
            turn: chosen.turn,
            sample_aspect: entry::pixel_aspect(chosen.stsd),
            frame_rate: None,
        },
        packets: edits.apply(samples),
        damaged_units: 0,
    }))
}

/// The parts of `moov` that matter, borrowed from its bytes.
struct Movie<'a> {
    timescale: u32,
    traks: Vec<Trak<'a>>,
    /// (track id, `trex` body)
    trex: Vec<mp4_atom::Trex>,
}

struct Trak<'a> {
    place: u32,
    id: u32,
    enabled: bool,
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
        for (place, trak) in
            children(moov).filter(|(kind, _)| kind == b"trak").map(|(_, body)| body).enumerate()
        {
            traks.extend(Trak::parse(trak, place as u32, &movie_matrix));
        }
        let mut trex = Vec::new();
        if let Some(mvex) = find(moov, b"mvex") {
            for (_, mut body) in children(mvex).filter(|(kind, _)| kind == b"trex") {
                trex.push(<mp4_atom::Trex as mp4_atom::Atom>::decode_body(&mut body).ok()?);
            }
        }
        Some(Self { timescale, traks, trex })
    }

    /// The first enabled video track, else the first: the same rule as for other containers.
    fn choose(&self) -> Option<&Trak<'a>> {
        self.traks.iter().find(|t| t.enabled).or(self.traks.first())
    }
}

impl<'a> Trak<'a> {
    /// `None` for tracks that are not video or lack a part.
    fn parse(trak: &'a [u8], place: u32, movie_matrix: &[f64; 4]) -> Option<Self> {
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
            place,
            id: be32(tkhd, if wide { 20 } else { 12 })?,
            enabled: tkhd.get(3)? & 1 != 0,
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
