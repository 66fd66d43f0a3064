//! Finds out whether an AV1 temporal unit contains a sequence header OBU.

pub fn has_sequence_header(mut unit: &[u8]) -> bool {
    while let Some((&header, rest)) = unit.split_first() {
        let (kind, extended, sized) = (header >> 3 & 15, header >> 2 & 1, header >> 1 & 1);
        if kind == 1 {
            return true;
        }
        let Some(mut rest) = rest.get(usize::from(extended)..) else {
            return false;
        };
        if sized == 0 {
            return false;
        }
        let mut size = 0usize;
        for shift in 0..8 {
            let Some((&byte, after)) = rest.split_first() else {
                return false;
            };
            rest = after;
            size |= usize::from(byte & 127) << (7 * shift);
            if byte & 128 == 0 {
                break;
            }
        }
        let Some(after) = rest.get(size..) else {
            return false;
        };
        unit = after;
    }
    false
}
