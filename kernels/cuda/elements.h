// Stores the colors of a tile as elements in the slot: masks, dtype and layout (SPEC.md, steps 6 and 7).
// Elements of 8-bit colors come from the host's table.

#pragma once

#include "args.h"
#include "arithmetic.h"
#include "block.h"
#include "color.h"
#include "resample.h"

inline u32 element_of_u8(u64 elements, u32 dtype, u32 channel, u32 code) {
  const u32 n = 256 * channel + code;
  if (dtype == DTYPE_U8) return code;
  if (dtype == DTYPE_F32) return load(at<u32>(elements) + n);
  return load(at<u16>(elements) + n);
}

inline u32 element_of_u16(const PixelArgs& args, u32 channel, u32 color) {
  if (args.dtype == DTYPE_U16) return color;
  const float value = fused(static_cast<float>(color), args.scale_u16[channel], args.bias_u16[channel]);
  if (args.dtype == DTYPE_F16) return float_to_half_bits(value);
  if (args.dtype == DTYPE_BF16) return float_to_bfloat16_bits(value);
  return float_to_bits(value);
}

inline void store_element(u64 slot, u32 dtype, i64 place, u32 element) {
  if (dtype == DTYPE_U8) {
    store(slot + place, static_cast<u8>(element));
  } else if (dtype == DTYPE_F32) {
    store(slot + 4 * place, element);
  } else {
    store(slot + 2 * place, static_cast<u16>(element));
  }
}

inline bool contains(const MaskArgs& mask, u32 x, u32 y) {
  if (mask.region == MASK_REGION_RECT) return x >= mask.rect[0] && y >= mask.rect[1] && x < mask.rect[2] && y < mask.rect[3];
  const u32 px = mask.step_x[0] * x + mask.step_x[1] * y + mask.start[0];
  const u32 py = mask.step_y[0] * x + mask.step_y[1] * y + mask.start[1];
  return px < mask.limit && py < mask.limit;
}

// The element of displayed pixel (x, y) before or after masks: the last mask that contains it applies.
inline u32 masked_element(const PixelArgs& args, u32 x, u32 y, u32 channel, u32 code) {
  for (u32 m = args.mask_count; m-- > 0;) {
    const MaskArgs& mask = at<MaskArgs>(args.masks)[m];
    if (contains(mask, x, y)) {
      if (mask.fill == MASK_FILL_CONSTANT) return mask.elements[channel];
      const u64 pixel = static_cast<u64>(y) * args.output_width + x;
      return noise_element(args.dtype, splitmix64(mask.key, 3 * pixel + channel));
    }
  }
  if (args.use_u16) return element_of_u16(args, channel, code);
  return element_of_u8(args.elements, args.dtype, channel, code);
}

// Stores a tile that is completely inside the canvas in words of four codes, at most one word per thread.
inline void store_tile_words(Block& block, const PixelArgs& args, const Tile& tile, const TileColors& colors) {
  const u64 corner = args.slot + static_cast<u64>(args.origin + tile.x * args.step_i + tile.y * args.step_j);
  block.sync_phase([&](u32 x, u32 y) {
    const u32 n = y * TILE_WIDTH + x;
    if (n >= TILE / 4 * args.channels) return;
    if (args.order & WORDS_INTERLEAVED) {
      const u32 in_row = 3 * TILE_WIDTH / 4;
      const u32 row = n / in_row, first = n % in_row * 4;
      u32 word = 0;
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        word |= static_cast<u32>(colors.values[(first + i) % 3][row * TILE_WIDTH + (first + i) / 3]) << (8 * i);
      }
      store(corner + static_cast<u64>(row * args.step_j + first), word);
    } else {
      const u32 in_row = TILE_WIDTH / 4;
      const u32 channel = n / (TILE / 4), row = n / in_row % TILE_HEIGHT, first = n % in_row * 4;
      const u16* four = colors.values[channel] + row * TILE_WIDTH + first;
      const u32 word = static_cast<u32>(four[0] | four[1] << 8 | four[2] << 16) | static_cast<u32>(four[3]) << 24;
      store(corner + static_cast<u64>(channel * args.channel_stride + row * args.step_j + first), word);
    }
  });
}

// Stores a tile element by element, in memory order.
inline void store_tile(Block& block, const PixelArgs& args, const Tile& tile, const TileColors& colors) {
  const bool whole = tile.x + TILE_WIDTH <= args.canvas[0] && tile.y + TILE_HEIGHT <= args.canvas[1];
  if (whole && args.order & (WORDS_INTERLEAVED | WORDS_PLANAR)) return store_tile_words(block, args, tile, colors);
  block.sync_phase([&](u32 thread_x, u32 thread_y) {
    const bool single = args.channels == 1;
    for (u32 n = thread_y * TILE_WIDTH + thread_x; n < TILE * args.channels; n += TILE) {
      u32 channel = 0, pixel = n;
      if (!single) {
        channel = args.order & CHANNELS_FIRST ? n % 3 : n / TILE;
        pixel = args.order & CHANNELS_FIRST ? n / 3 : n % TILE;
      }
      const u32 column = args.order & ROWS_FIRST ? pixel / TILE_HEIGHT : pixel % TILE_WIDTH;
      const u32 row = args.order & ROWS_FIRST ? pixel % TILE_HEIGHT : pixel / TILE_WIDTH;
      const u32 i = tile.x + column, j = tile.y + row;
      if (i >= args.canvas[0] || j >= args.canvas[1]) continue;
      const u32 code = colors.values[channel][row * TILE_WIDTH + column];
      // Sides have 16 bits, so these fit.
      const i32 ii = static_cast<i32>(i), jj = static_cast<i32>(j);
      const u32 x = static_cast<u32>(args.display_x[0] * ii + args.display_x[1] * jj + args.display_x[2]);
      const u32 y = static_cast<u32>(args.display_y[0] * ii + args.display_y[1] * jj + args.display_y[2]);
      const i64 place = args.origin + i * args.step_i + j * args.step_j + channel * args.channel_stride;
      store_element(args.slot, args.dtype, place, masked_element(args, x, y, channel, code));
    }
  });
}
