//! Recognizes containers that this build does not read, and raw streams that do not begin like one.
//! libavformat takes such a file for a raw stream of its codec, and finds only some of the pictures
//! in it.

use crate::containers::{self, Detection};

/// Number of bytes at the beginning of a file that are searched.
pub(super) const HEAD_BYTES: usize = 4096;

/// Containers and playlists: name, offset, and the bytes there.
const SIGNATURES: [(&str, usize, &[u8]); 41] = [
    ("NUT", 0, b"nut/multimedia container\0"),
    ("RealMedia", 0, b".RMF"),
    ("RealMedia (IVR)", 0, b".R1M"),
    (
        "WTV",
        0,
        b"\xb7\xd8\x00\x20\x37\x49\xda\x11\xa6\x4e\x00\x07\xe9\x5e\xad\x8d",
    ),
    ("raw DV", 0, b"\x1f\x07\x00\x3f"),
    ("raw DV", 0, b"\x1f\x07\x00\xbf"),
    ("YUV4MPEG2 (Y4M)", 0, b"YUV4MPEG2"),
    ("NSV", 0, b"NSVf"),
    ("NSV", 0, b"NSVs"),
    ("LXF", 0, b"LEITCH\0\0"),
    ("R3D", 4, b"RED1"),
    ("R3D", 4, b"RED2"),
    ("SWF", 0, b"FWS"),
    ("SWF", 0, b"CWS"),
    ("SWF", 0, b"ZWS"),
    ("Bink", 0, b"BIK"),
    ("Bink", 0, b"KB2"),
    ("Smacker", 0, b"SMK2"),
    ("Smacker", 0, b"SMK4"),
    ("4X Movie", 8, b"4XMV"),
    ("AMV", 8, b"AMV "),
    ("Interplay MVE", 0, b"Interplay MVE File\x1a\0"),
    ("RoQ", 0, b"\x84\x10\xff\xff\xff\xff"),
    ("TiVo", 0, b"\xf5\x46\x7a\xbd"),
    ("DHAV", 0, b"DHAV"),
    ("MLV", 0, b"MLVI"),
    ("Sega FILM", 0, b"FILM"),
    ("THP", 0, b"THP\0"),
    ("PMP", 0, b"pmpm"),
    ("USM", 0, b"CRID"),
    ("NuppelVideo", 0, b"NuppelVideo"),
    ("NuppelVideo", 0, b"MythTVVideo"),
    ("VC-1 test bitstream (RCV)", 3, b"\xc5\x04\x00\x00\x00"),
    ("VC-1 test bitstream (RCV)", 3, b"\x85\x04\x00\x00\x00"),
    ("HLS playlist", 0, b"#EXTM3U"),
    ("DASH manifest", 0, b"<MPD"),
    ("Smooth Streaming manifest", 0, b"<SmoothStreamingMedia"),
    ("ASX playlist", 0, b"<asx"),
    ("ASX playlist", 0, b"<ASX"),
    ("PLS playlist", 0, b"[playlist]"),
    ("concat script", 0, b"ffconcat version"),
];

/// The container of a file that begins with `head`, if it is one that FFmpeg's build for this
/// library does not read.
pub(super) fn unsupported_container(head: &[u8]) -> Option<&'static str> {
    const MXF_PARTITION: &[u8] = b"\x06\x0e\x2b\x34\x02\x05\x01\x01\x0d\x01\x02";
    // A GXF packet: a leader of five bytes, its type (a map), and a trailer of two bytes.
    if head.starts_with(b"\0\0\0\0\x01\xbc") && head.get(14..16) == Some(b"\xe1\xe2") {
        return Some("GXF");
    }
    if head.starts_with(b"AV") && head.get(4) == Some(&0x55) {
        return Some("PVA");
    }
    // Up to 64 KiB of anything may precede the first partition (SMPTE ST 377-1 6.5); usually
    // nothing does.
    if memchr::memmem::find(head, MXF_PARTITION).is_some() {
        return Some("MXF");
    }
    if head.starts_with(b"--") && memchr::memmem::find(head, b"image/jpeg").is_some() {
        return Some("multipart JPEG");
    }
    let text = head
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(head)
        .trim_ascii_start();
    let matches = |&&(_, at, bytes): &&(&str, usize, &[u8])| {
        let is_tag = bytes.starts_with(b"<");
        text.get(at..).is_some_and(|rest| rest.starts_with(bytes))
            // An XML declaration and comments may precede the element.
            || is_tag && text.starts_with(b"<") && memchr::memmem::find(text, bytes).is_some()
    };
    SIGNATURES.iter().find(matches).map(|&(name, ..)| name)
}

/// Why a file that begins with `head`, and that libavformat takes for `format`, is not one of that
/// format.
pub(super) enum Mismatch {
    /// It is a container that is not read.
    Container(&'static str),
    /// A raw stream of this format begins with these bytes.
    RawStream(&'static str),
}

/// Whether libavformat detects a format by what it finds anywhere in a file: a file of another
/// container that holds a stream of the same codec looks like it.
pub(super) fn is_detected_by_content(format: &str) -> bool {
    containers::by_name(format).detection != Detection::Beginning
}

/// Checks the beginning of a file whose format was detected by its content.
pub(super) fn check_format(format: &str, head: &[u8]) -> Result<(), Mismatch> {
    if let Some(container) = unsupported_container(head) {
        return Err(Mismatch::Container(container));
    }
    let zeros = head.iter().take_while(|&&byte| byte == 0).count();
    match containers::by_name(format).detection {
        Detection::Images if !head.starts_with(&[0xff, 0xd8]) => Err(Mismatch::RawStream("ff d8")),
        // Zero bytes may precede the first start code.
        Detection::StartCodes if zeros < 2 || head.get(zeros).is_some_and(|&byte| byte != 1) => {
            Err(Mismatch::RawStream("a start code, 00 00 01"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(format: &str, head: &[u8]) -> Option<&'static str> {
        check_format(format, head)
            .err()
            .map(|mismatch| match mismatch {
                Mismatch::Container(name) | Mismatch::RawStream(name) => name,
            })
    }

    #[test]
    fn raw_streams_begin_with_a_start_code_or_an_image() {
        for format in ["h264", "hevc", "mpegvideo", "m4v"] {
            for head in [&[0, 0, 1, 0x67][..], &[0, 0, 0, 1, 0x67], &[0; 4096]] {
                assert_eq!(refused(format, head), None, "{format} {head:?}");
            }
            for head in [
                &[0, 1, 0x67][..],
                &[7, 0, 0, 1, 0x67],
                b"text",
                &[0, 0, 2, 1],
            ] {
                assert!(
                    refused(format, head).is_some_and(|what| what.contains("00 00 01")),
                    "{format}"
                );
            }
        }
        assert_eq!(refused("mjpeg", &[0xff, 0xd8, 0xff, 0xe0]), None);
        assert_eq!(refused("mjpeg", &[0xff, 0xff, 0xd8]), Some("ff d8"));
    }

    #[test]
    fn other_formats_may_begin_with_anything() {
        for format in ["nut", "mxf", "matroska,webm", "obu", "flv"] {
            assert!(!is_detected_by_content(format), "{format}");
        }
        assert_eq!(refused("mpeg", b"IMKH and a program stream"), None);
        assert_eq!(refused("mpegts", &[1, 2, 3, 0x47]), None);
    }

    #[test]
    fn known_containers_are_named() {
        let mxf = b"\x06\x0e\x2b\x34\x02\x05\x01\x01\x0d\x01\x02\x01\x01\x02\x04\x00";
        let gxf = b"\0\0\0\0\x01\xbc\0\0\0\x80\0\0\0\0\xe1\xe2";
        let known: [(&str, &[u8]); 9] = [
            ("NUT", b"nut/multimedia container\0NM"),
            ("MXF", mxf),
            ("MXF", &[&[1; 100], &mxf[..]].concat()),
            ("GXF", gxf),
            ("R3D", b"\0\0\x02\0RED2"),
            ("HLS playlist", b"\xef\xbb\xbf#EXTM3U\n"),
            (
                "DASH manifest",
                b"<?xml version=\"1.0\"?>\n<MPD xmlns=\"\">",
            ),
            (
                "multipart JPEG",
                b"--boundary\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8",
            ),
            ("PVA", b"AV\x01\0\x55"),
        ];
        for (name, head) in known {
            assert_eq!(unsupported_container(head), Some(name));
            for format in [
                "h264",
                "hevc",
                "mpegvideo",
                "m4v",
                "mjpeg",
                "mpeg",
                "mpegts",
            ] {
                assert!(is_detected_by_content(format), "{format}");
                assert_eq!(refused(format, head), Some(name), "taken for {format}");
            }
        }
        for head in [
            &b"\0\0\0\x18ftypisom"[..],
            b"RIFF\0\0\0\0AVI LIST",
            b"\0\0\x01\xba",
            b"G\x40\0\x10",
            b"",
        ] {
            assert_eq!(unsupported_container(head), None, "{head:?}");
        }
    }
}
