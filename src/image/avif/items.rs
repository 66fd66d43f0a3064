//! Parses the `meta` box of an AVIF: items, their properties, references and data (ISO/IEC
//! 14496-12, 8.11).

use std::collections::HashMap;

use mp4_atom::{
    Atom, Av1c, Colr, Iinf, Iloc, Imir, Ipma, Iref, Irot, Ispe, ItemLocation, Pitm, Reference,
};

use crate::demux::mp4::boxes::{children, find};
use crate::error::{Error, Result, Site};
use crate::media::{ColorTags, DisplayOrientation};

/// Properties that may be essential: those that are read here, and those that do not change the
/// picture.
const KNOWN_PROPERTIES: [&[u8; 4]; 13] = [
    b"ispe", b"pixi", b"av1C", b"colr", b"irot", b"imir", b"pasp", b"auxC", b"clli", b"mdcv",
    b"cclv", b"amve", b"a1lx",
];
/// `MatrixCoefficients` of ITU-T H.273.
const UNSPECIFIED: u8 = 2;
/// Items of one grid: 256 rows and 256 columns.
const MAX_TILES: usize = 1 << 16;

/// The content of the `meta` box of a file.
pub(super) fn meta_of(file: &[u8]) -> Option<&[u8]> {
    find(file, b"meta")
}

/// A picture that is joined from items of one size, row by row.
pub(super) struct Grid {
    pub columns: u32,
    /// Not empty.
    pub tiles: Vec<u32>,
    /// Width and height of the result.
    pub size: (u32, u32),
}

struct Property<'a> {
    kind: [u8; 4],
    content: &'a [u8],
    is_essential: bool,
}

/// The items of a file.
pub(super) struct Items<'a> {
    /// The item that is the picture.
    pub primary: u32,
    /// Type by item.
    kinds: HashMap<u32, [u8; 4]>,
    locations: Vec<ItemLocation>,
    references: Vec<Reference>,
    /// Properties by item, in the order in which they apply.
    properties: HashMap<u32, Vec<Property<'a>>>,
    idat: &'a [u8],
}

impl<'a> Items<'a> {
    /// Parses the content of a `meta` box.
    pub(super) fn parse(site: &Site, meta: &'a [u8]) -> Result<Self> {
        let meta = meta.get(4..).unwrap_or_default(); // version and flags
        let needed = |kind: &'static [u8; 4]| {
            let missing = || {
                malformed(
                    site,
                    format!("without the box '{}'", String::from_utf8_lossy(kind)),
                )
            };
            find(meta, kind).ok_or_else(missing)
        };
        let iloc = needed(b"iloc")?;
        // Extents of no bytes would let a small box claim any number of them.
        if iloc.get(4).is_none_or(|sizes| *sizes == 0) {
            return Err(malformed(
                site,
                "whose 'iloc' box has extents without offset and length".to_owned(),
            ));
        }
        let mut kinds = HashMap::new();
        for entry in decoded::<Iinf>(site, needed(b"iinf")?)?.item_infos {
            // The data of a protected item is encrypted.
            let kind = entry.item_type.filter(|_| entry.item_protection_index == 0);
            kinds.extend(kind.map(|kind| (entry.item_id, kind.into())));
        }
        let iprp = needed(b"iprp")?;
        let stored: Vec<_> = find(iprp, b"ipco").into_iter().flat_map(children).collect();
        let mut properties: HashMap<u32, Vec<_>> = HashMap::new();
        for (_, ipma) in children(iprp).filter(|(kind, _)| kind == b"ipma") {
            for item in decoded::<Ipma>(site, ipma)?.item_properties {
                let list = properties.entry(item.item_id).or_default();
                for property in item
                    .associations
                    .iter()
                    .filter(|property| property.property_index > 0)
                {
                    let at = usize::from(property.property_index);
                    let &(kind, content) = stored.get(at - 1).ok_or_else(|| {
                        malformed(
                            site,
                            format!(
                                "with property {at} of {} of item {}",
                                stored.len(),
                                item.item_id
                            ),
                        )
                    })?;
                    list.push(Property {
                        kind,
                        content,
                        is_essential: property.essential,
                    });
                }
            }
        }
        Ok(Self {
            primary: decoded::<Pitm>(site, needed(b"pitm")?)?.item_id,
            kinds,
            locations: decoded::<Iloc>(site, iloc)?.item_locations,
            references: match find(meta, b"iref") {
                Some(iref) => decoded::<Iref>(site, iref)?.references,
                None => Vec::new(),
            },
            properties,
            idat: find(meta, b"idat").unwrap_or_default(),
        })
    }

    /// Type of an item: `av01` or `grid`.
    fn kind(&self, site: &Site, id: u32) -> Result<[u8; 4]> {
        match self.kinds.get(&id) {
            Some(kind) if kind == b"av01" || kind == b"grid" => Ok(*kind),
            Some(kind) => Err(unsupported(
                site,
                format!("an item of type '{}'", String::from_utf8_lossy(kind)),
            )),
            None => Err(unsupported(
                site,
                format!("an item {id} that is missing or encrypted"),
            )),
        }
    }

    /// Whether an item is joined from others.
    ///
    /// # Errors
    /// `Unsupported` for an item of another type than AV1.
    pub(crate) fn is_grid(&self, site: &Site, id: u32) -> Result<bool> {
        Ok(&self.kind(site, id)? == b"grid")
    }

    fn properties<'s>(&'s self, id: u32) -> impl Iterator<Item = &'s Property<'a>> {
        self.properties.get(&id).into_iter().flatten()
    }

    fn property<A: Atom>(&self, site: &Site, id: u32) -> Result<A> {
        let kind: [u8; 4] = A::KIND.into();
        let found = self.properties(id).find(|property| property.kind == kind);
        let missing = || {
            malformed(
                site,
                format!(
                    "whose item {id} has no '{}'",
                    String::from_utf8_lossy(&kind)
                ),
            )
        };
        decoded(site, found.ok_or_else(missing)?.content)
    }

    /// Width and height of an item, before rotation.
    ///
    /// # Errors
    /// `Unsupported` for an item with an essential property that is not known.
    pub(super) fn size(&self, site: &Site, id: u32) -> Result<(u32, u32)> {
        let unknown = |property: &&Property<'_>| {
            property.is_essential && !KNOWN_PROPERTIES.contains(&&property.kind)
        };
        if let Some(property) = self.properties(id).find(unknown) {
            let kind = String::from_utf8_lossy(&property.kind);
            return Err(unsupported(
                site,
                format!("the essential property '{kind}'"),
            ));
        }
        let Ispe { width, height } = self.property(site, id)?;
        Ok((width, height))
    }

    /// Parameters of the AV1 data of an item, or of the first tile of a grid.
    pub(crate) fn av1_config(&self, site: &Site, id: u32) -> Result<Av1c> {
        let tile = if self.is_grid(site, id)? {
            self.tiles(id).first().copied()
        } else {
            None
        };
        self.property(site, tile.unwrap_or(id))
    }

    /// Matrix and range of an item; `None` where its data states them.
    pub(super) fn color(&self, site: &Site, id: u32) -> Result<Option<ColorTags>> {
        let is_nclx = |property: &&Property<'_>| {
            &property.kind == b"colr" && property.content.starts_with(b"nclx")
        };
        let Some(property) = self.properties(id).find(is_nclx) else {
            return Ok(None);
        };
        let Colr::Nclx {
            matrix_coefficients,
            full_range_flag,
            ..
        } = decoded(site, property.content)?
        else {
            return Ok(None);
        };
        let matrix = u8::try_from(matrix_coefficients).unwrap_or(UNSPECIFIED);
        Ok(Some(ColorTags {
            matrix,
            full_range: Some(full_range_flag),
            ..ColorTags::default()
        }))
    }

    /// How an item is turned and mirrored for display.
    pub(super) fn orientation(&self, site: &Site, id: u32) -> Result<DisplayOrientation> {
        let (mut mirror, mut turns) = (false, 0);
        for property in self.properties(id) {
            match &property.kind {
                // Counterclockwise, in units of 90 degrees.
                b"irot" => turns = (turns + 4 - decoded::<Irot>(site, property.content)?.angle) % 4,
                // Axis 0 exchanges top and bottom, 1 left and right. A mirror reverses the turns
                // before it.
                b"imir" => {
                    let axis = decoded::<Imir>(site, property.content)?.axis & 1;
                    turns = (4 - turns + if axis == 0 { 2 } else { 0 }) % 4;
                    mirror = !mirror;
                }
                _ => {}
            }
        }
        Ok(DisplayOrientation {
            mirror,
            quarter_turns_cw: turns,
        })
    }

    fn tiles(&self, id: u32) -> &[u32] {
        let is_tiles = |reference: &&Reference| {
            reference.from_item_id == id && <[u8; 4]>::from(reference.reference_type) == *b"dimg"
        };
        self.references
            .iter()
            .find(is_tiles)
            .map(|reference| &reference.to_item_ids[..])
            .unwrap_or_default()
    }

    /// The layout of a grid: ISO/IEC 23008-12, 6.6.2.3.
    pub(super) fn grid(&self, site: &Site, id: u32, file: &'a [u8]) -> Result<Grid> {
        let content = self.data(site, id, file)?.concat();
        let number = |at: usize, bytes: usize| {
            let field = content.get(at..at + bytes)?;
            Some(
                field
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | u32::from(*byte)),
            )
        };
        let parsed = || {
            let bytes = if content.get(1)? & 1 == 0 { 2 } else { 4 };
            let (rows, columns) = (number(2, 1)? + 1, number(3, 1)? + 1);
            Some((
                rows,
                columns,
                (number(4, bytes)?, number(4 + bytes, bytes)?),
            ))
        };
        let (rows, columns, size) =
            parsed().ok_or_else(|| malformed(site, "with an invalid grid".to_owned()))?;
        let tiles = self.tiles(id).to_vec();
        if tiles.len() > MAX_TILES || tiles.len() != rows as usize * columns as usize {
            let reason = format!(
                "with {} tiles in a grid of {rows} rows and {columns} columns",
                tiles.len()
            );
            return Err(malformed(site, reason));
        }
        Ok(Grid {
            columns,
            tiles,
            size,
        })
    }

    /// The data of an item, in parts.
    pub(super) fn data(&self, site: &Site, id: u32, file: &'a [u8]) -> Result<Vec<&'a [u8]>> {
        let location = self
            .locations
            .iter()
            .find(|location| location.item_id == id);
        let location =
            location.ok_or_else(|| malformed(site, format!("whose item {id} has no data")))?;
        let whole = match (location.construction_method, location.data_reference_index) {
            (0, 0) => file,
            (1, _) => self.idat,
            _ => {
                return Err(unsupported(
                    site,
                    format!("an item {id} whose data is in another file or item"),
                ));
            }
        };
        let mut parts = Vec::new();
        let mut total = 0;
        for extent in &location.extents {
            let offset = location.base_offset.saturating_add(extent.offset);
            let end = match extent.length {
                0 => whole.len() as u64,
                length => offset.saturating_add(length),
            };
            let inside = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
            let part = inside
                .and_then(|(offset, end)| whole.get(offset..end))
                .ok_or_else(|| {
                    let len = whole.len() as u64;
                    Error::Truncated {
                        site: site.clone(),
                        offset,
                        end,
                        len,
                    }
                })?;
            total += part.len();
            parts.push(part);
        }
        if total == 0 || total > whole.len() {
            return Err(malformed(
                site,
                format!(
                    "whose item {id} has {total} bytes of data in {}",
                    whole.len()
                ),
            ));
        }
        Ok(parts)
    }
}

fn decoded<A: Atom>(site: &Site, mut content: &[u8]) -> Result<A> {
    A::decode_body(&mut content).map_err(|error| {
        let kind: [u8; 4] = A::KIND.into();
        malformed(
            site,
            format!(
                "with an invalid '{}' box: {error}",
                String::from_utf8_lossy(&kind)
            ),
        )
    })
}

fn malformed(site: &Site, what: String) -> Error {
    Error::malformed(site, format!("AVIF {what}"))
}

fn unsupported(site: &Site, what: String) -> Error {
    Error::Unsupported {
        site: site.clone(),
        what: format!("AVIF with {what}"),
    }
}
