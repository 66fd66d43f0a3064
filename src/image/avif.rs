//! Reads the primary item of an AVIF (AV1 Image File Format, on ISO/IEC 23008-12) and decodes it
//! with libavcodec, to planes as stored. `irot` and `imir` define the orientation; alpha and EXIF
//! data are not read.

mod items;

use framespool_kernels::{Colorimetry, FrameView, Plane, Planes};

use super::header_reader::HeaderReader;
use super::keyframe::KeyframeDecoder;
use super::plane_buffer::PlaneBuffer;
use super::{CodingProcess, ColorModel, ImageFormat, ImageHeader};
use crate::error::{Error, Result, Site};
use crate::limits::Limits;
use crate::media::ColorTags;
use items::{Grid, Items};

/// Largest `meta` box that is read. It describes the items; their data is elsewhere.
const MAX_META_BYTES: u64 = 1 << 20;

/// Whether a file begins like an AVIF with a still picture. An image sequence is a video.
pub(super) fn is_avif(head: &[u8]) -> bool {
    let Some((len, kind)) = head.split_first_chunk::<4>() else {
        return false;
    };
    let len = (u32::from_be_bytes(*len) as usize).min(head.len());
    if !kind.starts_with(b"ftyp") || len < 16 || &head[8..12] == b"avis" {
        return false;
    }
    head[8..len].chunks_exact(4).any(|brand| brand == b"avif")
}

/// Reads the boxes before the data of the items.
pub(super) fn header(reader: &mut HeaderReader<'_>) -> Result<ImageHeader> {
    let site = reader.site().clone();
    let mut at = 0;
    let meta = loop {
        let head = reader.read_exact(at, 8)?;
        let (kind, mut start) = (head[4..8].to_vec(), at + 8);
        let mut len = u64::from(reader.read_be::<4>(at)?);
        if len == 1 {
            len = u64::from(reader.read_be::<4>(at + 8)?) << 32
                | u64::from(reader.read_be::<4>(at + 12)?);
            start = at + 16;
        }
        // Size 0: up to the end of the file (ISO/IEC 14496-12, 4.2).
        let end = if len == 0 {
            reader.source_len()
        } else {
            at.saturating_add(len)
        };
        if end < start {
            return Err(Error::malformed(
                &site,
                format!("AVIF with a box of {len} bytes at byte {at}"),
            ));
        }
        if kind == b"meta" {
            // A box that ends with the file may contain the data of its items too, which are read
            // with the whole file.
            let size = if len == 0 {
                (end - start).min(MAX_META_BYTES)
            } else {
                end - start
            };
            Limits::check(&site, "the size of AVIF's meta box", size, MAX_META_BYTES)?;
            break reader.read_exact(start, size as usize)?;
        }
        at = end;
    };
    let items = Items::parse(&site, meta)?;
    let primary = items.primary;
    let (width, height) = items.size(&site, primary)?;
    let config = items.av1_config(&site, primary)?;
    let chroma = (
        if config.chroma_subsampling_x { 2 } else { 1 },
        if config.chroma_subsampling_y { 2 } else { 1 },
    );
    let color_model = match config.monochrome {
        true => ColorModel::Gray,
        false
            if items
                .color(&site, primary)?
                .is_some_and(|color| color.matrix == 0) =>
        {
            ColorModel::Rgb
        }
        false => ColorModel::Ycc([chroma, (1, 1), (1, 1)]),
    };
    Ok(ImageHeader {
        format: ImageFormat::Avif,
        width,
        height,
        orientation: items.orientation(&site, primary)?,
        color_model,
        coding: CodingProcess::Av1,
        sample_bits: match (config.high_bitdepth, config.twelve_bit) {
            (false, _) => 8,
            (true, false) => 10,
            (true, true) => 12,
        },
    })
}

/// Decodes the picture of a whole file.
pub(super) fn decode<'a>(
    decoder: &'a mut KeyframeDecoder,
    site: &Site,
    header: &ImageHeader,
    bytes: &[u8],
    memory: &'a mut PlaneBuffer,
) -> Result<FrameView<'a>> {
    let meta =
        items::meta_of(bytes).ok_or_else(|| Error::malformed(site, "AVIF without a 'meta' box"))?;
    let items = Items::parse(site, meta)?;
    let primary = items.primary;
    let tags = items.color(site, primary)?;
    // The memory allocated below was checked against the limits when the header was read, for this
    // size only.
    if items.size(site, primary)? != (header.width, header.height) {
        return Err(Error::malformed(
            site,
            "the image does not match its header",
        ));
    }
    if items.is_grid(site, primary)? {
        let grid = items.grid(site, primary, bytes)?;
        if grid.size != (header.width, header.height) {
            return Err(Error::malformed(
                site,
                "AVIF with a grid of another size than its 'ispe' box states",
            ));
        }
        return decode_grid(decoder, site, &items, &grid, bytes, tags, memory);
    }
    let (width, height) = (header.width, header.height);
    decoder.decode(site, &items.data(site, primary, bytes)?, (width, height))?;
    let (planes, depth_bits, color) = decoder.planes(site, tags)?;
    Ok(FrameView {
        width,
        height,
        depth_bits,
        shift: 0,
        planes,
        color,
    })
}

/// Decodes the tiles of a grid, and joins their planes in `memory`.
fn decode_grid<'a>(
    decoder: &mut KeyframeDecoder,
    site: &Site,
    items: &Items<'_>,
    grid: &Grid,
    file: &[u8],
    tags: Option<ColorTags>,
    memory: &'a mut PlaneBuffer,
) -> Result<FrameView<'a>> {
    let (width, height) = grid.size;
    let (tile_width, tile_height) = items.size(site, grid.tiles[0])?;
    // Each tile begins inside the result, so the tiles' samples stay within a multiple of the
    // result's.
    if tile_width.saturating_mul(grid.columns - 1) >= width
        || tile_height.saturating_mul(grid.tiles.len() as u32 / grid.columns - 1) >= height
    {
        return Err(Error::malformed(site, "AVIF with a tile outside its grid"));
    }
    let mut joined: Option<(Format, [&'a mut [u8]; 3])> = None;
    let mut memory = Some(memory);
    for (n, &tile) in (0..).zip(&grid.tiles) {
        if items.size(site, tile)? != (tile_width, tile_height) {
            return Err(Error::malformed(
                site,
                "AVIF with tiles of several sizes in one grid",
            ));
        }
        decoder.decode(
            site,
            &items.data(site, tile, file)?,
            (tile_width, tile_height),
        )?;
        let (planes, depth_bits, color) = decoder.planes(site, tags)?;
        let (parts, format) = Format::of(site, &planes, depth_bits, color)?;
        if let Some(memory) = memory.take() {
            let sizes = [0, 1, 2].map(|plane| {
                let (row_bytes, rows) = format.plane_size(plane, (width, height));
                row_bytes * rows
            });
            joined = Some((format, memory.reserve(site, sizes)?));
        }
        let (first, whole) = joined.as_mut().expect("allocated with the first tile");
        let corner = (
            n % grid.columns * tile_width,
            n / grid.columns * tile_height,
        );
        let is_aligned = corner.0.is_multiple_of(1 << format.log2_chroma_w)
            && corner.1.is_multiple_of(1 << format.log2_chroma_h);
        if *first != format || !is_aligned {
            let reason = "AVIF with a grid of tiles whose samples do not fit together";
            return Err(Error::malformed(site, reason));
        }
        for (plane, (to, from)) in whole.iter_mut().zip(parts).enumerate() {
            let Some(from) = from else { continue };
            let (row_bytes, rows) = format.plane_size(plane, (width, height));
            let (left, top) = format.plane_size(plane, corner);
            let (tile_row, tile_rows) = format.plane_size(plane, (tile_width, tile_height));
            let (row, rows) = (tile_row.min(row_bytes - left), tile_rows.min(rows - top));
            for y in 0..rows {
                to[(top + y) * row_bytes + left..][..row]
                    .copy_from_slice(&from.data[y * from.stride_bytes..][..row]);
            }
        }
    }
    let (format, whole) = joined.expect("a grid has tiles");
    Ok(format.view(grid.size, whole.map(|plane| &*plane)))
}

/// How the planes of tiles are stored.
#[derive(Clone, Copy, PartialEq)]
struct Format {
    planes: usize,
    is_rgb: bool,
    log2_chroma_w: u8,
    log2_chroma_h: u8,
    depth_bits: u8,
    color: Colorimetry,
}

impl Format {
    /// The format of a tile, and its planes.
    fn of<'a>(
        site: &Site,
        planes: &Planes<'a>,
        depth_bits: u8,
        color: Colorimetry,
    ) -> Result<([Option<Plane<'a>>; 3], Self)> {
        let format = Self {
            planes: 3,
            is_rgb: false,
            log2_chroma_w: 0,
            log2_chroma_h: 0,
            depth_bits,
            color,
        };
        match *planes {
            Planes::Gray(plane) => Ok((
                [Some(plane), None, None],
                Self {
                    planes: 1,
                    ..format
                },
            )),
            Planes::PlanarRgb(planes) => Ok((
                planes.map(Some),
                Self {
                    is_rgb: true,
                    ..format
                },
            )),
            Planes::Yuv {
                planes,
                log2_chroma_w,
                log2_chroma_h,
            } => Ok((
                planes.map(Some),
                Self {
                    log2_chroma_w,
                    log2_chroma_h,
                    ..format
                },
            )),
            _ => Err(Error::Unsupported {
                site: site.clone(),
                what: "AVIF with packed samples".to_owned(),
            }),
        }
    }

    /// Bytes of a row and number of rows of a plane of a picture of this size.
    fn plane_size(&self, plane: usize, (width, height): (u32, u32)) -> (usize, usize) {
        let (w, h) = if plane == 0 {
            (0, 0)
        } else {
            (self.log2_chroma_w, self.log2_chroma_h)
        };
        let bytes = if plane >= self.planes {
            0
        } else {
            usize::from(self.depth_bits > 8) + 1
        };
        (
            width.div_ceil(1 << w) as usize * bytes,
            height.div_ceil(1 << h) as usize,
        )
    }

    fn view<'a>(&self, size: (u32, u32), data: [&'a [u8]; 3]) -> FrameView<'a> {
        let plane = |n: usize| Plane {
            data: data[n],
            stride_bytes: self.plane_size(n, size).0,
        };
        let all = || [plane(0), plane(1), plane(2)];
        let planes = match (self.planes, self.is_rgb) {
            (1, _) => Planes::Gray(plane(0)),
            (_, true) => Planes::PlanarRgb(all()),
            (_, false) => Planes::Yuv {
                planes: all(),
                log2_chroma_w: self.log2_chroma_w,
                log2_chroma_h: self.log2_chroma_h,
            },
        };
        FrameView {
            width: size.0,
            height: size.1,
            depth_bits: self.depth_bits,
            shift: 0,
            planes,
            color: self.color,
        }
    }
}
