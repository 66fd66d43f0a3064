//! Tests JPEG decoding through nvJPEG: its planes equal libavcodec's on the simulated GPU, and
//! nearly on a real one. Varies the order of asynchronous work and the number of workers, and makes
//! any call fail. Faults need the simulated GPU (`tests/simulated_gpu/build.sh`).

use std::sync::Arc;

use crate::common::{Entry, images, named};
use crate::exclusive;
use crate::simulated_driver::SimulatedGpu;
use framespool::error::Site;
use framespool::ffmpeg::{Decoder, Frame, Packet, Received};
use framespool::gpu::Gpu;
use framespool::media::{Codec, CodecParams, ColorTags};
use framespool_nvdec::cuda::{Device, Memory, Stream};
use framespool_nvdec::jpeg::{Backend, JpegDecoder, JpegHeader};
use framespool_nvdec::{Error, Result};

/// Returns the first GPU with nvJPEG, or `None` (and prints a line) if there is none.
fn device() -> Option<Arc<Device>> {
    let found =
        Device::open(0).and_then(|device| framespool_nvdec::jpeg::available().map(|_| device));
    match found {
        Ok(device) => Some(device),
        // nvJPEG is not part of the driver, so a machine with a GPU may not have it.
        Err(error @ Error::NoNvjpeg { .. }) if SimulatedGpu::open().is_none() => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => {
            assert!(
                std::env::var_os("FRAMESPOOL_GPU_TESTS").is_none(),
                "a GPU with nvJPEG must be here: {error}"
            );
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

/// Returns the JPEG files in these folders of images, by file extension, with their bytes.
fn files(folders: &[&str]) -> Vec<(String, Vec<u8>)> {
    let is_wanted = |entry: &Entry| {
        let is_in = |folder: &&str| entry.path.starts_with(&format!("images/{folder}/"));
        folders.iter().any(is_in) && (entry.path.ends_with(".jpg") || entry.path.ends_with(".jpeg"))
    };
    let mut files: Vec<_> = images()
        .iter()
        .filter(|entry| is_wanted(entry))
        .map(read)
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no JPEG files in {folders:?}");
    files
}

fn read(entry: &Entry) -> (String, Vec<u8>) {
    (
        entry.path.clone(),
        std::fs::read(entry.root.join(&entry.path)).expect("it can be read"),
    )
}

/// Returns up to `count` of the smaller files, spread over all of them.
fn subset(files: &[(String, Vec<u8>)], count: usize) -> Vec<(String, Vec<u8>)> {
    let mut some: Vec<_> = files
        .iter()
        .filter(|(_, bytes)| bytes.len() < 150_000)
        .cloned()
        .collect();
    let step = (some.len() / count).max(1);
    some = some.into_iter().step_by(step).take(count).collect();
    some
}

/// Returns the samples of the planes, without padding, as libavcodec decodes them.
fn decode_with_ffmpeg(file: &[u8]) -> Vec<u8> {
    let id = ffmpeg_sys_next::AVCodecID::AV_CODEC_ID_MJPEG as u32;
    let codec = Codec::of_stream(id, "mjpeg");
    let color = ColorTags {
        primaries: 2,
        transfer: 2,
        matrix: 2,
        full_range: None,
    };
    let params = CodecParams {
        codec,
        tag: 0,
        extradata: Vec::new(),
        width: 0,
        height: 0,
        bits_per_coded_sample: 0,
        color,
        reorder: None,
    };
    let mut decoder =
        Decoder::open(&Site::file(&"a JPEG file".into()), &params, 1).expect("a decoder");
    let mut packet = Packet::new();
    packet
        .allocate(file.len())
        .expect("memory")
        .copy_from_slice(file);
    decoder.send(&packet).expect("a good file");
    let mut frame = Frame::new();
    assert_eq!(decoder.receive(&mut frame), Ok(Received::Frame));
    let mut samples = Vec::new();
    frame.raw_planes(|row| samples.extend_from_slice(row));
    samples
}

/// Planes copied to memory of their own on the decoder's stream: the data that a later reader sees.
struct DeviceImage {
    memory: Memory,
    /// The offset, pitch, width and height of each plane.
    planes: Vec<(usize, usize, usize, usize)>,
    backend: Backend,
}

fn decode_to_device(
    device: &Arc<Device>,
    decoder: &mut JpegDecoder,
    file: &[u8],
) -> Result<DeviceImage> {
    let stream = decoder.stream().clone();
    let planes = decoder.decode(file)?;
    let (log2_w, log2_h) = planes.log2_chroma.unwrap_or((0, 0));
    let (mut bytes, mut kept) = (0, Vec::new());
    for plane in 0..if planes.log2_chroma.is_some() { 3 } else { 1 } {
        let (w, h) = if plane == 0 { (0, 0) } else { (log2_w, log2_h) };
        let (width, height) = (
            planes.width.div_ceil(1 << w) as usize,
            planes.height.div_ceil(1 << h) as usize,
        );
        kept.push((bytes, planes.planes[plane].pitch_bytes, width, height));
        bytes += planes.planes[plane].pitch_bytes * height;
    }
    let memory = device.allocate(bytes)?;
    for (plane, (offset, pitch, _, height)) in kept.iter().enumerate() {
        stream.copy(
            memory.address() + *offset as u64,
            planes.planes[plane].address,
            pitch * height,
        )?;
    }
    Ok(DeviceImage {
        memory,
        planes: kept,
        backend: planes.backend,
    })
}

impl DeviceImage {
    fn samples(&self, stream: &Stream) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.memory.len()];
        stream.download(&mut bytes, self.memory.address())?;
        let rows = self
            .planes
            .iter()
            .flat_map(|&(offset, pitch, width, height)| {
                (0..height).map(move |row| offset + row * pitch..offset + row * pitch + width)
            });
        Ok(rows.flat_map(|row| bytes[row].to_vec()).collect())
    }
}

/// Asserts equality on the simulated GPU, and similarity on a real one, whose inverse transform
/// differs.
#[track_caller]
fn assert_same_samples(what: &str, got: &[u8], wanted: &[u8], exact: bool) {
    assert_eq!(got.len(), wanted.len(), "{what}: samples");
    if exact {
        let wrong = got.iter().zip(wanted).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{what}: first wrong sample");
        return;
    }
    let differences = got
        .iter()
        .zip(wanted)
        .map(|(a, b)| u64::from(a.abs_diff(*b)));
    let (sum, most) = differences.fold((0, 0), |(sum, most): (u64, u64), d| (sum + d, most.max(d)));
    assert!(
        most <= 6 && sum * 2 <= got.len() as u64,
        "{what}: off by up to {most}, {sum} in all"
    );
}

/// Decodes files without waiting between them and compares them afterwards. Returns how many files
/// the hardware backend decoded, and how many other backends.
fn decode_all(
    device: &Arc<Device>,
    decoder: &mut JpegDecoder,
    files: &[(String, Vec<u8>)],
    exact: bool,
) -> [usize; 2] {
    let mut taken = [0; 2];
    for part in files.chunks(8) {
        let kept: Vec<_> = part
            .iter()
            .map(|(name, file)| (name, file, decode_to_device(device, decoder, file)))
            .collect();
        for (name, file, outcome) in kept {
            let kept = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_same_samples(
                name,
                &kept.samples(decoder.stream()).unwrap(),
                &decode_with_ffmpeg(file),
                exact,
            );
            taken[usize::from(kept.backend != Backend::Hardware)] += 1;
        }
    }
    taken
}

/// Returns the numbers of live GPU objects, except those that exist until the process ends.
fn live_objects(simulated: &SimulatedGpu) -> Vec<(&'static str, u64)> {
    let gpu = Gpu::open(0).expect("it is open");
    let mut left = simulated.live_objects(&gpu);
    left.extend(simulated.live_jpeg_objects());
    left
}

#[test]
fn every_good_file_equals_ffmpegs_planes() {
    let _guard = exclusive();
    let Some(device) = device() else { return };
    let simulated = SimulatedGpu::open();
    let files = files(&["classes"]);
    let mut decoder = JpegDecoder::new(&device).unwrap();
    let [hardware, software] = decode_all(&device, &mut decoder, &files, simulated.is_some());
    println!(
        "{} files: {hardware} by the engines, {software} by the hybrid",
        files.len()
    );
    let suited = |file: &[u8]| {
        JpegHeader::parse(file).unwrap().process == framespool_nvdec::jpeg::CodingProcess::Baseline
    };
    if decoder.engines().unwrap() > 0 {
        assert_eq!(
            hardware,
            files.iter().filter(|(_, file)| suited(file)).count()
        );
    } else {
        assert_eq!(hardware, 0);
    }
    for backend in [Backend::Hybrid, Backend::GpuHybrid] {
        let mut decoder = JpegDecoder::with_backends(&device, &[backend]).unwrap();
        assert_eq!(
            decode_all(
                &device,
                &mut decoder,
                &subset(&files, 12),
                simulated.is_some()
            )[0],
            0
        );
    }
    if let Some(simulated) = simulated {
        simulated.assert_clean("all files");
    }
}

#[test]
fn odd_files_decode_or_are_refused_with_a_reason() {
    let _guard = exclusive();
    let Some(device) = device() else { return };
    let simulated = SimulatedGpu::open();
    let mut decoder = JpegDecoder::new(&device).unwrap();
    let (mut good, mut refused) = (0, Vec::new());
    for (name, file) in files(&["odd"]) {
        match decode_to_device(&device, &mut decoder, &file) {
            Ok(kept) => {
                assert_same_samples(
                    &name,
                    &kept.samples(decoder.stream()).unwrap(),
                    &decode_with_ffmpeg(&file),
                    simulated.is_some(),
                );
                good += 1;
            }
            Err(error) => {
                assert!(
                    error.is_about_stream() && error.to_string().contains("CPU"),
                    "{name}: {error}"
                );
                refused.push(format!("{name}: {error}"));
            }
        }
    }
    println!("{good} decoded, refused: {refused:#?}");
    assert!(
        good >= 30
            && refused.iter().any(|r| r.contains("cmyk"))
            && refused.iter().any(|r| r.contains("12bit"))
    );
    for (name, file) in files(&["corrupt"]) {
        // nvJPEG may not detect the damage, which is no failure. The decoder and the next file must
        // not be affected.
        if let Err(error) = decode_to_device(&device, &mut decoder, &file) {
            assert!(error.is_about_stream(), "{name}: {error}");
        }
    }
    decode_all(
        &device,
        &mut decoder,
        &subset(&files(&["classes"]), 6),
        simulated.is_some(),
    );
    if let Some(simulated) = simulated {
        simulated.assert_clean("odd files");
    }
}

#[test]
fn results_are_equal_for_every_allowed_order() {
    let _guard = exclusive();
    let (Some(device), Some(simulated)) = (device(), SimulatedGpu::open()) else {
        return;
    };
    let files = subset(&files(&["classes", "odd/derived"]), 10);
    let files: Vec<_> = files
        .into_iter()
        .filter(|(_, file)| JpegHeader::parse(file).is_ok_and(|f| f.depth_bits == 8))
        .collect();
    let mut decoder = JpegDecoder::new(&device).unwrap();
    let files: Vec<_> = files
        .into_iter()
        .filter(|(_, file)| decoder.supports(&JpegHeader::parse(file).unwrap()).is_ok())
        .collect();
    assert!(files.len() > 5, "{}", files.len());
    for seed in 0..24 {
        simulated.set_seed(seed);
        decode_all(&device, &mut decoder, &files, true);
        simulated.assert_clean(&format!("seed {seed}"));
    }
    simulated.set_seed(0);
}

#[test]
fn workers_do_not_meet() {
    let _guard = exclusive();
    let Some(device) = device() else { return };
    let simulated = SimulatedGpu::open();
    let files = subset(&files(&["classes"]), 12);
    for seed in [0, 5, 11] {
        if let Some(simulated) = &simulated {
            simulated.set_seed(seed);
        }
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (device, files, exact) = (&device, &files, simulated.is_some());
                let work = move || {
                    let mut decoder = JpegDecoder::new(device).unwrap();
                    let mut mine = files.clone();
                    mine.rotate_left(worker * 3);
                    decode_all(device, &mut decoder, &mine, exact);
                };
                std::thread::Builder::new()
                    .name(format!("worker {worker}"))
                    .spawn_scoped(scope, work)
                    .unwrap();
            }
        });
    }
    if let Some(simulated) = simulated {
        simulated.set_seed(0);
        simulated.assert_clean("four workers");
    }
}

#[test]
fn one_failing_call_fails_at_most_one_file() {
    let _guard = exclusive();
    let (Some(device), Some(simulated)) = (device(), SimulatedGpu::open()) else {
        return;
    };
    let mut files = subset(&files(&["classes"]), 3);
    files.push(read(&named("images/odd/grey_progressive.jpg")));
    let wanted: Vec<Vec<u8>> = files
        .iter()
        .map(|(_, file)| decode_with_ffmpeg(file))
        .collect();
    let before = {
        drop(JpegDecoder::new(&device)); // creates the nvJPEG instances
        live_objects(&simulated)
    };
    let functions = [
        ("nvjpegJpegStateCreate", 5),
        ("nvjpegJpegStateCreate", 6),
        ("nvjpegJpegStreamCreate", 6),
        ("nvjpegJpegStreamParseHeader", 4),
        ("nvjpegJpegStreamParseHeader", 3),
        ("nvjpegDecodeBatchedSupported", 9),
        ("nvjpegGetImageInfo", 3),
        ("nvjpegGetImageInfo", 8),
        ("nvjpegDecodeBatchedInitialize", 6),
        ("nvjpegDecodeBatched", 3),
        ("nvjpegDecodeBatched", 4),
        ("nvjpegDecodeBatched", 5),
        ("nvjpegDecodeBatched", 6),
        ("nvjpegDecode", 10),
        ("nvjpegDecode", 8),
        ("cuMemAlloc_v2", 2),
        ("cuEventCreate", 2),
        ("cuEventRecord", 400),
        ("cuEventSynchronize", 999),
        ("cuStreamSynchronize", 999),
        ("cuCtxSetCurrent", 201),
        ("cuStreamCreateWithPriority", 2),
    ];
    for (function, code) in functions {
        for call in 1..=6 {
            simulated.reset();
            simulated.set_fault(&format!("{function}:{call}={code}"));
            let outcome = JpegDecoder::new(&device).map(|mut decoder| {
                let mut bad = Vec::new();
                for ((name, file), wanted) in files.iter().zip(&wanted).cycle().take(8) {
                    let samples = decode_to_device(&device, &mut decoder, file)
                        .and_then(|kept| kept.samples(decoder.stream()));
                    match samples {
                        Ok(samples) => assert_same_samples(name, &samples, wanted, true),
                        Err(error) => bad.push(error),
                    }
                }
                bad
            });
            let hit = simulated.calls(function) >= call;
            let what = format!("{function} returns {code} at call {call}");
            match outcome {
                Ok(bad) => {
                    assert!(bad.len() <= 1, "{what}: {bad:?}");
                    // Some failures are recovered from, by another backend or by another attempt.
                    let refusal = ["Supported", "ParseHeader", "Batched"]
                        .iter()
                        .any(|part| function.contains(part));
                    let recovered = refusal && matches!(code, 4 | 9) || function.starts_with("cu");
                    assert!(
                        !hit || !bad.is_empty() || recovered,
                        "{what}: no error was reported"
                    );
                    assert!(
                        bad.iter()
                            .all(|error| !error.to_string().is_empty() && !error.is_lost()),
                        "{what}: {bad:?}"
                    );
                }
                Err(error) => assert!(hit, "{what}: {error}"),
            }
            simulated.set_fault("");
            simulated.assert_clean(&what);
            assert_eq!(live_objects(&simulated), before, "{what}");
        }
    }
    simulated.reset();
}

#[test]
fn lost_context_is_reported_and_ends_cleanly() {
    let _guard = exclusive();
    let (Some(device), Some(simulated)) = (device(), SimulatedGpu::open()) else {
        return;
    };
    let files = subset(&files(&["classes"]), 3);
    let mut decoder = JpegDecoder::new(&device).unwrap();
    decode_all(&device, &mut decoder, &files, true);
    simulated.reset();
    simulated.set_fault("cuEventSynchronize:1=700");
    let outcomes: Vec<_> = (0..4)
        .map(|_| decode_to_device(&device, &mut decoder, &files[0].1).map(drop))
        .collect();
    assert!(
        outcomes
            .iter()
            .any(|outcome| matches!(outcome, Err(error) if error.is_lost())),
        "{outcomes:?}"
    );
    assert!(matches!(
        decode_to_device(&device, &mut decoder, &files[0].1),
        Err(Error::ContextLost { .. })
    ));
    drop(decoder);
    simulated.reset();
}

#[test]
fn a_gpu_without_engines_uses_the_hybrid() {
    const SUBPROCESS_VARIABLE: &str = "FRAMESPOOL_TEST_WITHOUT_ENGINES";
    if std::env::var_os(SUBPROCESS_VARIABLE).is_some() {
        let _guard = exclusive();
        let Some(device) = device() else { return };
        let mut decoder = JpegDecoder::new(&device).unwrap();
        assert_eq!(
            (decoder.backends(), decoder.engines().unwrap()),
            ([Backend::Hybrid].as_slice(), 0)
        );
        let files = subset(&files(&["classes"]), 6);
        assert_eq!(
            decode_all(&device, &mut decoder, &files, true),
            [0, files.len()]
        );
        let error = JpegDecoder::with_backends(&device, &[Backend::Hardware])
            .err()
            .expect("there are no engines");
        assert!(matches!(&error, Error::Unsupported { .. }), "{error}");
        return;
    }
    let _guard = exclusive();
    if device().is_none() || SimulatedGpu::open().is_none() {
        return;
    }
    // nvJPEG instances exist until the process ends, so this needs a new process.
    let this = std::env::current_exe().unwrap();
    let test = [
        "--exact",
        "jpeg::a_gpu_without_engines_uses_the_hybrid",
        "--nocapture",
    ];
    let mut command = std::process::Command::new(this);
    let done = command
        .args(test)
        .env(SUBPROCESS_VARIABLE, "1")
        .env("FRAMESPOOL_SIMULATED_JPEG_ENGINES", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn missing_library_is_an_error() {
    const SUBPROCESS_VARIABLE: &str = "FRAMESPOOL_TEST_WITHOUT_NVJPEG";
    if std::env::var_os(SUBPROCESS_VARIABLE).is_some() {
        let Ok(device) = Device::open(0) else { return };
        let error = JpegDecoder::new(&device)
            .err()
            .expect("the file is not there");
        assert!(
            matches!(&error, Error::NoNvjpeg { reason } if reason.contains("/no/such/file.so")),
            "{error}"
        );
        assert!(
            error.to_string().contains("CPU") && device.create_stream().is_ok(),
            "the rest of CUDA works"
        );
        return;
    }
    let test = [
        "--exact",
        "jpeg::missing_library_is_an_error",
        "--nocapture",
    ];
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let done = command
        .args(test)
        .env(SUBPROCESS_VARIABLE, "1")
        .env("FRAMESPOOL_NVJPEG", "/no/such/file.so")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
}
