//! Parses pax extended headers: records `length key=value` that give the name, size and sparseness
//! of a member. A record that does not end exactly where its length says is an error.

/// What the extension headers before a member's own header specify.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PaxRecords {
    /// The size.
    pub len: Option<u64>,
    /// The member is stored as a sparse file.
    pub sparse: bool,
    /// The name from a GNU long-name header.
    pub long_name: Option<String>,
    name: Option<String>,
    sparse_name: Option<String>,
}

impl PaxRecords {
    /// Reads the records of a header; the error text describes what is wrong with them.
    pub(super) fn read(&mut self, text: &[u8]) -> Result<(), String> {
        for_each_record(text, |key, value| {
            let given = || {
                Some(String::from_utf8_lossy(value).into_owned()).filter(|text| !text.is_empty())
            };
            match key {
                b"path" => self.name = given(),
                b"size" if value.is_empty() => self.len = None,
                b"size" => {
                    self.len =
                        Some(decimal(value).ok_or("the size in a pax header is not a number")?)
                }
                b"GNU.sparse.name" => self.sparse_name = given(),
                _ => {}
            }
            self.sparse |= key.starts_with(b"GNU.sparse.");
            Ok(())
        })
    }

    /// The name with the highest priority, if any is given.
    pub(crate) fn take_name(&mut self) -> Option<String> {
        // For a sparse member, `path` is a placeholder for programs that do not support sparse
        // files.
        self.sparse_name
            .take()
            .or(self.name.take())
            .or(self.long_name.take())
    }
}

/// Checks a global header. It must not set the fields that are read here, since no known program
/// writes that.
pub(crate) fn check_global(text: &[u8]) -> Result<(), String> {
    for_each_record(text, |key, _| match key {
        b"path" | b"size" => Err(format!(
            "a pax header gives all members the same {}",
            String::from_utf8_lossy(key)
        )),
        _ => Ok(()),
    })
}

fn for_each_record(
    text: &[u8],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut rest = text;
    while !rest.is_empty() {
        let wrong = || {
            format!(
                "record at byte {} of a pax header is damaged",
                text.len() - rest.len()
            )
        };
        let space = rest
            .iter()
            .position(|&byte| byte == b' ')
            .ok_or_else(wrong)?;
        let len = decimal(&rest[..space])
            .and_then(|len| usize::try_from(len).ok())
            .ok_or_else(wrong)?;
        let record = rest
            .get(space + 1..len)
            .and_then(|r| r.strip_suffix(b"\n"))
            .ok_or_else(wrong)?;
        let equals = record
            .iter()
            .position(|&byte| byte == b'=')
            .ok_or_else(wrong)?;
        take(&record[..equals], &record[equals + 1..])?;
        rest = &rest[len..];
    }
    Ok(())
}

/// Parses decimal digits only, up to 63 bits.
fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let number: u64 = std::str::from_utf8(text)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()?;
    Some(number).filter(|&number| number <= i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<PaxRecords, String> {
        let mut records = PaxRecords::default();
        records.read(text).map(|()| records)
    }

    #[test]
    fn records_are_taken_by_their_lengths() {
        let mut records =
            read(b"19 path=a=b\nc d.mp4\n12 size=512\n20 mtime=1234567.5\n".as_slice());
        assert!(records.is_err(), "the first length is wrong: {records:?}");
        records = read(b"20 path=a=b\nc d.mp4\n12 size=512\n19 mtime=1234567.5\n");
        let mut records = records.unwrap();
        assert_eq!((records.len, records.sparse), (Some(512), false));
        assert_eq!(records.take_name().as_deref(), Some("a=b\nc d.mp4"));
    }

    #[test]
    fn empty_value_resets_and_last_value_applies() {
        let mut records = read(b"9 path=a\n8 path=\n9 size=7\n8 size=\n").unwrap();
        assert_eq!((records.take_name(), records.len), (None, None));
        let mut records = read(b"9 path=a\n9 path=b\n").unwrap();
        assert_eq!(records.take_name().as_deref(), Some("b"));
    }

    #[test]
    fn damaged_records_are_reported() {
        for damaged in [
            &b"path=a\n"[..],
            b"9 path=a",
            b"99999999999999999999999 path=a\n",
            b"9 path:a\n",
            b"0 path=a\n",
            b"2 \n",
            b"1 ",
            b"9 path=a\n\0\0",
            b"11 size=-7\n",
            b"29 size=99999999999999999999\n",
            b" 9 path=a\n",
        ] {
            assert!(
                read(damaged).is_err(),
                "{:?}",
                String::from_utf8_lossy(damaged)
            );
        }
        assert!(check_global(b"15 comment=abc\n").is_ok());
        assert!(
            check_global(b"9 path=a\n")
                .unwrap_err()
                .contains("same path")
        );
    }

    #[test]
    fn sparse_members_are_known_by_their_keys() {
        let mut records = read(b"22 GNU.sparse.major=1\n25 GNU.sparse.name=a.mp4\n").unwrap();
        assert!(records.sparse);
        assert_eq!(records.take_name().as_deref(), Some("a.mp4"));
    }
}
