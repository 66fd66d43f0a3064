//! Makes PNGs of a given color type, bit depth and size, by the `png` crate or interlaced by plain
//! code. Returns their values too. Neighboring values differ, so that a wrong order of samples
//! changes the image.

use png::{BitDepth, ColorType};

/// Returns every combination of color type and bit depth that PNG allows.
pub fn combinations() -> Vec<(ColorType, BitDepth)> {
    use BitDepth::*;
    use ColorType::*;
    let mut all = vec![];
    all.extend([One, Two, Four, Eight, Sixteen].map(|bits| (Grayscale, bits)));
    all.extend([One, Two, Four, Eight].map(|bits| (Indexed, bits)));
    all.extend(
        [Rgb, Rgba, GrayscaleAlpha]
            .into_iter()
            .flat_map(|c| [(c, Eight), (c, Sixteen)]),
    );
    all
}

/// Returns a palette of `n` entries.
pub fn palette(n: usize) -> Vec<[u8; 3]> {
    (0..n)
        .map(|i| [(i * 37) as u8, (255 - i * 11 % 256) as u8, (i * i) as u8])
        .collect()
}

/// Returns the values of all channels, pixel by pixel.
pub fn values(colors: ColorType, bits: BitDepth, width: u32, height: u32) -> Vec<u16> {
    let most = (1u32 << bits as u32) - 1;
    (0..width * height * colors.samples() as u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 11 & most) as u16)
        .collect()
}

/// Packs values as PNG does: each row begins on a byte boundary.
fn packed(values: &[u16], bits: BitDepth, row: usize) -> Vec<Vec<u8>> {
    let bits = bits as usize;
    values
        .chunks(row)
        .map(|row| match bits {
            16 => row.iter().flat_map(|value| value.to_be_bytes()).collect(),
            8 => row.iter().map(|value| *value as u8).collect(),
            _ => {
                let per_byte = 8 / bits;
                row.chunks(per_byte)
                    .map(|group| {
                        let sum = group
                            .iter()
                            .fold(0, |byte, value| byte << bits | *value as u8);
                        sum << (bits * (per_byte - group.len()))
                    })
                    .collect()
            }
        })
        .collect()
}

/// Returns a PNG made by the `png` crate, and its values.
pub fn encoded(colors: ColorType, bits: BitDepth, width: u32, height: u32) -> (Vec<u8>, Vec<u16>) {
    let values = values(colors, bits, width, height);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(colors);
    encoder.set_depth(bits);
    encoder.set_filter(png::Filter::Adaptive);
    if colors == ColorType::Indexed {
        encoder.set_palette(palette(1 << bits as usize).concat());
        encoder.set_trns(vec![0, 128]);
    }
    let mut writer = encoder.write_header().unwrap();
    let row = width as usize * colors.samples();
    writer
        .write_image_data(&packed(&values, bits, row).concat())
        .unwrap();
    writer.finish().unwrap();
    (file, values)
}

/// Returns a PNG in which all bits of all samples are set.
pub fn white(width: u32, height: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Sixteen);
    let mut writer = encoder.write_header().unwrap();
    writer
        .write_image_data(&vec![0xff; width as usize * height as usize * 6])
        .unwrap();
    writer.finish().unwrap();
    file
}

/// Like [`encoded`], but interlaced, with additional chunks before the image data.
pub fn interlaced(
    colors: ColorType,
    bits: BitDepth,
    width: u32,
    height: u32,
    chunks: &[(&[u8; 4], &[u8])],
) -> (Vec<u8>, Vec<u16>) {
    let values = values(colors, bits, width, height);
    let channels = colors.samples();
    // Adam7: first column, first row, column step and row step of each pass.
    let passes = [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ];
    let mut rows = Vec::new();
    for (x0, y0, dx, dy) in passes {
        let columns: Vec<u32> = (x0..width).step_by(dx).collect();
        if columns.is_empty() {
            continue;
        }
        for y in (y0..height).step_by(dy) {
            let of_pixel = |x: &u32| {
                let at = (y * width + x) as usize * channels;
                values[at..at + channels].to_vec()
            };
            let row: Vec<u16> = columns.iter().flat_map(of_pixel).collect();
            rows.push(0); // no filter
            rows.extend(packed(&row, bits, row.len()).concat());
        }
    }
    let mut ihdr = [width.to_be_bytes(), height.to_be_bytes()].concat();
    ihdr.extend([bits as u8, colors as u8, 0, 0, 1]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, b"IHDR", &ihdr);
    chunks
        .iter()
        .for_each(|(name, content)| chunk(&mut file, name, content));
    if colors == ColorType::Indexed {
        chunk(&mut file, b"PLTE", &palette(1 << bits as usize).concat());
    }
    chunk(&mut file, b"IDAT", &stored(&rows));
    chunk(&mut file, b"IEND", &[]);
    (file, values)
}

fn chunk(file: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) {
    file.extend((content.len() as u32).to_be_bytes());
    let checked = [&name[..], content].concat();
    file.extend(&checked);
    file.extend(crc32(&checked).to_be_bytes());
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |s, _| {
            if s & 1 == 1 {
                s >> 1 ^ 0xedb8_8320
            } else {
                s >> 1
            }
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

/// Returns a zlib stream of uncompressed blocks.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(65535).peekable();
    while let Some(block) = blocks.next() {
        out.push(u8::from(blocks.peek().is_none()));
        out.extend((block.len() as u16).to_le_bytes());
        out.extend((!(block.len() as u16)).to_le_bytes());
        out.extend(block);
    }
    let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    out.extend((b << 16 | a).to_be_bytes());
    out
}
