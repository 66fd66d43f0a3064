// Runs a kernel on the CPU, given its name, a grid and its argument, whose device addresses are host addresses.
// It needs no GPU, threads or C++ library. The kernel source is the one that NVRTC compiles; only `block.h` differs.

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "pixel_pass.cu"

namespace {

struct Kernel {
  const char* name;
  std::size_t args_bytes;
  void (*run)(Block&, const void*);
};

const Kernel kernels[] = {
    {"framespool_pixels", sizeof(PixelArgs), framespool_pixels},
    {"framespool_window", sizeof(PixelArgs), framespool_window},
    {"framespool_finish", sizeof(PixelArgs), framespool_finish},
    {"framespool_expand", sizeof(ExpandArgs), framespool_expand},
    {"framespool_rgb_operation", sizeof(OperationArgs), framespool_rgb_operation},
    {"framespool_deinterlace", sizeof(DeinterlaceArgs), framespool_deinterlace},
};

const Kernel* kernel_named(const char* name) {
  for (const Kernel& kernel : kernels) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return nullptr;
}

}  // namespace

// Size of a kernel's argument in bytes; 0: there is no such kernel.
extern "C" std::size_t framespool_host_args_bytes(const char* name) {
  const Kernel* kernel = kernel_named(name);
  return kernel == nullptr ? 0 : kernel->args_bytes;
}

// Runs a kernel. Returns 1 if there is none of that name, 2 for a wrong block size, 3 if memory is missing.
extern "C" int framespool_host_launch(const char* name, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                                      const void* args) {
  const Kernel* kernel = kernel_named(name);
  if (kernel == nullptr) return 1;
  if (block[0] != TILE_WIDTH || block[1] != TILE_HEIGHT || block[2] != 1 || grid[2] != 1) return 2;
  // Shared memory ends where the launch says, so that a sanitizer detects overruns, and is filled with garbage at first.
  unsigned char* shared = static_cast<unsigned char*>(std::malloc(shared_bytes > 0 ? shared_bytes : 1));
  if (shared == nullptr) return 3;
  for (unsigned y = 0; y < grid[1]; ++y) {
    for (unsigned x = 0; x < grid[0]; ++x) {
      std::memset(shared, 0xA7, shared_bytes);
      Block each{x, y, shared};
      kernel->run(each, args);
    }
  }
  std::free(shared);
  return 0;
}
