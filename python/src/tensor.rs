//! In: memory filled by the engine.
//! Out: `framespool.Tensor`: a shape, an element type, and hand-over by DLPack.
//! Never: computes.

use std::sync::Arc;

use framespool::batch::{Pool, Slab};
use framespool::pixels::Dtype;
use half::{bf16, f16};
use pyo3::exceptions::{
    PyBufferError, PyImportError, PyIndexError, PyMemoryError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::dlpack::{DlDataType, Export, CPU};

/// Element types that leave the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    U8,
    F16,
    BF16,
    F32,
    F64,
    I64,
    Bool,
}

impl Element {
    fn name(self) -> &'static str {
        match self {
            Element::U8 => "uint8",
            Element::F16 => "float16",
            Element::BF16 => "bfloat16",
            Element::F32 => "float32",
            Element::F64 => "float64",
            Element::I64 => "int64",
            Element::Bool => "bool",
        }
    }

    fn dlpack(self) -> DlDataType {
        let (code, bits) = match self {
            Element::U8 => (1, 8),
            Element::F16 => (2, 16),
            Element::BF16 => (4, 16),
            Element::F32 => (2, 32),
            Element::F64 => (2, 64),
            Element::I64 => (0, 64),
            Element::Bool => (6, 8),
        };
        DlDataType { code, bits, lanes: 1 }
    }

    fn bytes(self) -> usize {
        usize::from(self.dlpack().bits) / 8
    }
}

impl From<Dtype> for Element {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::U8 => Element::U8,
            Dtype::F16 => Element::F16,
            Dtype::BF16 => Element::BF16,
            Dtype::F32 => Element::F32,
        }
    }
}

/// Numbers in memory, with a shape: what framespool hands over.
///
/// Leaves by DLPack, without a copy: `torch.from_dlpack(t)`, `numpy.from_dlpack(t)`, or `t.torch()` and `t.numpy()`
/// for short. The memory lives as long as any of its takers. `t[i]` is a view of entry `i` of the first dimension.
#[pyclass(module = "framespool", frozen)]
pub struct Tensor {
    memory: Arc<Slab>,
    offset: usize,
    shape: Vec<usize>,
    element: Element,
}

impl Tensor {
    /// A tensor that owns all of a slab.
    pub fn of(memory: Slab, shape: Vec<usize>, element: Element) -> Self {
        Self { memory: Arc::new(memory), offset: 0, shape, element }
    }

    /// A tensor of numbers that are small enough to copy.
    pub fn copied<const N: usize>(
        bytes: impl ExactSizeIterator<Item = [u8; N]>,
        shape: Vec<usize>,
        element: Element,
    ) -> Self {
        let len = bytes.len() * N;
        let (lent, mut parts) = Slab::lend(&Pool::new(0), 1, len).expect("small");
        for (to, from) in parts[0].bytes_mut().chunks_exact_mut(N.max(1)).zip(bytes) {
            to.copy_from_slice(&from);
        }
        drop(parts);
        Self::of(lent.collect().ok().expect("its part was dropped"), shape, element)
    }

    fn byte_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.element.bytes()
    }

    fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[self.offset..self.offset + self.byte_len()]
    }

    /// `None` if there is no memory for the copy.
    fn export(&self, copy: bool) -> Option<Export> {
        let shape = self.shape.iter().map(|&n| n as i64).collect();
        let dtype = self.element.dlpack();
        if copy {
            let bytes = self.bytes();
            let (lent, mut parts) = Slab::lend(&Pool::new(0), 1, bytes.len())?;
            parts[0].bytes_mut().copy_from_slice(bytes);
            drop(parts);
            let memory = Arc::new(lent.collect().ok().expect("its part was dropped"));
            return Some(Export { memory, offset: 0, shape, dtype, copied: true });
        }
        Some(Export { memory: self.memory.clone(), offset: self.offset, shape, dtype, copied: false })
    }
}

#[pymethods]
impl Tensor {
    /// Lengths of the dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// "uint8", "float16", "bfloat16", "float32", "float64", "int64" or "bool".
    #[getter]
    fn dtype(&self) -> &'static str {
        self.element.name()
    }

    /// Where the memory is: "cpu".
    #[getter]
    fn device(&self) -> &'static str {
        "cpu"
    }

    /// Bytes of memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.byte_len()
    }

    /// Number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    fn __len__(&self) -> PyResult<usize> {
        self.shape
            .first()
            .copied()
            .ok_or_else(|| PyTypeError::new_err("len() of a tensor without dimensions"))
    }

    fn __getitem__(&self, index: isize) -> PyResult<Tensor> {
        let len = self.__len__()?;
        let at = if index < 0 { index + len as isize } else { index };
        let at = usize::try_from(at).ok().filter(|&at| at < len).ok_or_else(|| {
            PyIndexError::new_err(format!(
                "index {index} asked for, but the first dimension has {len} entries"
            ))
        })?;
        let shape = self.shape[1..].to_vec();
        let step = shape.iter().product::<usize>() * self.element.bytes();
        Ok(Tensor {
            memory: self.memory.clone(),
            offset: self.offset + at * step,
            shape,
            element: self.element,
        })
    }

    /// The same without the dimension of time, which holds one entry. `layout` names the last dimensions, with an N in front.
    fn drop_time(&self, layout: &str) -> PyResult<Tensor> {
        let behind = layout.chars().rev().position(|c| c == 'T').map(|place| place + 1);
        let at = behind.and_then(|behind| self.shape.len().checked_sub(behind));
        let Some(at) = at.filter(|&at| self.shape[at] == 1) else {
            return Err(PyValueError::new_err(format!("no single entry in dimension T of {layout}")));
        };
        let mut shape = self.shape.clone();
        shape.remove(at);
        Ok(Tensor { memory: self.memory.clone(), offset: self.offset, shape, element: self.element })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Tensor(shape={}, dtype={}, device=cpu)", self.shape(py)?.repr()?, self.element.name()))
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (CPU, 0)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        if stream.is_some() {
            return Err(PyBufferError::new_err("a CPU tensor has no stream; pass stream=None"));
        }
        if let Some(device) = dl_device.filter(|&d| d != (CPU, 0)) {
            return Err(PyBufferError::new_err(format!(
                "cannot export to device {device:?}; the tensor is on the CPU, (1, 0)"
            )));
        }
        let no_memory =
            || PyMemoryError::new_err(format!("no memory for a copy of {} bytes", self.byte_len()));
        let export = self.export(copy == Some(true)).ok_or_else(no_memory)?;
        match max_version {
            Some((1.., _)) => export.versioned(py),
            _ => export.legacy(py),
        }
    }

    #[pyo3(signature = (dtype=None, *, copy=None))]
    fn __array__<'py>(
        slf: Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut array = Self::numpy(slf)?;
        let other = match &dtype {
            Some(dtype) => array.getattr("dtype")?.ne(dtype)?,
            None => false,
        };
        if other && copy == Some(false) {
            return Err(PyValueError::new_err("another dtype needs a copy, which copy=False forbids"));
        }
        if let Some(dtype) = dtype.filter(|_| other) {
            array = array.call_method1("astype", (dtype,))?;
        } else if copy == Some(true) {
            array = array.call_method0("copy")?;
        }
        Ok(array)
    }

    /// The same memory as a NumPy array.
    fn numpy<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if slf.get().element == Element::BF16 {
            return Err(PyTypeError::new_err("NumPy has no bfloat16; use dtype=\"float16\", or .torch()"));
        }
        let numpy = slf
            .py()
            .import("numpy")
            .map_err(|_| PyImportError::new_err("NumPy is not installed; pip install numpy"))?;
        numpy.call_method1("from_dlpack", (slf,))
    }

    /// The same memory as a PyTorch tensor.
    fn torch<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let torch = slf
            .py()
            .import("torch")
            .map_err(|_| PyImportError::new_err("PyTorch is not installed; pip install torch"))?;
        torch.call_method1("from_dlpack", (slf,))
    }

    /// A copy of the memory, row-major.
    fn tobytes(&self) -> Vec<u8> {
        self.bytes().to_vec()
    }

    /// Nested lists of Python numbers.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(&len) = self.shape.first() {
            let entries =
                (0..len as isize).map(|i| self.__getitem__(i)?.tolist(py)).collect::<PyResult<Vec<_>>>()?;
            return Ok(entries.into_pyobject(py)?.into_any());
        }
        let bytes = self.bytes();
        let eight = || <[u8; 8]>::try_from(bytes).expect("an element of eight bytes");
        Ok(match self.element {
            Element::U8 => bytes[0].into_pyobject(py)?.into_any(),
            Element::Bool => pyo3::types::PyBool::new(py, bytes[0] != 0).to_owned().into_any(),
            Element::F16 => f16::from_ne_bytes(bytes.try_into().expect("two bytes"))
                .to_f64()
                .into_pyobject(py)?
                .into_any(),
            Element::BF16 => bf16::from_ne_bytes(bytes.try_into().expect("two bytes"))
                .to_f64()
                .into_pyobject(py)?
                .into_any(),
            Element::F32 => {
                f32::from_ne_bytes(bytes.try_into().expect("four bytes")).into_pyobject(py)?.into_any()
            }
            Element::F64 => f64::from_ne_bytes(eight()).into_pyobject(py)?.into_any(),
            Element::I64 => i64::from_ne_bytes(eight()).into_pyobject(py)?.into_any(),
        })
    }
}
