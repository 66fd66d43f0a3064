//! Keys of clips: digests of everything that determines their frames.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use super::{ClipView, DecoderBackend, LoaderConfig};
use crate::clip_sampler::ClipIndices;
use crate::rng::RngKey;
use crate::source::Identity;

/// Changes when the pixels of any clip change.
const PIXEL_VERSION: u32 = 1;

/// Makes the keys of the clips of a loader.
pub(super) struct ContentKeys(Vec<ViewKeys>);

/// Makes the keys of the clips of one view.
struct ViewKeys {
    /// Digest of what determines the frames of all clips.
    settings: u128,
    /// Whether the pixels depend on the random parameters of the clip.
    is_random: bool,
    pads_with_zeros: bool,
}

impl ContentKeys {
    pub(super) fn new(config: &LoaderConfig) -> Self {
        Self(
            config
                .views
                .iter()
                .map(|view| ViewKeys::new(config, view))
                .collect(),
        )
    }

    /// Digest of what determines the frames of all clips.
    pub(super) fn settings(&self) -> u128 {
        match &self.0[..] {
            [view] => view.settings,
            views => {
                let digests = views.iter().flat_map(|view| view.settings.to_le_bytes());
                xxh3_128(&digests.collect::<Vec<_>>())
            }
        }
    }

    /// The key of a clip of a view. `None` for a file whose content could change without a sign of
    /// it.
    pub(super) fn key(
        &self,
        view: usize,
        file: &Identity,
        sample: &ClipIndices,
        key: RngKey,
    ) -> Option<u128> {
        self.0[view].key(file, sample, key)
    }
}

impl ViewKeys {
    fn new(config: &LoaderConfig, view: &ClipView) -> Self {
        let pipeline = &view.pipeline;
        let settings = format!(
            "{PIXEL_VERSION} {} {} {} {:?} {:?} {} {pipeline:?}",
            env!("CARGO_PKG_VERSION"),
            // It changes with the rules that assign indices to frames.
            crate::index::cache::FORMAT,
            crate::ffmpeg::version(),
            config.options.stream,
            config.options.images,
            // Its samples differ from those of the other decoders.
            config.options.gpu.decoder == DecoderBackend::Nvjpeg,
        );
        Self {
            settings: xxh3_128(settings.as_bytes()),
            is_random: pipeline.is_random(),
            pads_with_zeros: view.clip_sampler.pads_with_zeros(),
        }
    }

    fn key(&self, file: &Identity, sample: &ClipIndices, key: RngKey) -> Option<u128> {
        if !has_version(file) {
            return None;
        }
        let mut digest = Xxh3Default::new();
        digest.update(&self.settings.to_le_bytes());
        match file {
            Identity::File {
                device,
                inode,
                len,
                mtime_ns,
                ctime_ns,
                start,
            } => {
                for number in [*device, *inode, *len, *start] {
                    digest.update(&number.to_le_bytes());
                }
                digest.update(&mtime_ns.to_le_bytes());
                digest.update(&ctime_ns.to_le_bytes());
            }
            Identity::Remote {
                url,
                len,
                tag,
                start,
            } => {
                digest.update(url.as_bytes());
                digest.update(&[0]);
                digest.update(tag.as_bytes());
                digest.update(&len.to_le_bytes());
                digest.update(&start.to_le_bytes());
            }
            Identity::Memory(..) => return None,
        }
        digest.update(&(sample.indices.len() as u64).to_le_bytes());
        sample
            .indices
            .iter()
            .for_each(|index| digest.update(&index.to_le_bytes()));
        if self.pads_with_zeros {
            sample
                .mask
                .iter()
                .for_each(|&real| digest.update(&[u8::from(real)]));
        }
        if self.is_random {
            for number in [key.seed, key.epoch, key.clip, key.occurrence] {
                digest.update(&number.to_le_bytes());
            }
        }
        Some(digest.digest128())
    }
}

/// Whether a change of the content of a file is noticed.
pub(super) fn has_version(file: &Identity) -> bool {
    match file {
        Identity::File { .. } => true,
        Identity::Remote { tag, .. } => !tag.is_empty(),
        Identity::Memory(..) => false,
    }
}
