// In: 15-bit components and how much of a pixel they cover. Out: 8-bit or 16-bit colors (CONTRACT.md, steps 4 and 5).
// Never: more than 64 bits: see `ground_of`.

#pragma once

#include "args.h"
#include "arithmetic.h"
#include "block.h"
#include "resample.h"

const i32 COVERED = 1 << 14;

// What the mean of the window decides: what lies under each of R, G, B.
struct Grounds {
  i32 mean[3];
  i32 bias[3];
  i32 fill[3];
};

// Colors of a tile, of 8 or 16 bits, channel by channel.
struct Codes {
  u16 codes[3][TILE];
};

// The mean of one component (step 3), 0 of those that a gray picture lacks: below 2^28 pixels of below 2^15 each make a sum below 2^43.
inline i32 mean_of(const PixelArgs& args, u32 component) {
  const u64 sum = load(at<u64>(args.sums) + component);
  const u64 count = static_cast<u64>(args.window[0]) * args.window[1];
  return static_cast<i32>((2 * sum + count) / (2 * count));
}

// constant + of_mean (mean - zero), clipped. The host lets no number of a color map or fill beyond 10^6 pass, and the rows of a base
// matrix sum to less than 4 per column: |of_mean| <= 2^13 * 10^6 * 4 < 2^35, times 2^15 and three of them below 2^52;
// |constant| <= 2^20 * 10^6 < 2^40. So 64 bits hold what the CPU adds up in 128.
inline i32 ground_of(i64 constant, const i64* of_mean, const i32* mean, const i32* zero) {
  i64 sum = constant;
#pragma unroll
  for (u32 k = 0; k < 3; ++k) sum += of_mean[k] * (mean[k] - zero[k]);
  const i64 farthest = (1 << 30) - (1 << 20);
  return static_cast<i32>(sum < -farthest ? -farthest : sum > farthest ? farthest : sum);
}

// Bias and fill of the frame, by three threads of the block.
inline void find_grounds(Block& block, const PixelArgs& args, Grounds& grounds) {
  if (!args.needs_mean) {
    block.phase([&](u32 x, u32 y) {
      if (y == 0 && x < 3) {
        grounds.bias[x] = args.bias[x];
        grounds.fill[x] = args.fill[x];
      }
    });
    return;
  }
  block.phase([&](u32 x, u32 y) {
    if (y == 0 && x < 3) grounds.mean[x] = mean_of(args, x);
  });
  block.phase([&](u32 x, u32 y) {
    if (y == 0 && x < 3) {
      grounds.bias[x] = ground_of(args.bias_constant[x], args.bias_of_mean + 3 * x, grounds.mean, args.zero);
      grounds.fill[x] = ground_of(args.fill_constant[x], args.fill_of_mean + 3 * x, grounds.mean, args.zero);
    }
  });
}

// Step 5 for one pixel; the factors of components that a gray picture lacks are zero. The host keeps the sum of |factors| of a row within 32767 and bias and fill within 2^30 - 2^20, so that
// nothing but the term with cover leaves 32 bits.
inline void color(const PixelArgs& args, const i32* bias, const i32* fill, Components pixel, i32 cover, Codes& codes, u32 place) {
#pragma unroll
  for (u32 r = 0; r < 3; ++r) {
    i32 sum = 0;
#pragma unroll
    for (u32 k = 0; k < 3; ++k) sum += args.factors[3 * r + k] * (pixel.values[k] - args.zero[k]);
    if (cover == COVERED) {
      sum += bias[r];
    } else if (cover == 0) {
      sum += fill[r];
    } else {
      const i64 mixed = static_cast<i64>(bias[r]) * cover + static_cast<i64>(fill[r]) * (COVERED - cover);
      sum += static_cast<i32>((mixed + COVERED / 2) >> 14);
    }
    const i32 half = 1 << (args.color_shift - 1);
    if (args.wide) {
      const i64 code = (257 * static_cast<i64>(sum) + half) >> args.color_shift;
      codes.codes[r][place] = static_cast<u16>(code < 0 ? 0 : code > 65535 ? 65535 : code);
    } else {
      const i32 code = (sum + half) >> args.color_shift;
      codes.codes[r][place] = static_cast<u16>(code < 0 ? 0 : code > 255 ? 255 : code);
    }
  }
}

inline Components black(const PixelArgs& args) { return Components{{args.zero[0], args.zero[1], args.zero[2]}}; }

// The window's components where a kernel before this one left them.
struct Window {
  const i16* components;
  i64 width, height;

  i32 value(u32 component, i64 x, i64 y) const { return load(components + (component * height + y) * width + x); }
};

inline Window window_of(const PixelArgs& args) {
  return Window{at<i16>(args.components), args.window[0], args.window[1]};
}

inline i32 between(i32 a, i32 b, i32 f) { return (a * (COVERED - f) + b * f + COVERED / 2) >> 14; }

// Step 4 of a warp for output pixel (i, j): its components and cover. The host has proven that positions fit 63 bits.
inline i32 warped(const PixelArgs& args, const Window& window, i64 i, i64 j, Components& pixel) {
  i64 x = args.to_x[0] * i + args.to_x[1] * j + args.to_x[2];
  i64 y = args.to_y[0] * i + args.to_y[1] * j + args.to_y[2];
  pixel = black(args);
  if (args.place == WARP_NEAREST) {
    x = (x + (1 << 27)) >> 28;
    y = (y + (1 << 27)) >> 28;
    if (x < 0 || y < 0 || x >= window.width || y >= window.height) return 0;
#pragma unroll
    for (u32 c = 0; c < 3; ++c) {
      if (c < args.component_count) pixel.values[c] = window.value(c, x, y);
    }
    return COVERED;
  }
  const i32 f = static_cast<i32>(x >> 14) & (COVERED - 1), g = static_cast<i32>(y >> 14) & (COVERED - 1);
  x >>= 28;
  y >>= 28;
  const bool left = x >= 0 && x < window.width, right = x >= -1 && x + 1 < window.width;
  const bool upper = y >= 0 && y < window.height, lower = y >= -1 && y + 1 < window.height;
#pragma unroll
  for (u32 c = 0; c < 3; ++c) {
    if (c < args.component_count) {
      const i32 zero = args.zero[c];
      const i32 above = between(left && upper ? window.value(c, x, y) : zero, right && upper ? window.value(c, x + 1, y) : zero, f);
      const i32 below =
          between(left && lower ? window.value(c, x, y + 1) : zero, right && lower ? window.value(c, x + 1, y + 1) : zero, f);
      pixel.values[c] = between(above, below, g);
    }
  }
  const i32 across = (left ? COVERED - f : 0) + (right ? f : 0);
  const i32 down = (upper ? COVERED - g : 0) + (lower ? g : 0);
  return (across * down + COVERED / 2) >> 14;
}
