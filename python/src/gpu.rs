//! Python functions that report what each GPU decodes, the state of its decoder pool, and its
//! decoding limit. They work without an NVIDIA driver, in which case `gpu_unavailable_reason`
//! returns the reason; no loader depends on them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use framespool::decode::BitstreamFilter;
use framespool::decode::PacketReader;
use framespool::ffmpeg::Packet;
use framespool::gpu::{Gpu, device_count, unavailable_reason};
use framespool::source::FileSource;
use framespool::units::DecodeIndex;
use framespool::video::Video;
use framespool::{Error, Result};
use framespool_nvdec::caps;
use framespool_nvdec::cuda::Device;
use framespool_nvdec::format::{Chroma, Codec, SurfaceFormat};
use framespool_nvdec::pool::DecoderPool;
use framespool_nvdec::throughput;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::OrRaise;
use crate::interrupt::run_interruptible;

const CODECS: [Codec; 5] = [Codec::H264, Codec::Hevc, Codec::Vp8, Codec::Vp9, Codec::Av1];
const CHROMAS: [Chroma; 4] = [Chroma::Gray, Chroma::C420, Chroma::C422, Chroma::C444];
const DEPTHS_BITS: [u8; 3] = [8, 10, 12];
const SURFACE_FORMATS: [(SurfaceFormat, &str); 6] = [
    (SurfaceFormat::Nv12, "NV12"),
    (SurfaceFormat::P016, "P016"),
    (SurfaceFormat::Yuv444, "YUV444"),
    (SurfaceFormat::Yuv444P16, "YUV444P16"),
    (SurfaceFormat::Nv16, "NV16"),
    (SurfaceFormat::P216, "P216"),
];

/// The most bytes of a video that `gpu_decode_throughput` holds in memory.
const MAX_ACCESS_UNIT_BYTES: usize = 1 << 30;

/// Returns why no GPU can be used; `None` if one can.
#[pyfunction]
pub(crate) fn gpu_unavailable_reason() -> Option<String> {
    unavailable_reason()
}

/// Returns the number of GPUs; 0 without a driver.
#[pyfunction]
pub(crate) fn gpu_count(py: Python<'_>) -> u32 {
    py.detach(device_count)
}

/// Returns a dict of properties for each GPU.
#[pyfunction]
pub(crate) fn gpu_devices(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let devices = PyList::empty(py);
    for ordinal in 0..py.detach(device_count) {
        devices.append(device_properties(py, ordinal)?)?;
    }
    Ok(devices)
}

fn device_properties(py: Python<'_>, ordinal: u32) -> PyResult<Bound<'_, PyDict>> {
    let asked = py.detach(|| -> Result<_> {
        let device = Device::open(ordinal)?;
        let memory = device.memory_info()?;
        let decodes = supported_formats(&device).map_err(|error| error.to_string());
        Ok((device, memory, decodes))
    });
    let (device, (free_bytes, total_bytes), decodes) = asked.or_raise(py)?;
    let dict = PyDict::new(py);
    dict.set_item("ordinal", ordinal)?;
    dict.set_item("name", device.name())?;
    dict.set_item("uuid", device.uuid())?;
    dict.set_item("pci_bus_id", device.pci_bus_id())?;
    dict.set_item("compute_capability", device.compute_capability())?;
    dict.set_item(
        "cuda_version",
        (
            device.driver_version() / 1000,
            device.driver_version() % 1000 / 10,
        ),
    )?;
    dict.set_item("free_bytes", free_bytes)?;
    dict.set_item("total_bytes", total_bytes)?;
    dict.set_item("video_reason", decodes.as_ref().err())?;
    let list = PyList::empty(py);
    let mut engines = 0;
    for (codec, chroma, depth_bits, caps) in decodes.unwrap_or_default() {
        engines = engines.max(caps.engines);
        let row = PyDict::new(py);
        row.set_item("codec", codec.name())?;
        row.set_item("chroma", chroma.name())?;
        row.set_item("depth_bits", depth_bits)?;
        row.set_item("engines", caps.engines)?;
        row.set_item("min_size", caps.min_size)?;
        row.set_item("max_size", caps.max_size)?;
        row.set_item("max_macroblocks", caps.max_macroblocks)?;
        let writes = SURFACE_FORMATS
            .iter()
            .filter(|(surface_format, _)| caps.supports_output(*surface_format))
            .map(|(_, name)| *name);
        row.set_item("layouts", writes.collect::<Vec<_>>())?;
        list.append(row)?;
    }
    dict.set_item("engines", engines)?;
    dict.set_item("decodes", list)?;
    Ok(dict)
}

/// Returns the formats that the device decodes.
fn supported_formats(
    device: &Device,
) -> framespool_nvdec::Result<Vec<(Codec, Chroma, u8, caps::Caps)>> {
    let mut found = Vec::new();
    for codec in CODECS {
        for chroma in CHROMAS {
            for depth_bits in DEPTHS_BITS {
                let caps = caps::query(device, codec, chroma, depth_bits)?;
                if caps.supported {
                    found.push((codec, chroma, depth_bits, caps));
                }
            }
        }
    }
    Ok(found)
}

/// Opens a GPU and loads the kernels. Returns the seconds for the driver with its context, and for
/// the kernels. Both happen once per process, so a second call takes no time.
#[pyfunction]
pub(crate) fn gpu_startup_seconds(py: Python<'_>, ordinal: u32) -> PyResult<(f64, f64)> {
    let opened = py.detach(|| -> Result<_> {
        let begin = Instant::now();
        Device::open(ordinal)?;
        let open_seconds = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        Gpu::open(ordinal)?;
        Ok((open_seconds, begin.elapsed().as_secs_f64()))
    });
    opened.or_raise(py)
}

/// Returns the counters of this process's decoder pool.
#[pyfunction]
pub(crate) fn gpu_decoder_cache_stats(
    py: Python<'_>,
    ordinal: u32,
) -> PyResult<HashMap<&'static str, u64>> {
    let counts = py
        .detach(|| -> Result<_> { Ok(DecoderPool::for_device(&Device::open(ordinal)?)?.stats()) });
    let counts = counts.or_raise(py)?;
    Ok(HashMap::from([
        ("created", counts.created),
        ("reused", counts.reused),
        ("reconfigured", counts.reconfigured),
        ("evicted", counts.evicted),
        ("idle", counts.idle),
        ("bytes_estimated", counts.bytes),
    ]))
}

/// Destroys the idle decoders of the pool and returns their number.
#[pyfunction]
pub(crate) fn gpu_clear_decoder_cache(py: Python<'_>, ordinal: u32) -> PyResult<usize> {
    py.detach(|| -> Result<_> { Ok(DecoderPool::for_device(&Device::open(ordinal)?)?.clear()) })
        .or_raise(py)
}

/// Returns up to `most` access units of a video, from its first random access point on.
fn read_access_units(
    path: &std::path::Path,
    most: usize,
) -> Result<(Codec, Vec<u8>, Vec<Vec<u8>>)> {
    let source = Arc::new(FileSource::open(path)?);
    let video = Video::open(source)?;
    let index = video.index().clone();
    let first = index.sync_points.first().copied().unwrap_or(0);
    let filter =
        BitstreamFilter::new(&index, DecodeIndex(first)).map_err(|what| Error::Unsupported {
            site: index.site.clone(),
            what: format!("on the GPU, {what}"),
        })?;
    let mut reader: PacketReader = video.reader();
    let mut packet = Packet::new();
    let (mut units, mut bytes) = (Vec::new(), 0);
    for at in first..index.packets.len() as u32 {
        if units.len() == most || bytes > MAX_ACCESS_UNIT_BYTES {
            break;
        }
        reader.read(DecodeIndex(at), at == first, &mut packet)?;
        let mut unit = Vec::new();
        filter.filter_packet(packet.data(), &mut unit);
        bytes += unit.len();
        units.push(unit);
    }
    Ok((filter.codec, filter.headers, units))
}

/// Decodes a clip repeatedly in `sessions` threads and discards the frames: measures the limit of
/// the decoding engines.
#[pyfunction]
pub(crate) fn gpu_decode_throughput<'py>(
    py: Python<'py>,
    ordinal: u32,
    path: PathBuf,
    sessions: u32,
    seconds: f64,
    map_every: u32,
    max_packets: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let (codec, units, unit_bytes, measured) = run_interruptible(py, || {
        let (codec, headers, units) = read_access_units(&path, max_packets)?;
        let device = Device::open(ordinal)?;
        let measured = throughput::measure(
            &device, codec, &headers, &units, sessions, map_every, seconds,
        )?;
        Ok((
            codec,
            units.len(),
            units.iter().map(Vec::len).sum::<usize>(),
            measured,
        ))
    })?;
    let dict = PyDict::new(py);
    dict.set_item("codec", codec.name())?;
    dict.set_item("packets", units)?;
    dict.set_item("packet_bytes", unit_bytes)?;
    dict.set_item("sessions", measured.sessions)?;
    dict.set_item("frames", measured.pictures)?;
    dict.set_item("mapped", measured.mapped)?;
    dict.set_item("seconds", measured.seconds)?;
    dict.set_item("frames_per_second", measured.pictures_per_second())?;
    Ok(dict)
}
