//! Reads a CSV file with a header, as annotation tables are published: its rows by column name.
//! Fields may be quoted as in RFC 4180, but not span lines. A row with another number of fields is an error.

use std::collections::HashSet;
use std::path::Path;

use csv_core::ReadRecordResult;
use framespool::error::{Error, Result};

use crate::column_value::{shortened, Column};
use crate::lines::for_each_line;

/// Splits a line into trimmed fields.
pub(crate) struct CsvLineParser {
    reader: csv_core::Reader,
    delimiter: char,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl CsvLineParser {
    pub fn new(delimiter: u8) -> Self {
        let reader = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        Self { reader, delimiter: char::from(delimiter), text: Vec::new(), ends: Vec::new() }
    }

    /// The fields of a line.
    pub fn parse(&mut self, line: &str) -> Result<Vec<String>, String> {
        self.reader.reset();
        // The fields are no longer than the line, and there is at most one more of them than delimiters.
        self.text.resize(line.len() + 1, 0);
        self.ends.resize(line.matches(self.delimiter).count() + 2, 0);
        let (mut written, mut ended) = (0, 0);
        // The line contains no line break, so the record ends at the one that is passed to the parser after
        // it.
        for part in [line.as_bytes(), b"\n"] {
            let (state, _, nout, nend) =
                self.reader.read_record(part, &mut self.text[written..], &mut self.ends[ended..]);
            (written, ended) = (written + nout, ended + nend);
            match state {
                ReadRecordResult::Record => return self.split(written, ended),
                ReadRecordResult::InputEmpty => {}
                _ => return Err("has more fields than delimiters".to_owned()),
            }
        }
        Err("has a quotation mark that is not closed on its line; close it, or double it if it is part of the text".to_owned())
    }

    fn split(&self, written: usize, ended: usize) -> Result<Vec<String>, String> {
        let text = std::str::from_utf8(&self.text[..written])
            .map_err(|_| "has a field that ends inside a character")?;
        let mut begin = 0;
        let mut fields = Vec::with_capacity(ended);
        for end in &self.ends[..ended] {
            let field = text.get(begin..*end).ok_or("has a field that ends inside a character")?;
            fields.push(field.trim().to_owned());
            begin = *end;
        }
        Ok(fields)
    }
}

/// One row.
pub(crate) struct CsvRow<'a> {
    pub line: u64,
    names: &'a [String],
    fields: &'a [String],
}

impl<'a> CsvRow<'a> {
    /// The field of a column; empty if there is no such column.
    pub fn get(&self, name: &str) -> &'a str {
        self.names.iter().position(|n| n == name).map_or("", |position| &self.fields[position])
    }

    /// The field of a column as an integer; "12.0" is one.
    pub fn integer(&self, name: &str) -> Result<i64, String> {
        let text = self.get(name);
        // Spreadsheets and data frames write integers as floats.
        let digits =
            text.split_once('.').filter(|(_, rest)| rest.bytes().all(|b| b == b'0')).map_or(text, |(d, _)| d);
        digits.parse().map_err(|_| format!("{name} '{}' is not an integer", shortened(text)))
    }
}

/// Reads a table. `needed` are the columns that it must have. `read` is called with each row and returns
/// whether to keep it. Returns the columns of the rows that were kept.
pub(crate) fn read(
    path: &Path,
    needed: &[&str],
    mut read: impl FnMut(&CsvRow<'_>) -> Result<bool, String>,
) -> Result<Vec<Column>> {
    let mut parser = CsvLineParser::new(b',');
    let (mut header, mut kept): (Option<Vec<String>>, Vec<Vec<String>>) = (None, Vec::new());
    for_each_line(path, false, |line, text| {
        let found = parser.parse(text)?;
        let Some(names) = &header else {
            header = Some(check_header(found, needed)?);
            return Ok(());
        };
        if found.len() != names.len() {
            return Err(format!(
                "has {} fields where the header has {}; quote fields that contain commas",
                found.len(),
                names.len()
            ));
        }
        if read(&CsvRow { line, names, fields: &found })? {
            kept.resize(names.len(), Vec::new());
            kept.iter_mut().zip(found).for_each(|(column, field)| column.push(field));
        }
        Ok(())
    })?;
    let Some(header) = header else {
        let text = format!("{} is empty; expected a header: {}", path.display(), needed.join(","));
        return Err(Error::Argument(text));
    };
    Ok(header.iter().zip(kept).map(|(name, fields)| Column::of_fields(name, &fields)).collect())
}

fn check_header(mut header: Vec<String>, needed: &[&str]) -> Result<Vec<String>, String> {
    let mut seen = HashSet::new();
    for (number, name) in (1..).zip(&mut header) {
        // Data frames are saved with a column of row numbers that has no name.
        if name.is_empty() {
            *name = format!("column {number}");
        }
        if !seen.insert(name.clone()) {
            return Err(format!("two columns are named '{}'; rename one", shortened(name)));
        }
    }
    let missing: Vec<&str> = needed.iter().copied().filter(|name| !seen.contains(*name)).collect();
    if missing.is_empty() {
        return Ok(header);
    }
    Err(format!(
        "the header lacks {}, it has '{}'; datasets.csv reads tables with other columns",
        missing.join(", "),
        shortened(&header.join(","))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column_value::Value;
    use crate::tests::TempFolder;

    fn table(text: &str) -> Result<Vec<Column>> {
        let folder = TempFolder::new();
        read(&folder.write("t.csv", text), &["id"], |_| Ok(true))
    }

    #[test]
    fn fields_may_be_quoted() {
        let columns =
            table("\u{feff}id,\"the label\", n \r\n a ,\"one, \"\"two\"\"\",1\r\n\r\né,,2").unwrap();
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["id", "the label", "n"]);
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(columns[0].values, [text("a"), text("é")]);
        assert_eq!(columns[1].values, [text("one, \"two\""), Value::Null]);
        assert_eq!(columns[2].values, [Value::Integer(1), Value::Integer(2)]);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, part) in [
            ("id,x\r\n\r\na,\"b\r\n", "line 3: has a quotation mark that is not closed"),
            ("id,x\na,b,c\n", "line 2: has 3 fields where the header has 2"),
            ("id,x\na\n", "line 2: has 1 fields"),
            ("id,x,id\n", "line 1: two columns are named 'id'"),
            ("name,x\n", "line 1: the header lacks id, it has 'name,x'"),
            ("", "t.csv is empty"),
        ] {
            let error = table(text).unwrap_err().to_string();
            assert!(error.contains("t.csv") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn unnamed_column_is_named_by_its_number() {
        let columns = table(",id,\n0,a,x\n").unwrap();
        assert_eq!((columns[0].name.as_str(), columns[2].name.as_str()), ("column 1", "column 3"));
    }

    #[test]
    fn floats_without_fraction_are_integers() {
        let folder = TempFolder::new();
        let path = folder.write("t.csv", "id,n\na,12.0\nb,12.5\n");
        let mut found = Vec::new();
        let columns = read(&path, &["id", "n"], |row| {
            found.push((row.line, row.integer("n").ok()));
            Ok(row.get("id") == "b")
        });
        assert_eq!(found, [(2, Some(12)), (3, None)]);
        assert_eq!(columns.unwrap()[0].values, [Value::Text("b".to_owned())]);
    }
}
