#include "sim/uvm/blocks.h"

#include <gtest/gtest.h>

namespace outsize::sim::uvm {
namespace {

TEST(UvmBlocks, TheLeavesOfARange) {
  EXPECT_EQ(leaves_in(0, 0, 1), 1U);
  EXPECT_EQ(leaves_in(0, kLeafBytes - 1, kLeafBytes + 1), 3U);
  EXPECT_EQ(leaves_in(0, kBlockBytes - 1, kBlockBytes + 1), 0x80000000U);
  EXPECT_EQ(leaves_in(1, kBlockBytes - 1, kBlockBytes + 1), 1U);
  EXPECT_EQ(leaves_in(1, 0, 3 * kBlockBytes), kAllLeaves);
  EXPECT_EQ(leaf_of(5 * kBlockBytes + 3 * kLeafBytes + 7), 8U);
}

TEST(UvmTreePrefetcher, ALoneFaultBringsItsLeaf) {
  EXPECT_EQ(brought(0, 1U << 9), 1U << 9);
  EXPECT_EQ(brought(0xf0, 0), 0U);
}

TEST(UvmTreePrefetcher, MoreThanHalfBringsTheSubtreeHalfDoesNot) {
  EXPECT_EQ(brought(0, 0b0101), 0b0101U) << "2 of 4";
  EXPECT_EQ(brought(0, 0b0111), 0b1111U) << "3 of 4";
  EXPECT_EQ(brought(0b0001'1110, 0b0000'0001), 0b1110'0001U) << "5 of 8, four of which were there";
  EXPECT_EQ(brought(0x7fff, 1U << 15), 1U << 15) << "16 of 32";
  EXPECT_EQ(brought(0xffff, 1U << 16), 0xffff0000U) << "17 of 32: the whole block";
}

TEST(UvmTreePrefetcher, WhatComesUnaskedDoesNotCount) {
  EXPECT_EQ(brought(0b0001'0000, 0b0000'0111), 0b0000'1111U) << "4 of 8, though 5 will be there";
}

TEST(UvmTreePrefetcher, SubtreesAroundDifferentFaultsAreTheirOwn) {
  EXPECT_EQ(brought(0, 0x0001'0007), 0x0001'000fU);
  EXPECT_EQ(brought(0x007f'0000, 0x0100'0001), 0x0100'0001U) << "8 of 16";
  EXPECT_EQ(brought(0x00ff'0000, 0x0100'0001), 0xff00'0001U) << "9 of 16";
}

}  // namespace
}  // namespace outsize::sim::uvm
