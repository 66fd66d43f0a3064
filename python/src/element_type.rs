//! Element types of tensors, with their names in NumPy and their codes in DLPack.

use framespool::transforms::Dtype;
use half::{bf16, f16};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::dlpack::DlDataType;

/// Element types of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    U8,
    U16,
    F16,
    BF16,
    F32,
    F64,
    I64,
    Bool,
}

impl ElementType {
    /// Its name in NumPy.
    pub fn name(self) -> &'static str {
        match self {
            ElementType::U8 => "uint8",
            ElementType::U16 => "uint16",
            ElementType::F16 => "float16",
            ElementType::BF16 => "bfloat16",
            ElementType::F32 => "float32",
            ElementType::F64 => "float64",
            ElementType::I64 => "int64",
            ElementType::Bool => "bool",
        }
    }

    /// Its type in DLPack.
    pub fn dlpack(self) -> DlDataType {
        let (code, bits) = match self {
            ElementType::U8 => (1, 8),
            ElementType::U16 => (1, 16),
            ElementType::F16 => (2, 16),
            ElementType::BF16 => (4, 16),
            ElementType::F32 => (2, 32),
            ElementType::F64 => (2, 64),
            ElementType::I64 => (0, 64),
            ElementType::Bool => (6, 8),
        };
        DlDataType {
            code,
            bits,
            lanes: 1,
        }
    }

    /// Size in bytes.
    pub fn bytes(self) -> usize {
        usize::from(self.dlpack().bits) / 8
    }

    /// Converts the bytes of one element to a Python number.
    pub fn to_python<'py>(self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let two = || <[u8; 2]>::try_from(bytes).expect("an element of two bytes");
        let four = || <[u8; 4]>::try_from(bytes).expect("an element of four bytes");
        let eight = || <[u8; 8]>::try_from(bytes).expect("an element of eight bytes");
        Ok(match self {
            ElementType::U8 => bytes[0].into_pyobject(py)?.into_any(),
            ElementType::U16 => u16::from_ne_bytes(two()).into_pyobject(py)?.into_any(),
            ElementType::Bool => PyBool::new(py, bytes[0] != 0).to_owned().into_any(),
            ElementType::F16 => f16::from_ne_bytes(two())
                .to_f64()
                .into_pyobject(py)?
                .into_any(),
            ElementType::BF16 => bf16::from_ne_bytes(two())
                .to_f64()
                .into_pyobject(py)?
                .into_any(),
            ElementType::F32 => f32::from_ne_bytes(four()).into_pyobject(py)?.into_any(),
            ElementType::F64 => f64::from_ne_bytes(eight()).into_pyobject(py)?.into_any(),
            ElementType::I64 => i64::from_ne_bytes(eight()).into_pyobject(py)?.into_any(),
        })
    }
}

impl From<Dtype> for ElementType {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::U8 => ElementType::U8,
            Dtype::U16 => ElementType::U16,
            Dtype::F16 => ElementType::F16,
            Dtype::BF16 => ElementType::BF16,
            Dtype::F32 => ElementType::F32,
        }
    }
}
