// The six kernels. Input: the planes of a frame in device memory, and the arguments that `PixelPass::for_device` computes.
// Output: the bytes of ../SPEC.md, in the slot. framespool_pixels does everything in one kernel. If a warp or the mean needs the
// complete window, framespool_window computes the window and framespool_finish the rest. framespool_expand converts codes to
// elements, for cached clips. framespool_rgb_operation changes the codes of a frame between two passes. framespool_deinterlace
// makes the planes of a deinterlaced frame before the first pass. No result depends on the GPU or on the order of threads.
// Floating point is used only for products that are rounded once.

#include "args.h"
#include "arithmetic.h"
#include "block.h"
#include "color.h"
#include "deinterlace.h"
#include "elements.h"
#include "layout.h"
#include "resample.h"
#include "rgb_operation.h"
#include "tone.h"

inline void pixels(Block& block, const PixelArgs& args) {
  TileColors& colors = *reinterpret_cast<TileColors*>(block.shared + args.row_buffer_bytes);
  const Tile tile = tile_of(block, args);
  PerThread<Components> per_thread(Components{{1 << 13, 1 << 13, 1 << 13}});
  tile_components(block, args, tile, per_thread);
  block.sync_phase([&](u32 x, u32 y) {
    const bool inside = x - tile.left < tile.column_count && y - tile.top < tile.row_count;
    Components pixel = black(args);
    if (inside) {
#pragma unroll
      for (u32 c = 0; c < 3; ++c) pixel.values[c] = clamp_component(per_thread.at(x, y).values[c] >> 14);
      if (args.has_tone_map) map_tone(args.tone, pixel);
    }
    color(args, args.bias, args.fill, pixel, inside ? FULL_COVERAGE : 0, colors, y * TILE_WIDTH + x);
  });
  store_tile(block, args, tile, colors);
}

inline void window(Block& block, const PixelArgs& args) {
  const Tile tile = tile_of(block, args);
  PerThread<Components> per_thread(Components{{1 << 13, 1 << 13, 1 << 13}});
  tile_components(block, args, tile, per_thread);
  const u64 size = static_cast<u64>(args.window[0]) * args.window[1];
  // Components of the tile, then their sums by row. `row_buffer` is free: a barrier follows its last readers.
  i16* values = reinterpret_cast<i16*>(block.shared);
  u32* sums = reinterpret_cast<u32*>(block.shared + 3 * TILE * sizeof(i16));
  block.sync_phase([&](u32 x, u32 y) {
    const bool inside = x < tile.column_count && y < tile.row_count;
    const u64 place = static_cast<u64>(tile.first_row + y) * args.window[0] + tile.first_column + x;
    Components pixel{{0, 0, 0}};
    if (inside) {
#pragma unroll
      for (u32 c = 0; c < 3; ++c) pixel.values[c] = clamp_component(per_thread.at(x, y).values[c] >> 14);
      if (args.has_tone_map) map_tone(args.tone, pixel);
    }
#pragma unroll
    for (u32 c = 0; c < 3; ++c) {
      if (c < args.component_count) {
        const i16 value = static_cast<i16>(pixel.values[c]);
        if (inside) store(args.components + 2 * (c * size + place), value);
        values[c * TILE + y * TILE_WIDTH + x] = value;
      }
    }
  });
  if (!args.needs_mean) return;
  block.sync_phase([&](u32 x, u32 y) {
    if (x < args.component_count) {
      u32 sum = 0;
      for (u32 i = 0; i < TILE_WIDTH; ++i) sum += static_cast<u32>(values[x * TILE + y * TILE_WIDTH + i]);
      sums[x * TILE_HEIGHT + y] = sum;
    }
  });
  block.sync_phase([&](u32 x, u32 y) {
    if (y == 0 && x < args.component_count) {
      u64 sum = 0;
      for (u32 i = 0; i < TILE_HEIGHT; ++i) sum += sums[x * TILE_HEIGHT + i];
      add_to(args.sums + 8 * x, sum);
    }
  });
}

inline void finish(Block& block, const PixelArgs& args) {
  ChannelBias& channel_bias = *reinterpret_cast<ChannelBias*>(block.shared);
  TileColors& colors = *reinterpret_cast<TileColors*>(block.shared + sizeof(ChannelBias));
  const Tile tile = tile_of(block, args);
  compute_channel_bias(block, args, channel_bias);
  block.sync_phase([&](u32 x, u32 y) {
    const WindowPlanes planes = window_planes(args);
    Components pixel = black(args);
    i32 coverage = 0;
    if (args.placement != NO_WARP) {
      if (tile.x + x < args.canvas[0] && tile.y + y < args.canvas[1]) coverage = warped(args, planes, tile.x + x, tile.y + y, pixel);
    } else if (x - tile.left < tile.column_count && y - tile.top < tile.row_count) {
      const u32 column = tile.first_column + x - tile.left, row = tile.first_row + y - tile.top;
#pragma unroll
      for (u32 c = 0; c < 3; ++c) {
        if (c < args.component_count) pixel.values[c] = planes.value(c, column, row);
      }
      coverage = FULL_COVERAGE;
    }
    color(args, channel_bias.bias, channel_bias.fill, pixel, coverage, colors, y * TILE_WIDTH + x);
  });
  store_tile(block, args, tile, colors);
}

// Four codes per thread: of one channel, or of interleaved channels.
inline void expand(Block& block, const ExpandArgs& args) {
  block.sync_phase([&](u32 x, u32 y) {
    const u64 first = 4 * (static_cast<u64>(block.x) * TILE + y * TILE_WIDTH + x);
    if (first >= args.plane) return;
    for (u32 plane = block.y; plane < args.planes; plane += args.plane_step) {
      u32 channel = args.interleaved ? static_cast<u32>(first % args.channels) : plane % args.channels;
      const u64 begin = plane * args.plane + first;
      const u32 count = static_cast<u32>(args.plane - first < 4 ? args.plane - first : 4);
      const bool whole = args.aligned && count == 4;
      const u32 codes = whole ? load_word(at<u8>(args.codes + begin)) : 0;
      u32 elements[4];
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        if (i < count) {
          const u32 code = whole ? codes >> (8 * i) & 255u : load(at<u8>(args.codes + begin + i));
          elements[i] = element_of_u8(args.elements, args.dtype, args.first_channel + channel, code);
          if (args.interleaved) channel = channel + 1 == args.channels ? 0 : channel + 1;
        }
      }
      if (whole && args.dtype == DTYPE_F32) {
        store_words(args.out + 4 * begin, elements[0], elements[1], elements[2], elements[3]);
      } else if (whole && args.dtype != DTYPE_U8) {
        store_words(args.out + 2 * begin, elements[0] | elements[1] << 16, elements[2] | elements[3] << 16);
      } else {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
          if (i < count) store_element(args.out, args.dtype, static_cast<i64>(begin + i), elements[i]);
        }
      }
    }
  });
}

KERNEL(framespool_pixels, PixelArgs, pixels)
KERNEL(framespool_window, PixelArgs, window)
KERNEL(framespool_finish, PixelArgs, finish)
KERNEL(framespool_expand, ExpandArgs, expand)
KERNEL(framespool_rgb_operation, OperationArgs, rgb_operation)
KERNEL(framespool_deinterlace, DeinterlaceArgs, deinterlace)
