//! Decodes the data of a still picture in a video codec with libavcodec, to planes as stored.

use framespool_kernels::{Colorimetry, Planes};

use crate::error::{Error, Result, Site};
use crate::ffmpeg::codec_params::codec_id;
use crate::ffmpeg::{Decoder, Frame, Packet, Received, frame_view};
use crate::media::{Codec, CodecParams, ColorTags};

/// A decoder of single keyframes, kept from image to image.
pub(super) struct KeyframeDecoder {
    codec: &'static str,
    decoder: Option<Decoder>,
    packet: Packet,
    frame: Frame,
}

impl KeyframeDecoder {
    /// A decoder for FFmpeg's codec of this name, whose keyframes contain all parameters. It is
    /// opened for the first picture.
    pub(super) fn new(codec: &'static str) -> Self {
        Self {
            codec,
            decoder: None,
            packet: Packet::new(),
            frame: Frame::new(),
        }
    }

    /// Decodes a picture of this (width, height), whose data may be in several parts.
    pub(super) fn decode(&mut self, site: &Site, parts: &[&[u8]], size: (u32, u32)) -> Result<()> {
        let failed = |reason: String| Error::Decode {
            site: site.clone(),
            reason,
        };
        let mut decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => Decoder::open(site, &params(self.codec), 1)?,
        };
        let packet = self
            .packet
            .allocate(parts.iter().map(|part| part.len()).sum());
        let mut payload =
            packet.ok_or_else(|| Error::io(site, std::io::ErrorKind::OutOfMemory.into()))?;
        for part in parts {
            let (to, rest) = payload.split_at_mut(part.len());
            to.copy_from_slice(part);
            payload = rest;
        }
        decoder.send(&self.packet).map_err(failed)?;
        decoder.drain();
        if decoder.receive(&mut self.frame).map_err(failed)? != Received::Frame {
            return Err(failed(format!(
                "its {} data contains no picture",
                self.codec
            )));
        }
        if let Some(reason) = self
            .frame
            .damage()
            .map(str::to_owned)
            .or_else(|| decoder.logged_error())
        {
            return Err(failed(reason));
        }
        if (self.frame.width(), self.frame.height()) != size {
            let ((width, height), (was_wide, was_high)) =
                (size, (self.frame.width(), self.frame.height()));
            let reason = format!(
                "the image is {was_wide}x{was_high}, but its header states {width}x{height}"
            );
            return Err(Error::malformed(site, reason));
        }
        decoder.flush();
        self.decoder = Some(decoder); // not after an error, which may leave any state
        Ok(())
    }

    /// Planes, bits of a sample and color of the last picture. `tags` of the container take
    /// precedence over those of the data.
    pub(super) fn planes(
        &self,
        site: &Site,
        tags: Option<ColorTags>,
    ) -> Result<(Planes<'_>, u8, Colorimetry)> {
        let unknown = || Error::Unsupported {
            site: site.clone(),
            what: "an unknown pixel format".to_owned(),
        };
        let layout = self.frame.layout().ok_or_else(unknown)?;
        let tags = tags.unwrap_or_else(|| self.frame.color());
        let color = frame_view::color(site, layout.rgb, tags, Default::default())?;
        Ok((
            frame_view::planes(site, &self.frame, &layout)?,
            layout.depth,
            color,
        ))
    }
}

fn params(codec: &str) -> CodecParams {
    CodecParams {
        codec: Codec::of_stream(codec_id(codec).unwrap_or(0), codec),
        tag: 0,
        extradata: Vec::new(),
        width: 0,
        height: 0,
        bits_per_coded_sample: 0,
        color: ColorTags::default(),
        reorder: None,
    }
}
