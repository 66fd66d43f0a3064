// Checks at compile time that the structs of args.h have the layout that the host writes. Do not edit by hand: the test in
// ../src/cuda/kernel_args.rs prints the expected content.

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

SIZE_IS(TapRange, 8);
FIELD_IS_AT(TapRange, start, 0);
FIELD_IS_AT(TapRange, count, 4);
SIZE_IS(AxisArgs, 24);
FIELD_IS_AT(AxisArgs, tap_ranges, 0);
FIELD_IS_AT(AxisArgs, weights, 8);
FIELD_IS_AT(AxisArgs, taps, 16);
FIELD_IS_AT(AxisArgs, positions, 20);
SIZE_IS(PlaneArgs, 64);
FIELD_IS_AT(PlaneArgs, address, 0);
FIELD_IS_AT(PlaneArgs, stride_bytes, 8);
FIELD_IS_AT(PlaneArgs, first, 16);
FIELD_IS_AT(PlaneArgs, components, 20);
FIELD_IS_AT(PlaneArgs, offsets, 24);
FIELD_IS_AT(PlaneArgs, step, 36);
FIELD_IS_AT(PlaneArgs, row_samples, 40);
FIELD_IS_AT(PlaneArgs, is_chroma, 44);
FIELD_IS_AT(PlaneArgs, chunk, 48);
FIELD_IS_AT(PlaneArgs, pitch, 52);
FIELD_IS_AT(PlaneArgs, aligned, 56);
FIELD_IS_AT(PlaneArgs, overshoots, 60);
SIZE_IS(MaskArgs, 80);
FIELD_IS_AT(MaskArgs, limit, 0);
FIELD_IS_AT(MaskArgs, key, 8);
FIELD_IS_AT(MaskArgs, region, 16);
FIELD_IS_AT(MaskArgs, fill, 20);
FIELD_IS_AT(MaskArgs, rect, 24);
FIELD_IS_AT(MaskArgs, step_x, 40);
FIELD_IS_AT(MaskArgs, step_y, 48);
FIELD_IS_AT(MaskArgs, start, 56);
FIELD_IS_AT(MaskArgs, elements, 64);
FIELD_IS_AT(MaskArgs, unused, 76);
SIZE_IS(ToneArgs, 128);
FIELD_IS_AT(ToneArgs, light, 0);
FIELD_IS_AT(ToneArgs, gain, 8);
FIELD_IS_AT(ToneArgs, code, 16);
FIELD_IS_AT(ToneArgs, factors, 24);
FIELD_IS_AT(ToneArgs, zero, 60);
FIELD_IS_AT(ToneArgs, shift, 72);
FIELD_IS_AT(ToneArgs, weights, 76);
FIELD_IS_AT(ToneArgs, gamut, 88);
FIELD_IS_AT(ToneArgs, unused, 124);
SIZE_IS(PixelArgs, 936);
FIELD_IS_AT(PixelArgs, planes, 0);
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
FIELD_IS_AT(PixelArgs, bias_mean_factors, 584);
FIELD_IS_AT(PixelArgs, fill_mean_factors, 656);
FIELD_IS_AT(PixelArgs, factors, 728);
FIELD_IS_AT(PixelArgs, zero, 764);
FIELD_IS_AT(PixelArgs, bias, 776);
FIELD_IS_AT(PixelArgs, fill, 788);
FIELD_IS_AT(PixelArgs, color_shift, 800);
FIELD_IS_AT(PixelArgs, plane_count, 804);
FIELD_IS_AT(PixelArgs, component_count, 808);
FIELD_IS_AT(PixelArgs, depth_bits, 812);
FIELD_IS_AT(PixelArgs, word_shift, 816);
FIELD_IS_AT(PixelArgs, single_tap, 820);
FIELD_IS_AT(PixelArgs, needs_mean, 824);
FIELD_IS_AT(PixelArgs, placement, 828);
FIELD_IS_AT(PixelArgs, window, 832);
FIELD_IS_AT(PixelArgs, canvas, 840);
FIELD_IS_AT(PixelArgs, corner, 848);
FIELD_IS_AT(PixelArgs, display_x, 856);
FIELD_IS_AT(PixelArgs, display_y, 868);
FIELD_IS_AT(PixelArgs, output_width, 880);
FIELD_IS_AT(PixelArgs, channels, 884);
FIELD_IS_AT(PixelArgs, dtype, 888);
FIELD_IS_AT(PixelArgs, order, 892);
FIELD_IS_AT(PixelArgs, mask_count, 896);
FIELD_IS_AT(PixelArgs, row_buffer_bytes, 900);
FIELD_IS_AT(PixelArgs, scale_u16, 904);
FIELD_IS_AT(PixelArgs, bias_u16, 916);
FIELD_IS_AT(PixelArgs, use_u16, 928);
FIELD_IS_AT(PixelArgs, has_tone_map, 932);
SIZE_IS(OperationArgs, 56);
FIELD_IS_AT(OperationArgs, source, 0);
FIELD_IS_AT(OperationArgs, out, 8);
FIELD_IS_AT(OperationArgs, table, 16);
FIELD_IS_AT(OperationArgs, histogram, 24);
FIELD_IS_AT(OperationArgs, operation, 32);
FIELD_IS_AT(OperationArgs, width, 36);
FIELD_IS_AT(OperationArgs, height, 40);
FIELD_IS_AT(OperationArgs, taps, 44);
FIELD_IS_AT(OperationArgs, amount, 48);
FIELD_IS_AT(OperationArgs, channel_step, 52);
SIZE_IS(DeinterlaceArgs, 64);
FIELD_IS_AT(DeinterlaceArgs, source, 0);
FIELD_IS_AT(DeinterlaceArgs, source_stride, 8);
FIELD_IS_AT(DeinterlaceArgs, out, 16);
FIELD_IS_AT(DeinterlaceArgs, out_stride, 24);
FIELD_IS_AT(DeinterlaceArgs, row_bytes, 32);
FIELD_IS_AT(DeinterlaceArgs, rows, 36);
FIELD_IS_AT(DeinterlaceArgs, first_kept, 40);
FIELD_IS_AT(DeinterlaceArgs, method, 44);
FIELD_IS_AT(DeinterlaceArgs, depth_bits, 48);
FIELD_IS_AT(DeinterlaceArgs, word_shift, 52);
FIELD_IS_AT(DeinterlaceArgs, aligned, 56);
FIELD_IS_AT(DeinterlaceArgs, unused, 60);
SIZE_IS(ExpandArgs, 64);
FIELD_IS_AT(ExpandArgs, codes, 0);
FIELD_IS_AT(ExpandArgs, out, 8);
FIELD_IS_AT(ExpandArgs, elements, 16);
FIELD_IS_AT(ExpandArgs, plane, 24);
FIELD_IS_AT(ExpandArgs, planes, 32);
FIELD_IS_AT(ExpandArgs, plane_step, 36);
FIELD_IS_AT(ExpandArgs, channels, 40);
FIELD_IS_AT(ExpandArgs, first_channel, 44);
FIELD_IS_AT(ExpandArgs, interleaved, 48);
FIELD_IS_AT(ExpandArgs, dtype, 52);
FIELD_IS_AT(ExpandArgs, aligned, 56);
FIELD_IS_AT(ExpandArgs, unused, 60);
