#include "sim/roofline.h"

#include <gtest/gtest.h>

namespace outsize::sim {
namespace {

TEST(Roofline, CountsTheArithmeticOfWhatDominates) {
  EXPECT_EQ(flops_of("aten::mm [512x64], [64x128]", 0), 2 * 512 * 64 * 128);
  EXPECT_EQ(flops_of("aten::mm.out [512x64], [64x128] (backward)", 0), 2 * 512 * 64 * 128);
  EXPECT_EQ(flops_of("aten::addmm [128], [512x64], [64x128]", 0), 2 * 512 * 64 * 128);
  EXPECT_EQ(flops_of("aten::bmm [8x16x32], [8x32x4]", 0), 2 * 8 * 16 * 32 * 4);
  EXPECT_EQ(flops_of("aten::baddbmm [8x16x4], [8x16x32], [8x32x4]", 0), 2 * 8 * 16 * 32 * 4);
  // 3 x 3 over 16 channels, for each of 2 x 32 x 10 x 10 outputs.
  EXPECT_EQ(flops_of("aten::convolution [2x16x10x10], [32x16x3x3]", 2 * 32 * 100 * 4), 2 * 6400 * 16 * 9);
  EXPECT_EQ(flops_of("aten::mkldnn_convolution [2x16x10x10], [32x16x3x3]", 2 * 32 * 100 * 4), 2 * 6400 * 16 * 9);
  // Of the input and of the weight.
  EXPECT_EQ(flops_of("aten::convolution_backward [2x32x10x10], [2x16x10x10], [32x16x3x3]", 0), 4 * 6400 * 16 * 9);
  const std::int64_t both_products = 4LL * (2 * 12 * 256 * 64) * 256;
  EXPECT_EQ(flops_of("aten::_scaled_dot_product_flash_attention_for_cpu [2x12x256x64], [2x12x256x64], [2x12x256x64]", 0),
            both_products);
  EXPECT_EQ(flops_of("aten::_scaled_dot_product_flash_attention_for_cpu_backward [2x12x256x64], [2x12x256x64], "
                     "[2x12x256x64], [2x12x256x64]", 0),
            both_products * 5 / 2);
}

TEST(Roofline, WhatItDoesNotKnowIsBoundByItsBytes) {
  for (const char* name : {"", "aten::gelu [512x64]", "aten::mm", "aten::mm [512x64]", "aten::mm [5], [6]", "aten::mm [a], [b]",
                           "aten::mm [512x64], [64x12", "aten::convolution [2x16], [3]", "[[[]]]", "aten::bmm [], []"}) {
    EXPECT_EQ(flops_of(name, 1000), 0) << name;
  }
}

TEST(Roofline, TheLongestOfThreeCounts) {
  const Roofline device{1'000'000, 100'000, 5'000};  // 1 TFLOPS, 100 GB/s
  EXPECT_EQ(time_on(device, "aten::mm [1000x1000], [1000x1000]", 12'000'000, 4'000'000), 2'000'000);
  EXPECT_EQ(time_on(device, "aten::add [1000x1000], [1000x1000]", 12'000'000, 4'000'000), 120'000);
  EXPECT_EQ(time_on(device, "aten::add [1], [1]", 12, 4), 5'000);
}

}  // namespace
}  // namespace outsize::sim
