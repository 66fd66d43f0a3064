use super::*;
use crate::tests::TempFolder;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A length-delimited field.
fn field(number: u64, content: &[u8]) -> Vec<u8> {
    [
        varint(number << 3 | 2),
        varint(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}

fn bytes_list(values: &[&[u8]]) -> Vec<u8> {
    field(
        1,
        &values
            .iter()
            .flat_map(|value| field(1, value))
            .collect::<Vec<u8>>(),
    )
}

fn int_list(values: &[i64], packed: bool) -> Vec<u8> {
    let numbers = values.iter().map(|&value| varint(value as u64));
    let list: Vec<u8> = match packed {
        true => field(1, &numbers.flatten().collect::<Vec<u8>>()),
        false => numbers
            .flat_map(|number| [varint(1 << 3), number].concat())
            .collect(),
    };
    field(3, &list)
}

fn example(features: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let pairs = features.iter().flat_map(|(name, feature)| {
        field(1, &[field(1, name.as_bytes()), field(2, feature)].concat())
    });
    field(1, &pairs.collect::<Vec<u8>>())
}

fn record(data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u64).to_le_bytes();
    let sum = |bytes: &[u8]| masked_crc(crc32c::crc32c(bytes)).to_le_bytes();
    [&len[..], &sum(&len), data, &sum(data)].concat()
}

fn sample_record(picture: &[u8], label: i64) -> Vec<u8> {
    record(&example(&[
        ("image/encoded", bytes_list(&[picture])),
        ("label", int_list(&[label], true)),
    ]))
}

fn options(check: bool) -> TfRecordOptions {
    TfRecordOptions {
        source: "image/encoded".to_owned(),
        label: Some("label".to_owned()),
        check,
    }
}

fn list(bytes: &[u8], options: &TfRecordOptions, on_error: ErrorPolicy) -> Result<ArchiveListing> {
    let root = TempFolder::new();
    let path = root.write("a.tfrecord", bytes);
    tfrecord(&[path], options, on_error, 1)
}

/// (bytes, label) of each sample.
fn found(file: &[u8], packed: &ArchiveListing) -> Vec<(Vec<u8>, i64)> {
    let taken = |sample: &ArchiveSample| {
        let SampleLocation::Member(member) = &sample.location else {
            panic!("{sample:?}")
        };
        (
            file[member.offset as usize..][..member.len as usize].to_vec(),
            sample.label,
        )
    };
    packed.samples.iter().map(taken).collect()
}

fn refused(bytes: &[u8], options: &TfRecordOptions) -> String {
    list(bytes, options, ErrorPolicy::Raise)
        .unwrap_err()
        .to_string()
}

#[test]
fn checksums_are_castagnolis_and_masked() {
    // RFC 3720, B.4.
    assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c::crc32c(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(masked_crc(0), 0xa282_ead8);
    assert_eq!(masked_crc(0xe306_9283), 0xc78a_b0e5);
}

#[test]
fn sample_offsets_point_at_the_bytes() {
    let pictures: Vec<Vec<u8>> = (0..20).map(|n: usize| vec![n as u8; n * n * 997]).collect();
    let file: Vec<u8> = pictures
        .iter()
        .zip(-3..)
        .flat_map(|(picture, label)| sample_record(picture, label))
        .collect();
    for check in [false, true] {
        let packed = list(&file, &options(check), ErrorPolicy::Raise).unwrap();
        let expected: Vec<_> = pictures.iter().cloned().zip(-3..).collect();
        assert_eq!(found(&file, &packed), expected);
    }
}

#[test]
fn other_features_and_encodings_do_not_matter() {
    let (source, unpacked) = (bytes_list(&[b"JPEG"]), int_list(&[7], false));
    let float = field(2, &field(1, &1.5f32.to_le_bytes()));
    for data in [
        example(&[
            ("label", unpacked.clone()),
            ("x", float),
            ("image/encoded", source.clone()),
        ]),
        example(&[
            ("image/encoded", bytes_list(&[b"old", b"older"])),
            ("image/encoded", source.clone()),
            ("label", unpacked.clone()),
        ]),
        // Features in two messages, which are merged; unknown fields of each kind before, between
        // and after them.
        [
            vec![9 << 3, 0x80, 1],
            example(&[("label", unpacked.clone())]),
            [&[9 << 3 | 1][..], &[0; 8]].concat(),
            [&[9 << 3 | 5][..], &[0; 4]].concat(),
            example(&[("image/encoded", source.clone())]),
            field(2, b"lists of a SequenceExample"),
        ]
        .concat(),
    ] {
        let file = record(&data);
        let packed = list(&file, &options(true), ErrorPolicy::Raise).unwrap();
        assert_eq!(found(&file, &packed), [(b"JPEG".to_vec(), 7)]);
    }
    let unlabelled = TfRecordOptions {
        label: None,
        ..options(true)
    };
    let file = record(&example(&[("image/encoded", source)]));
    assert_eq!(
        list(&file, &unlabelled, ErrorPolicy::Raise)
            .unwrap()
            .samples[0]
            .label,
        NO_LABEL
    );
}

#[test]
fn incomplete_records_are_named_or_skipped() {
    let source = || ("image/encoded", bytes_list(&[b"JPEG"]));
    for (features, reason) in [
        (
            vec![source()],
            "feature 'label' is missing, expected one integer",
        ),
        (
            vec![source(), ("label", int_list(&[1, 2], true))],
            "feature 'label' holds 2 integers",
        ),
        (
            vec![source(), ("label", bytes_list(&[b"cat"]))],
            "feature 'label' holds 1 strings of bytes",
        ),
        (
            vec![source(), ("label", Vec::new())],
            "feature 'label' is missing",
        ),
        (
            vec![("label", int_list(&[1], true))],
            "feature 'image/encoded' is missing, expected the bytes of one",
        ),
        (
            vec![
                ("image/encoded", bytes_list(&[b"a", b"b"])),
                ("label", int_list(&[1], false)),
            ],
            "feature 'image/encoded' holds 2 strings of bytes",
        ),
    ] {
        let file = [
            sample_record(b"first", 1),
            record(&example(&features)),
            sample_record(b"third", 3),
        ]
        .concat();
        let text = refused(&file, &options(false));
        assert!(
            text.contains("a.tfrecord, record 1 at byte ") && text.contains(reason),
            "{reason}: {text}"
        );
        let packed = list(&file, &options(false), ErrorPolicy::Skip).unwrap();
        assert_eq!((found(&file, &packed).len(), packed.skipped), (2, 1));
    }
}

#[test]
fn every_flipped_bit_is_noticed_where_it_is_checked() {
    let (one, two) = (sample_record(b"first", 1), sample_record(b"second", 2));
    let file = [&one[..], &two].concat();
    let begin = one.len();
    for at in begin..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x04;
        let of_framing = at < begin + 12;
        let text = refused(&damaged, &options(true));
        let reason = if of_framing {
            "record's length is wrong"
        } else {
            "record's data is wrong"
        };
        assert!(
            text.contains(&format!("a.tfrecord, byte {begin}: ")) && text.contains(reason),
            "{at}: {text}"
        );
        let packed = list(&damaged, &options(true), ErrorPolicy::Skip).unwrap();
        assert_eq!((packed.samples.len(), packed.skipped), (1, 1));
        // Without checksums, damaged data still affects only its own record.
        let unchecked = list(&damaged, &options(false), ErrorPolicy::Skip).unwrap();
        assert_eq!(found(&damaged, &unchecked)[0], (b"first".to_vec(), 1));
        assert!(unchecked.samples.len() + unchecked.skipped as usize == 2);
    }
    // Records after damaged data are found.
    let mut damaged = [&file[..], &two].concat();
    damaged[begin + 20] ^= 1;
    let packed = list(&damaged, &options(true), ErrorPolicy::Skip).unwrap();
    assert_eq!((packed.samples.len(), packed.skipped), (2, 1));
}

#[test]
fn file_cut_anywhere_is_truncated() {
    let one = sample_record(&[5; 300], 1);
    let file = [&one[..], &one].concat();
    for len in 1..file.len() {
        if len == one.len() {
            continue; // a complete file of one record
        }
        let error = list(&file[..len], &options(len % 2 == 0), ErrorPolicy::Raise).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. }), "{len}: {error}");
        match list(&file[..len], &options(true), ErrorPolicy::Skip) {
            Ok(packed) => assert_eq!((packed.samples.len(), packed.skipped), (1, 1)),
            Err(_) => assert!(len < one.len()),
        }
    }
}

#[test]
fn invalid_lengths_and_numbers_are_rejected() {
    let with_length = |len: u64| {
        let len = len.to_le_bytes();
        [
            &len[..],
            &masked_crc(crc32c::crc32c(&len)).to_le_bytes(),
            &[0; 64],
        ]
        .concat()
    };
    for len in [61, 1 << 40, u64::MAX - 11, u64::MAX] {
        assert!(refused(&with_length(len), &options(true)).contains("truncated"));
    }
    for (data, reason) in [
        (
            vec![10, 200, 1],
            "a field of 200 bytes where the record has 0 more",
        ),
        (
            vec![10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            "bytes where the record has 0 more",
        ),
        (vec![10, 0x80], "ends inside a number"),
        (vec![0x80; 20], "more than ten bytes"),
        (vec![11, 1, 2], "unknown kind 3"),
        (vec![9, 1, 2], "a field of 8 bytes"),
        (
            field(1, &field(1, &[10, 9, b'l'])),
            "a field of 9 bytes where the record has 1 more",
        ),
    ] {
        let text = refused(&record(&data), &options(true));
        assert!(
            text.contains("a.tfrecord, byte ") && text.contains(reason),
            "{reason}: {text}"
        );
    }
    assert!(refused(b"\x1f\x8b\x08\0\0\0\0\0\0\0\0\0\0\0", &options(true)).contains("gzip"));
    assert!(refused(b"\x78\x9c\x08\0\0\0\0\0\0\0\0\0\0\0", &options(true)).contains("zlib"));
}
