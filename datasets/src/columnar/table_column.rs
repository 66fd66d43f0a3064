//! Columns of a table, with their names and kinds, and how to find one by name.
//! A name with dots refers to a column of that name, or else to a field of a group.

/// What a column has for each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnKind {
    /// At most one text.
    Text,
    /// At most one byte string that is not text.
    Bytes,
    /// At most one byte string of a length that is the same in all rows.
    FixedBytes,
    /// At most one number or bool.
    Primitive,
    /// Named fields.
    Group(Vec<(String, ColumnKind)>),
    /// A list; the fields are those of its elements, if they are groups.
    List(Vec<(String, ColumnKind)>),
    /// Anything else: the name of its type.
    Other(String),
}

impl ColumnKind {
    fn has_bytes(&self) -> bool {
        match self {
            Self::Bytes | Self::FixedBytes => true,
            Self::Group(fields) | Self::List(fields) => {
                fields.iter().any(|(_, kind)| kind.has_bytes())
            }
            Self::Text | Self::Primitive | Self::Other(_) => false,
        }
    }
}

/// A column or nested field: its name, its path of names, and its kind.
#[derive(Clone, Debug)]
pub(crate) struct TableColumn {
    pub name: String,
    pub path_names: Vec<String>,
    kind: ColumnKind,
    /// A field of the elements of a list, so a row has no single value of it.
    pub is_in_list: bool,
}

impl TableColumn {
    /// A top-level column.
    pub(crate) fn top_level(name: &str, kind: ColumnKind) -> Self {
        Self {
            name: name.to_owned(),
            path_names: vec![name.to_owned()],
            kind,
            is_in_list: false,
        }
    }

    /// The path of names, joined by dots.
    pub(crate) fn path(&self) -> String {
        self.path_names.join(".")
    }

    /// The field of this name, if the column is a group.
    pub(crate) fn field(&self, name: &str) -> Option<TableColumn> {
        let (ColumnKind::Group(fields) | ColumnKind::List(fields)) = &self.kind else {
            return None;
        };
        let kind = fields.iter().find(|(field, _)| field == name)?.1.clone();
        let path_names = self
            .path_names
            .iter()
            .cloned()
            .chain([name.to_owned()])
            .collect();
        Some(TableColumn {
            name: format!("{}.{name}", self.name),
            path_names,
            kind,
            is_in_list: self.is_in_list || matches!(self.kind, ColumnKind::List(_)),
        })
    }

    /// Whether it has bytes that are not text, or contains a field or a list of such.
    pub(crate) fn has_bytes(&self) -> bool {
        self.kind.has_bytes()
    }

    /// The name of its type, if no value of that type is a label.
    pub(crate) fn type_without_labels(&self) -> Option<&str> {
        match &self.kind {
            ColumnKind::Text | ColumnKind::Primitive | ColumnKind::List(_) => None,
            ColumnKind::Bytes | ColumnKind::FixedBytes => Some("bytes"),
            ColumnKind::Group(_) => Some("struct"),
            ColumnKind::Other(name) => Some(name),
        }
    }

    /// Whether a row has at most one text.
    pub(crate) fn is_text(&self) -> bool {
        self.kind == ColumnKind::Text
    }

    /// Whether a row has at most one number, bool or text.
    pub(crate) fn is_scalar(&self) -> bool {
        matches!(self.kind, ColumnKind::Text | ColumnKind::Primitive)
    }

    /// Whether a row has at most one byte string that is not text.
    pub(crate) fn is_bytes(&self) -> bool {
        self.kind == ColumnKind::Bytes
    }
}

/// Finds a column by name: a top-level one, or, if the name has dots, a field of a group.
pub(crate) fn find_column(columns: &[TableColumn], name: &str) -> Option<TableColumn> {
    columns
        .iter()
        .find(|column| column.name == name)
        .cloned()
        .or_else(|| {
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
