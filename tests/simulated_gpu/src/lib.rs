//! In: calls of the CUDA driver and of NVCUVID.
//! Out: what they promise, on host memory, as late and in as bad an order as they allow.
//! Never: measured: nothing here is as fast or as slow as a GPU.
