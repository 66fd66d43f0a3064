//! Reads the color description of a video from its first decoded frame.

use super::Video;
use crate::decode::SoftwareDecoder;
use crate::decode::plan;
use crate::error::Result;
use crate::media::ColorTags;
use crate::units::PresentationIndex;

impl Video {
    /// Returns the color description of the stream or, if the stream has none, of the container.
    /// Decodes the first frame, since most streams state it nowhere else. For image files and
    /// videos without frames, returns the description from the index.
    ///
    /// # Errors
    /// Any error from decoding; that of an interrupt.
    pub fn color(&self) -> Result<ColorTags> {
        let mut tags = self.index.info.params.color;
        if self.index.frames.is_empty() || self.index.info.params.codec.is_image {
            return Ok(tags);
        }
        let mut reader = self.reader();
        for range in plan::plan_decode_ranges(&self.index, &[PresentationIndex(0)]) {
            SoftwareDecoder::new().run(&mut reader, &range, |_, frame| {
                tags = self.index.color_of_frame(frame.color());
                Ok(())
            })?;
        }
        Ok(tags)
    }
}
