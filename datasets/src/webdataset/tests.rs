use super::*;
use crate::tar::tests::{ended, member};
use crate::tests::TempFolder;

fn shard(files: &[(&str, &str)]) -> Vec<u8> {
    let members: Vec<_> = files
        .iter()
        .map(|(name, text)| member(name, b'0', text.as_bytes()))
        .collect();
    ended(&members)
}

fn read(bytes: &[u8], label: &LabelSource, on_error: ErrorPolicy) -> Result<ArchiveListing> {
    read_with(bytes, label, &[], on_error)
}

fn read_with(
    bytes: &[u8],
    label: &LabelSource,
    columns: &[&str],
    on_error: ErrorPolicy,
) -> Result<ArchiveListing> {
    let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let root = TempFolder::new();
    let path = root.write("s.tar", bytes);
    webdataset(
        &[path],
        None,
        &["mp4", "WEBM", ".jpg"].map(str::to_owned),
        label,
        &columns,
        on_error,
        1,
    )
}

/// (name, label) of each sample.
fn listed(packed: &ArchiveListing) -> Vec<(String, i64)> {
    let named = |sample: &ArchiveSample| {
        let SampleLocation::Member(ArchiveMember {
            name: Some(name), ..
        }) = &sample.location
        else {
            panic!("{sample:?}")
        };
        (name.to_string(), sample.label)
    };
    packed.samples.iter().map(named).collect()
}

fn cls() -> LabelSource {
    LabelSource::Text("cls".to_owned())
}

fn json(names: &[&str]) -> LabelSource {
    LabelSource::Json(
        "json".to_owned(),
        names.iter().map(|name| (*name).to_owned()).collect(),
    )
}

fn owned<const N: usize>(samples: [(&str, i64); N]) -> Vec<(String, i64)> {
    samples
        .map(|(name, label)| (name.to_owned(), label))
        .to_vec()
}

#[test]
fn adjacent_members_with_one_key_are_a_sample() {
    let bytes = shard(&[
        ("__meta__/info.json", "{}"),
        ("a.b/0.cls", "3\n"),
        ("a.b/0.MP4", "video"),
        ("a.b/0.txt", "caption"),
        ("a.b/1.jpg", "a thumbnail"),
        ("a.b/1.webm", "video"),
        ("a.b/1.CLS", " -7 "),
        ("a.b/._1.mp4", "what another system leaves behind"),
        ("readme.txt", "no sample"),
        ("2.seg.jpg", "not meant"),
        ("2.jpg", "meant"),
        ("2.cls", "0"),
    ]);
    let packed = read(&bytes, &cls(), ErrorPolicy::Raise).unwrap();
    assert_eq!(
        listed(&packed),
        owned([("a.b/0.MP4", 3), ("a.b/1.webm", -7), ("2.jpg", 0)])
    );
    let SampleLocation::Member(first) = &packed.samples[0].location else {
        panic!("is in the file")
    };
    assert_eq!(
        &bytes[first.offset as usize..][..first.len as usize],
        b"video"
    );
    let unlabelled = read(&bytes, &LabelSource::Unlabeled, ErrorPolicy::Raise).unwrap();
    assert!(
        unlabelled.samples.len() == 3
            && unlabelled
                .samples
                .iter()
                .all(|sample| sample.label == NO_LABEL)
    );
}

#[test]
fn labels_may_be_in_json() {
    let bytes = shard(&[
        (
            "0.json",
            r#"{"label": 5, "info": {"class": "12"}, "name": "run"}"#,
        ),
        ("0.mp4", ""),
        ("1.mp4", ""),
        ("1.json", r#"{"label": -1, "info": {"class": 3.5}}"#),
    ]);
    let packed = read(&bytes, &json(&["label"]), ErrorPolicy::Raise).unwrap();
    assert_eq!(listed(&packed), owned([("0.mp4", 5), ("1.mp4", -1)]));
    let nested = json(&["info", "class"]);
    let text = read(&bytes, &nested, ErrorPolicy::Raise)
        .unwrap_err()
        .to_string();
    for part in [
        "s.tar, key '1'",
        "1.json must have an integer for info.class, got 3.5",
        "on_error=\"skip\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let packed = read(&bytes, &nested, ErrorPolicy::Skip).unwrap();
    assert_eq!(
        (listed(&packed), packed.skipped),
        (owned([("0.mp4", 12)]), 1)
    );
    let text = read(&bytes, &json(&["name"]), ErrorPolicy::Raise)
        .unwrap_err()
        .to_string();
    assert!(text.contains("got 'run'"), "{text}");
    let text = read(&bytes, &json(&["none", "at", "all"]), ErrorPolicy::Raise)
        .unwrap_err()
        .to_string();
    assert!(text.contains("has no none.at.all"), "{text}");
}

#[test]
fn incomplete_sample_is_named_or_skipped() {
    let whole = [("0.mp4", "v"), ("0.cls", "1")];
    for (odd, reason) in [
        (
            &[("1.mp4", "v")][..],
            "key '1': has no label (.cls); give label=None",
        ),
        (
            &[("1.cls", "4")],
            "key '1': has a label but no video or image (of .mp4 .webm .jpg)",
        ),
        (
            &[("1.mp4", "v"), ("1.cls", "four")],
            "1.cls must be an integer, got 'four'",
        ),
        (
            &[("1.mp4", "v"), ("1.cls", "")],
            "1.cls must be an integer, got ''",
        ),
        (
            &[("1.mp4", "v"), ("1.cls", "3"), ("1.mp4", "w")],
            "has two members .mp4",
        ),
        (
            &[("1.mp4", "v"), ("1.cls", "3"), ("1.cls", "3")],
            "has two members .cls",
        ),
    ] {
        for files in [[odd, &whole].concat(), [&whole[..], odd].concat()] {
            let text = read(&shard(&files), &cls(), ErrorPolicy::Raise)
                .unwrap_err()
                .to_string();
            assert!(
                text.contains("s.tar, key '1'") && text.contains(reason),
                "{reason}: {text}"
            );
            let packed = read(&shard(&files), &cls(), ErrorPolicy::Skip).unwrap();
            assert_eq!(
                (listed(&packed), packed.skipped),
                (owned([("0.mp4", 1)]), 1)
            );
            assert!(packed.errors[0].to_string().contains(reason));
        }
    }
    let long = "1".repeat(5000);
    let text = read(
        &shard(&[("0.mp4", "v"), ("0.cls", &long)]),
        &cls(),
        ErrorPolicy::Raise,
    )
    .unwrap_err()
    .to_string();
    assert!(text.contains("limit of 4096"), "{text}");
}

#[test]
fn members_that_are_no_files_are_named() {
    for (kind, reason) in [
        (b'2', "is a link"),
        (b'M', "continues from another"),
        (b'S', "is a sparse file"),
    ] {
        let bytes = ended(&[member("0.mp4", kind, b""), member("0.cls", b'0', b"1")]);
        let text = read(&bytes, &cls(), ErrorPolicy::Raise)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("key '0': 0.mp4 ") && text.contains(reason),
            "{text}"
        );
    }
}

#[test]
fn skip_keeps_the_start_of_a_damaged_shard() {
    let bytes = shard(&[
        ("0.mp4", "v"),
        ("0.cls", "1"),
        ("1.mp4", "w"),
        ("1.cls", "2"),
    ]);
    // In the header of 1.cls, so 1.mp4 has no label.
    let mut damaged = bytes.clone();
    damaged[3 * 1024 + 5] ^= 1;
    let text = read(&damaged, &cls(), ErrorPolicy::Raise)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("s.tar, byte 3072: the header's checksum"),
        "{text}"
    );
    let packed = read(&damaged, &cls(), ErrorPolicy::Skip).unwrap();
    assert_eq!(
        (listed(&packed), packed.skipped),
        (owned([("0.mp4", 1)]), 2)
    );
    let text = read(&bytes[..1000], &cls(), ErrorPolicy::Skip)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("truncated") && text.contains("looked for members ending in .mp4 .webm"),
        "{text}"
    );
    let missing = |on_error| {
        webdataset(
            &["none.tar".into()],
            None,
            &["mp4".to_owned()],
            &cls(),
            &[],
            on_error,
            1,
        )
    };
    assert!(matches!(
        missing(ErrorPolicy::Raise),
        Err(Error::NotFound { .. })
    ));
    assert!(
        missing(ErrorPolicy::Skip)
            .unwrap_err()
            .to_string()
            .contains("none.tar: no such file")
    );
}

#[test]
fn extensions_must_not_be_empty() {
    for none in [&[][..], &[String::new()], &[".".to_owned()]] {
        let wrong = webdataset(
            &["a.tar".into()],
            None,
            none,
            &cls(),
            &[],
            ErrorPolicy::Raise,
            1,
        );
        assert!(
            wrong
                .unwrap_err()
                .to_string()
                .contains("at least one extension")
        );
    }
}

#[test]
fn other_members_become_columns() {
    let files = [
        ("0.mp4", "v"),
        ("0.json", r#"{"fps": 25, "caption": "one"}"#),
        ("0.txt", "ein Text"),
        ("1.json", r#"{"caption": null, "tags": ["a"]}"#),
        ("1.mp4", "v"),
        ("x/2.MP4", "v"),
    ];
    let mut packed = read_with(
        &shard(&files),
        &LabelSource::Unlabeled,
        &[".JSON", "txt"],
        ErrorPolicy::Raise,
    )
    .unwrap();
    let columns = packed.take_columns().unwrap();
    let text = |text: &str| Value::Text(text.to_owned());
    let expected = [
        ("__key__", vec![text("0"), text("1"), text("x/2")]),
        ("fps", vec![Value::Integer(25), Value::Null, Value::Null]),
        ("caption", vec![text("one"), Value::Null, Value::Null]),
        ("txt", vec![text("ein Text"), Value::Null, Value::Null]),
        (
            "tags",
            vec![Value::Null, Value::List(vec![text("a")]), Value::Null],
        ),
    ];
    let columns: Vec<(&str, Vec<Value>)> = columns
        .iter()
        .map(|column| (column.name.as_str(), column.values.clone()))
        .collect();
    assert_eq!(columns, expected);
    // It makes no difference whether the same JSON contains the label.
    let mut packed = read_with(
        &shard(&files[..2]),
        &json(&["fps"]),
        &["json"],
        ErrorPolicy::Raise,
    )
    .unwrap();
    assert_eq!(listed(&packed), owned([("0.mp4", 25)]));
    assert_eq!(packed.take_columns().unwrap().len(), 3);
}

#[test]
fn invalid_column_is_an_error_of_its_sample() {
    let long = "x".repeat(2 << 20);
    for (name, content, reason) in [
        ("1.json", "[1]", "1.json must be an object, got a list of 1"),
        ("1.json", "{", "1.json is not JSON"),
        ("1.json", r#"{"a": 1, "a": 2}"#, "appears twice"),
        (
            "1.json",
            r#"{"__key__": "another"}"#,
            "has column '__key__' twice",
        ),
        ("1.txt", &long, "limit of 1048576"),
    ] {
        let bytes = shard(&[("0.mp4", "v"), ("1.mp4", "v"), (name, content)]);
        let read =
            |on_error| read_with(&bytes, &LabelSource::Unlabeled, &["json", "txt"], on_error);
        let text = read(ErrorPolicy::Raise).unwrap_err().to_string();
        assert!(
            text.contains("s.tar, key '1'") && text.contains(reason),
            "{reason}: {text}"
        );
        let packed = read(ErrorPolicy::Skip).unwrap();
        assert_eq!((packed.samples.len(), packed.skipped), (1, 1));
    }
    let latin = ended(&[member("1.mp4", b'0', b"v"), member("1.txt", b'0', b"\xe9")]);
    let error = read_with(
        &latin,
        &LabelSource::Unlabeled,
        &["txt"],
        ErrorPolicy::Raise,
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("1.txt is not UTF-8 text"),
        "{error}"
    );
    // Such members are not read unless a column requests them.
    assert!(read(&latin, &LabelSource::Unlabeled, ErrorPolicy::Raise).is_ok());
}

/// An index of a shard, as `wds2idx` writes it.
fn index_of(shard: &Path, version: &str) -> String {
    let mut tar = TarReader::open(shard).unwrap();
    let (mut lines, mut last) = (Vec::<String>::new(), None);
    while let Some(member) = tar.next().unwrap() {
        let Some((key, extension)) = split_key(&member.name) else {
            continue;
        };
        if last.replace(key.to_owned()).as_deref() != Some(key) {
            lines.push(String::new());
        }
        let line = lines.last_mut().unwrap();
        *line += &format!(" {extension} {} {}", member.offset, member.len);
        if version == "v1.2" {
            *line += &format!(" {}", member.name);
        }
    }
    format!(
        "{version} {}\n{}\n",
        lines.len(),
        lines
            .iter()
            .map(|line| line.trim())
            .collect::<Vec<_>>()
            .join("\n")
    )
}

fn read_listed(shard: &Path, index: &Path) -> Result<ArchiveListing> {
    let (shards, indices) = ([shard.to_owned()], [index.to_owned()]);
    webdataset(
        &shards,
        Some(&indices),
        &["mp4".to_owned()],
        &cls(),
        &[],
        ErrorPolicy::Raise,
        1,
    )
}

#[test]
fn index_replaces_the_header_scan() {
    let root = TempFolder::new();
    let files = [
        ("a/x.mp4", "one"),
        ("a/x.cls", "3"),
        ("y.mp4", "twenty"),
        ("y.cls", "4"),
        ("y.txt", "not looked for"),
    ];
    let path = root.write("s.tar", shard(&files));
    let walked = read(&std::fs::read(&path).unwrap(), &cls(), ErrorPolicy::Raise).unwrap();
    let listed_in = |text: &str| read_listed(&path, &root.write("s.idx", text));
    let found = listed_in(&index_of(&path, "v1.2")).unwrap();
    assert_eq!(listed(&found), listed(&walked));
    let place = |packed: &ArchiveListing| match &packed.samples[1].location {
        SampleLocation::Member(member) => (member.offset, member.len),
        other => panic!("{other:?}"),
    };
    assert_eq!(place(&found), place(&walked));
    // Without names, samples are numbered.
    let unnamed = listed_in(&index_of(&path, "v1.1")).unwrap();
    assert_eq!(
        listed(&unnamed),
        [
            ("000000000.mp4".to_owned(), 3),
            ("000000001.mp4".to_owned(), 4)
        ]
    );
    let intact = index_of(&path, "v1.2");
    for (text, reason) in [
        (String::new(), "lists 0 samples but announces none"),
        (
            "v3 1\nmp4 512 3 a/x.mp4".to_owned(),
            "s.idx, line 1: must be `v1.2`",
        ),
        ("v1.2\n".to_owned(), "line 1: has no number of samples"),
        (
            intact.replace("v1.2 2", "v1.2 3"),
            "lists 2 samples but announces 3",
        ),
        (
            "v1.2 1\nmp4 512".to_owned(),
            "line 2: has no first byte and length after 'mp4'",
        ),
        ("v1.2 1\nmp4 512 3".to_owned(), "line 2: has no name"),
        (
            "v1.2 1\nmp4 512 3 a b.mp4".to_owned(),
            "line 2: has 'a' with the extension 'mp4'",
        ),
        (
            "v1.2 1\nmp4 512 99999999 x.mp4".to_owned(),
            "create the index again",
        ),
        (
            "v1.2 1\nmp4 18446744073709551615 1 x.mp4".to_owned(),
            "create the index again",
        ),
        (
            "v1.2 1\nmp4 1024 3 x.mp4".to_owned(),
            "s.tar, byte 1024: is not a file of 3 bytes",
        ),
        (
            "v1.2 1\nmp4 513 3 x.mp4".to_owned(),
            "is not a file of 3 bytes, which its index states for 'x.mp4'",
        ),
        (
            intact.replacen("512 3 ", "512 4 ", 1),
            "is not a file of 4 bytes",
        ),
    ] {
        let error = listed_in(&text).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let error = read_listed(&path, &root.0.join("none.idx")).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}
