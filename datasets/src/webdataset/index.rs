//! Reads the index file that DALI's `wds2idx` writes for a shard, so that the shard need not be
//! scanned. The first line is `v1.2` and the number of samples. Each further line is a sample: for
//! each member extension, offset, length and name (version 1.1 has no names). Ranges outside the
//! shard are rejected.

use std::path::Path;

use framespool::error::{Error, Result};
use framespool::source::display_name;

use crate::column_value::shortened;
use crate::lines::for_each_line;
use crate::tar::{TarMember, TarMemberKind};

/// The members that an index file lists for a shard of `shard_bytes` bytes.
pub(super) fn members(index: &Path, shard_bytes: u64) -> Result<Vec<TarMember>> {
    let (mut samples, mut said, mut named, mut found) = (0u64, None, true, Vec::new());
    for_each_line(index, false, |_, line| {
        let mut words = line.split_whitespace();
        if said.is_none() {
            named =
                match words.next() {
                    Some("v1.2") => true,
                    Some("v1.1") => false,
                    _ => return Err(
                        "must be `v1.2` or `v1.1` and the number of samples, as wds2idx writes it"
                            .to_owned(),
                    ),
                };
            let count = words.next().and_then(|count| count.parse::<u64>().ok());
            said = Some(count.ok_or("has no number of samples; create the index again")?);
            return Ok(());
        }
        while let Some(extension) = words.next() {
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            let (Some(offset), Some(len)) = (number(), number()) else {
                return Err(format!(
                    "has no first byte and length after '{}'; create the index again",
                    shortened(extension)
                ));
            };
            let name = match named {
                true => words
                    .next()
                    .ok_or("has no name at its end; names with spaces cannot be listed")?
                    .to_owned(),
                false => format!("{samples:09}.{extension}"),
            };
            if offset.checked_add(len).is_none_or(|end| end > shard_bytes) {
                return Err(format!(
                    "has '{}' at {offset}, {len} bytes long, but its shard has {shard_bytes} bytes; create \
                     the index again",
                    shortened(&name)
                ));
            }
            // Members are selected by extension, and the sample key is the part of the name before
            // it.
            if !name
                .to_ascii_lowercase()
                .ends_with(&format!(".{}", extension.to_ascii_lowercase()))
            {
                return Err(format!(
                    "has '{}' with the extension '{}'; names with spaces cannot be listed",
                    shortened(&name),
                    shortened(extension)
                ));
            }
            found.push(TarMember {
                name,
                header: offset,
                offset,
                len,
                kind: TarMemberKind::File,
            });
        }
        samples += 1;
        Ok(())
    })?;
    match said {
        Some(count) if count == samples => Ok(found),
        said => Err(Error::Argument(format!(
            "{} lists {samples} samples but announces {}: it is truncated, create it again",
            display_name(index),
            said.map_or("none".to_owned(), |count| count.to_string())
        ))),
    }
}
