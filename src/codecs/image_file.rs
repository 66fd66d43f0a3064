//! A file that is one image (JPEG, PNG, WebP, AVIF), read by `image` and not by libavcodec.

use super::codec::Codec;
use crate::media::CodecParams;

pub(crate) struct ImageFile;

impl Codec for ImageFile {
    fn parses_random_access_points(&self) -> bool {
        true
    }

    fn is_reset_at_sync(&self, _params: &CodecParams) -> bool {
        true
    }

    fn reports_damage_with_threads(&self) -> bool {
        true
    }
}
