//! Reads codec parameters from the single video entry of an `stsd` box.
//! The codec configuration is copied unparsed for the decoder.

use super::boxes::{children, find};
use super::read_u32_be;
use crate::codecs::{self, ConfigurationBox};
use crate::error::{Result, Site};
use crate::ffmpeg::codec_params::codec_id;
use crate::limits::Limits;
use crate::media::{Codec, CodecParams, ColorTags};

/// Length of a `VisualSampleEntry` before its child boxes (ISO/IEC 14496-12 12.1.3).
const VISUAL_SAMPLE_ENTRY_BYTES: usize = 78;

/// The only entry of the table, if it is long enough for a video entry; `None` if there are
/// several.
fn only_entry(stsd: &[u8]) -> Option<([u8; 4], &[u8])> {
    if read_u32_be(stsd, 4)? != 1 {
        return None;
    }
    children(stsd.get(8..)?)
        .next()
        .filter(|(_, body)| body.len() >= VISUAL_SAMPLE_ENTRY_BYTES)
}

/// Whether the table's only entry has a codec that is read here.
pub(super) fn is_supported(stsd: &[u8]) -> bool {
    only_entry(stsd).is_some_and(|(kind, _)| codecs::by_sample_entry(kind).is_some())
}

/// Scheme of the first encrypted entry of a table (ISO/IEC 14496-12 8.12, ISO/IEC 23001-7), as its
/// four characters.
pub(super) fn encryption_scheme(stsd: &[u8]) -> Option<String> {
    let (kind, body) =
        children(stsd.get(8..)?).find(|(kind, _)| [b"encv", b"drmi"].contains(&kind))?;
    let scheme = || {
        let inner = body.get(VISUAL_SAMPLE_ENTRY_BYTES..)?;
        find(find(inner, b"sinf")?, b"schm")?.get(4..8)
    };
    Some(String::from_utf8_lossy(scheme().unwrap_or(&kind)).into_owned())
}

/// Width and height of the table's only entry.
pub(super) fn size(stsd: &[u8]) -> Option<(u32, u32)> {
    let (_, body) = only_entry(stsd)?;
    let side = |at: usize| u32::from(u16::from_be_bytes([body[at], body[at + 1]]));
    Some((side(24), side(26)))
}

/// `Ok(None)` for codecs and variants left to libavformat.
pub(super) fn codec_params(
    site: &Site,
    stsd: &[u8],
    limits: &Limits,
) -> Result<Option<CodecParams>> {
    let Some((kind, body)) = only_entry(stsd) else {
        return Ok(None);
    };
    let inner = &body[VISUAL_SAMPLE_ENTRY_BYTES..];
    let Some((name, entry)) = codecs::by_sample_entry(kind) else {
        return Ok(None);
    };
    let extradata = match entry.configuration {
        ConfigurationBox::None => Some(Vec::new()),
        ConfigurationBox::Of(kind) => find(inner, &kind).map(<[u8]>::to_vec),
        ConfigurationBox::Esds(object_type) => {
            find(inner, b"esds").and_then(|esds| specific_info(esds, object_type))
        }
    };
    let (Some(extradata), Some((width, height))) = (extradata, size(stsd)) else {
        return Ok(None);
    };
    Limits::check(
        site,
        "codec configuration size",
        extradata.len() as u64,
        limits.extradata_bytes,
    )?;
    let Some(id) = codec_id(name) else {
        return Ok(None);
    };
    Limits::check(
        site,
        "picture area",
        u64::from(width) * u64::from(height),
        limits.picture_samples,
    )?;
    Ok(Some(CodecParams {
        codec: Codec::of_stream(id, name),
        tag: u32::from_le_bytes(kind),
        extradata,
        width,
        height,
        bits_per_coded_sample: i32::from(u16::from_be_bytes([body[74], body[75]])),
        color: color(inner),
        reorder: None,
    }))
}

/// Horizontal and vertical spacing of `pasp`.
pub(super) fn pixel_aspect(stsd: &[u8]) -> Option<(u32, u32)> {
    let (_, body) = only_entry(stsd)?;
    let pasp = find(&body[VISUAL_SAMPLE_ENTRY_BYTES..], b"pasp")?;
    Some((read_u32_be(pasp, 0)?, read_u32_be(pasp, 4)?)).filter(|p| p.0 > 0 && p.1 > 0)
}

fn color(inner: &[u8]) -> ColorTags {
    colr(inner).or_else(|| vpcc(inner)).unwrap_or_default()
}

fn colr(inner: &[u8]) -> Option<ColorTags> {
    let body = find(inner, b"colr")?;
    let tag = |at: usize| {
        Some(u8::try_from(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?)).unwrap_or(2))
    };
    let kind = body.get(..4)?;
    if kind != b"nclx" && kind != b"nclc" {
        return None;
    }
    Some(ColorTags {
        primaries: tag(4)?,
        transfer: tag(6)?,
        matrix: tag(8)?,
        full_range: if kind == b"nclx" {
            Some(body.get(10)? & 0x80 != 0)
        } else {
            None
        },
    })
}

fn vpcc(inner: &[u8]) -> Option<ColorTags> {
    let body = find(inner, b"vpcC")?;
    Some(ColorTags {
        full_range: Some(body.get(6)? & 1 != 0),
        primaries: *body.get(7)?,
        transfer: *body.get(8)?,
        matrix: *body.get(9)?,
    })
}

/// `DecoderSpecificInfo` of an `esds` box that declares this object type.
fn specific_info(esds: &[u8], object_type: u8) -> Option<Vec<u8>> {
    let config = decoder_config(esds)?;
    if *config.first()? != object_type {
        return None;
    }
    let mut rest = config.get(13..)?;
    match descriptor(&mut rest) {
        Some((5, info)) => Some(info.to_vec()),
        _ => Some(Vec::new()),
    }
}

/// `DecoderConfigDescriptor` of an `esds` box (ISO/IEC 14496-1 7.2.6), which begins with the object
/// type.
pub(super) fn decoder_config(esds: &[u8]) -> Option<&[u8]> {
    let mut rest = esds.get(4..)?;
    let (tag, mut body) = descriptor(&mut rest)?;
    if tag != 3 {
        return None;
    }
    let flags = *body.get(2)?;
    let mut skip = 3;
    if flags & 0x80 != 0 {
        skip += 2;
    }
    if flags & 0x40 != 0 {
        skip += 1 + usize::from(*body.get(skip)?);
    }
    if flags & 0x20 != 0 {
        skip += 2;
    }
    body = body.get(skip..)?;
    let (tag, config) = descriptor(&mut body)?;
    (tag == 4).then_some(config)
}

/// Tag and body of the next descriptor; advances `rest` past it.
fn descriptor<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let tag = *rest.first()?;
    let (mut len, mut at) = (0usize, 1);
    for _ in 0..4 {
        let byte = *rest.get(at)?;
        at += 1;
        len = len << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    let end = at.checked_add(len)?.min(rest.len());
    let body = rest.get(at..end)?;
    *rest = &rest[end..];
    Some((tag, body))
}
