//! Parses sequence and picture parameter sets of H.264 and HEVC: only crop, surface count, rate and
//! what slice headers need.

use super::bit_reader::BitReader;

#[derive(Clone, Copy, Default, Debug)]
pub struct Sps {
    pub crop_left: u32,
    pub crop_top: u32,
    pub width: u32,
    pub height: u32,
    pub cropped_width: u32,
    pub cropped_height: u32,
    /// Maximum number of pictures that wait for output.
    pub reorder: u32,
    /// Decode surfaces for all pictures that may be held at the same time.
    pub surfaces: u32,
    pub frames_only: bool,
    pub frame_num_bits: u32,
    pub separate_planes: bool,
    pub rate: [u32; 2],
}

fn scaling_list(bits: &mut BitReader, size: u32) {
    let (mut last, mut next) = (8i32, 8i32);
    for _ in 0..size {
        if next != 0 {
            next = (last + bits.se()) & 255;
        }
        last = if next == 0 { last } else { next };
    }
}

/// Id and content of an H.264 sequence parameter set, without its header byte.
pub fn h264_sps(nal: &[u8]) -> (u32, Sps) {
    let mut b = BitReader::new(nal.get(1..).unwrap_or(&[]));
    let profile = b.bits(8);
    let constraints = b.bits(8);
    let level = b.bits(8);
    let id = b.ue();
    let (mut chroma, mut sps) = (1, Sps::default());
    if [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135].contains(&profile) {
        chroma = b.ue();
        sps.separate_planes = chroma == 3 && b.flag();
        b.ue();
        b.ue();
        b.skip(1);
        if b.flag() {
            for list in 0..if chroma == 3 { 12 } else { 8 } {
                if b.flag() {
                    scaling_list(&mut b, if list < 6 { 16 } else { 64 });
                }
            }
        }
    }
    sps.frame_num_bits = (b.ue() + 4).min(16);
    let order_type = b.ue();
    match order_type {
        0 => {
            b.ue();
        }
        1 => {
            b.skip(1);
            b.se();
            b.se();
            for _ in 0..b.ue().min(255) {
                b.se();
            }
        }
        _ => (),
    }
    let references = b.ue().min(16);
    b.skip(1);
    let width_mbs = b.ue().min(1 << 12) + 1;
    let map_units = b.ue().min(1 << 12) + 1;
    sps.frames_only = b.flag();
    if !sps.frames_only {
        b.skip(1);
    }
    b.skip(1);
    let height_mbs = map_units * if sps.frames_only { 1 } else { 2 };
    (sps.width, sps.height) = (width_mbs * 16, height_mbs * 16);
    let step_x = if chroma == 1 || chroma == 2 { 2 } else { 1 };
    let step_y = if chroma == 1 { 2 } else { 1 } * if sps.frames_only { 1 } else { 2 };
    let crop = if b.flag() {
        [b.ue(), b.ue(), b.ue(), b.ue()]
    } else {
        [0; 4]
    }
    .map(|c| c.min(1 << 14));
    sps.crop(crop, step_x, step_y);
    let (mut reorder, mut buffering) = (None, None);
    if b.flag() {
        (reorder, buffering) = vui(&mut b, &mut sps);
    }
    let intra_only = constraints & 0x10 != 0 && [44, 86, 100, 110, 122, 244].contains(&profile);
    let by_level = if intra_only {
        0
    } else {
        dpb_frames(level, constraints & 0x10 != 0, width_mbs * height_mbs)
    };
    let buffering = buffering.unwrap_or(by_level).clamp(references, 16);
    // Without a limit in the set, pictures wait as long as the buffer allows; type 2 is in order by
    // definition.
    sps.reorder = if order_type == 2 {
        0
    } else {
        reorder.unwrap_or(buffering).min(buffering)
    };
    sps.surfaces = references.max(1) + sps.reorder + 3;
    (id, sps)
}

/// MaxDpbFrames.
fn dpb_frames(level: u32, level_1b: bool, macroblocks: u32) -> u32 {
    let most = match level {
        10 => 396,
        11 if level_1b => 396,
        9 => 396,
        11 => 900,
        12 | 13 | 20 => 2376,
        21 => 4752,
        22 | 30 => 8100,
        31 => 18000,
        32 => 20480,
        40 | 41 => 32768,
        42 => 34816,
        50 => 110_400,
        51 | 52 => 184_320,
        _ => 696_320,
    };
    (most / macroblocks.max(1)).min(16)
}

fn hrd(b: &mut BitReader) {
    let count = b.ue().min(31) + 1;
    b.skip(8);
    for _ in 0..count {
        b.ue();
        b.ue();
        b.skip(1);
    }
    b.skip(20);
}

fn vui(b: &mut BitReader, sps: &mut Sps) -> (Option<u32>, Option<u32>) {
    if b.flag() && b.bits(8) == 255 {
        b.skip(32);
    }
    if b.flag() {
        b.skip(1);
    }
    if b.flag() {
        b.skip(4);
        if b.flag() {
            b.skip(24);
        }
    }
    if b.flag() {
        b.ue();
        b.ue();
    }
    if b.flag() {
        let (units, scale) = (b.bits(32), b.bits(32));
        b.skip(1);
        sps.rate = [scale / 2, units];
    }
    let nal = b.flag();
    if nal {
        hrd(b);
    }
    let vcl = b.flag();
    if vcl {
        hrd(b);
    }
    if nal || vcl {
        b.skip(1);
    }
    b.skip(1);
    if !b.flag() {
        return (None, None);
    }
    b.skip(1);
    for _ in 0..4 {
        b.ue();
    }
    (Some(b.ue()), Some(b.ue()))
}

/// Id and content of an HEVC sequence parameter set, up to its order information.
pub fn hevc_sps(nal: &[u8]) -> (u32, Sps) {
    let mut b = BitReader::new(nal.get(2..).unwrap_or(&[]));
    b.skip(4);
    let sub_layers = b.bits(3);
    b.skip(1);
    b.skip(88 + 8); // profile, tier, level
    let present: Vec<(bool, bool)> = (0..sub_layers).map(|_| (b.flag(), b.flag())).collect();
    if sub_layers > 0 {
        b.skip(2 * (8 - sub_layers as usize));
    }
    for (profile, level) in present {
        b.skip(if profile { 88 } else { 0 } + if level { 8 } else { 0 });
    }
    let id = b.ue();
    let chroma = b.ue();
    let mut sps = Sps {
        frames_only: true,
        ..Sps::default()
    };
    sps.separate_planes = chroma == 3 && b.flag();
    (sps.width, sps.height) = (b.ue().min(1 << 14), b.ue().min(1 << 14));
    let window = if b.flag() {
        [b.ue(), b.ue(), b.ue(), b.ue()]
    } else {
        [0; 4]
    }
    .map(|c| c.min(1 << 14));
    sps.crop(
        window,
        if chroma == 1 || chroma == 2 { 2 } else { 1 },
        if chroma == 1 { 2 } else { 1 },
    );
    b.ue();
    b.ue();
    b.ue();
    let first = if b.flag() { 0 } else { sub_layers };
    let mut buffering = 0;
    for _ in first..=sub_layers {
        buffering = b.ue().min(15) + 1;
        sps.reorder = b.ue().min(15);
        b.ue();
    }
    sps.surfaces = buffering + 3;
    (id, sps)
}

impl Sps {
    /// Left, right, top, bottom, in steps.
    fn crop(&mut self, [left, right, top, bottom]: [u32; 4], step_x: u32, step_y: u32) {
        (self.crop_left, self.crop_top) = (left * step_x, top * step_y);
        self.cropped_width = self.width.saturating_sub((left + right) * step_x);
        self.cropped_height = self.height.saturating_sub((top + bottom) * step_y);
    }
}

/// The picture parameter set's id and that of its sequence parameter set.
pub fn h264_pps(nal: &[u8]) -> (u32, u32) {
    let mut b = BitReader::new(nal.get(1..).unwrap_or(&[]));
    (b.ue(), b.ue())
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Slice {
    pub first: bool,
    pub intra: bool,
    pub reference: bool,
    pub pps: u32,
    pub frame_num: u32,
    pub field: bool,
    pub bottom: bool,
}

/// The start of an H.264 slice header; `sps` finds the sequence parameter set of a picture
/// parameter set.
pub fn h264_slice(nal: &[u8], sps: impl Fn(u32) -> Option<Sps>) -> Slice {
    let mut b = BitReader::new(nal.get(1..nal.len().min(64)).unwrap_or(&[]));
    let first = b.ue() == 0;
    let kind = b.ue() % 5;
    let pps = b.ue();
    let mut slice = Slice {
        first,
        intra: kind == 2 || kind == 4,
        reference: nal[0] & 0x60 != 0,
        pps,
        ..Slice::default()
    };
    if let Some(sps) = sps(pps) {
        b.skip(if sps.separate_planes { 2 } else { 0 });
        slice.frame_num = b.bits(sps.frame_num_bits);
        slice.field = !sps.frames_only && b.flag();
        slice.bottom = slice.field && b.flag();
    }
    slice
}
