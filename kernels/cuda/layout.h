// In: the structs of args.h. Out: a compile error where the host lays one out otherwise. Never: edited by hand: the test in
// ../src/device/args.rs prints what belongs here.

#pragma once

#include "args.h"

#ifdef __CUDACC_RTC__
// NVRTC has no offsetof. It compiles the same declarations, by the same rules, and checks their sizes.
#define FIELD_IS_AT(type, field, bytes)
#else
#define FIELD_IS_AT(type, field, bytes) \
  static_assert(__builtin_offsetof(type, field) == bytes, "the host puts " #type "." #field " elsewhere")
#endif
#define SIZE_IS(type, bytes) static_assert(sizeof(type) == bytes, "the host makes " #type " of another size")

SIZE_IS(Span, 8);
FIELD_IS_AT(Span, start, 0);
FIELD_IS_AT(Span, count, 4);
SIZE_IS(Axis, 24);
FIELD_IS_AT(Axis, spans, 0);
FIELD_IS_AT(Axis, weights, 8);
FIELD_IS_AT(Axis, taps, 16);
FIELD_IS_AT(Axis, positions, 20);
SIZE_IS(Sheet, 64);
FIELD_IS_AT(Sheet, address, 0);
FIELD_IS_AT(Sheet, stride_bytes, 8);
FIELD_IS_AT(Sheet, first, 16);
FIELD_IS_AT(Sheet, components, 20);
FIELD_IS_AT(Sheet, offsets, 24);
FIELD_IS_AT(Sheet, step, 36);
FIELD_IS_AT(Sheet, row_samples, 40);
FIELD_IS_AT(Sheet, grid, 44);
FIELD_IS_AT(Sheet, chunk, 48);
FIELD_IS_AT(Sheet, pitch, 52);
FIELD_IS_AT(Sheet, aligned, 56);
FIELD_IS_AT(Sheet, unused, 60);
SIZE_IS(Mask, 80);
FIELD_IS_AT(Mask, limit, 0);
FIELD_IS_AT(Mask, key, 8);
FIELD_IS_AT(Mask, area, 16);
FIELD_IS_AT(Mask, paint, 20);
FIELD_IS_AT(Mask, rect, 24);
FIELD_IS_AT(Mask, step_x, 40);
FIELD_IS_AT(Mask, step_y, 48);
FIELD_IS_AT(Mask, start, 56);
FIELD_IS_AT(Mask, elements, 64);
FIELD_IS_AT(Mask, unused, 76);
SIZE_IS(Tone, 128);
FIELD_IS_AT(Tone, light, 0);
FIELD_IS_AT(Tone, gain, 8);
FIELD_IS_AT(Tone, code, 16);
FIELD_IS_AT(Tone, factors, 24);
FIELD_IS_AT(Tone, zero, 60);
FIELD_IS_AT(Tone, shift, 72);
FIELD_IS_AT(Tone, weights, 76);
FIELD_IS_AT(Tone, gamut, 88);
FIELD_IS_AT(Tone, unused, 124);
SIZE_IS(PixelArgs, 936);
FIELD_IS_AT(PixelArgs, sheets, 0);
FIELD_IS_AT(PixelArgs, columns, 192);
FIELD_IS_AT(PixelArgs, rows, 240);
FIELD_IS_AT(PixelArgs, sums, 288);
FIELD_IS_AT(PixelArgs, components, 296);
FIELD_IS_AT(PixelArgs, slot, 304);
FIELD_IS_AT(PixelArgs, elements, 312);
FIELD_IS_AT(PixelArgs, masks, 320);
FIELD_IS_AT(PixelArgs, tone, 328);
FIELD_IS_AT(PixelArgs, origin, 456);
FIELD_IS_AT(PixelArgs, step_i, 464);
FIELD_IS_AT(PixelArgs, step_j, 472);
FIELD_IS_AT(PixelArgs, channel_stride, 480);
FIELD_IS_AT(PixelArgs, to_x, 488);
FIELD_IS_AT(PixelArgs, to_y, 512);
FIELD_IS_AT(PixelArgs, bias_constant, 536);
FIELD_IS_AT(PixelArgs, fill_constant, 560);
FIELD_IS_AT(PixelArgs, bias_of_mean, 584);
FIELD_IS_AT(PixelArgs, fill_of_mean, 656);
FIELD_IS_AT(PixelArgs, factors, 728);
FIELD_IS_AT(PixelArgs, zero, 764);
FIELD_IS_AT(PixelArgs, bias, 776);
FIELD_IS_AT(PixelArgs, fill, 788);
FIELD_IS_AT(PixelArgs, color_shift, 800);
FIELD_IS_AT(PixelArgs, sheet_count, 804);
FIELD_IS_AT(PixelArgs, component_count, 808);
FIELD_IS_AT(PixelArgs, depth_bits, 812);
FIELD_IS_AT(PixelArgs, word_shift, 816);
FIELD_IS_AT(PixelArgs, single, 820);
FIELD_IS_AT(PixelArgs, needs_mean, 824);
FIELD_IS_AT(PixelArgs, place, 828);
FIELD_IS_AT(PixelArgs, window, 832);
FIELD_IS_AT(PixelArgs, canvas, 840);
FIELD_IS_AT(PixelArgs, corner, 848);
FIELD_IS_AT(PixelArgs, show_x, 856);
FIELD_IS_AT(PixelArgs, show_y, 868);
FIELD_IS_AT(PixelArgs, output_width, 880);
FIELD_IS_AT(PixelArgs, channels, 884);
FIELD_IS_AT(PixelArgs, dtype, 888);
FIELD_IS_AT(PixelArgs, order, 892);
FIELD_IS_AT(PixelArgs, mask_count, 896);
FIELD_IS_AT(PixelArgs, held_bytes, 900);
FIELD_IS_AT(PixelArgs, wide_scale, 904);
FIELD_IS_AT(PixelArgs, wide_bias, 916);
FIELD_IS_AT(PixelArgs, wide, 928);
FIELD_IS_AT(PixelArgs, maps_tone, 932);
SIZE_IS(ExpandArgs, 64);
FIELD_IS_AT(ExpandArgs, codes, 0);
FIELD_IS_AT(ExpandArgs, out, 8);
FIELD_IS_AT(ExpandArgs, elements, 16);
FIELD_IS_AT(ExpandArgs, plane, 24);
FIELD_IS_AT(ExpandArgs, planes, 32);
FIELD_IS_AT(ExpandArgs, plane_step, 36);
FIELD_IS_AT(ExpandArgs, channels, 40);
FIELD_IS_AT(ExpandArgs, first_channel, 44);
FIELD_IS_AT(ExpandArgs, take_turns, 48);
FIELD_IS_AT(ExpandArgs, dtype, 52);
FIELD_IS_AT(ExpandArgs, aligned, 56);
FIELD_IS_AT(ExpandArgs, unused, 60);
