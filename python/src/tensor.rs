//! Python class `framespool.video.Tensor`: memory that the engine filled, with a shape and an
//! element type, exported by DLPack, the CUDA array interface and pickle.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use framespool::batch::{BatchBuffer, MemoryPool, OutputMut};
use framespool_nvdec::cuda::{Device, Stream, UploadRing};
use framespool_nvdec::switches::Mechanism;
use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyImportError, PyMemoryError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::dlpack::{
    CPU, CUDA, Export, LEGACY_DEFAULT_STREAM, consumer_stream, record_release, recorded_stream,
    stream_outlives_tensors,
};
use crate::element_type::ElementType;
use crate::errors::OrRaise;
use crate::tensor_view::{Index, TensorView, parse_indices};

/// An array in host or GPU memory: the result type of framespool.
///
/// Exports its memory by DLPack without a copy: `torch.from_dlpack(t)`, `numpy.from_dlpack(t)` and
/// `jax.dlpack.from_dlpack(t)`, or `t.torch()` and `t.numpy()`. The memory lives as long as any
/// object that uses it. Integers, slices, `None` and `...` as indices give views, as in NumPy:
/// `t[0, ..., ::2]`. A tensor in host memory can be pickled; its elements are copied.
///
/// Example:
///     >>> import framespool as fsp
///     >>> frame = fsp.Video("a.mp4")[0]
///     >>> frame.shape, frame.dtype, frame.device
///     ((360, 640, 3), 'uint8', 'cpu')
///     >>> frame.numpy().shape
///     (360, 640, 3)
#[pyclass(module = "framespool.video", frozen)]
pub struct Tensor {
    memory: Arc<BatchBuffer>,
    view: TensorView,
    element: ElementType,
    /// Whether a consumer got the address by the CUDA array interface. It keeps this object as long
    /// as it uses the memory.
    has_address_reader: AtomicBool,
}

impl Drop for Tensor {
    fn drop(&mut self) {
        if *self.has_address_reader.get_mut() {
            record_release(&self.memory, Some(LEGACY_DEFAULT_STREAM));
        }
    }
}

impl Tensor {
    fn of(memory: Arc<BatchBuffer>, view: TensorView, element: ElementType) -> Self {
        Self {
            memory,
            view,
            element,
            has_address_reader: AtomicBool::new(false),
        }
    }

    /// Creates a tensor that owns a whole buffer.
    pub fn from_buffer(memory: BatchBuffer, shape: Vec<usize>, element: ElementType) -> Self {
        Self::of(Arc::new(memory), TensorView::dense(shape), element)
    }

    /// Creates a tensor by copying a few numbers.
    pub fn copied<const N: usize>(
        bytes: impl ExactSizeIterator<Item = [u8; N]>,
        shape: Vec<usize>,
        element: ElementType,
    ) -> Self {
        let len = bytes.len() * N;
        let fill = |all: &mut [u8]| {
            for (to, from) in all.chunks_exact_mut(N.max(1)).zip(bytes) {
                to.copy_from_slice(&from);
            }
        };
        Self::filled(len, shape, element, fill).expect("small")
    }

    /// Creates a tensor whose bytes, which are 0, `fill` sets.
    pub fn filled_with(
        shape: Vec<usize>,
        element: ElementType,
        fill: impl FnOnce(&mut [u8]),
    ) -> PyResult<Self> {
        let len = shape.iter().product::<usize>() * element.bytes();
        let zeroed = |bytes: &mut [u8]| {
            bytes.fill(0);
            fill(bytes);
        };
        Self::filled(len, shape, element, zeroed)
            .map_err(|error| PyMemoryError::new_err(error.to_string()))
    }

    /// Allocates a tensor and fills its bytes.
    fn filled(
        len: usize,
        shape: Vec<usize>,
        element: ElementType,
        fill: impl FnOnce(&mut [u8]),
    ) -> framespool::Result<Self> {
        let (builder, mut parts) = BatchBuffer::allocate(&MemoryPool::new(0), 1, len)?;
        if let OutputMut::Host(all) = parts[0].target()? {
            fill(all);
        }
        drop(parts);
        Ok(Self::from_buffer(
            builder.freeze().ok().expect("its clip slot was dropped"),
            shape,
            element,
        ))
    }

    /// Returns the sizes of the dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.view.shape
    }

    fn byte_len(&self) -> usize {
        self.view.len() * self.element.bytes()
    }

    /// Returns the first byte, and the number of bytes from it to the end of the last element.
    fn byte_span(&self) -> (usize, usize) {
        (
            self.view.start * self.element.bytes(),
            self.view.span() * self.element.bytes(),
        )
    }

    /// Returns the bytes in row-major order, copied from the GPU if they are stored there.
    pub fn bytes(&self) -> framespool::Result<Cow<'_, [u8]>> {
        let (start, len) = self.byte_span();
        let span = if let Some(bytes) = self.memory.bytes() {
            Cow::Borrowed(&bytes[start..start + len])
        } else {
            let mut bytes = vec![0; len];
            self.memory.copy_to_host(start, &mut bytes)?;
            Cow::Owned(bytes)
        };
        Ok(if self.view.is_dense() {
            span
        } else {
            self.view.gather(&span, self.element.bytes()).into()
        })
    }

    /// Returns another view of the same memory.
    fn with_view(&self, view: TensorView) -> Self {
        Self::of(self.memory.clone(), view, self.element)
    }

    /// Returns the same tensor in a copy of its span.
    fn in_copy(&self, copied: BatchBuffer) -> Self {
        let view = TensorView {
            start: 0,
            ..self.view.clone()
        };
        Self::of(Arc::new(copied), view, self.element)
    }

    /// Returns all entries of the first dimension.
    pub fn entries(&self) -> Vec<Self> {
        let first = self.view.shape.first().copied().unwrap_or(0);
        (0..first)
            .map(|at| self.with_view(self.view.index(&[Index::Entry(at)])))
            .collect()
    }

    /// Returns the number of the GPU that holds the memory; `None` for host memory.
    fn ordinal(&self) -> Option<u32> {
        self.memory.device().map(|device| device.ordinal())
    }

    fn dlpack_device(&self) -> (i32, i32) {
        self.ordinal()
            .map_or((CPU, 0), |ordinal| (CUDA, ordinal as i32))
    }

    /// Copies the span of the elements, to the host or on its own device.
    fn copy_to(&self, host: bool) -> framespool::Result<BatchBuffer> {
        let device = self.memory.device().filter(|_| !host).cloned();
        let (start, len) = self.byte_span();
        let (builder, mut parts) = BatchBuffer::allocate(&MemoryPool::on(device, 0), 1, len)?;
        match parts[0].target()? {
            OutputMut::Host(bytes) => self.memory.copy_to_host(start, bytes)?,
            OutputMut::Device(mut slot) => {
                let stream = self
                    .memory
                    .device()
                    .expect("it is on a device")
                    .create_stream()?;
                slot.begin(&stream)?;
                self.memory
                    .written()
                    .iter()
                    .try_for_each(|event| stream.wait(event))?;
                stream.copy(slot.address, self.memory.address() + start as u64, slot.len)?;
                self.memory.add_reader_event(stream.record()?);
            }
        }
        parts[0].record_write()?;
        drop(parts);
        Ok(builder.freeze().ok().expect("its clip slot was dropped"))
    }

    /// Prepares the memory for a consumer whose work runs on `stream` (CUDA only).
    fn export(
        &self,
        copy: Option<bool>,
        to_host: bool,
        stream: Option<u64>,
    ) -> framespool::Result<Export> {
        let signed = |numbers: &[usize]| numbers.iter().map(|&n| n as i64).collect();
        let (shape, strides) = (signed(&self.view.shape), signed(&self.view.strides));
        let dtype = self.element.dlpack();
        let export = |memory, offset, copied| Export {
            memory,
            offset,
            shape,
            strides,
            dtype,
            copied,
            stream,
        };
        let export = if copy == Some(true) || to_host {
            export(Arc::new(self.copy_to(to_host)?), 0, true)
        } else {
            export(self.memory.clone(), self.byte_span().0, false)
        };
        if let (Some(device), Some(stream)) = (export.memory.device(), stream) {
            export
                .memory
                .written()
                .iter()
                .try_for_each(|event| device.wait_on_external(stream, event))?;
        }
        Ok(export)
    }
}

/// Returns the size of a tensor in bytes; `None` if it overflows.
fn bytes_in(shape: &[usize], element: ElementType) -> Option<usize> {
    shape
        .iter()
        .try_fold(element.bytes(), |product, &len| product.checked_mul(len))
}

/// The memory on a GPU for the numbers of batches, and the memory from which they are copied.
type NumberUploader = (Arc<MemoryPool>, UploadRing, Arc<Stream>);

/// Free blocks per GPU for the numbers of batches: each batch has one.
const MAX_FREE_NUMBER_BLOCKS: usize = 8;

/// Alignment of a tensor in memory that it shares with others.
const SHARED_ALIGN: usize = 64;

/// Copies tensors in host memory to a GPU, in one copy that is not waited for.
fn copy_to_gpu(tensors: &[&Tensor], gpu: u32) -> framespool::Result<Vec<Tensor>> {
    // Never dropped: at process exit the driver may be unloaded before this static is.
    static UPLOADERS: Mutex<BTreeMap<u32, NumberUploader>> = Mutex::new(BTreeMap::new());
    let device = Device::open(gpu)?;
    let mut uploaders = UPLOADERS.lock().unwrap_or_else(PoisonError::into_inner);
    let (pool, ring, stream) = match uploaders.entry(gpu) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => {
            let stream = device.create_stream()?;
            let pool = MemoryPool::on(Some(device), MAX_FREE_NUMBER_BLOCKS);
            place.insert((pool, UploadRing::new(stream.clone()), stream))
        }
    };
    let mut total = 0;
    let mut offsets = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        offsets.push(total);
        total += tensor.byte_len().next_multiple_of(SHARED_ALIGN);
    }
    let total = total.max(SHARED_ALIGN);
    let fill = |to: &mut [u8]| {
        tensors
            .iter()
            .zip(&offsets)
            .try_for_each(|(tensor, &offset)| {
                let bytes = tensor.bytes()?;
                to[offset..][..bytes.len()].copy_from_slice(&bytes);
                Ok::<_, framespool::Error>(())
            })
    };
    let (builder, mut slots) = BatchBuffer::allocate(pool, 1, total)?;
    if let OutputMut::Device(mut slot) = slots[0].target()? {
        slot.begin(stream)?;
        let reserved = match Mechanism::LockedUpload.is_enabled() {
            true => ring.reserve(total).map(Some),
            false => Ok(None),
        };
        match reserved {
            Ok(Some(staging)) => {
                fill(staging)?;
                ring.upload(slot.address, 0..total)?;
            }
            // From pageable memory the driver copies the bytes before the call returns.
            Ok(None) | Err(framespool_nvdec::Error::NotPageLocked { .. }) => {
                let mut staging = vec![0; total];
                fill(&mut staging)?;
                stream.upload(slot.address, &staging)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    slots[0].record_write()?;
    drop(slots);
    let memory = Arc::new(builder.freeze().ok().expect("its clip slot was dropped"));
    let placed = tensors.iter().zip(offsets).map(|(tensor, offset)| {
        let view = TensorView {
            start: offset / tensor.element.bytes(),
            ..TensorView::dense(tensor.view.shape.clone())
        };
        Tensor::of(memory.clone(), view, tensor.element)
    });
    Ok(placed.collect())
}

/// Copies tensors in host memory to a GPU. The copy is not waited for; users of the results are
/// ordered after it, as with those of frames.
#[pyfunction]
pub(crate) fn tensors_on_gpu(
    py: Python<'_>,
    tensors: Vec<Bound<'_, Tensor>>,
    gpu: u32,
) -> PyResult<Vec<Tensor>> {
    let tensors: Vec<&Tensor> = tensors.iter().map(|tensor| tensor.get()).collect();
    py.detach(|| copy_to_gpu(&tensors, gpu)).or_raise(py)
}

/// Rebuilds a pickled tensor.
///
/// Args:
///     data: The elements' bytes in row-major order.
///     shape: The length of each dimension.
///     dtype: The name of the element type, as in `Tensor.dtype`.
///
/// Returns:
///     Tensor: A tensor in host memory with a copy of the bytes.
///
/// Raises:
///     ValueError: If the number of bytes does not match the shape and dtype.
#[pyfunction]
pub(crate) fn tensor_of(
    py: Python<'_>,
    data: &[u8],
    shape: Vec<usize>,
    dtype: &str,
) -> PyResult<Tensor> {
    let all = [
        ElementType::U8,
        ElementType::U16,
        ElementType::F16,
        ElementType::BF16,
        ElementType::F32,
        ElementType::F64,
        ElementType::I64,
        ElementType::Bool,
    ];
    let element = all.into_iter().find(|element| element.name() == dtype);
    let fits = |element: &ElementType| bytes_in(&shape, *element) == Some(data.len());
    let Some(element) = element.filter(fits) else {
        let len = data.len();
        return Err(PyValueError::new_err(format!(
            "{len} bytes do not form a tensor of shape {shape:?} and dtype {dtype}"
        )));
    };
    Tensor::filled(data.len(), shape, element, |all| all.copy_from_slice(data)).or_raise(py)
}

#[pymethods]
impl Tensor {
    /// The length of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.view.shape)
    }

    /// The element type: "uint8", "uint16", "float16", "bfloat16", "float32", "float64", "int64" or
    /// "bool".
    #[getter]
    fn dtype(&self) -> &'static str {
        self.element.name()
    }

    /// The device of the memory: "cpu", or "cuda:0" and so on.
    #[getter]
    fn device(&self) -> String {
        self.ordinal()
            .map_or("cpu".to_owned(), |ordinal| format!("cuda:{ordinal}"))
    }

    /// The size in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.byte_len()
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.view.shape.len()
    }

    /// Whether GPUs copy from the memory while the caller continues.
    #[getter]
    fn _is_page_locked(&self) -> bool {
        self.memory.is_page_locked()
    }

    /// Keeps the memory from being written again before the work that this stream of this GPU has
    /// received is done.
    fn _record_copy(&self, py: Python<'_>, gpu: u32, stream: u64) {
        let recorded =
            py.detach(|| Device::open(gpu).and_then(|device| device.record_on_external(stream)));
        match recorded {
            Ok(event) => self.memory.add_reader_event(event),
            Err(_) => self.memory.mark_unsynchronized(),
        }
    }

    /// Keeps the memory from being used again before the work that a CUDA stream has received by
    /// the time the memory is released.
    ///
    /// Args:
    ///     stream: A `torch.cuda.Stream`, an object with `__cuda_stream__`, or the handle of a
    ///         stream. In host memory that is not page-locked it has no effect.
    ///
    /// Raises:
    ///     ArgumentError: If it is no stream.
    fn record_stream(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        let (gpu, handle) = recorded_stream(stream)?;
        let Some(own) = self.memory.event_device() else {
            return Ok(());
        };
        let device = match gpu.filter(|&gpu| gpu != own.ordinal()) {
            Some(gpu) => &py
                .detach(|| Device::open(gpu))
                .map_err(framespool::Error::from)
                .or_raise(py)?,
            None => own,
        };
        if stream_outlives_tensors(stream, handle) {
            self.memory.record_stream(device, handle);
        } else {
            self.memory.mark_unsynchronized();
        }
        Ok(())
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.view.shape.first().copied();
        first.ok_or_else(|| PyTypeError::new_err("len() of a tensor without dimensions"))
    }

    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        Ok(self.with_view(self.view.index(&parse_indices(index, &self.view.shape)?)))
    }

    /// Returns a view without the time dimension, whose length must be 1.
    ///
    /// Args: layout: Names of the last dimensions, one letter each, e.g. "NTHWC"; T is the time
    /// dimension.
    ///
    /// Returns:
    ///     Tensor: A view of the same memory with one dimension less.
    ///
    /// Raises:
    ///     ValueError: If the time dimension does not have length 1.
    fn drop_time(&self, layout: &str) -> PyResult<Tensor> {
        let behind = layout
            .chars()
            .rev()
            .position(|c| c == 'T')
            .map(|place| place + 1);
        let at = behind.and_then(|behind| self.view.shape.len().checked_sub(behind));
        let Some(at) = at.filter(|&at| self.view.shape[at] == 1) else {
            return Err(PyValueError::new_err(format!(
                "dimension T of {layout} does not have length 1"
            )));
        };
        let mut view = self.view.clone();
        view.shape.remove(at);
        view.strides.remove(at);
        Ok(self.with_view(view))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = self.shape(py)?.repr()?;
        Ok(format!(
            "Tensor(shape={shape}, dtype={}, device={})",
            self.element.name(),
            self.device()
        ))
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        self.dlpack_device()
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
        let own = self.dlpack_device();
        let to_host = own != (CPU, 0) && dl_device == Some((CPU, 0));
        if let Some(device) = dl_device.filter(|&d| d != own && !to_host) {
            let own = format!("{own:?}");
            return Err(PyBufferError::new_err(format!(
                "cannot export to device {device:?}; the tensor is on {}, {own}",
                self.device()
            )));
        }
        if to_host && copy == Some(false) {
            return Err(PyBufferError::new_err(format!(
                "the tensor is on {}: exporting it to the CPU needs a copy, which copy=False forbids",
                self.device()
            )));
        }
        let stream = consumer_stream(self.ordinal(), stream, to_host)?;
        let export = py.detach(|| self.export(copy, to_host, stream));
        let export = export.map_err(|error| match error {
            framespool::Error::Argument(_) => {
                PyMemoryError::new_err(format!("no memory for a copy of {} bytes", self.byte_len()))
            }
            other => crate::errors::to_python(py, &other),
        })?;
        match max_version {
            Some((1.., _)) => export.versioned(py),
            _ => export.legacy(py),
        }
    }

    /// The CUDA array interface, version 3, for CuPy, Numba and others.
    ///
    /// Raises: AttributeError: If the tensor is on the CPU, or is bfloat16, which the interface
    /// does not support.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let no = |why: &str| Err(PyAttributeError::new_err(why.to_owned()));
        let Some(device) = self.memory.device() else {
            return no("a CPU tensor has no CUDA array interface");
        };
        let kind = match self.element {
            ElementType::U8 => "|u1",
            ElementType::U16 => "<u2",
            ElementType::F16 => "<f2",
            ElementType::F32 => "<f4",
            ElementType::F64 => "<f8",
            ElementType::I64 => "<i8",
            ElementType::Bool => "|b1",
            ElementType::BF16 => return no("the CUDA array interface has no bfloat16; use DLPack"),
        };
        let wait = |event: &_| {
            device
                .wait_on_external(LEGACY_DEFAULT_STREAM, event)
                .map_err(framespool::Error::from)
        };
        self.memory
            .written()
            .iter()
            .try_for_each(wait)
            .or_raise(py)?;
        self.has_address_reader.store(true, Ordering::Relaxed);
        let dict = PyDict::new(py);
        dict.set_item("shape", self.shape(py)?)?;
        dict.set_item("typestr", kind)?;
        dict.set_item(
            "data",
            (self.memory.address() + self.byte_span().0 as u64, false),
        )?;
        let bytes = self
            .view
            .strides
            .iter()
            .map(|stride| stride * self.element.bytes());
        let strides = if self.view.is_dense() {
            None
        } else {
            Some(PyTuple::new(py, bytes.collect::<Vec<_>>())?)
        };
        dict.set_item("strides", strides)?;
        dict.set_item("version", 3)?;
        dict.set_item("stream", LEGACY_DEFAULT_STREAM)?;
        Ok(dict)
    }

    /// Returns the tensor in host memory.
    ///
    /// Returns:
    ///     Tensor: This tensor if it is in host memory, otherwise a copy.
    fn cpu(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let this = slf.get();
        if this.ordinal().is_none() {
            return Ok(slf);
        }
        let copied = slf.py().detach(|| this.copy_to(true)).or_raise(slf.py())?;
        Bound::new(slf.py(), this.in_copy(copied))
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
            return Err(PyValueError::new_err(
                "another dtype needs a copy, which copy=False forbids",
            ));
        }
        if let Some(dtype) = dtype.filter(|_| other) {
            array = array.call_method1("astype", (dtype,))?;
        } else if copy == Some(true) {
            array = array.call_method0("copy")?;
        }
        Ok(array)
    }

    /// Returns a NumPy array that shares the memory.
    ///
    /// Returns:
    ///     numpy.ndarray: A view of the tensor's memory.
    ///
    /// Raises: TypeError: If the tensor is on a GPU (use `.cpu()` first), or is bfloat16, which
    /// NumPy does not have. ImportError: If NumPy is not installed.
    fn numpy<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if slf.get().ordinal().is_some() {
            let device = slf.get().device();
            return Err(PyTypeError::new_err(format!(
                "the tensor is on {device}; use .cpu().numpy(), or .torch()"
            )));
        }
        if slf.get().element == ElementType::BF16 {
            return Err(PyTypeError::new_err(
                "NumPy has no bfloat16; use dtype=\"float16\", or .torch()",
            ));
        }
        let numpy = slf
            .py()
            .import("numpy")
            .map_err(|_| PyImportError::new_err("NumPy is not installed; pip install numpy"))?;
        numpy.call_method1("from_dlpack", (slf,))
    }

    /// Returns a PyTorch tensor that shares the memory.
    ///
    /// Returns:
    ///     torch.Tensor: A view of the tensor's memory, on the same device.
    ///
    /// Raises:
    ///     ImportError: If PyTorch is not installed.
    fn torch<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let torch = slf
            .py()
            .import("torch")
            .map_err(|_| PyImportError::new_err("PyTorch is not installed; pip install torch"))?;
        let tensor = torch.call_method1("from_dlpack", (&slf,))?;
        if slf.get().memory.is_page_locked() {
            // A copy that the caller makes without `Batch.to()` is probably on this stream.
            let cuda = torch.getattr("cuda")?;
            if cuda.call_method0("is_initialized")?.extract()? {
                let stream = cuda.call_method0("current_stream")?;
                slf.get().record_stream(slf.py(), &stream)?;
            }
        }
        Ok(tensor)
    }

    /// Returns a copy of the elements' bytes.
    ///
    /// Returns:
    ///     bytes: The elements in row-major order, copied from the GPU if necessary.
    fn tobytes(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        py.detach(|| self.bytes().map(Cow::into_owned)).or_raise(py)
    }

    /// Supports pickle and copy, by value.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        if self.ordinal().is_some() {
            let device = self.device();
            return Err(PyTypeError::new_err(format!(
                "the tensor is on {device}; pickle the result of .cpu()"
            )));
        }
        let bytes = self.bytes().or_raise(py)?;
        let made_of = (
            PyBytes::new(py, &bytes),
            &self.view.shape,
            self.element.name(),
        )
            .into_pyobject(py)?;
        Ok((
            py.import("framespool._framespool")?.getattr("tensor_of")?,
            made_of,
        ))
    }

    /// Returns a copy of the elements as Python numbers.
    ///
    /// Returns:
    ///     list: Nested lists, one level per dimension; a number for a tensor without dimensions.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.ordinal().is_some() {
            // Copies all elements at once instead of one by one.
            let memory = py.detach(|| self.copy_to(true)).or_raise(py)?;
            return self.in_copy(memory).tolist(py);
        }
        if !self.view.shape.is_empty() {
            let entries = self
                .entries()
                .iter()
                .map(|entry| entry.tolist(py))
                .collect::<PyResult<Vec<_>>>()?;
            return Ok(entries.into_pyobject(py)?.into_any());
        }
        self.element.to_python(py, &self.bytes().or_raise(py)?)
    }
}
