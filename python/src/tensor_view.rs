//! Shape and strides of a tensor in its memory, and basic indexing, which gives a view of the same
//! memory.

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PySlice, PyTuple};

/// The elements of a tensor, counted in elements of its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorView {
    /// The first element.
    pub start: usize,
    /// The length of each dimension.
    pub shape: Vec<usize>,
    /// Elements from one index to the next in each dimension.
    pub strides: Vec<usize>,
}

/// The index of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    /// An entry, which removes the dimension.
    Entry(usize),
    /// `len` entries from `first`, `step` apart.
    Range {
        /// First entry.
        first: usize,
        /// Distance of the entries.
        step: usize,
        /// Number of entries.
        len: usize,
    },
    /// A new dimension of length 1.
    NewAxis,
}

impl TensorView {
    /// Creates the view of a whole memory in row-major order.
    pub(crate) fn dense(shape: Vec<usize>) -> Self {
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i].max(1);
        }
        Self {
            start: 0,
            shape,
            strides,
        }
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether the elements are next to each other in row-major order.
    pub(crate) fn is_dense(&self) -> bool {
        let dense = Self::dense(self.shape.clone()).strides;
        let same = |i: usize| self.shape[i] <= 1 || self.strides[i] == dense[i];
        self.len() == 0 || (0..self.shape.len()).all(same)
    }

    /// Returns the number of elements of the memory from the first element to the last one.
    pub(crate) fn span(&self) -> usize {
        if self.len() == 0 {
            return 0;
        }
        1 + self
            .shape
            .iter()
            .zip(&self.strides)
            .map(|(len, stride)| (len - 1) * stride)
            .sum::<usize>()
    }

    /// Selects entries. The indices are within the shape; dimensions beyond them are kept.
    pub(crate) fn index(&self, indices: &[Index]) -> Self {
        let mut view = Self {
            start: self.start,
            shape: Vec::new(),
            strides: Vec::new(),
        };
        let mut dims = self.shape.iter().copied().zip(self.strides.iter().copied());
        for &index in indices {
            if index == Index::NewAxis {
                view.shape.push(1);
                view.strides.push(1);
                continue;
            }
            let Some((_, stride)) = dims.next() else {
                break;
            };
            match index {
                Index::Entry(at) => view.start += at * stride,
                Index::Range { first, step, len } => {
                    view.start += if len == 0 { 0 } else { first * stride };
                    view.shape.push(len);
                    view.strides.push(stride * step);
                }
                Index::NewAxis => {}
            }
        }
        for (len, stride) in dims {
            view.shape.push(len);
            view.strides.push(stride);
        }
        view
    }

    /// Copies the elements in row-major order from the bytes of the span.
    pub(crate) fn gather(&self, span: &[u8], element_bytes: usize) -> Vec<u8> {
        // The inner dimensions whose elements are next to each other are copied at once.
        let (mut inner, mut run) = (self.shape.len(), 1);
        while inner > 0 && (self.shape[inner - 1] == 1 || self.strides[inner - 1] == run) {
            inner -= 1;
            run *= self.shape[inner];
        }
        let mut starts = vec![0];
        for (&len, &stride) in self.shape[..inner].iter().zip(&self.strides) {
            starts = starts
                .iter()
                .flat_map(|start| (0..len).map(move |at| start + at * stride))
                .collect();
        }
        let mut bytes = Vec::with_capacity(self.len() * element_bytes);
        for start in starts {
            bytes.extend_from_slice(&span[start * element_bytes..][..run * element_bytes]);
        }
        bytes
    }
}

/// Returns the place of an entry in a dimension of length `len`; a negative index counts from its
/// end.
fn entry_of(index: isize, len: usize, dimension: usize) -> PyResult<usize> {
    let at = if index < 0 {
        index + len as isize
    } else {
        index
    };
    usize::try_from(at)
        .ok()
        .filter(|&at| at < len)
        .ok_or_else(|| {
            PyIndexError::new_err(format!(
                "index {index} is out of range: dimension {dimension} has {len} entries"
            ))
        })
}

/// Converts the index of `t[index]`, with `...` replaced by the dimensions that it stands for.
pub(crate) fn parse_indices(index: &Bound<'_, PyAny>, shape: &[usize]) -> PyResult<Vec<Index>> {
    let parts: Vec<_> = match index.cast::<PyTuple>() {
        Ok(several) => several.iter().collect(),
        Err(_) => vec![index.clone()],
    };
    let is_ellipsis = |part: &&Bound<'_, PyAny>| part.is_instance_of::<PyEllipsis>();
    let used = parts
        .iter()
        .filter(|part| !part.is_none() && !is_ellipsis(part))
        .count();
    if used > shape.len() || parts.iter().filter(is_ellipsis).count() > 1 {
        return Err(PyIndexError::new_err(format!(
            "a tensor of {} dimensions takes at most as many indices, and one `...`",
            shape.len()
        )));
    }
    let mut found = Vec::with_capacity(shape.len());
    let mut dimension = 0;
    for part in &parts {
        if part.is_none() {
            found.push(Index::NewAxis);
        } else if is_ellipsis(&part) {
            let end = dimension + shape.len() - used;
            found.extend(shape[dimension..end].iter().map(|&len| Index::Range {
                first: 0,
                step: 1,
                len,
            }));
            dimension = end;
        } else {
            found.push(index_of(part, shape[dimension], dimension)?);
            dimension += 1;
        }
    }
    Ok(found)
}

/// Converts an integer or a slice.
fn index_of(part: &Bound<'_, PyAny>, len: usize, dimension: usize) -> PyResult<Index> {
    if let Ok(slice) = part.cast::<PySlice>() {
        let range = slice.indices(len as isize)?;
        if range.step < 1 {
            return Err(PyValueError::new_err(
                "the step of a slice must be positive; use .numpy() to reverse",
            ));
        }
        let (first, step, len) = (range.start as usize, range.step as usize, range.slicelength);
        return Ok(Index::Range { first, step, len });
    }
    match part.extract::<isize>() {
        Ok(index) if !part.is_instance_of::<PyBool>() => {
            Ok(Index::Entry(entry_of(index, len, dimension)?))
        }
        _ => Err(PyTypeError::new_err(format!(
            "indices must be integers, slices, None or `...`, got {}; use .numpy() or .torch() for others",
            part.get_type().name()?
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_select_elements_in_row_major_order() {
        let whole = TensorView::dense(vec![2, 3, 4]);
        assert!(whole.is_dense() && whole.span() == 24);
        let view = whole.index(&[
            Index::Entry(1),
            Index::NewAxis,
            Index::Range {
                first: 0,
                step: 2,
                len: 2,
            },
            Index::Range {
                first: 1,
                step: 1,
                len: 2,
            },
        ]);
        assert_eq!(
            (&view.shape[..], view.start, view.span()),
            (&[1, 2, 2][..], 13, 10)
        );
        assert!(!view.is_dense());
        let span: Vec<u8> = (13..23).collect();
        assert_eq!(view.gather(&span, 1), [13, 14, 21, 22]);
    }

    #[test]
    fn a_view_without_elements_has_no_span() {
        let none = TensorView::dense(vec![2, 3]).index(&[Index::Range {
            first: 2,
            step: 1,
            len: 0,
        }]);
        assert_eq!(
            (none.len(), none.span(), none.start, none.gather(&[], 8)),
            (0, 0, 0, vec![])
        );
        assert!(none.is_dense());
    }
}
