//! Deinterlaces frames of interlaced video before they are transformed, if the pipeline requires
//! it. Logs interlaced video that is not deinterlaced, once per process for each codec in each
//! container.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use framespool_kernels::Deinterlace;

use super::{InputFrame, TransformExecutor};
use crate::error::{Error, Result, Site};
use crate::ffmpeg::Frame;
use crate::ffmpeg::frame_view::with_view;
use crate::index::VideoIndex;
use crate::limits::resize;
use crate::media::DisplayGeometry;
use crate::transforms::ClipShape;

const LOG_TARGET: &str = "framespool::decode";

static LOGGED: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

impl TransformExecutor {
    /// How a frame of this video is deinterlaced; `None` if it stays as it is.
    pub(super) fn deinterlace(
        &self,
        index: &VideoIndex,
        input: &InputFrame<'_>,
    ) -> Option<Deinterlace> {
        let method = self.pipeline.deinterlace;
        let deinterlace = method.and_then(|method| {
            let kept = index.first_field.get().copied().flatten()?;
            Some(Deinterlace { method, kept })
        });
        if deinterlace.is_none() && input.is_interlaced() {
            warn(index, method.is_some());
        }
        deinterlace
    }

    /// Like [`apply_to_view`](Self::apply_to_view), for a decoded frame that may have to be
    /// deinterlaced first.
    #[expect(clippy::too_many_arguments, reason = "where from, by what, where to")]
    pub(super) fn apply_to_frame(
        &mut self,
        site: &Site,
        frame: &Frame,
        deinterlace: Option<Deinterlace>,
        display: DisplayGeometry,
        shape: &ClipShape,
        clip: &mut [u8],
        at: (usize, usize),
    ) -> Result<()> {
        let unsupported = |e: framespool_kernels::PassError| Error::Unsupported {
            site: site.clone(),
            what: e.to_string(),
        };
        with_view(site, frame, self.pipeline.assumed, |view| {
            let Some(deinterlace) = deinterlace else {
                return self.apply_to_view(site, view, display, shape, clip, at);
            };
            let mut memory = std::mem::take(&mut self.deinterlaced);
            let bytes = Deinterlace::memory_bytes(view).map_err(unsupported)?;
            resize(site, &mut memory, bytes)?;
            let deinterlaced = deinterlace.run(view, &mut memory).map_err(unsupported);
            let done = deinterlaced
                .and_then(|view| self.apply_to_view(site, &view, display, shape, clip, at));
            self.deinterlaced = memory;
            done
        })
    }
}

/// Logs a warning unless there was one for another file of this kind. `is_requested`: the video
/// would be deinterlaced if the order of its fields were known.
fn warn(index: &VideoIndex, is_requested: bool) {
    let kind = (
        index.info.params.codec.name.clone(),
        index.container.clone(),
    );
    let (codec, container) = (kind.0.clone(), kind.1.clone());
    if !LOGGED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(kind)
    {
        return;
    }
    let advice = if is_requested {
        "Deinterlacing does not change it, because its headers state no order of fields, or each picture is one \
         field; deinterlace the file, for example with FFmpeg's filter bwdif"
    } else {
        "To avoid that, begin the transforms with Deinterlace(\"linear\"), or use Video(deinterlace=\"linear\"), or deinterlace the file, for example with \
         FFmpeg's filter bwdif"
    };
    log::warn!(
        target: LOG_TARGET,
        "{}: interlaced video; its frames are delivered as stored, with the lines of two fields, which show moving \
         objects at two times. {advice}. Other files of this kind ({codec} in {container}) are not reported",
        index.site.file
    );
}
