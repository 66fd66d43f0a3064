//! A simulated decoder: decodes submitted pictures by index with libavcodec, and maps surfaces with
//! asynchronous conversions. A picture that was not submitted is never decoded: its surface keeps
//! the older content.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::abi::{
    AV1, CreateInfo, DecodeStatus, H264, HEVC, PicParams, ProcParams, ReconfigureInfo, ShortRect,
};
use super::caps;
use super::codec::{Codec, Picture};
use super::convert::{Target, convert, rows, sample_bytes};
use super::picture_context::{self, PictureContext, PictureFormat, in_sequence_callback};
use crate::call_log::{
    Code, INVALID_VALUE, MAP_FAILED, NOT_SUPPORTED, OUT_OF_MEMORY, behavior, behavior_is_set, note,
    refuse, violation,
};
use crate::driver_state::driver_state;
use crate::driver_state::memory::AllocationKind;
use crate::driver_state::race::{AccessKind, MemoryAccess};
use crate::driver_state::streams::{Failure, Work};

/// cuvidDecodeStatus.
const SUCCESS: i32 = 2;
const ERROR: i32 = 8;
const CONCEALED: i32 = 9;

/// Time in which an engine decodes a picture, if that behavior is enabled.
const PICTURE_TIME: Duration = Duration::from_micros(300);

#[derive(Default)]
struct Surface {
    picture: Option<Picture>,
    status: i32,
    parser: usize,
    /// Whether the host has waited for it (by mapping it).
    waited_for: bool,
    /// How many times the host has queried its status.
    num_queries: u32,
}

struct Output {
    address: usize,
    index: Option<i32>,
}

pub struct Decoder {
    id: usize,
    device: usize,
    info: CreateInfo,
    picture_format: PictureFormat,
    codec: Codec,
    surfaces: Vec<Surface>,
    outputs: Vec<Output>,
    pitch: usize,
    reserved_bytes: u64,
    /// The stream whose pictures were decoded last, and the codec's current parameter sets.
    fed: Option<(usize, u64, u64)>,
    /// When the engine is done with all pictures, if that takes time.
    busy_until: Instant,
}

fn even(width: u64, height: u64) -> bool {
    width > 0 && height > 0 && width.is_multiple_of(2) && height.is_multiple_of(2)
}

fn inside(area: ShortRect, width: u64, height: u64) -> bool {
    let empty = area.left == 0 && area.top == 0 && area.right == 0 && area.bottom == 0;
    let (right, bottom) = (i64::from(area.right), i64::from(area.bottom));
    empty
        || area.left >= 0
            && area.top >= 0
            && area.left < area.right
            && area.top < area.bottom
            && right <= width as i64
            && bottom <= height as i64
}

fn check(info: &CreateInfo) -> Result<(), Code> {
    let size = (info.width as u32, info.height as u32);
    if let Some(why) = caps::unsupported_reason(
        info.codec,
        info.chroma,
        info.depth_minus8 as u32,
        size,
        info.output_format,
    ) {
        return refuse(NOT_SUPPORTED, format!("cuvidCreateDecoder: {why}"));
    }
    let most = (
        info.max_width.max(info.width) as u32,
        info.max_height.max(info.height) as u32,
    );
    if let Some(why) = caps::unsupported_reason(
        info.codec,
        info.chroma,
        info.depth_minus8 as u32,
        most,
        info.output_format,
    ) {
        return refuse(
            NOT_SUPPORTED,
            format!("cuvidCreateDecoder: its largest size: {why}"),
        );
    }
    let surfaces =
        (1..=32).contains(&info.decode_surfaces) && (1..64).contains(&info.output_surfaces);
    let largest =
        info.max_width == 0 || info.max_width >= info.width && info.max_height >= info.height;
    if !surfaces
        || !largest
        || !even(info.target_width, info.target_height)
        || !inside(info.display_area, info.width, info.height)
    {
        return refuse(
            INVALID_VALUE,
            format!(
                "cuvidCreateDecoder: {}x{} (at most {}x{}), area {:?}, target {}x{}, {} and {} surfaces",
                info.width,
                info.height,
                info.max_width,
                info.max_height,
                info.display_area,
                info.target_width,
                info.target_height,
                info.decode_surfaces,
                info.output_surfaces
            ),
        );
    }
    if info.deinterlace != 0 {
        note(format!(
            "cuvidCreateDecoder with deinterlacing {}: the simulated decoder always weaves frames",
            info.deinterlace
        ));
    }
    Ok(())
}

/// Bytes of all decode surfaces, roughly as an engine needs them.
fn surface_bytes(info: &CreateInfo) -> u64 {
    let pixels = info.max_width.max(info.width) * info.max_height.max(info.height);
    let samples = if info.chroma == 3 {
        3 * pixels
    } else {
        pixels + pixels / 2
    };
    info.decode_surfaces * samples * if info.depth_minus8 > 0 { 2 } else { 1 }
}

impl Decoder {
    pub fn new(id: usize, device: usize, info: CreateInfo) -> Result<Decoder, Code> {
        check(&info)?;
        let codec = Codec::open(info.codec, None).ok_or(NOT_SUPPORTED)?;
        let picture_format = picture_format(&info, info.width as u32, info.height as u32);
        let bytes = surface_bytes(&info);
        let width =
            info.max_width.max(info.target_width) as usize * sample_bytes(info.output_format);
        let pitch = width.next_multiple_of(512) + if behavior("wide_pitch") { 512 } else { 0 };
        let rows = rows(
            info.output_format,
            info.max_height.max(info.target_height) as usize,
        );
        let mut decoder = Decoder {
            id,
            device,
            info,
            picture_format,
            codec,
            surfaces: (0..info.decode_surfaces)
                .map(|_| Surface::default())
                .collect(),
            outputs: Vec::new(),
            pitch,
            reserved_bytes: 0,
            fed: None,
            busy_until: Instant::now(),
        };
        let mut driver_state = driver_state();
        driver_state.memory.reserve(bytes)?;
        decoder.reserved_bytes = bytes;
        for _ in 0..info.output_surfaces {
            let kind = AllocationKind::Surface {
                decoder: id,
                mapped: false,
            };
            match driver_state.memory.allocate(pitch * rows, kind, device) {
                Ok(address) => decoder.outputs.push(Output {
                    address,
                    index: None,
                }),
                Err(code) => {
                    drop(driver_state);
                    decoder.release(false);
                    return Err(code);
                }
            }
        }
        Ok(decoder)
    }

    pub fn mapped(&self) -> usize {
        self.outputs.iter().filter(|o| o.index.is_some()).count()
    }

    /// Destroys it: frees its memory and records violations for work still in progress.
    pub fn destroy(mut self) {
        self.release(true);
    }

    fn release(&mut self, record_violations: bool) {
        if self.mapped() > 0 && record_violations {
            violation(format!(
                "cuvidDestroyDecoder while {} of its pictures are mapped",
                self.mapped()
            ));
        }
        let mut driver_state = driver_state();
        for output in self.outputs.drain(..) {
            if let Some(a) = driver_state.memory.find(output.address) {
                let (base, bytes) = (a.base, a.bytes);
                if let (Some(label), true) =
                    (driver_state.pending_access(base, bytes), record_violations)
                {
                    violation(format!(
                        "cuvidDestroyDecoder while {label} waits to run on its output surface: synchronize first"
                    ));
                }
            }
            let _ = driver_state.synchronize_device(self.device);
            let _ = driver_state
                .memory
                .free(output.address, "cuvidDestroyDecoder");
        }
        driver_state.memory.release(self.reserved_bytes);
    }

    pub fn decode(&mut self, params: &PicParams) -> Result<(), Code> {
        let Some(context) = picture_context::find(params.bitstream as usize) else {
            return refuse(
                INVALID_VALUE,
                format!(
                    "cuvidDecodePicture of picture {}: its bitstream is of no decode callback that is running",
                    params.index
                ),
            );
        };
        if context.index != params.index || i32::from(context.second_field) != params.second_field {
            return refuse(
                INVALID_VALUE,
                "cuvidDecodePicture with parameters that are not those of the callback".into(),
            );
        }
        if context.picture_format != self.picture_format {
            return refuse(
                INVALID_VALUE,
                format!(
                    "cuvidDecodePicture of {:?} by a decoder that is set up for {:?}",
                    context.picture_format, self.picture_format
                ),
            );
        }
        let index = params.index as usize;
        if index >= self.surfaces.len() {
            return refuse(
                INVALID_VALUE,
                format!(
                    "cuvidDecodePicture into surface {index} of {}: the sequence callback returned more than the decoder has",
                    self.surfaces.len()
                ),
            );
        }
        if self.outputs.iter().any(|o| o.index == Some(params.index)) {
            violation(format!(
                "cuvidDecodePicture into surface {index}, which is mapped"
            ));
        }
        context.submitted.store(true, Ordering::Relaxed);
        picture_context::set_stale(context.parser, context.index, false);
        self.busy_until = self.busy_until.max(Instant::now()) + PICTURE_TIME;
        self.run(&context, index);
        Ok(())
    }

    fn run(&mut self, context: &PictureContext, index: usize) {
        let known = self
            .fed
            .filter(|(parser, epoch, _)| (*parser, *epoch) == (context.parser, context.epoch));
        if known.is_none() && self.fed.is_some() {
            self.codec.flush();
        }
        let done = match known {
            Some((_, _, version)) if version == context.version => {
                self.codec.decode(Some(&context.data))
            }
            _ => self
                .codec
                .decode(Some(&[context.headers.as_slice(), &context.data].concat())),
        };
        self.fed = Some((context.parser, context.epoch, context.version));
        let mut damaged = done.refused || done.logged_errors > 0;
        let flagged = |p: &Picture| {
            p.raw().decode_error_flags != 0
                || p.raw().flags & ffmpeg_sys_next::AV_FRAME_FLAG_CORRUPT != 0
        };
        damaged |= matches!(context.picture_format.codec, H264 | HEVC)
            && done.displayed.iter().any(|p| {
                flagged(p)
                    && done
                        .taken
                        .iter()
                        .any(|(_, t)| t.raw().data[0] == p.raw().data[0])
            });
        let picture = match context.picture_format.codec {
            HEVC => done.taken.into_iter().next().map(|(_, p)| p),
            AV1 => done.displayed.into_iter().next(),
            _ => done.taken.into_iter().next_back().map(|(_, p)| p),
        };
        let surface = &mut self.surfaces[index];
        let reported = matches!(context.picture_format.codec, H264 | HEVC);
        let missing = picture.is_none() && !context.second_field;
        let status = match (missing, damaged) {
            (true, _) if reported => ERROR,
            (_, true) if reported && !behavior_is_set("conceals_silently") => CONCEALED,
            _ => SUCCESS,
        };
        surface.status = if context.second_field {
            surface.status.max(status)
        } else {
            status
        };
        (surface.parser, surface.waited_for, surface.num_queries) = (context.parser, false, 0);
        if let Some(picture) = picture {
            surface.picture = Some(picture);
        }
    }

    pub fn map(&mut self, index: i32, params: &ProcParams) -> Result<(u64, u32), Code> {
        let call = "cuvidMapVideoFrame64";
        let Some(surface) = usize::try_from(index)
            .ok()
            .and_then(|n| self.surfaces.get_mut(n))
        else {
            return refuse(
                MAP_FAILED,
                format!("{call} of surface {index} of {}", self.surfaces.len()),
            );
        };
        let Some(picture) = surface.picture.clone() else {
            return refuse(
                MAP_FAILED,
                format!("{call} of surface {index}, into which nothing was ever decoded"),
            );
        };
        if picture_context::is_stale(surface.parser, index) {
            violation(format!(
                "{call} of surface {index}: its latest picture was not submitted, so its content is older"
            ));
        }
        surface.waited_for = true;
        if behavior_is_set("busy_map") {
            std::thread::sleep(self.busy_until.saturating_duration_since(Instant::now()));
        }
        let free: Vec<usize> = (0..self.outputs.len())
            .filter(|&n| self.outputs[n].index.is_none())
            .collect();
        if free.is_empty() {
            return refuse(
                MAP_FAILED,
                format!(
                    "{call}: all {} output surfaces are mapped",
                    self.outputs.len()
                ),
            );
        }
        if self.outputs.iter().any(|o| o.index == Some(index)) {
            note(format!("{call}: picture {index} is mapped twice"));
        }
        let mut driver_state = driver_state();
        let stream = driver_state.stream(params.output_stream, self.device, call)?;
        if params.output_stream == 0 {
            note(format!(
                "{call} on the default stream: everything waits for everything"
            ));
        }
        // The first free one: early reuse of a surface makes races easier to find.
        let output = &mut self.outputs[free[0]];
        output.index = Some(index);
        let area = self.info.display_area;
        let whole = ShortRect {
            left: 0,
            top: 0,
            right: self.info.width as i16,
            bottom: self.info.height as i16,
        };
        let target = Target {
            address: output.address,
            pitch: self.pitch,
            width: self.info.target_width as usize,
            height: self.info.target_height as usize,
            output: self.info.output_format,
            area: if area
                == (ShortRect {
                    left: 0,
                    top: 0,
                    right: 0,
                    bottom: 0,
                }) {
                whole
            } else {
                area
            },
        };
        let bytes = self.pitch * rows(target.output, target.height);
        if let Some(a) = driver_state.memory.find_mut(target.address) {
            a.kind = AllocationKind::Surface {
                decoder: self.id,
                mapped: true,
            };
        }
        let work: Work = Box::new(move || convert(&picture, &target).map_err(Failure::Refused));
        let accesses = vec![MemoryAccess {
            from: target.address,
            bytes,
            kind: AccessKind::Write,
        }];
        if let Some(stream) = driver_state.streams.get_mut(&stream) {
            stream.decodes = true;
        }
        driver_state.submit(stream, format!("map of surface {index}"), accesses, work)?;
        Ok((target.address as u64, self.pitch as u32))
    }

    pub fn unmap(&mut self, address: u64) -> Result<(), Code> {
        let output = self
            .outputs
            .iter_mut()
            .find(|o| o.address as u64 == address && o.index.is_some());
        let Some(output) = output else {
            return refuse(
                INVALID_VALUE,
                format!("cuvidUnmapVideoFrame64 of {address:#x}, which is not mapped"),
            );
        };
        output.index = None;
        let mut driver_state = driver_state();
        let Some(a) = driver_state.memory.find_mut(output.address) else {
            return Ok(());
        };
        a.kind = AllocationKind::Surface {
            decoder: self.id,
            mapped: false,
        };
        let (base, bytes, held) = (a.base, a.bytes, behavior_is_set("held_overwritten"));
        if held {
            driver_state.run_decoder_work(base, bytes);
        }
        if held || behavior_is_set("unmapped_overwritten") {
            driver_state.overwrite_before_reads(base, bytes);
        }
        Ok(())
    }

    pub fn status(&mut self, index: i32) -> Result<DecodeStatus, Code> {
        let surfaces = self.surfaces.len();
        let Some(surface) = usize::try_from(index)
            .ok()
            .and_then(|n| self.surfaces.get_mut(n))
        else {
            return refuse(
                INVALID_VALUE,
                format!("cuvidGetDecodeStatus of surface {index} of {surfaces}"),
            );
        };
        // Until the host has waited for the picture, or some time has passed between queries, it
        // may still be in progress.
        surface.num_queries += 1;
        surface.waited_for |= surface.num_queries > 3 && !behavior_is_set("status_after_map");
        let status = if surface.status != 0 && !surface.waited_for {
            1
        } else {
            surface.status
        };
        Ok(DecodeStatus {
            status,
            reserved: [0; 31],
            reserved_pointers: [0; 8],
        })
    }

    pub fn reconfigure(&mut self, wanted: &ReconfigureInfo) -> Result<(), Code> {
        let call = "cuvidReconfigureDecoder";
        let (width, height) = (u64::from(wanted.width), u64::from(wanted.height));
        let (most_wide, most_high) = (self.info.max_width.max(1), self.info.max_height.max(1));
        let (target_width, target_height) = (
            u64::from(wanted.target_width),
            u64::from(wanted.target_height),
        );
        let size = (wanted.width, wanted.height);
        let refusal = caps::unsupported_reason(
            self.info.codec,
            self.info.chroma,
            self.info.depth_minus8 as u32,
            size,
            self.info.output_format,
        );
        if let Some(why) = refusal {
            return refuse(INVALID_VALUE, format!("{call}: {why}"));
        }
        if width > most_wide || height > most_high {
            return refuse(
                INVALID_VALUE,
                format!("{call} to {width}x{height}, beyond its {most_wide}x{most_high}"),
            );
        }
        let fits = even(target_width, target_height) && inside(wanted.display_area, width, height);
        let room = target_width as usize * sample_bytes(self.info.output_format) <= self.pitch
            && target_height <= most_high.max(self.info.target_height);
        if !fits || !room || !(1..=32).contains(&wanted.decode_surfaces) {
            return refuse(
                INVALID_VALUE,
                format!(
                    "{call}: {width}x{height}, area {:?}, target {target_width}x{target_height}, {} surfaces",
                    wanted.display_area, wanted.decode_surfaces
                ),
            );
        }
        if self.mapped() > 0 {
            return refuse(
                INVALID_VALUE,
                format!("{call} while {} pictures are mapped", self.mapped()),
            );
        }
        if !in_sequence_callback() {
            note(format!("{call} outside of a sequence callback"));
        }
        let info = CreateInfo {
            decode_surfaces: u64::from(wanted.decode_surfaces),
            ..self.info
        };
        let bytes = surface_bytes(&info);
        {
            let mut driver_state = driver_state();
            if bytes > self.reserved_bytes {
                driver_state
                    .memory
                    .reserve(bytes - self.reserved_bytes)
                    .map_err(|_| OUT_OF_MEMORY)?;
            } else {
                driver_state.memory.release(self.reserved_bytes - bytes);
            }
        }
        self.reserved_bytes = bytes;
        self.info = CreateInfo {
            width,
            height,
            target_width,
            target_height,
            display_area: wanted.display_area,
            target_rect: wanted.target_rect,
            ..info
        };
        self.picture_format = picture_format(&self.info, wanted.width, wanted.height);
        self.surfaces
            .resize_with(wanted.decode_surfaces as usize, Surface::default);
        Ok(())
    }
}

fn picture_format(info: &CreateInfo, width: u32, height: u32) -> PictureFormat {
    PictureFormat {
        codec: info.codec,
        width,
        height,
        chroma: info.chroma,
        depth: info.depth_minus8 as u32 + 8,
    }
}
