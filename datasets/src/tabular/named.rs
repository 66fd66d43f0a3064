//! In: what a table says of its columns. Out: columns by their names, and what kind of values they have.
//! A name may have dots of its own, or lead to a field of a group.
//! Never: looks at values.

/// What a row has of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// One text at most.
    Text,
    /// One byte string at most, which is not text.
    Bytes,
    /// One number or flag at most.
    Plain,
    /// Fields with names.
    Group(Vec<(String, Kind)>),
    /// Anything else.
    Other,
}

/// A column by its name: the names that lead to it, of groups inside groups.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub name: String,
    pub path_names: Vec<String>,
    kind: Kind,
}

impl Named {
    /// A column at the top.
    pub fn top(name: &str, kind: Kind) -> Self {
        Self { name: name.to_owned(), path_names: vec![name.to_owned()], kind }
    }

    /// The path, names with dots between them.
    pub fn path(&self) -> String {
        self.path_names.join(".")
    }

    /// A field of it, where it is a group.
    pub fn field(&self, name: &str) -> Option<Named> {
        let Kind::Group(fields) = &self.kind else { return None };
        let kind = fields.iter().find(|(field, _)| field == name)?.1.clone();
        let path_names = self.path_names.iter().cloned().chain([name.to_owned()]).collect();
        Some(Named { name: format!("{}.{name}", self.name), path_names, kind })
    }

    /// Whether it is the other column, or a group that holds it.
    pub fn leads_to(&self, other: &Named) -> bool {
        other.path_names.starts_with(&self.path_names)
    }

    /// Whether a row has one text of it at most.
    pub fn is_text(&self) -> bool {
        self.kind == Kind::Text
    }

    /// Whether a row has one value of it at most, as numbers, flags or text.
    pub fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Text | Kind::Plain)
    }

    /// Whether a row has one byte string of it at most, which is not text.
    pub fn is_bytes(&self) -> bool {
        self.kind == Kind::Bytes
    }
}

/// The column of a name: one at the top, or, where the name has dots, a field of a group.
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
