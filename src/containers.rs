//! What framespool must know of a container besides libavformat's demuxer: a table of properties,
//! and a file for each container in which something is read here. A stream without a container
//! counts as one.

mod asf;
mod flv;
mod matroska;
pub(crate) mod mpeg;

use crate::error::Result;
use crate::source::ByteSource;

/// Properties of a container. [`new`] gives the rule for one of which nothing is known.
pub(crate) struct Container {
    /// The first of libavformat's names of it.
    name: &'static str,
    /// Extensions of its files, in lower case.
    extensions: &'static [&'static str],
    pub detection: Detection,

    // ---- Encryption ----
    /// What the headers of a file declare of its video stream with this number.
    pub stream_encryption: fn(&dyn ByteSource, usize) -> Result<Option<String>>,
    /// What the container states of the packet at this position.
    pub packet_encryption: fn(&dyn ByteSource, u64) -> Result<Option<&'static str>>,
    /// Whether libavformat returns no packets of scrambled streams.
    pub drops_scrambled_packets: bool,

    // ---- Packets ----
    /// Whether its sample tables list all packets.
    pub has_sample_tables: bool,
    /// Whether files begin with their streams: decoding may start at the first packet, regardless of
    /// its key flag.
    pub begins_with_stream: bool,
    /// Whether a stream has no beginning of its own, so that it may be cut inside a picture.
    pub may_be_cut: bool,
    pub damage_mark: DamageMark,
    /// Whether a part is missing within the packet at this position, near one that libavformat has
    /// marked.
    pub is_cut: fn(&dyn ByteSource, u64) -> Result<bool>,

    // ---- Times ----
    /// Whether presentation times are stored. Otherwise the times that libavformat generates for
    /// some packets contradict the others.
    pub stores_times: bool,
    /// Whether the first frame is at time 0, however early its packet would have to be decoded.
    pub starts_at_zero: bool,
    /// Whether frames may share a block, which has one time (lacing).
    pub has_laces: bool,
    /// Whether packets have the same times after a seek. Otherwise they may have those of others.
    pub keeps_times_after_seek: bool,
}

impl Container {
    /// Whether it is a stream without a container.
    pub(crate) fn is_raw(&self) -> bool {
        self.may_be_cut && self.starts_at_zero
    }
}

/// How libavformat detects a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detection {
    /// By the beginning of a file.
    Beginning,
    /// By start codes or synchronization bytes anywhere in a file.
    Anywhere,
    /// By start codes anywhere in a file. It begins with one: 00 00 01, with any number of zero
    /// bytes before it.
    StartCodes,
    /// By JPEG images anywhere in a file. It begins with one: with SOI.
    Images,
}

/// What libavformat's mark of a damaged packet means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DamageMark {
    /// A part of the packet is missing.
    Packet,
    /// Pages are missing before the packet, which itself is complete (scripts/ffmpeg.patch).
    BeforePacket,
    /// Its tag or, if that was not of a packet, a tag before it is damaged, and tags may be missing
    /// after it (scripts/ffmpeg.patch).
    PacketAndAfter,
    /// The demuxer joins what it read before the damage with what follows.
    Joined,
    /// libavformat passes incomplete data to a parser, which splits it at the next start code: the
    /// mark is on the picture that this data completes, while the missing part belongs to the
    /// following picture.
    PacketOrNext,
}

const REGISTRY: &[Container] = &[
    Container {
        has_sample_tables: true,
        begins_with_stream: true,
        ..new(
            "mov",
            &["mp4", "m4v", "mov", "qt", "3gp", "3g2", "f4v", "ismv"],
        )
    },
    Container {
        stream_encryption: matroska::stream_encryption,
        has_laces: true,
        ..new("matroska", &["mkv", "mk3d", "webm"])
    },
    Container {
        begins_with_stream: true,
        stores_times: false,
        ..new("avi", &["avi", "divx"])
    },
    Container {
        detection: Detection::Anywhere,
        drops_scrambled_packets: true,
        may_be_cut: true,
        damage_mark: DamageMark::PacketOrNext,
        is_cut: mpeg::is_pes_cut,
        ..new("mpegts", &["ts", "mts", "m2t", "m2ts"])
    },
    Container {
        detection: Detection::Anywhere,
        packet_encryption: mpeg::packet_encryption,
        may_be_cut: true,
        keeps_times_after_seek: false,
        ..new("mpeg", &["mpg", "mpeg", "vob"])
    },
    raw("mpegvideo", &["m1v", "m2v"]),
    Container {
        packet_encryption: flv::packet_encryption,
        damage_mark: DamageMark::PacketAndAfter,
        ..new("flv", &["flv"])
    },
    Container {
        stream_encryption: asf::stream_encryption,
        ..new("asf", &["wmv", "asf"])
    },
    Container {
        damage_mark: DamageMark::BeforePacket,
        ..new("ogg", &["ogv", "ogm"])
    },
    new("gif", &["gif"]),
    new("ivf", &["ivf"]),
    Container {
        detection: Detection::Beginning,
        damage_mark: DamageMark::Joined,
        ..raw("obu", &["obu"])
    },
    Container {
        detection: Detection::Beginning,
        ..raw("av1", &[])
    },
    raw("h264", &["h264", "264"]),
    raw("hevc", &["hevc", "h265", "265"]),
    raw("vvc", &["vvc", "h266", "266"]),
    raw("m4v", &[]),
    Container {
        detection: Detection::Images,
        ..raw("mjpeg", &["mjpeg", "mjpg"])
    },
];

const fn new(name: &'static str, extensions: &'static [&'static str]) -> Container {
    Container {
        name,
        extensions,
        detection: Detection::Beginning,
        stream_encryption: |_, _| Ok(None),
        packet_encryption: |_, _| Ok(None),
        drops_scrambled_packets: false,
        has_sample_tables: false,
        begins_with_stream: false,
        may_be_cut: false,
        damage_mark: DamageMark::Packet,
        is_cut: |_, _| Ok(false),
        stores_times: true,
        starts_at_zero: false,
        has_laces: false,
        keeps_times_after_seek: true,
    }
}

/// A stream without a container.
const fn raw(name: &'static str, extensions: &'static [&'static str]) -> Container {
    Container {
        detection: Detection::StartCodes,
        may_be_cut: true,
        stores_times: false,
        starts_at_zero: true,
        ..new(name, extensions)
    }
}

/// The container that libavformat calls `name`; the first part of the name suffices.
pub(crate) fn by_name(name: &str) -> &'static Container {
    const UNKNOWN: &Container = &new("", &[]);
    let first = name.split(',').next();
    let known = REGISTRY.iter().find(|known| Some(known.name) == first);
    known.unwrap_or(UNKNOWN)
}

/// The extensions of video files, in lower case.
pub fn video_extensions() -> impl Iterator<Item = &'static str> {
    let extensions = REGISTRY.iter().flat_map(|container| container.extensions);
    extensions.copied()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn registry_has_no_ambiguous_entry() {
        let (mut names, mut extensions) = (HashSet::new(), HashSet::new());
        assert!(REGISTRY.iter().all(|known| names.insert(known.name)));
        assert!(video_extensions().all(|extension| extensions.insert(extension)));
    }

    #[test]
    fn first_of_libavformats_names_is_compared() {
        for name in ["mov,mp4,m4a,3gp,3g2,mj2", "mov,mp4"] {
            assert_eq!(by_name(name).name, "mov", "{name}");
        }
        assert_eq!(by_name("live_flv").name, "");
    }
}
