//! Lists the streams of an MP4 file from its boxes, numbered and named as libavformat does.
//! Returns `None` for a file with anything unusual, which is left to libavformat.

use super::boxes::{TopLevelBoxes, children, find};
use super::read_u32_be;
use super::sample_entry;
use crate::codecs;
use crate::media::{StreamKind, StreamSummary};

/// Length of an `AudioSampleEntry` before its child boxes (ISO/IEC 14496-12 12.2.3).
const AUDIO_SAMPLE_ENTRY_BYTES: usize = 28;

/// Each stream with its track ID; libavformat creates one stream per track, in file order.
pub(super) fn summarize_streams(top: &TopLevelBoxes) -> Option<Vec<(StreamSummary, u32)>> {
    let moov = &top.moov[..];
    // libavformat creates streams for cover art, at any index.
    let may_hold_pictures = |(kind, body): ([u8; 4], &[u8])| {
        [b"udta", b"meta"].contains(&&kind) && body.windows(4).any(|four| four == b"covr")
    };
    if top.has_outer_metadata || children(moov).any(may_hold_pictures) {
        return None;
    }
    let traks = children(moov)
        .filter(|(kind, _)| kind == b"trak")
        .map(|(_, body)| body);
    traks
        .map(|trak| {
            if children(trak).any(may_hold_pictures) {
                None
            } else {
                stream(trak)
            }
        })
        .collect()
}

fn stream(trak: &[u8]) -> Option<(StreamSummary, u32)> {
    // The chapter tracks that it refers to are images or texts that libavformat treats differently.
    if find(trak, b"tref").is_some_and(|tref| find(tref, b"chap").is_some()) {
        return None;
    }
    let tkhd = find(trak, b"tkhd")?;
    let id = read_u32_be(tkhd, if *tkhd.first()? == 1 { 20 } else { 12 })?;
    let mdia = find(trak, b"mdia")?;
    let handler: [u8; 4] = find(mdia, b"hdlr")?.get(8..12)?.try_into().ok()?;
    let stbl = find(find(mdia, b"minf")?, b"stbl")?;
    let stsd = find(stbl, b"stsd")?;
    if read_u32_be(stsd, 4)? != 1 {
        return None;
    }
    let (format, body) = children(stsd.get(8..)?).next()?;
    let (kind, codec) = match (&handler, &format) {
        (b"vide", _) => (StreamKind::Video, codecs::by_sample_entry(format)?.0),
        (b"soun", _) => (StreamKind::Audio, audio_codec(&format, body)?),
        (b"sbtl" | b"text", b"tx3g") => (StreamKind::Subtitle, "mov_text"),
        (b"meta", b"mebx") | (b"tmcd", b"tmcd") => (StreamKind::Data, "none"),
        _ => return None,
    };
    let is_video = kind == StreamKind::Video;
    let (width, height) = if is_video {
        sample_entry::size(stsd)?
    } else {
        (0, 0)
    };
    let sizes = find(stbl, b"stsz")
        .and_then(|stsz| read_u32_be(stsz, 8))
        .filter(|_| is_video);
    let num_frames = sizes.map(u64::from).filter(|&frames| frames > 0);
    let is_default = tkhd.get(3)? & 1 != 0;
    Some((
        StreamSummary {
            kind,
            codec: codec.into(),
            width,
            height,
            num_frames,
            is_default,
        },
        id,
    ))
}

/// FFmpeg's names of the common audio codecs.
fn audio_codec(format: &[u8; 4], body: &[u8]) -> Option<&'static str> {
    Some(match format {
        b"mp4a" => match sample_entry::decoder_config(find(
            body.get(AUDIO_SAMPLE_ENTRY_BYTES..)?,
            b"esds",
        )?)?
        .first()?
        {
            0x40 => "aac",
            0x69 | 0x6b => "mp3",
            _ => return None,
        },
        b"Opus" => "opus",
        b"fLaC" => "flac",
        b"alac" => "alac",
        b"ac-3" => "ac3",
        b"ec-3" => "eac3",
        b"samr" => "amr_nb",
        b"sawb" => "amr_wb",
        _ => return None,
    })
}
