//! In: a video.
//! Out: what its first picture says about its colours.
//! Never: paints it.

use super::Video;
use crate::decode::FrameDecoder;
use crate::error::Result;
use crate::media::{CodecKind, ColourTags};
use crate::plan;
use crate::units::DisplayIndex;

impl Video {
    /// Colour description of the stream or, where that is silent, of the container: the first picture is decoded, since
    /// most streams say it nowhere else. Nothing is said of pictures' files and of videos without frames.
    ///
    /// # Errors
    /// Those of decoding, and what `watch` says.
    pub fn colour(&self, watch: &dyn Fn() -> Result<()>) -> Result<ColourTags> {
        let mut tags = self.index.info.params.colour;
        if self.index.frames.is_empty() || self.index.info.params.codec.kind == CodecKind::Still {
            return Ok(tags);
        }
        let mut reader = self.reader();
        for run in plan::runs(&self.index, &[DisplayIndex(0)]) {
            FrameDecoder::new().run(&mut reader, &run, watch, |_, frame| {
                tags = frame.colour();
                Ok(())
            })?;
        }
        Ok(tags)
    }
}
