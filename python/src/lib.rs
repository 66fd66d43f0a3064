//! Python module of framespool: converts arguments, results and errors between Python and the
//! engine crate. It releases the GIL while files are read or frames are decoded.
//!
//! The Python package `framespool` is the API; this module is private to it. A class of the package
//! checks its arguments and sets the defaults, then calls a function of this module with all of
//! them. `docs/reference/` documents the package, and `_framespool.pyi` this module. It keeps no
//! state of its own: loaders, videos and datasets are objects of the engine, and an engine's error
//! becomes an exception of `framespool.errors`.

#![warn(unreachable_pub)]

mod annotation_readers;
mod archive_readers;
mod audio;
mod batch_sampler;
mod clip_sampler;
mod clip_store;
mod columnar_readers;
mod counters;
mod dlpack;
mod element_type;
mod errors;
mod file_object;
mod gpu;
mod images;
mod index_cache;
mod interrupt;
mod loader;
mod loader_args;
mod log_records;
mod sample_table;
mod shot_content;
mod sources;
mod tensor;
mod tensor_view;
mod transforms;
mod video;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _framespool {
    use super::*;

    #[pymodule_export]
    use annotation_readers::read_folder;
    #[pymodule_export]
    use annotation_readers::{
        normalized_rows, read_annotation_table, read_lerobot, read_lerobot_tables, read_text,
        row_statistics,
    };
    #[pymodule_export]
    use annotation_readers::{
        read_annotation_file, read_dali_file_list, read_dali_frames, read_json_lines,
    };
    #[pymodule_export]
    use archive_readers::{read_lmdb, read_recordio, read_tfrecord, read_webdataset};
    #[pymodule_export]
    use audio::AudioFile;
    #[pymodule_export]
    use batch_sampler::BatchSampler;
    #[pymodule_export]
    use clip_sampler::{ClipInfo, num_clips_of, sample};
    #[pymodule_export]
    use clip_store::{clip_store_runs, prune_clip_store};
    #[pymodule_export]
    use columnar_readers::read_tables;
    #[pymodule_export]
    use counters::counters;
    #[pymodule_export]
    use gpu::{
        gpu_clear_decoder_cache, gpu_count, gpu_decode_throughput, gpu_decoder_cache_stats,
        gpu_devices, gpu_startup_seconds, gpu_unavailable_reason,
    };
    #[pymodule_export]
    use images::{apply, decode_images, is_image, sample_transform_params};
    #[pymodule_export]
    use index_cache::{Index, flush_index};
    #[pymodule_export]
    use loader::{Loader, cores};
    #[pymodule_export]
    use sample_table::SampleTable;
    #[pymodule_export]
    use shot_content::content_differences;
    #[pymodule_export]
    use sources::{display_name, remote_stats, without_signature};
    #[pymodule_export]
    use tensor::{Tensor, tensor_of, tensors_on_gpu};
    #[pymodule_export]
    use video::{Clip, FrameIterator, Video};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // The first conversion of a value that is neither bool nor NumPy bool makes PyO3 intern a
        // string; this happens with every `index=`. A child forked while another thread interns it
        // would wait forever, so intern it here. See tests/python/test_index.py,
        // test_forks_while_indices_are_written_do_no_harm.
        let _ = module.extract::<bool>();
        log_records::install();
        // Cargo's 0.2.0-rc.1 is 0.2.0rc1 in Python, as in the wheel's metadata.
        let version = env!("CARGO_PKG_VERSION").replace("-rc.", "rc");
        module.add("__version__", version)?;
        module.add("ffmpeg_version", framespool::ffmpeg::version())?;
        module.add("ffmpeg_uses_assembly", framespool::ffmpeg::uses_assembly())?;
        module.add("video_extensions", &*framespool_datasets::VIDEO_EXTENSIONS)?;
        module.add("image_extensions", framespool::source::IMAGE_EXTENSIONS)?;
        module.add("image_signature_bytes", framespool::image::SNIFF_BYTES)?;
        module.add("simd_backend", framespool_kernels::backend_name())
    }
}
