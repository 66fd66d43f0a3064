//! Columns of a table, with their names and kinds, and how to find one by name.
//! A name with dots refers to a column of that name, or else to a field of a group.

/// What a column has for each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// At most one text.
    Text,
    /// At most one byte string that is not text.
    Bytes,
    /// At most one number or bool.
    Plain,
    /// Named fields.
    Group(Vec<(String, Kind)>),
    /// Anything else.
    Other,
}

/// A column or nested field: its name, its path of names, and its kind.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub name: String,
    pub path_names: Vec<String>,
    kind: Kind,
}

impl Named {
    /// A top-level column.
    pub fn top(name: &str, kind: Kind) -> Self {
        Self { name: name.to_owned(), path_names: vec![name.to_owned()], kind }
    }

    /// The path of names, joined by dots.
    pub fn path(&self) -> String {
        self.path_names.join(".")
    }

    /// The field of this name, if the column is a group.
    pub fn field(&self, name: &str) -> Option<Named> {
        let Kind::Group(fields) = &self.kind else { return None };
        let kind = fields.iter().find(|(field, _)| field == name)?.1.clone();
        let path_names = self.path_names.iter().cloned().chain([name.to_owned()]).collect();
        Some(Named { name: format!("{}.{name}", self.name), path_names, kind })
    }

    /// Whether it is the other column, or a group that contains it.
    pub fn leads_to(&self, other: &Named) -> bool {
        other.path_names.starts_with(&self.path_names)
    }

    /// Whether a row has at most one text.
    pub fn is_text(&self) -> bool {
        self.kind == Kind::Text
    }

    /// Whether a row has at most one number, bool or text.
    pub fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Text | Kind::Plain)
    }

    /// Whether a row has at most one byte string that is not text.
    pub fn is_bytes(&self) -> bool {
        self.kind == Kind::Bytes
    }
}

/// Finds a column by name: a top-level one, or, if the name has dots, a field of a group.
pub(crate) fn find(columns: &[Named], name: &str) -> Option<Named> {
    columns.iter().find(|column| column.name == name).cloned().or_else(|| {
        name.match_indices('.').find_map(|(dot, _)| {
            let outer = columns.iter().find(|column| column.name == name[..dot])?;
            let mut inner = Some(outer.clone());
            for part in name[dot + 1..].split('.') {
                inner = inner?.field(part);
            }
            inner
        })
    })
}
