//! Theora: the identification, comment and setup headers, each a packet of its own (Theora
//! specification 6.1), which chained streams replace.

use super::codec::Codec;
use super::configuration::ConfigurationTracker;

pub(crate) struct Theora;

impl Codec for Theora {
    fn configuration_tracker(&self, extradata: &[u8]) -> Option<Box<dyn ConfigurationTracker>> {
        let known = split_extradata(extradata);
        Some(Box::new(HeaderPacketTracker {
            in_force: known.clone(),
            known,
            pending: Vec::new(),
        }))
    }
}

type Headers = [Vec<u8>; 3];

/// The headers of extradata: each has a size of two bytes before it.
fn split_extradata(extradata: &[u8]) -> Headers {
    let mut headers = Headers::default();
    let mut rest = extradata;
    for part in &mut headers {
        let Some((&size, tail)) = rest.split_first_chunk::<2>() else {
            break;
        };
        let Some((header, tail)) = tail.split_at_checked(u16::from_be_bytes(size).into()) else {
            break;
        };
        part.extend_from_slice(header);
        rest = tail;
    }
    headers
}

struct HeaderPacketTracker {
    in_force: Headers,
    /// The headers that decoders are given from the last change on.
    known: Headers,
    /// Headers since the last picture.
    pending: Vec<Vec<u8>>,
}

impl ConfigurationTracker for HeaderPacketTracker {
    fn observe(&mut self, data: &[u8], may_start: bool) -> Option<Vec<u8>> {
        if self.is_header(data) {
            self.pending.push(data.to_vec());
            return None;
        }
        if !self.pending.is_empty() {
            self.in_force = Headers::default();
            for (part, header) in self.in_force.iter_mut().zip(self.pending.drain(..)) {
                *part = header;
            }
        }
        // Comments have no effect.
        let is_unchanged = [0, 2]
            .iter()
            .all(|&part| self.in_force[part] == self.known[part]);
        if !may_start || is_unchanged {
            return None;
        }
        self.known = self.in_force.clone();
        let sized = |header: &Vec<u8>| [&(header.len() as u16).to_be_bytes()[..], header].concat();
        Some(self.known.iter().flat_map(sized).collect())
    }

    fn is_header(&self, data: &[u8]) -> bool {
        data.first().is_some_and(|first| first & 0x80 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theora_headers_apply_from_the_next_picture() {
        let header = |kind: u8, content: u8| vec![kind, content];
        let laced = |headers: &[Vec<u8>]| -> Vec<u8> {
            headers
                .iter()
                .flat_map(|h| [&(h.len() as u16).to_be_bytes()[..], h].concat())
                .collect()
        };
        let first = [header(0x80, 1), header(0x81, 2), header(0x82, 3)];
        let renamed = [header(0x80, 1), header(0x81, 9), header(0x82, 3)];
        let second = [header(0x80, 1), header(0x81, 2), header(0x82, 4)];
        let extradata = laced(&[&first[..], &second].concat());
        let mut tracker = Theora.configuration_tracker(&extradata).expect("tracked");
        for (headers, expected) in [
            (&renamed, None),
            (&second, Some(laced(&second))),
            (&second, None),
        ] {
            for header in headers {
                assert!(tracker.is_header(header));
                assert_eq!(tracker.observe(header, true), None);
            }
            assert_eq!(tracker.observe(&[0, 1], true), expected);
        }
    }
}
