//! Reads bits and Exp-Golomb numbers from the payload of a NAL unit; after the end it returns
//! zeros. It never fails: callers must check the range of values from damaged headers.

/// A reader that skips emulation prevention bytes.
pub struct BitReader {
    bytes: Vec<u8>,
    at: usize,
}

impl BitReader {
    pub fn new(nal: &[u8]) -> BitReader {
        let mut bytes = Vec::with_capacity(nal.len());
        let mut zeros = 0;
        for &byte in nal {
            if zeros >= 2 && byte == 3 {
                zeros = 0;
                continue;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            bytes.push(byte);
        }
        BitReader { bytes, at: 0 }
    }

    pub fn bit(&mut self) -> u32 {
        let byte = self.bytes.get(self.at / 8).copied().unwrap_or(0);
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        u32::from(bit)
    }

    pub fn flag(&mut self) -> bool {
        self.bit() == 1
    }

    pub fn bits(&mut self, count: u32) -> u32 {
        (0..count).fold(0, |value, _| value << 1 | self.bit())
    }

    pub fn skip(&mut self, count: usize) {
        self.at += count;
    }

    /// ue(v).
    pub fn ue(&mut self) -> u32 {
        let mut zeros = 0;
        while zeros < 32 && !self.flag() {
            zeros += 1;
        }
        if zeros == 32 {
            u32::MAX
        } else {
            (1u32 << zeros) - 1 + self.bits(zeros)
        }
    }

    /// se(v).
    pub fn se(&mut self) -> i32 {
        let value = self.ue();
        let half = (value / 2 + value % 2) as i32;
        if value % 2 == 1 { half } else { -half }
    }
}

/// NAL units of a byte stream: the offsets of the header byte, of the end, and of the start code.
pub fn nals(stream: &[u8]) -> Vec<(usize, usize)> {
    let mut starts = Vec::new();
    let mut at = 0;
    while at + 3 <= stream.len() {
        if stream[at + 2] > 1 {
            at += 3;
        } else if stream[at..at + 3] == [0, 0, 1] {
            starts.push(at + 3);
            at += 3;
        } else {
            at += 1;
        }
    }
    let end = |n: usize| {
        let mut end = starts.get(n + 1).map_or(stream.len(), |next| next - 3);
        while end > starts[n] && stream[end - 1] == 0 {
            end -= 1;
        }
        end
    };
    (0..starts.len())
        .map(|n| (starts[n], end(n)))
        .filter(|(start, end)| start < end)
        .collect()
}
