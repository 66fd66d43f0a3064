//! Plays packets through parser, decoder, maps and copies, like an application, and records the
//! arguments of each callback. Every possible mistake is a setting.

use std::ffi::c_void;
use std::ptr::null_mut;

use md5::{Digest, Md5};

use super::demux::Video;
use crate::call;

#[path = "../../src/cuvid/abi.rs"]
pub mod abi;

use abi::{
    CreateInfo, DecodeStatus, DisplayInfo, Format, PicParams, ProcParams, ReconfigureInfo,
    ShortRect,
};

#[derive(Clone, Copy)]
pub struct Settings {
    /// CUVID_PKT_ENDOFPICTURE on every packet.
    pub whole: bool,
    pub delay: u32,
    /// Surfaces in addition to the parser's request.
    pub extra: i32,
    /// Skips pictures that are no references, as the callback reports.
    pub skip_non_reference: bool,
    /// Maps what it skipped.
    pub map_skipped: bool,
    pub outputs: u64,
    /// Stops after this number of packets.
    pub packets: usize,
}

pub const PLAIN: Settings = Settings {
    whole: false,
    delay: 0,
    extra: 0,
    skip_non_reference: false,
    map_skipped: false,
    outputs: 1,
    packets: usize::MAX,
};

pub struct Player {
    pub settings: Settings,
    pub stream: usize,
    pub parser: usize,
    pub decoder: usize,
    pub format: Option<Format>,
    pub sequences: u32,
    pub decoded: Vec<i32>,
    /// Index and timestamp of each display.
    pub displays: Vec<(i32, i64)>,
    pub hashes: Vec<String>,
    pub statuses: Vec<i32>,
    pub failures: Vec<String>,
    skipped: Vec<bool>,
    pub in_call: u32,
    /// Display callbacks, decode callbacks within the packet that is being parsed.
    pub events: Vec<char>,
    pub largest: (u32, u32),
    pub answer: Option<i32>,
    pub hash: bool,
}

unsafe extern "C" fn on_sequence(user: *mut c_void, format: *mut Format) -> i32 {
    // SAFETY: the player made the parser and is boxed; the format is the parser's for the call.
    let (player, format) = unsafe { (&mut *user.cast::<Player>(), *format) };
    player.sequence(format)
}

unsafe extern "C" fn on_decode(user: *mut c_void, params: *mut PicParams) -> i32 {
    // SAFETY: as above.
    let player = unsafe { &mut *user.cast::<Player>() };
    player.decode(params)
}

unsafe extern "C" fn on_display(user: *mut c_void, info: *mut DisplayInfo) -> i32 {
    // SAFETY: as above; null reports the end.
    let (player, info) = unsafe { (&mut *user.cast::<Player>(), info.as_ref()) };
    info.map_or(1, |info| player.display(info))
}

pub fn create_info(format: &Format, surfaces: u64, outputs: u64) -> CreateInfo {
    let depth = u64::from(format.luma_depth_minus8);
    let output = if format.chroma == 3 { 2 } else { 0 } + i32::from(depth > 0);
    let (width, height) = (
        u64::from(format.coded_width),
        u64::from(format.coded_height),
    );
    CreateInfo {
        width,
        height,
        decode_surfaces: surfaces,
        codec: format.codec,
        chroma: format.chroma,
        flags: 0,
        depth_minus8: depth,
        intra_only: 0,
        max_width: width,
        max_height: height,
        reserved1: 0,
        display_area: ShortRect {
            left: 0,
            top: 0,
            right: width as i16,
            bottom: height as i16,
        },
        output_format: output,
        deinterlace: 0,
        target_width: width,
        target_height: height,
        output_surfaces: outputs,
        lock: 0,
        target_rect: ShortRect {
            left: 0,
            top: 0,
            right: 0,
            bottom: 0,
        },
        histogram: 0,
        reserved2: [0; 4],
    }
}

pub fn proc_params(stream: usize) -> ProcParams {
    // SAFETY: numbers only.
    let zero: ProcParams = unsafe { std::mem::zeroed() };
    ProcParams {
        progressive_frame: 1,
        output_stream: stream,
        ..zero
    }
}

impl Player {
    pub fn new(codec: i32, settings: Settings, stream: usize) -> Box<Player> {
        let mut player = Box::new(Player {
            settings,
            stream,
            parser: 0,
            decoder: 0,
            format: None,
            sequences: 0,
            decoded: Vec::new(),
            displays: Vec::new(),
            hashes: Vec::new(),
            statuses: Vec::new(),
            failures: Vec::new(),
            skipped: vec![false; 64],
            in_call: 0,
            events: Vec::new(),
            largest: (0, 0),
            answer: None,
            hash: true,
        });
        let params = abi::ParserParams {
            codec,
            decode_surfaces: 1,
            clock_rate: 0,
            error_threshold: 0,
            display_delay: settings.delay,
            annex_b: 0,
            reserved1: [0; 4],
            user: (&raw mut *player).cast(),
            sequence: Some(on_sequence),
            decode: Some(on_decode),
            display: Some(on_display),
            operating_point: 0,
            reserved2: [0; 6],
            ext: 0,
        };
        let code = call!(cuvidCreateVideoParser(&mut player.parser => *mut usize, &params => *const abi::ParserParams));
        assert_eq!(code, 0);
        player
    }

    pub fn feed(&mut self, data: &[u8], flags: u64, timestamp: i64) -> i32 {
        self.events.clear();
        let packet = abi::Packet {
            flags,
            bytes: data.len() as u64,
            payload: data.as_ptr(),
            timestamp,
        };
        call!(cuvidParseVideoData(self.parser => usize, &packet => *const abi::Packet))
    }

    pub fn play(&mut self, video: &Video) {
        if !video.headers.is_empty() {
            assert_eq!(self.feed(&video.headers, 0, 0), 0);
        }
        for (at, packet) in video.packets.iter().enumerate().take(self.settings.packets) {
            let flags = abi::TIMESTAMP
                | if self.settings.whole {
                    abi::END_OF_PICTURE
                } else {
                    0
                };
            let code = self.feed(&packet.data, flags, at as i64);
            if code != 0 {
                self.failures.push(format!("packet {at}: {code}"));
                return;
            }
        }
        self.finish();
    }

    pub fn finish(&mut self) -> i32 {
        let packet = abi::Packet {
            flags: abi::END_OF_STREAM,
            bytes: 0,
            payload: null_mut(),
            timestamp: 0,
        };
        call!(cuvidParseVideoData(self.parser => usize, &packet => *const abi::Packet))
    }

    fn sequence(&mut self, format: Format) -> i32 {
        self.sequences += 1;
        self.events.push('s');
        if let Some(answer) = self.answer {
            return answer;
        }
        let surfaces = i32::from(format.min_decode_surfaces) + self.settings.extra;
        self.largest = (
            self.largest.0.max(format.coded_width),
            self.largest.1.max(format.coded_height),
        );
        if self.decoder != 0 && self.format == Some(format) {
            return surfaces;
        }
        let old = self.format.replace(format);
        let info = create_info(&format, surfaces as u64, self.settings.outputs);
        let fits = old.is_some_and(|o| {
            (o.chroma, o.luma_depth_minus8, o.codec)
                == (format.chroma, format.luma_depth_minus8, format.codec)
                && format.coded_width <= o.coded_width
                && format.coded_height <= o.coded_height
        });
        let code = if self.decoder != 0 && fits {
            let wanted = ReconfigureInfo {
                width: info.width as u32,
                height: info.height as u32,
                target_width: info.target_width as u32,
                target_height: info.target_height as u32,
                decode_surfaces: info.decode_surfaces as u32,
                reserved1: [0; 12],
                display_area: info.display_area,
                target_rect: info.target_rect,
                reserved2: [0; 11],
            };
            call!(cuvidReconfigureDecoder(self.decoder => usize, &wanted => *const ReconfigureInfo))
        } else {
            if self.decoder != 0 {
                assert_eq!(call!(cuStreamSynchronize(self.stream => usize)), 0);
                assert_eq!(call!(cuvidDestroyDecoder(self.decoder => usize)), 0);
                self.decoder = 0;
            }
            call!(cuvidCreateDecoder(&mut self.decoder => *mut usize, &info => *const CreateInfo))
        };
        if code != 0 {
            self.failures.push(format!("decoder: {code}"));
            return 0;
        }
        surfaces
    }

    fn decode(&mut self, params: *mut PicParams) -> i32 {
        self.events.push('d');
        // SAFETY: the parser's, for the call.
        let p = unsafe { &*params };
        self.decoded.push(p.index);
        let skip = self.settings.skip_non_reference && p.reference == 0;
        self.skipped[p.index as usize] = skip;
        if skip {
            return 1;
        }
        let code = call!(cuvidDecodePicture(self.decoder => usize, params => *mut PicParams));
        if code != 0 {
            self.failures.push(format!("decode: {code}"));
        }
        i32::from(code == 0)
    }

    fn display(&mut self, info: &DisplayInfo) -> i32 {
        self.events.push('v');
        self.displays.push((info.index, info.timestamp));
        if self.skipped[info.index as usize] && !self.settings.map_skipped {
            self.hashes.push("skipped".into());
            return 1;
        }
        let (mut address, mut pitch) = (0u64, 0u32);
        let params = proc_params(self.stream);
        let code = call!(cuvidMapVideoFrame64(self.decoder => usize, info.index => i32, &mut address => *mut u64,
            &mut pitch => *mut u32, &params => *const ProcParams));
        if code != 0 {
            self.failures.push(format!("map: {code}"));
            return 0;
        }
        // SAFETY: numbers only.
        let mut status: DecodeStatus = unsafe { std::mem::zeroed() };
        assert_eq!(
            call!(cuvidGetDecodeStatus(self.decoder => usize, info.index => i32, &mut status => *mut DecodeStatus)),
            0
        );
        self.statuses.push(status.status);
        let hash = if self.hash {
            self.frame_hash(address as usize, pitch as usize)
        } else {
            String::new()
        };
        self.hashes.push(hash);
        assert_eq!(
            call!(cuvidUnmapVideoFrame64(self.decoder => usize, address => u64)),
            0
        );
        1
    }

    fn plane(&self, from: usize, pitch: usize, height: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; pitch * height];
        let code = call!(cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr() => *mut u8, from => usize, bytes.len() => usize, self.stream => usize));
        assert_eq!(code, 0);
        bytes
    }

    /// As recorded: planes in the decoder's own format, only the displayed region.
    fn frame_hash(&self, address: usize, pitch: usize) -> String {
        let format = self.format.unwrap();
        let rows = (format.coded_height as usize).next_multiple_of(2);
        let bytes = if format.luma_depth_minus8 > 0 { 2 } else { 1 };
        let shift = if bytes == 2 {
            8 - u32::from(format.luma_depth_minus8)
        } else {
            0
        };
        let area = format.display_area;
        let mut md5 = Md5::new();
        let mut put = |row: &[u8], from: usize, count: usize, step: usize, offset: usize| {
            let samples = row[(from * step + offset) * bytes..]
                .chunks(step * bytes)
                .take(count);
            let line: Vec<u8> = if bytes == 2 {
                samples
                    .flat_map(|s| (u16::from_le_bytes([s[0], s[1]]) >> shift).to_le_bytes())
                    .collect()
            } else {
                samples.map(|s| s[0]).collect()
            };
            assert_eq!(line.len(), count * bytes);
            md5.update(line);
        };
        let (left, top) = (area.left as usize, area.top as usize);
        let (width, height) = (
            (area.right - area.left) as usize,
            (area.bottom - area.top) as usize,
        );
        if format.chroma == 3 {
            let all = self.plane(address, pitch, 3 * rows);
            for plane in 0..3 {
                for y in top..top + height {
                    put(&all[(plane * rows + y) * pitch..], left, width, 1, 0);
                }
            }
        } else {
            let all = self.plane(address, pitch, rows + rows / 2);
            for y in top..top + height {
                put(&all[y * pitch..], left, width, 1, 0);
            }
            for plane in 0..2 {
                for y in top / 2..top / 2 + height.div_ceil(2) {
                    put(
                        &all[(rows + y) * pitch..],
                        left / 2,
                        width.div_ceil(2),
                        2,
                        plane,
                    );
                }
            }
        }
        md5.finalize()
            .iter()
            .take(8)
            .map(|b| format!("{b:02x}"))
            .collect()
    }

    pub fn close(mut self: Box<Player>) {
        assert_eq!(call!(cuStreamSynchronize(self.stream => usize)), 0);
        if self.decoder != 0 {
            assert_eq!(call!(cuvidDestroyDecoder(self.decoder => usize)), 0);
        }
        assert_eq!(call!(cuvidDestroyVideoParser(self.parser => usize)), 0);
        self.decoder = 0;
    }
}
