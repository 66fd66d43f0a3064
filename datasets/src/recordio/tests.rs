use super::*;
use crate::tests::TempFolder;
use framespool::error::Location;

fn part(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = [
        &record::MAGIC[..],
        &(kind << 29 | data.len() as u32).to_le_bytes(),
        data,
    ]
    .concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Writes a record like MXNet: data is split where the magic number occurs at a multiple of four.
fn written(data: &[u8]) -> Vec<u8> {
    let cuts: Vec<usize> = (0..data.len() / 4 * 4)
        .step_by(4)
        .filter(|&at| data[at..at + 4] == record::MAGIC)
        .collect();
    let begins = std::iter::once(0).chain(cuts.iter().map(|cut| cut + 4));
    let ends = cuts.iter().copied().chain([data.len()]);
    let kind = |number: usize| match (number, cuts.len()) {
        (_, 0) => 0,
        (0, _) => 1,
        (number, count) => 2 + u32::from(number == count),
    };
    begins
        .zip(ends)
        .enumerate()
        .flat_map(|(n, (begin, end))| part(kind(n), &data[begin..end]))
        .collect()
}

fn packed(label: f32, picture: &[u8]) -> Vec<u8> {
    [
        &0u32.to_le_bytes()[..],
        &label.to_le_bytes(),
        &[1; 16],
        picture,
    ]
    .concat()
}

fn packed_with(labels: &[f32], picture: &[u8]) -> Vec<u8> {
    let header = [&(labels.len() as u32).to_le_bytes()[..], &[0; 20]].concat();
    let labels: Vec<u8> = labels
        .iter()
        .flat_map(|label| label.to_le_bytes())
        .collect();
    [header, labels, picture.to_vec()].concat()
}

fn list(bytes: &[u8], index: Option<&str>, on_error: ErrorPolicy) -> Result<ArchiveListing> {
    let root = TempFolder::new();
    let file = root.write("a.rec", bytes);
    let index = index.map(|text| root.write("a.idx", text));
    recordio(&file, index.as_deref(), on_error)
}

/// (bytes, label) of each sample.
fn found(file: &[u8], packed: &ArchiveListing) -> Vec<(Vec<u8>, i64)> {
    let taken = |sample: &ArchiveSample| match &sample.location {
        SampleLocation::Member(member) => (
            file[member.offset as usize..][..member.len as usize].to_vec(),
            sample.label,
        ),
        SampleLocation::Memory(bytes) => (bytes.clone(), sample.label),
        other => panic!("{other:?}"),
    };
    packed.samples.iter().map(taken).collect()
}

#[test]
fn sample_offsets_point_at_the_bytes() {
    let pictures: Vec<Vec<u8>> = (1..40).map(|n: usize| vec![n as u8; n * 501]).collect();
    let file: Vec<u8> = pictures
        .iter()
        .zip(1u8..)
        .flat_map(|(picture, n)| written(&packed(n.into(), picture)))
        .collect();
    let expected: Vec<_> = pictures.into_iter().zip(1..).collect();
    assert_eq!(
        found(&file, &list(&file, None, ErrorPolicy::Raise).unwrap()),
        expected
    );
}

#[test]
fn list_selects_records_and_order() {
    let records: Vec<Vec<u8>> = (0..5u8)
        .map(|n| written(&packed(n.into(), &[n; 9])))
        .collect();
    let mut begins = vec![0];
    records
        .iter()
        .for_each(|record| begins.push(begins[begins.len() - 1] + record.len()));
    let file = records.concat();
    let index = format!(
        "30\t{}\n10\t{}\r\n\n20\t{}",
        begins[3], begins[1], begins[4]
    );
    let packed = list(&file, Some(&index), ErrorPolicy::Raise).unwrap();
    assert_eq!(
        found(&file, &packed),
        [(vec![3; 9], 3), (vec![1; 9], 1), (vec![4; 9], 4)]
    );
    let SampleLocation::Member(first) = &packed.samples[0].location else {
        panic!("is in the file")
    };
    assert_eq!(first.name.as_deref(), Some("key 30"));
    // An index file of another file: its offsets are not those of records, or exceed the file.
    for wrong in [begins[1] + 4, begins[1] + 1, begins[5]] {
        let index = format!("1\t{}\n2\t{wrong}\n3\t{}\n", begins[0], begins[2]);
        let error = list(&file, Some(&index), ErrorPolicy::Raise).unwrap_err();
        assert!(
            error.to_string().contains(&format!("a.rec, byte {wrong}")),
            "{error}"
        );
        let packed = list(&file, Some(&index), ErrorPolicy::Skip).unwrap();
        assert_eq!((packed.samples.len(), packed.skipped), (2, 1));
    }
    for damaged in [
        "1\t0\n2\tx\n",
        "1\t0\n2\n",
        "1\t0\n2\t0\t0\n",
        "1\t0\n-2\t0\n",
        "1 0\n2 99999999999999999999\n",
    ] {
        let text = list(&file, Some(damaged), ErrorPolicy::Skip)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("a.idx, line 2: expected two integers, a key and a byte offset, got '"),
            "{text}"
        );
    }
    let endless = "1".repeat(1 << 20);
    assert!(
        list(&file, Some(&endless), ErrorPolicy::Raise)
            .unwrap_err()
            .to_string()
            .contains("line 1")
    );
}

#[test]
fn data_with_magic_number_is_reassembled() {
    let magic = record::MAGIC;
    for picture in [
        [&b"head"[..], &magic, b"tail"].concat(),
        [&magic[..], &magic, b"odd", &magic].concat(),
        [&b"x"[..], &magic].concat(), // not at a multiple of four: not split
        [&b"abcd"[..], &magic].concat(),
    ] {
        let file = [
            written(&packed(1.0, b"before")),
            written(&packed(2.0, &picture)),
            written(&packed(3.0, b"z")),
        ]
        .concat();
        let packed = list(&file, None, ErrorPolicy::Raise).unwrap();
        assert_eq!(
            found(&file, &packed),
            [(b"before".to_vec(), 1), (picture, 2), (b"z".to_vec(), 3)]
        );
    }
    // In the image header: one of the numbers that identify the image is the magic number.
    let mut data = packed(5.0, b"picture");
    data[8..12].copy_from_slice(&magic);
    let file = written(&data);
    assert_eq!(
        found(&file, &list(&file, None, ErrorPolicy::Raise).unwrap()),
        [(b"picture".to_vec(), 5)]
    );
}

#[test]
fn first_of_several_labels_is_used() {
    let file = [
        written(&packed_with(&[7.0], b"a")),
        written(&packed_with(&[2.0, 0.5, -3.0], b"bb")),
    ]
    .concat();
    let packed = list(&file, None, ErrorPolicy::Raise).unwrap();
    assert_eq!(
        found(&file, &packed),
        [(b"a".to_vec(), 7), (b"bb".to_vec(), 2)]
    );
    let magic = f32::from_le_bytes(record::MAGIC);
    let file = written(&packed_with(&[4.0, magic], b"joined"));
    assert_eq!(
        found(&file, &list(&file, None, ErrorPolicy::Raise).unwrap()),
        [(b"joined".to_vec(), 4)]
    );
}

#[test]
fn invalid_records_are_named_or_skipped() {
    let magic = record::MAGIC;
    let lying = [&u32::MAX.to_le_bytes()[..], &[0; 20], b"picture"].concat();
    for (data, reason) in [
        (packed(0.5, b"x"), "label 0.5 is not an integer"),
        (packed(f32::NAN, b"x"), "label NaN is not an integer"),
        (packed(f32::INFINITY, b"x"), "is not an integer"),
        (packed(3e9, b"x"), "is not an integer"),
        (packed(1.0, b""), "too short"),
        (b"short".to_vec(), "too short"),
        (Vec::new(), "too short"),
        ([&b"abcd"[..], &magic].concat(), "too short"),
        (
            [&u32::MAX.to_le_bytes()[..], &magic, &[0; 16], &magic].concat(),
            "too short",
        ),
        (lying, "too short"),
        (packed_with(&[1.0, 2.0], b""), "too short"),
    ] {
        let file = [
            written(&packed(1.0, b"first")),
            written(&data),
            written(&packed(3.0, b"third")),
        ]
        .concat();
        let text = list(&file, None, ErrorPolicy::Raise)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("a.rec, record 1 at byte 40: ") && text.contains(reason),
            "{reason}: {text}"
        );
        let packed = list(&file, None, ErrorPolicy::Skip).unwrap();
        assert_eq!((packed.samples.len(), packed.skipped), (2, 1));
    }
}

#[test]
fn framing_damage_is_reported_with_its_byte() {
    let first = written(&packed(1.0, b"first"));
    let begin = first.len() as u64;
    let of = |part: Vec<u8>| [&first[..], &part, &first].concat();
    for (file, reason) in [
        (of(b"nomagic!".to_vec()), "no record starts here"),
        (of(part(2, b"x")), "without the start"),
        (of(part(3, b"x")), "without the start"),
        (of(part(4, b"x")), "unknown kind 4"),
        (of(part(7, b"x")), "unknown kind 7"),
    ] {
        let error = list(&file, None, ErrorPolicy::Raise).unwrap_err();
        let place = error.site().map(|site| site.location.clone());
        assert!(
            place == Some(Location::Byte(begin)) && error.to_string().contains(reason),
            "{error}"
        );
        let packed = list(&file, None, ErrorPolicy::Skip).unwrap();
        assert_eq!((packed.samples.len(), packed.skipped), (1, 1));
    }
    let text = list(&of(part(1, b"x")), None, ErrorPolicy::Raise)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains(&format!(
            "byte {}: the previous record has no end",
            begin + 12
        )),
        "{text}"
    );
    let file = [&first[..], &first].concat();
    for len in (1..file.len()).filter(|&len| len != first.len()) {
        let error = list(&file[..len], None, ErrorPolicy::Raise).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. }), "{len}: {error}");
    }
    assert!(matches!(
        list(&part(1, b"abcd"), None, ErrorPolicy::Raise),
        Err(Error::Truncated { .. })
    ));
}

#[test]
fn all_labels_and_the_id_are_columns() {
    let magic = f32::from_le_bytes(record::MAGIC);
    let records = [
        packed(3.0, b"a"),
        packed_with(&[2.0, 0.5], b"b"),
        packed_with(&[4.0, magic], b"joined"),
    ];
    let file: Vec<u8> = records.iter().flat_map(|record| written(record)).collect();
    let mut found = list(&file, None, ErrorPolicy::Raise).unwrap();
    assert_eq!(
        found
            .samples
            .iter()
            .map(|sample| sample.label)
            .collect::<Vec<_>>(),
        [3, 2, 4]
    );
    let columns = found.take_columns().unwrap();
    let numbers =
        |list: &[f32]| Value::List(list.iter().map(|n| Value::Float(f64::from(*n))).collect());
    // The number 1 in each of eight bytes.
    let id = Value::Integer(0x0101_0101_0101_0101);
    assert_eq!(
        columns[0].values,
        [id, Value::Integer(0), Value::Integer(0)]
    );
    assert_eq!(
        columns[1].values,
        [Value::Null, numbers(&[2.0, 0.5]), numbers(&[4.0, magic])]
    );
    assert_eq!(
        (columns[0].name.as_str(), columns[1].name.as_str()),
        ("id", "labels")
    );
    let long = vec![1.0; (MAX_LABELS_BYTES / 4) as usize + 1];
    let error = list(
        &written(&packed_with(&long, b"c")),
        None,
        ErrorPolicy::Raise,
    )
    .unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
}
