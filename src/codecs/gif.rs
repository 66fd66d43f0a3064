//! GIF: whether the data of an image are complete. The decoder omits rows that are missing,
//! without a message.

use super::codec::Codec;

pub(crate) struct Gif;

impl Codec for Gif {
    fn packet_error(&self, data: &[u8]) -> Option<&'static str> {
        (find_end(data) == ImageEnd::Missing).then_some("the end of its image is missing")
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ImageEnd {
    Present,
    Missing,
    /// No image was found: what the packet is, the decoder says.
    Unknown,
}

/// Finds the end of the first image: the empty block after its data blocks (GIF89a 15, 18 to 25). Some
/// programs omit this block at the end of a file. Without it, a last block that is shorter than the
/// others, which encoders fill, is the last one of the image.
fn find_end(data: &[u8]) -> ImageEnd {
    const EXTENSION: u8 = 0x21;
    const IMAGE: u8 = 0x2c;
    const END_OF_FILE: u8 = 0x3b;
    const FULL_BLOCK: usize = 254;
    let palette_bytes = |flags: u8| usize::from(flags >> 7) * (3 * (2 << (flags & 7)));
    let mut at = 0;
    if data.starts_with(b"GIF8") {
        at = 13 + data.get(10).map_or(0, |&flags| palette_bytes(flags));
    }
    loop {
        let is_image = match data.get(at) {
            Some(&EXTENSION) => {
                at += 2; // its kind
                false
            }
            Some(&IMAGE) => {
                let Some(&flags) = data.get(at + 9) else {
                    return ImageEnd::Missing;
                };
                at += 10 + palette_bytes(flags) + 1; // the size of the first codes
                true
            }
            _ => return ImageEnd::Unknown,
        };
        let (mut first, mut last) = (None, 0);
        loop {
            match data.get(at..).unwrap_or_default() {
                [0, ..] => break,
                [] | [END_OF_FILE] if at <= data.len() && is_image => {
                    let full = first.filter(|&first| first != last).unwrap_or(FULL_BLOCK);
                    return match first.is_some() && last < full {
                        true => ImageEnd::Present,
                        false => ImageEnd::Missing,
                    };
                }
                [] if is_image => return ImageEnd::Missing,
                [] => return ImageEnd::Unknown,
                [size, ..] => {
                    last = usize::from(*size);
                    first.get_or_insert(last);
                    at += 1 + last;
                }
            }
        }
        if is_image {
            return ImageEnd::Present;
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_its_end_is_damaged() {
        let control = [0x21, 0xf9, 4, 0, 10, 0, 0, 0];
        let image = [0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 1, 0x05, 0];
        let own_palette = [
            0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0x80, 9, 9, 9, 9, 9, 9, 2, 1, 0x44, 0,
        ];
        let header = *b"GIF89a\x01\0\x01\0\x80\0\0\xff\0\0\0\0\xff";
        let whole = [
            [&control[..], &image].concat(),
            [&header[..], &control, &own_palette].concat(),
            [&header[..], &image, b";"].concat(),
        ];
        for packet in &whole {
            assert_eq!(find_end(packet), ImageEnd::Present);
            let image = packet.iter().position(|&byte| byte == 0x2c).unwrap();
            let end = packet.iter().rposition(|&byte| byte == 0).unwrap();
            for cut in image + 1..end {
                let complete = packet[..cut].ends_with(&[2, 0x44, 1]); // the first block
                assert_eq!(
                    find_end(&packet[..cut]) == ImageEnd::Missing,
                    !complete,
                    "{cut}"
                );
            }
            // Without the last, empty block.
            assert_eq!(find_end(&packet[..end]), ImageEnd::Present);
            assert_eq!(
                find_end(&[&packet[..end], b";"].concat()),
                ImageEnd::Present
            );
            for cut in 0..image {
                assert_eq!(find_end(&packet[..cut]), ImageEnd::Unknown, "{cut}");
            }
        }
        let long = [
            &[0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 8][..],
            &[&[255][..], &[7; 255]].concat().repeat(2),
        ]
        .concat();
        assert_eq!(find_end(&long), ImageEnd::Missing);
        assert_eq!(find_end(&long[..long.len() - 256]), ImageEnd::Missing);
        assert_eq!(
            find_end(&[&long[..], &[2, 7, 7]].concat()),
            ImageEnd::Present
        );
        assert_eq!(find_end(b";"), ImageEnd::Unknown);
    }
}
