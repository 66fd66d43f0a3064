// In: the colors of a tile. Out: its elements in the slot, masked, in the slot's dtype and layout (CONTRACT.md, steps 6 and 7).
// Never: computes the element of an 8-bit color: the host's table has it.

#pragma once

#include "args.h"
#include "arithmetic.h"
#include "block.h"
#include "color.h"
#include "resample.h"

inline u32 element_of_code(u64 elements, u32 dtype, u32 channel, u32 code) {
  const u32 n = 256 * channel + code;
  if (dtype == CODES) return code;
  if (dtype == FLOAT) return load(at<u32>(elements) + n);
  return load(at<u16>(elements) + n);
}

inline u32 element_of_wide(const PixelArgs& args, u32 channel, u32 color) {
  if (args.dtype == WORDS) return color;
  const float value = fused(static_cast<float>(color), args.wide_scale[channel], args.wide_bias[channel]);
  if (args.dtype == HALF) return half_of(value);
  if (args.dtype == BFLOAT) return bfloat_of(value);
  return bits_of(value);
}

inline void store_element(u64 slot, u32 dtype, i64 place, u32 element) {
  if (dtype == CODES) {
    store(slot + place, static_cast<u8>(element));
  } else if (dtype == FLOAT) {
    store(slot + 4 * place, element);
  } else {
    store(slot + 2 * place, static_cast<u16>(element));
  }
}

inline bool covers(const Mask& mask, u32 x, u32 y) {
  if (mask.area == HOLE) return x >= mask.rect[0] && y >= mask.rect[1] && x < mask.rect[2] && y < mask.rect[3];
  const u32 px = mask.step_x[0] * x + mask.step_x[1] * y + mask.start[0];
  const u32 py = mask.step_y[0] * x + mask.step_y[1] * y + mask.start[1];
  return px < mask.limit && py < mask.limit;
}

// The element of displayed pixel (x, y) before or behind masks: the last one over it counts.
inline u32 masked(const PixelArgs& args, u32 x, u32 y, u32 channel, u32 code) {
  for (u32 m = args.mask_count; m-- > 0;) {
    const Mask& mask = at<Mask>(args.masks)[m];
    if (covers(mask, x, y)) {
      if (mask.paint == FLAT) return mask.elements[channel];
      const u64 pixel = static_cast<u64>(y) * args.output_width + x;
      return noise_element(args.dtype, random_at(mask.key, 3 * pixel + channel));
    }
  }
  if (args.wide) return element_of_wide(args, channel, code);
  return element_of_code(args.elements, args.dtype, channel, code);
}

// Stores a tile that lies in the canvas as a whole in words of four codes, one by each thread at most.
inline void store_words_of(Block& block, const PixelArgs& args, const Tile& tile, const Codes& codes) {
  const u64 corner = args.slot + static_cast<u64>(args.origin + tile.x * args.step_i + tile.y * args.step_j);
  block.phase([&](u32 x, u32 y) {
    const u32 n = y * TILE_WIDTH + x;
    if (n >= TILE / 4 * args.channels) return;
    if (args.order & WORDS_SIDE_BY_SIDE) {
      const u32 in_row = 3 * TILE_WIDTH / 4;
      const u32 row = n / in_row, first = n % in_row * 4;
      u32 word = 0;
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        word |= static_cast<u32>(codes.codes[(first + i) % 3][row * TILE_WIDTH + (first + i) / 3]) << (8 * i);
      }
      store(corner + static_cast<u64>(row * args.step_j + first), word);
    } else {
      const u32 in_row = TILE_WIDTH / 4;
      const u32 channel = n / (TILE / 4), row = n / in_row % TILE_HEIGHT, first = n % in_row * 4;
      const u16* four = codes.codes[channel] + row * TILE_WIDTH + first;
      const u32 word = static_cast<u32>(four[0] | four[1] << 8 | four[2] << 16) | static_cast<u32>(four[3]) << 24;
      store(corner + static_cast<u64>(channel * args.channel_stride + row * args.step_j + first), word);
    }
  });
}

// Stores a tile, element after element in the order in which they lie.
inline void store_tile(Block& block, const PixelArgs& args, const Tile& tile, const Codes& codes) {
  const bool whole = tile.x + TILE_WIDTH <= args.canvas[0] && tile.y + TILE_HEIGHT <= args.canvas[1];
  if (whole && args.order & (WORDS_SIDE_BY_SIDE | WORDS_BY_CHANNEL)) return store_words_of(block, args, tile, codes);
  block.phase([&](u32 thread_x, u32 thread_y) {
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
      const u32 code = codes.codes[channel][row * TILE_WIDTH + column];
      // Sides have 16 bits: these fit.
      const i32 ii = static_cast<i32>(i), jj = static_cast<i32>(j);
      const u32 x = static_cast<u32>(args.show_x[0] * ii + args.show_x[1] * jj + args.show_x[2]);
      const u32 y = static_cast<u32>(args.show_y[0] * ii + args.show_y[1] * jj + args.show_y[2]);
      const i64 place = args.origin + i * args.step_i + j * args.step_j + channel * args.channel_stride;
      store_element(args.slot, args.dtype, place, masked(args, x, y, channel, code));
    }
  });
}
