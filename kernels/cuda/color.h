// Converts 15-bit components and pixel coverage to 8-bit or 16-bit colors (SPEC.md, steps 4 and 5).
// 64 bits suffice for every sum: see `mean_dependent_bias`.

#pragma once

#include "args.h"
#include "arithmetic.h"
#include "block.h"
#include "resample.h"

const i32 FULL_COVERAGE = 1 << 14;

// Values that depend on the mean of the window: the fill color of R, G, B.
struct ChannelBias {
  i32 mean[3];
  i32 bias[3];
  i32 fill[3];
};

// Colors of a tile, of 8 or 16 bits, planar.
struct TileColors {
  u16 values[3][TILE];
};

// The mean of one component (step 3); 0 for components that a gray frame lacks. The sum of fewer than 2^28 pixels, each below 2^15, is
// below 2^43.
inline i32 mean_of(const PixelArgs& args, u32 component) {
  const u64 sum = load(at<u64>(args.sums) + component);
  const u64 count = static_cast<u64>(args.window[0]) * args.window[1];
  return static_cast<i32>((2 * sum + count) / (2 * count));
}

// constant + of_mean (mean - zero), clamped. The host limits every number of a color map or fill to 10^6, and the rows of a base
// matrix sum to less than 4 per column: |of_mean| <= 2^13 * 10^6 * 4 < 2^35, times 2^15, three of them: below 2^52;
// |constant| <= 2^20 * 10^6 < 2^40. So 64 bits hold the sum that the CPU computes in 128.
inline i32 mean_dependent_bias(i64 constant, const i64* mean_factors, const i32* mean, const i32* zero) {
  i64 sum = constant;
#pragma unroll
  for (u32 k = 0; k < 3; ++k) sum += mean_factors[k] * (mean[k] - zero[k]);
  const i64 limit = (1 << 30) - (1 << 20);
  return static_cast<i32>(sum < -limit ? -limit : sum > limit ? limit : sum);
}

// Computes bias and fill of the frame, by three threads of the block.
inline void compute_channel_bias(Block& block, const PixelArgs& args, ChannelBias& channel_bias) {
  if (!args.needs_mean) {
    block.sync_phase([&](u32 x, u32 y) {
      if (y == 0 && x < 3) {
        channel_bias.bias[x] = args.bias[x];
        channel_bias.fill[x] = args.fill[x];
      }
    });
    return;
  }
  block.sync_phase([&](u32 x, u32 y) {
    if (y == 0 && x < 3) channel_bias.mean[x] = mean_of(args, x);
  });
  block.sync_phase([&](u32 x, u32 y) {
    if (y == 0 && x < 3) {
      channel_bias.bias[x] = mean_dependent_bias(args.bias_constant[x], args.bias_mean_factors + 3 * x, channel_bias.mean, args.zero);
      channel_bias.fill[x] = mean_dependent_bias(args.fill_constant[x], args.fill_mean_factors + 3 * x, channel_bias.mean, args.zero);
    }
  });
}

// Step 5 for one pixel. The factors of components that a gray frame lacks are zero. The host limits the sum of |factors| of a row
// to 32767, and bias and fill to 2^30 - 2^20, so only the term with coverage exceeds 32 bits.
inline void color(const PixelArgs& args, const i32* bias, const i32* fill, Components pixel, i32 coverage, TileColors& colors, u32 place) {
#pragma unroll
  for (u32 r = 0; r < 3; ++r) {
    i32 sum = 0;
#pragma unroll
    for (u32 k = 0; k < 3; ++k) sum += args.factors[3 * r + k] * (pixel.values[k] - args.zero[k]);
    if (coverage == FULL_COVERAGE) {
      sum += bias[r];
    } else if (coverage == 0) {
      sum += fill[r];
    } else {
      const i64 mixed = static_cast<i64>(bias[r]) * coverage + static_cast<i64>(fill[r]) * (FULL_COVERAGE - coverage);
      sum += static_cast<i32>((mixed + FULL_COVERAGE / 2) >> 14);
    }
    const i32 half = 1 << (args.color_shift - 1);
    if (args.use_u16) {
      const i64 code = (257 * static_cast<i64>(sum) + half) >> args.color_shift;
      colors.values[r][place] = static_cast<u16>(code < 0 ? 0 : code > 65535 ? 65535 : code);
    } else {
      const i32 code = (sum + half) >> args.color_shift;
      colors.values[r][place] = static_cast<u16>(code < 0 ? 0 : code > 255 ? 255 : code);
    }
  }
}

inline Components black(const PixelArgs& args) { return Components{{args.zero[0], args.zero[1], args.zero[2]}}; }

// Reads the window's components, which an earlier kernel wrote.
struct WindowPlanes {
  const i16* components;
  i64 width, height;

  i32 value(u32 component, i64 x, i64 y) const { return load(components + (component * height + y) * width + x); }
};

inline WindowPlanes window_planes(const PixelArgs& args) {
  return WindowPlanes{at<i16>(args.components), args.window[0], args.window[1]};
}

inline i32 lerp(i32 a, i32 b, i32 f) { return (a * (FULL_COVERAGE - f) + b * f + FULL_COVERAGE / 2) >> 14; }

// Step 4 of a warp for output pixel (i, j): its components and coverage. The host guarantees that positions fit in 63 bits.
inline i32 warped(const PixelArgs& args, const WindowPlanes& window, i64 i, i64 j, Components& pixel) {
  i64 x = args.to_x[0] * i + args.to_x[1] * j + args.to_x[2];
  i64 y = args.to_y[0] * i + args.to_y[1] * j + args.to_y[2];
  pixel = black(args);
  if (args.placement == WARP_NEAREST) {
    x = (x + (1 << 27)) >> 28;
    y = (y + (1 << 27)) >> 28;
    if (x < 0 || y < 0 || x >= window.width || y >= window.height) return 0;
#pragma unroll
    for (u32 c = 0; c < 3; ++c) {
      if (c < args.component_count) pixel.values[c] = window.value(c, x, y);
    }
    return FULL_COVERAGE;
  }
  const i32 f = static_cast<i32>(x >> 14) & (FULL_COVERAGE - 1), g = static_cast<i32>(y >> 14) & (FULL_COVERAGE - 1);
  x >>= 28;
  y >>= 28;
  const bool left = x >= 0 && x < window.width, right = x >= -1 && x + 1 < window.width;
  const bool upper = y >= 0 && y < window.height, lower = y >= -1 && y + 1 < window.height;
#pragma unroll
  for (u32 c = 0; c < 3; ++c) {
    if (c < args.component_count) {
      const i32 zero = args.zero[c];
      const i32 above = lerp(left && upper ? window.value(c, x, y) : zero, right && upper ? window.value(c, x + 1, y) : zero, f);
      const i32 below =
          lerp(left && lower ? window.value(c, x, y + 1) : zero, right && lower ? window.value(c, x + 1, y + 1) : zero, f);
      pixel.values[c] = lerp(above, below, g);
    }
  }
  const i32 across = (left ? FULL_COVERAGE - f : 0) + (right ? f : 0);
  const i32 down = (upper ? FULL_COVERAGE - g : 0) + (lower ? g : 0);
  return (across * down + FULL_COVERAGE / 2) >> 14;
}
