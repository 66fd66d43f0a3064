//! Element types of tensors, with their names in NumPy and their codes in DLPack.

use framespool::transforms::Dtype;

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
        DlDataType { code, bits, lanes: 1 }
    }

    /// Size in bytes.
    pub fn bytes(self) -> usize {
        usize::from(self.dlpack().bits) / 8
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
