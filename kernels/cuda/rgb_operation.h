// Operations on the R, G, B codes of a complete frame (SPEC.md, "Operations on codes"). Planes have no gaps between rows or planes.

#pragma once

#include "args.h"
#include "arithmetic.h"
#include "block.h"

const i32 HUE_SECTOR = 1 << 16;

inline u64 pixel_count(const OperationArgs& args) { return static_cast<u64>(args.width) * args.height; }

inline i32 code_at(const OperationArgs& args, u32 channel, u32 x, u32 y) {
  return load(at<u8>(args.source) + channel * pixel_count(args) + static_cast<u64>(y) * args.width + x);
}

// Position in 0..length of a position up to length - 1 outside, reflected at the edge.
inline u32 reflected(i32 position, u32 length) {
  const i32 last = static_cast<i32>(length) - 1, inside = position < 0 ? -position : position;
  return static_cast<u32>(inside > last ? 2 * last - inside : inside);
}

inline i32 max_i32(i32 a, i32 b) { return a > b ? a : b; }
inline i32 min_i32(i32 a, i32 b) { return a < b ? a : b; }

inline i32 hue_channel(i32 hue, i32 offset, i32 value, i32 chroma) {
  i32 turned = hue + offset * HUE_SECTOR;
  if (turned >= 12 * HUE_SECTOR) {
    turned -= 12 * HUE_SECTOR;
  } else if (turned >= 6 * HUE_SECTOR) {
    turned -= 6 * HUE_SECTOR;
  }
  const i32 below = max_i32(0, min_i32(HUE_SECTOR, min_i32(turned, 4 * HUE_SECTOR - turned)));
  return value - ((chroma * below + HUE_SECTOR / 2) >> 16);
}

// The quotient is a division of two floats, which is rounded in the same way everywhere.
inline void rotate_hue(const OperationArgs& args, i32* codes) {
  const i32 red = codes[0], green = codes[1], blue = codes[2];
  const i32 value = max_i32(red, max_i32(green, blue));
  const i32 chroma = value - min_i32(red, min_i32(green, blue));
  i32 sector = 4, difference = red - green;
  if (value == red) {
    sector = 0;
    difference = green - blue;
  } else if (value == green) {
    sector = 2;
    difference = blue - red;
  }
  const float part = static_cast<float>(difference * HUE_SECTOR) / static_cast<float>(max_i32(chroma, 1));
  const i32 hue = sector * HUE_SECTOR + static_cast<i32>(part) + args.amount;
  codes[0] = hue_channel(hue, 5, value, chroma);
  codes[1] = hue_channel(hue, 3, value, chroma);
  codes[2] = hue_channel(hue, 1, value, chroma);
}

inline i32 sharpened(const OperationArgs& args, u32 channel, u32 x, u32 y) {
  const i32 code = code_at(args, channel, x, y);
  if (x == 0 || y == 0 || x + 1 >= args.width || y + 1 >= args.height) return code;
  u32 sum = 4 * static_cast<u32>(code);
  for (u32 row = y - 1; row <= y + 1; ++row) {
    for (u32 column = x - 1; column <= x + 1; ++column) sum += static_cast<u32>(code_at(args, channel, column, row));
  }
  const i32 smooth = static_cast<i32>(((sum + 6) * 80660) >> 20);
  return max_i32(0, min_i32(255, (code * 65536 + args.amount * (smooth - code)) >> 16));
}

// Sums of codes along a row, with 8 fraction bits.
inline u32 blurred_in_row(const OperationArgs& args, u32 channel, u32 x, u32 y) {
  u32 sum = 1u << 7;
  for (u32 tap = 0; tap < args.taps; ++tap) {
    const i32 column = static_cast<i32>(x + tap) - static_cast<i32>(args.taps / 2);
    sum += load(at<u32>(args.table) + tap) * static_cast<u32>(code_at(args, channel, reflected(column, args.width), y));
  }
  return sum >> 8;
}

inline u32 blurred_in_column(const OperationArgs& args, u32 channel, u32 x, u32 y) {
  const u16* plane = at<u16>(args.source) + channel * pixel_count(args);
  u32 sum = 1u << 23;
  for (u32 tap = 0; tap < args.taps; ++tap) {
    const u64 row = reflected(static_cast<i32>(y + tap) - static_cast<i32>(args.taps / 2), args.height);
    sum += load(at<u32>(args.table) + tap) * static_cast<u32>(load(plane + row * args.width + x));
  }
  return sum >> 24;
}

inline u64 count_of(const OperationArgs& args, u32 channel, u32 code) {
  return load(at<u64>(args.histogram) + 256 * channel + code);
}

// Entry `code` of the table that a histogram gives.
inline u32 histogram_entry(const OperationArgs& args, u32 channel, u32 code) {
  u32 low = 256, high = 0;
  u64 below = 0;
  for (u32 other = 0; other < 256; ++other) {
    const u64 count = count_of(args, channel, other);
    if (count == 0) continue;
    low = min_u32(low, other);
    high = other;
    if (other < code) below += count;
  }
  if (args.operation == OPERATION_AUTOCONTRAST_TABLE) {
    if (low >= high) return code;
    return (max_u32(low, min_u32(high, code)) - low) * 255 / (high - low);
  }
  const u64 step = (pixel_count(args) - count_of(args, channel, high)) / 255;
  if (step == 0) return code;
  const u64 entry = (below + step / 2) / step;
  return static_cast<u32>(entry < 255 ? entry : 255);
}

// Adds the codes of a tile to the histogram: thread n counts code n.
inline void add_to_histogram(Block& block, const OperationArgs& args) {
  u16* codes = reinterpret_cast<u16*>(block.shared);
  block.sync_phase([&](u32 x, u32 y) {
    const u32 column = block.x * TILE_WIDTH + x, row = block.y * TILE_HEIGHT + y;
    const bool inside = column < args.width && row < args.height;
    for (u32 c = 0; c < 3; ++c) {
      codes[c * TILE + y * TILE_WIDTH + x] = static_cast<u16>(inside ? code_at(args, c, column, row) : 256);
    }
  });
  block.sync_phase([&](u32 x, u32 y) {
    const u32 code = y * TILE_WIDTH + x;
    for (u32 c = 0; c < 3; ++c) {
      u32 count = 0;
      for (u32 i = 0; i < TILE; ++i) count += codes[c * TILE + i] == code ? 1 : 0;
      if (count > 0) add_to(args.histogram + 8 * (256 * c + code), count);
    }
  });
}

inline void rgb_operation(Block& block, const OperationArgs& args) {
  if (args.operation == OPERATION_HISTOGRAM) return add_to_histogram(block, args);
  block.sync_phase([&](u32 x, u32 y) {
    if (args.operation >= OPERATION_AUTOCONTRAST_TABLE) {
      const u32 code = y * TILE_WIDTH + x;
      for (u32 c = 0; c < 3; ++c) store(args.out + 256 * c + code, static_cast<u8>(histogram_entry(args, c, code)));
      return;
    }
    const u32 column = block.x * TILE_WIDTH + x, row = block.y * TILE_HEIGHT + y;
    if (column >= args.width || row >= args.height) return;
    const u64 place = static_cast<u64>(row) * args.width + column;
    i32 codes[3];
    for (u32 c = 0; c < 3; ++c) {
      switch (args.operation) {
        case OPERATION_TABLE:
          codes[c] = load(at<u8>(args.table) + args.channel_step * c + code_at(args, c, column, row));
          break;
        case OPERATION_SHARPNESS: codes[c] = sharpened(args, c, column, row); break;
        case OPERATION_BLUR_ROWS: codes[c] = static_cast<i32>(blurred_in_row(args, c, column, row)); break;
        case OPERATION_BLUR_COLUMNS: codes[c] = static_cast<i32>(blurred_in_column(args, c, column, row)); break;
        default: codes[c] = code_at(args, c, column, row);
      }
    }
    if (args.operation == OPERATION_HUE) rotate_hue(args, codes);
    for (u32 c = 0; c < 3; ++c) {
      const u64 element = c * pixel_count(args) + place;
      if (args.operation == OPERATION_BLUR_ROWS) {
        store(args.out + 2 * element, static_cast<u16>(codes[c]));
      } else {
        store(args.out + element, static_cast<u8>(codes[c]));
      }
    }
  });
}
