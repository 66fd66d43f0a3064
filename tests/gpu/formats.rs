//! Tests of what single formats need on the GPU: the same frames as on the CPU, and decoded there.

use framespool::source::MemorySource;
use framespool::units::DecodeIndex;

use super::fault_injection::with_av1;
use super::*;
use crate::common::sei::{HLG, film_grain, with_sei};

/// Decodes all frames on the CPU, and on the GPU without a fallback.
fn assert_gpu_alone_equals_cpu(gpu: &Arc<Gpu>, video: &Video) -> Vec<u8> {
    assert_gpu_alone_transforms_as_cpu(gpu, video, &full_size_pipeline())
}

fn assert_gpu_alone_transforms_as_cpu(
    gpu: &Arc<Gpu>,
    video: &Video,
    pipeline: &TransformPipeline,
) -> Vec<u8> {
    let wanted: Vec<_> = (0..video.index().num_frames())
        .map(PresentationIndex)
        .collect();
    let expected = frames(video, &mut ClipDecoder::new(pipeline.clone()), &wanted);
    let clip_decoder = ClipDecoder::with_gpu(pipeline.clone(), 1, Some(gpu.clone()));
    let mut clip_decoder = clip_decoder.with_nvdec(gpu).expect("a session");
    let got = frames(video, &mut clip_decoder, &wanted);
    assert!(
        clip_decoder.cpu_fallback.is_none(),
        "{:?}",
        clip_decoder.cpu_fallback
    );
    assert!(got == expected, "{:?} {:?}", got.err(), expected.err());
    expected.expect("an intact video")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(crate::common::media().join(name)).expect("readable")
}

fn open_bytes(name: &str, bytes: Vec<u8>) -> Video {
    Video::open(Arc::new(MemorySource::new(name, bytes))).expect("a video")
}

/// A video of the same pictures in two layers: after each NAL unit of a slice, the same with
/// `nuh_layer_id` 1. Its index is that of the base layer, with the positions of these packets.
fn with_second_layer(video: &Video) -> Video {
    let mut index = (**video.index()).clone();
    let length_bytes = usize::from(index.info.params.extradata[21] & 3) + 1;
    let (mut reader, mut packet, mut bytes) = (video.reader(), Vec::new(), Vec::new());
    for at in 0..index.packets.len() {
        reader
            .fetch(DecodeIndex(at as u32), &mut packet)
            .expect("a packet");
        let offset = bytes.len();
        let mut rest = &packet[..];
        while rest.len() > length_bytes {
            let len = rest[..length_bytes]
                .iter()
                .fold(0, |len, &byte| len << 8 | usize::from(byte));
            let (unit, tail) = rest.split_at(length_bytes + len);
            bytes.extend_from_slice(unit);
            if unit[length_bytes] >> 1 & 63 < 32 {
                let layer = bytes.len() + length_bytes + 1;
                bytes.extend_from_slice(unit);
                bytes[layer] |= 1 << 3;
            }
            rest = tail;
        }
        index.packets[at].offset = offset as u64;
        index.packets[at].size = (bytes.len() - offset) as u32;
    }
    Video::with_index(
        Arc::new(MemorySource::new("two layers", bytes)),
        Arc::new(index),
    )
}

#[test]
fn mv_hevc_is_decoded_without_its_second_view() {
    let _guard = exclusive();
    let Some(gpu) = gpu() else { return };
    let simulated = SimulatedGpu::open();
    let base = open_bytes("base", read("video/derived/hevc_main_open_gop_640x360.mp4"));
    let both = with_second_layer(&base);
    let expected = assert_gpu_alone_equals_cpu(&gpu, &base);
    assert!(assert_gpu_alone_equals_cpu(&gpu, &both) == expected);
    // The second view prevents no skipping either.
    let last = PresentationIndex(base.index().num_frames() - 1);
    let skipped = [&base, &both].map(|video| {
        let mut clip_decoder = ClipDecoder::new(small_pipeline());
        frames(video, &mut clip_decoder, &[PresentationIndex(0), last]).expect("frames");
        clip_decoder.take_stats().0.packets_skipped
    });
    assert_eq!(skipped[0], skipped[1]);
    if let Some(simulated) = &simulated {
        simulated.assert_clean("two layers");
    }
}

#[test]
fn sei_messages_have_the_same_effect_as_on_the_cpu() {
    let _guard = exclusive();
    let Some(gpu) = gpu() else { return };
    let simulated = SimulatedGpu::open();
    let tone_map = Transform::ToneMap {
        source_peak: 1000.0,
        target_peak: 203.0,
    };
    let tone_mapped = TransformPipeline::new(vec![tone_map], Dtype::U8, Layout::Nthwc);
    let tone_mapped = tone_mapped.expect("a pipeline");
    for (path, is_hevc) in [
        ("video/codecs/h264_320x240.h264", false),
        ("video/codecs/hevc_176x144.h265", true),
    ] {
        let stream = read(path);
        let plain = open_bytes(path, stream.clone());
        let expected = assert_gpu_alone_equals_cpu(&gpu, &plain);
        let grain = with_sei(&stream, is_hevc, &film_grain(is_hevc), |_| true);
        let got = assert_gpu_alone_equals_cpu(&gpu, &open_bytes(path, grain));
        assert!(got == expected, "{path}: film grain is added");
        // The transfer function matters only for tone mapping.
        let hlg = with_sei(&stream, is_hevc, &HLG, |n| n == 0);
        let hlg = open_bytes(path, hlg);
        let got = assert_gpu_alone_transforms_as_cpu(&gpu, &hlg, &tone_mapped);
        assert!(got != expected, "{path}: HLG is not tone-mapped");
    }
    if let Some(simulated) = &simulated {
        simulated.assert_clean("SEI messages");
    }
}

/// The packets of a video in IVF, which has no codec configuration.
fn ivf(fourcc: &[u8; 4], video: &Video) -> Vec<u8> {
    let params = &video.index().info.params;
    let mut out = b"DKIF\0\0\x20\0".to_vec();
    out.extend_from_slice(fourcc);
    out.extend((params.width as u16).to_le_bytes());
    out.extend((params.height as u16).to_le_bytes());
    out.extend(
        [30u32, 1, video.index().packets.len() as u32, 0]
            .iter()
            .flat_map(|n| n.to_le_bytes()),
    );
    let (mut reader, mut bytes) = (video.reader(), Vec::new());
    for at in 0..video.index().packets.len() as u32 {
        reader.fetch(DecodeIndex(at), &mut bytes).expect("a packet");
        out.extend((bytes.len() as u32).to_le_bytes());
        out.extend(u64::from(at).to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    out
}

#[test]
fn av1_without_configuration_is_decoded_by_its_sequence_headers() {
    let name = "formats::av1_without_configuration_is_decoded_by_its_sequence_headers";
    let Some((gpu, simulated)) = with_av1(name) else {
        return;
    };
    let video = open_bytes("webm", read("video/codecs/av1_10bit_426x240.webm"));
    let expected = assert_gpu_alone_equals_cpu(&gpu, &video);
    let bytes = ivf(b"AV01", &video);
    let mut index = (**open_bytes("ivf", bytes.clone()).index()).clone();
    index.info.params.extradata.clear();
    let source = Arc::new(MemorySource::new("ivf", bytes));
    let video = Video::with_index(source, Arc::new(index));
    assert!(assert_gpu_alone_equals_cpu(&gpu, &video) == expected);
    simulated.assert_clean("AV1 without a configuration");
}

#[test]
fn av1_units_of_one_frame_and_of_several_equal_the_cpu() {
    let name = "formats::av1_units_of_one_frame_and_of_several_equal_the_cpu";
    let Some((gpu, simulated)) = with_av1(name) else {
        return;
    };
    let video = open_bytes("mkv", read("video/derived/av1_hidden_352x288.mkv"));
    let wanted: Vec<_> = (0..video.index().num_frames())
        .step_by(8)
        .map(PresentationIndex)
        .collect();
    let mut cpu = ClipDecoder::new(small_pipeline());
    let expected = frames(&video, &mut cpu, &wanted);
    for seed in 0..6 {
        simulated.set_seed(seed);
        let clip_decoder = ClipDecoder::with_gpu(small_pipeline(), 1, Some(gpu.clone()));
        let mut clip_decoder = clip_decoder.with_nvdec(&gpu).expect("a session");
        let got = frames(&video, &mut clip_decoder, &wanted);
        assert!(got == expected, "{:?}", got.err());
        assert!(
            clip_decoder.cpu_fallback.is_none(),
            "{:?}",
            clip_decoder.cpu_fallback
        );
        simulated.assert_clean(&format!("AV1, seed {seed}"));
    }
    simulated.set_seed(0);
}

fn sample(path: std::path::PathBuf) -> Sample {
    Sample {
        location: MediaLocation::Path(path),
        label: 0,
        extent: SegmentRange::Full,
    }
}

#[test]
fn vp9_with_frames_shown_again_never_begins_on_the_gpu() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let name = "video/codecs/vp9_show_existing_frame.ivf";
    let video = open_bytes("again", read(name));
    let wanted = [PresentationIndex(0), PresentationIndex(3)];
    let expected = frames(&video, &mut ClipDecoder::new(small_pipeline()), &wanted);
    let clip_decoder = ClipDecoder::with_gpu(small_pipeline(), 1, Some(gpu.clone()));
    let mut clip_decoder = clip_decoder.with_nvdec(&gpu).expect("a session");
    simulated.reset_counts();
    assert!(frames(&video, &mut clip_decoder, &wanted) == expected);
    assert_eq!(simulated.calls("cuvidParseVideoData"), 0);
    // Another file with the same parameters is decoded by the GPU.
    let media = crate::common::media();
    let items = [name, "video/codecs/vp9_352x288.ivf"].map(|name| sample(media.join(name)));
    let base = config(&items, &samplings()[0], &small_pipeline(), OnError::Raise);
    let (expected, _) = deliver(base.clone());
    let (lines, stats) = deliver(gpu_config(&base, Some(0), DecoderBackend::Nvdec));
    assert_eq!(lines, expected);
    let reasons: Vec<_> = stats.cpu_fallbacks.keys().collect();
    assert!(reasons.iter().all(|r| r.contains("shown again")) && reasons.len() == 1);
    let by_gpu = stats.frames_decoded_by_gpu;
    assert!(
        by_gpu > 0 && stats.frames_decoded_by_fallback > 0,
        "{stats:?}"
    );
    simulated.assert_clean("VP9 with frames shown again");
}

/// An H.264 file with two damaged GOPs: damage in the first is found by every decoder; of that in a
/// later one, an engine that conceals damage silently reports nothing.
fn file_damaged_twice(gpu: &Arc<Gpu>) -> Vec<u8> {
    let is_suitable = |video: &Video| {
        let index = video.index();
        let closed = |&at: &u32| index.packets[at as usize].is_closed_sync();
        index.direct && index.sync_points.len() >= 4 && index.sync_points.iter().all(closed)
    };
    let candidates = crate::common::videos().into_iter().filter(|entry| {
        entry.codec() == "h264"
            && !entry.is_corrupt()
            && entry.path.ends_with(".mp4")
            && entry.properties["width"].as_u64().is_some_and(|w| w <= 640)
    });
    for entry in candidates {
        let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
        let Ok(video) = Video::open(Arc::new(MemorySource::new("intact", intact.clone()))) else {
            continue;
        };
        if !is_suitable(&video) {
            continue;
        }
        let index = video.index();
        let gop = index.sync_points[2]..index.sync_points[3];
        let wanted: Vec<_> = (0..index.num_frames())
            .map(PresentationIndex)
            .filter(|frame| gop.contains(&index.frames[frame.as_usize()].packet.0))
            .collect();
        for at in gop.clone() {
            let record = index.packets[at as usize];
            let mut bytes = intact.clone();
            let middle = record.offset as usize + record.size as usize / 2;
            for byte in &mut bytes[middle..middle + record.size as usize / 3] {
                *byte ^= 0x5a;
            }
            let video = open_bytes("damaged", bytes.clone());
            let cpu = frames(&video, &mut ClipDecoder::new(small_pipeline()), &wanted);
            let clip_decoder = ClipDecoder::with_gpu(small_pipeline(), 1, Some(gpu.clone()));
            let mut clip_decoder = clip_decoder.with_nvdec(gpu).expect("a session");
            let silent = frames(&video, &mut clip_decoder, &wanted);
            if cpu.is_err() && silent.is_ok() && clip_decoder.cpu_fallback.is_none() {
                // Zeros in a unit of the first GOP: no encoder writes them.
                let first = index.packets[index.sync_points[0] as usize];
                let middle = (first.offset + u64::from(first.size) / 2) as usize;
                bytes[middle..middle + 16].fill(0);
                println!("{}: packet {at}", entry.path);
                return bytes;
            }
        }
    }
    panic!("no file with silent damage");
}

/// A loader in dataset order over an H.264 file with two damaged GOPs and an intact one.
fn damaged_config(gpu: &Arc<Gpu>, folder: &std::path::Path, on_error: OnError) -> LoaderConfig {
    let damaged = folder.join("damaged.mp4");
    if !damaged.exists() {
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(&damaged, file_damaged_twice(gpu)).expect("written");
    }
    let intact = crate::common::media().join("video/codecs/h264_b_pyramid.mp4");
    let items = [sample(damaged), sample(intact)];
    let windows: ClipSamplerRef =
        Arc::new(Windows::new(4, 1, Some(4), PadMode::Blank).expect("a clip sampler"));
    let mut config = config(&items, &windows, &small_pipeline(), on_error);
    config.order.shuffle = framespool::batch_sampler::Shuffle::Off;
    config.options.memory_budget = 8 << 20;
    config
}

#[test]
fn reported_damage_has_one_outcome_in_every_schedule() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("framespool-reported-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    for on_error in [OnError::Raise, OnError::Replace] {
        simulated.set_behaviors("conceals_silently=1");
        let base = damaged_config(&gpu, &folder, on_error);
        let (expected, _) = deliver(base.clone());
        for (decoder, cpu_threads, nvdec_threads, lookahead_clips, pace) in [
            (DecoderBackend::Nvdec, 1, 1, 0, ""),
            (DecoderBackend::Nvdec, 1, 3, 60, "status_after_map=1"),
            (DecoderBackend::Auto, 1, 3, 60, ""),
            (DecoderBackend::Auto, 3, 1, 60, "busy_map=1"),
            (DecoderBackend::Auto, 2, 1, 8, "slow_create=1"),
        ] {
            let what = format!("{on_error:?} {decoder:?} {cpu_threads} {nvdec_threads} {pace}");
            simulated.set_seed(0); // resets the behaviors
            simulated.set_behaviors(pace);
            let mut config = gpu_config(&base, Some(0), decoder);
            config.options.gpu.nvdec_threads = Some(nvdec_threads);
            config.options.num_threads = cpu_threads;
            config.options.lookahead_clips = lookahead_clips;
            let (lines, _) = deliver(config);
            assert_eq!(lines, expected, "{what}");
        }
    }
    simulated.set_seed(0);
    let _ = std::fs::remove_dir_all(&folder);
    simulated.assert_clean("reported damage");
}

#[test]
fn after_a_report_of_damage_the_cpu_decodes_the_rest_of_the_file() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("framespool-silent-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    simulated.set_behaviors("conceals_silently=1");
    for (on_error, lookahead_clips) in [(OnError::Raise, 60), (OnError::Skip, 0)] {
        let base = damaged_config(&gpu, &folder, on_error);
        let (expected, _) = deliver(base.clone());
        let mut config = gpu_config(&base, Some(0), DecoderBackend::Nvdec);
        config.options.gpu.nvdec_threads = Some(1);
        config.options.lookahead_clips = lookahead_clips;
        let (lines, stats) = deliver(config);
        assert_eq!(lines, expected, "{on_error:?}");
        assert!(
            stats.frames_decoded_by_fallback > 0 && stats.frames_decoded_by_gpu > 0,
            "the other file is decoded by the GPU: {stats:?}"
        );
        assert_eq!(stats.cpu_fallbacks.values().sum::<u64>(), 1, "{stats:?}");
    }
    simulated.set_seed(0);
    let _ = std::fs::remove_dir_all(&folder);
    simulated.assert_clean("silent damage");
}

#[test]
fn a_video_with_reported_damage_stays_on_the_cpu() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    simulated.set_behaviors("conceals_silently=1");
    let bytes = file_damaged_twice(&gpu);
    // The last frame of each GOP. The damage of the first one is found, that of a later one is not.
    let intact = open_bytes("damaged", bytes.clone());
    let index = intact.index();
    let starts = index.key_frames();
    let starts = starts.iter().map(|frame| frame.0).skip(1);
    let ends = starts.chain([index.num_frames()]);
    let wanted: Vec<_> = ends.map(|end| [PresentationIndex(end - 1)]).collect();
    let outcomes = |on_gpu: bool| -> Vec<_> {
        let video = open_bytes("damaged", bytes.clone());
        let decode = |wanted: &[PresentationIndex; 1]| {
            // As for calls with other transforms: a decoder for each.
            let mut clip_decoder = ClipDecoder::new(small_pipeline());
            if on_gpu {
                clip_decoder = ClipDecoder::with_gpu(small_pipeline(), 1, Some(gpu.clone()));
                clip_decoder = clip_decoder.with_nvdec(&gpu).expect("a session");
            }
            let decoded = frames(&video, &mut clip_decoder, wanted).is_ok();
            assert_eq!(
                clip_decoder.cpu_fallback.is_some(),
                on_gpu,
                "every decoder says why"
            );
            decoded
        };
        wanted.iter().map(decode).collect()
    };
    let expected = outcomes(false);
    assert!(expected.contains(&true) && expected.contains(&false));
    assert_eq!(outcomes(true), expected);
    simulated.set_seed(0);
    simulated.assert_clean("damage in a video");
}
