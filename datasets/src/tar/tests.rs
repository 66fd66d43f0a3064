use super::*;
use crate::tests::TempFolder;
use framespool::error::Location;

/// A POSIX header with its checksum.
pub(crate) fn header(name: &str, kind: u8, len: u64) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..108].copy_from_slice(b"0000644\0");
    block[124..136].copy_from_slice(format!("{len:011o}\0").as_bytes());
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    with_checksum(block)
}

/// The block with a correct checksum.
fn with_checksum(mut block: Vec<u8>) -> Vec<u8> {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Header, contents and padding.
pub(crate) fn member(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = header(name, kind, content.len() as u64);
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

pub(crate) fn ended(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = parts.concat();
    bytes.extend([0; 1024]);
    bytes
}

fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::new();
    for (key, value) in records {
        let rest = format!(" {key}={value}\n");
        let len = (1..)
            .map(|digits| rest.len() + digits)
            .find(|len| len.to_string().len() + rest.len() == *len);
        text += &format!("{}{rest}", len.unwrap());
    }
    member("pax", b'x', text.as_bytes())
}

type Listed = Vec<(String, u64, u64, TarMemberKind)>;

/// Members up to the end or an error.
fn list(bytes: &[u8]) -> (Listed, Result<()>) {
    let root = TempFolder::new();
    let path = root.write("a.tar", bytes);
    let mut members = Vec::new();
    let mut tar = match TarReader::open(&path) {
        Ok(tar) => tar,
        Err(error) => return (members, Err(error)),
    };
    loop {
        match tar.next() {
            Ok(Some(m)) => members.push((m.name, m.offset, m.len, m.kind)),
            Ok(None) => return (members, Ok(())),
            Err(error) => {
                assert!(
                    matches!(tar.next(), Ok(None)),
                    "nothing comes after an error"
                );
                return (members, Err(error));
            }
        }
    }
}

fn whole(bytes: &[u8]) -> Listed {
    let (members, end) = list(bytes);
    end.unwrap();
    members
}

/// The offset that an error names, and its text.
fn refused(bytes: &[u8]) -> (u64, String) {
    let error = list(bytes).1.unwrap_err();
    let place = error.site().map(|site| site.location.clone());
    let Some(Location::Byte(byte)) = place else {
        panic!("{error}")
    };
    (byte, error.to_string())
}

#[test]
fn member_offsets_are_right() {
    let bytes = ended(&[
        member("d/", b'5', b""),
        member("d/a.mp4", b'0', &[1; 700]),
        member("b.cls", 0, b"3"),
        member("empty.txt", b'0', b""),
        member("c.webm", b'7', &[2; 512]),
        member("l.mp4", b'2', b""),
        header("h.mp4", b'1', 700), // older programs give the size of the link target
        member("old/", 0, b""),
    ]);
    let file = |name: &str, offset, len| (name.to_owned(), offset, len, TarMemberKind::File);
    let members = whole(&bytes);
    assert_eq!(members[0], ("d/".to_owned(), 512, 0, TarMemberKind::Other));
    assert_eq!(members[1], file("d/a.mp4", 1024, 700));
    assert_eq!(members[2], file("b.cls", 2560, 1));
    assert_eq!(members[3], file("empty.txt", 3584, 0));
    assert_eq!(members[4], file("c.webm", 4096, 512));
    assert_eq!(
        (members[5].3, members[6].3, members[7].3),
        (
            TarMemberKind::Link,
            TarMemberKind::Link,
            TarMemberKind::Other
        )
    );
    assert_eq!(members.len(), 8);
    assert_eq!(&bytes[1024..1724], &[1; 700]);
}

#[test]
fn long_names_of_every_kind_are_complete() {
    let long = format!("{}/{}.mp4", "d".repeat(120), "f".repeat(90));
    let mut prefixed = header(&long[121..], b'0', 3);
    prefixed[345..465].copy_from_slice(&long.as_bytes()[..120]);
    let mut prefixed = with_checksum(prefixed);
    prefixed.extend([b"abc".as_slice(), &[0; 509]].concat());
    let gnu = [
        member("././@LongLink", b'L', format!("{long}\0").as_bytes()),
        member("cut", b'0', b"abc"),
    ]
    .concat();
    let with_pax = [
        pax(&[("path", &long), ("mtime", "1.5")]),
        member("cut", b'0', b"abc"),
    ]
    .concat();
    for (bytes, offset) in [(prefixed, 512), (gnu, 1536), (with_pax, 1536)] {
        let (name, at, len, kind) = whole(&ended(&[bytes]))[0].clone();
        assert_eq!(
            (name.as_str(), at, len, kind),
            (long.as_str(), offset, 3, TarMemberKind::File)
        );
    }
    // In the GNU format that field holds times and sparse-map entries.
    let mut gnu_own = header("a.mp4", b'0', 0);
    gnu_own[257..265].copy_from_slice(b"ustar  \0");
    gnu_own[345..348].copy_from_slice(b"123");
    assert_eq!(whole(&ended(&[with_checksum(gnu_own)]))[0].0, "a.mp4");
}

#[test]
fn a_pax_size_counts_before_the_headers() {
    let bytes = ended(&[
        pax(&[("size", "600")]),
        header("a.mp4", b'0', 0),
        vec![7; 1024],
        member("b", b'0', b"x"),
    ]);
    let members = whole(&bytes);
    assert_eq!(
        members[0],
        ("a.mp4".to_owned(), 1536, 600, TarMemberKind::File)
    );
    assert_eq!(members[1].0, "b");
}

#[test]
fn noncontiguous_members_are_distinguished() {
    let mut sparse = header("s.mp4", b'S', 512);
    sparse[482] = 1;
    let (mut more, mut last) = (vec![0u8; 512], vec![0u8; 512]);
    (more[0], more[504], last[0]) = (b'0', 1, b'0');
    let bytes = ended(&[
        with_checksum(sparse),
        more,
        last,
        vec![9; 512],
        pax(&[
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.minor", "0"),
            ("GNU.sparse.name", "t.mp4"),
        ]),
        member("GNUSparseFile.1/t.mp4", b'0', &[8; 1024]),
        member("m.mp4", b'M', &[7; 10]),
        member("u.mp4", b'0', b"u"),
    ]);
    let members: Vec<_> = whole(&bytes)
        .into_iter()
        .map(|(name, _, _, kind)| (name, kind))
        .collect();
    let expected = [
        ("s.mp4", TarMemberKind::Sparse),
        ("t.mp4", TarMemberKind::Sparse),
        ("m.mp4", TarMemberKind::Continued),
        ("u.mp4", TarMemberKind::File),
    ];
    assert_eq!(
        members,
        expected.map(|(name, kind)| (name.to_owned(), kind))
    );
}

#[test]
fn any_byte_of_a_header_that_is_flipped_is_noticed() {
    let intact = ended(&[
        member("a.mp4", b'0', &[1; 600]),
        member("b.mp4", b'0', &[2; 10]),
    ]);
    let expected = whole(&intact);
    for at in 1536..2048 {
        let mut damaged = intact.clone();
        damaged[at] ^= 0x10;
        let (members, end) = list(&damaged);
        assert_eq!(members[0], expected[0]);
        match end {
            // A leading zero of the checksum that becomes a space, and the bytes after its end.
            Ok(()) => assert!(
                (1684..1692).contains(&at) && members == expected,
                "byte {at}"
            ),
            Err(error) => assert!(error.to_string().contains("a.tar, byte 1536"), "{error}"),
        }
    }
}

#[test]
fn truncated_archive_keeps_leading_entries() {
    let intact = ended(&[
        member("a.mp4", b'0', &[1; 600]),
        pax(&[("path", "long.mp4")]),
        member("b.mp4", b'0', &[2; 513]),
    ]);
    let expected = whole(&intact);
    let marks = intact.len() - 1024;
    for len in 1..marks {
        let (members, end) = list(&intact[..len]);
        let error = end.unwrap_err();
        assert!(matches!(error, Error::Truncated { .. }), "{len}: {error}");
        assert!(error.to_string().contains("a.tar, byte "), "{error}");
        assert!(expected.starts_with(&members));
        assert_eq!(
            members.len(),
            usize::from(len >= 512 + 600) + usize::from(len >= marks - 511),
            "{len}"
        );
    }
    // Without an end mark the last member may be missing; one zero block is enough.
    assert!(list(&intact[..marks]).1.is_err());
    assert_eq!(whole(&intact[..marks + 512]), expected);
    assert!(matches!(list(b"").1, Err(Error::Truncated { .. })));
}

#[test]
fn invalid_sizes_are_rejected_early() {
    let mut huge = header("a.mp4", b'0', 0);
    huge[124..136].copy_from_slice(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
    let (byte, text) = refused(&ended(&[with_checksum(huge)]));
    assert!(byte == 512 && text.contains("truncated"), "{text}");
    let mut negative = header("a.mp4", b'0', 0);
    negative[124..136].fill(0xff);
    assert!(
        refused(&ended(&[with_checksum(negative)]))
            .1
            .contains("not a number")
    );
    let root = TempFolder::new();
    // A name of two megabytes, all of which is in the file.
    let path = root.write(
        "a.tar",
        ended(&[member("././@LongLink", b'L', &vec![b'n'; 2 << 20])]),
    );
    let error = TarReader::open(&path).unwrap().next().unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
}

#[test]
fn non_tar_and_trailing_data_are_rejected() {
    for (bytes, format) in [
        (&b"\x1f\x8b\x08\0\0\0\0\0"[..], "gunzip"),
        (b"\x28\xb5\x2f\xfd....", "unzstd"),
        (b"\xfd7zXZ\0\0\0", "unxz"),
        (b"BZh91AY", "bunzip2"),
        (b"\x04\x22\x4d\x18..", "unlz4"),
    ] {
        let error = list(bytes).1.unwrap_err();
        assert!(
            matches!(error, Error::Unsupported { .. }) && error.to_string().contains(format),
            "{error}"
        );
    }
    let (byte, text) = refused(&vec![b'x'; 4096]);
    assert!(byte == 0 && text.contains("checksum"), "{text}");
    let one = ended(&[member("a.mp4", b'0', b"a")]);
    let (byte, text) = refused(&[&one[..], &[0; 4096], &one[..]].concat());
    assert!(
        byte == one.len() as u64 + 4096 && text.contains("another archive"),
        "{text}"
    );
    let (byte, text) = refused(&ended(&[pax(&[("path", "a")])]));
    assert!(
        byte == 1024 && text.contains("without its member"),
        "{text}"
    );
    let (byte, text) = refused(&ended(&[
        member("pax", b'x', b"12 path=a\n"),
        member("a", b'0', b""),
    ]));
    assert!(
        byte == 0 && text.contains("pax header is damaged"),
        "{text}"
    );
    let (byte, text) = refused(&ended(&[
        member("pax", b'g', b"9 path=a\n"),
        member("a", b'0', b""),
    ]));
    assert!(byte == 0 && text.contains("same path"), "{text}");
}
