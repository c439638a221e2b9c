#include "core/base/idioms.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace outsize {
namespace {

Idioms of(std::string_view name) { return idioms_of(idiom_class_named(name)); }

// Table V of the paper, a member of each of its rows.
TEST(Idioms, RowsOfThePaper) {
  EXPECT_EQ(of("aten::relu_"), (Idioms{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(of("aten::add_.Tensor"), (Idioms{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(of("aten::cat"), (Idioms{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(of("aten::transpose.int"), (Idioms{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(of("aten::convolution"), (Idioms{0, 1, 0, 1, 1, 2}));
  EXPECT_EQ(of("aten::fbgemm_linear_int8_weight"), (Idioms{0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(of("aten::convolution_mode"), (Idioms{0, 1, 0, 1, 2, 2}));
  EXPECT_EQ(of("aten::avg_pool1d"), (Idioms{0, 0, 0, 1, 0, 1}));
  EXPECT_EQ(of("aten::conv2d"), (Idioms{0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(of("aten::quantized_batch_norm"), (Idioms{0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(of("aten::conv_tbc_backward"), (Idioms{1, 1, 0, 1, 1, 2}));
  EXPECT_EQ(of("aten::cudnn_batch_norm"), (Idioms{0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(of("aten::conv_transpose2d"), (Idioms{1, 1, 0, 1, 2, 2}));
  EXPECT_EQ(of("aten::max_pool2d_with_indices"), (Idioms{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(of("aten::mkldnn_convolution"), (Idioms{0, 1, 0, 1, 2, 2}));
  EXPECT_EQ(of("aten::max_pool3d"), (Idioms{0, 0, 0, 1, 0, 1}));
  EXPECT_EQ(of("aten::cudnn_convolution_relu"), (Idioms{0, 1, 0, 1, 3, 2}));
  EXPECT_EQ(of("aten::cudnn_convolution_add_relu"), (Idioms{0, 1, 0, 2, 3, 2}));
  EXPECT_EQ(of("aten::elu"), (Idioms{0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(of("aten::gather_backward"), (Idioms{0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(of("aten::embedding_backward"), (Idioms{0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(of("aten::slow_conv_transpose2d"), (Idioms{1, 1, 0, 1, 2, 2}));
  EXPECT_EQ(of("aten::nll_loss_backward"), (Idioms{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(of("aten::thnn_conv2d"), (Idioms{0, 1, 0, 1, 3, 2}));
  EXPECT_EQ(of("aten::gelu_backward"), (Idioms{0, 0, 0, 1, 1, 0}));
  EXPECT_EQ(of("aten::thnn_conv_depthwise2d"), (Idioms{1, 1, 0, 1, 3, 2}));
  EXPECT_EQ(of("aten::mse_loss_backward"), (Idioms{0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(of("aten::l1_loss_backward"), (Idioms{0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(of("aten::slow_conv3d"), (Idioms{0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(of("aten::slow_conv_dilated2d"), (Idioms{0, 1, 0, 1, 2, 2}));
  EXPECT_EQ(of("aten::im2col_backward"), (Idioms{1, 0, 0, 1, 1, 1}));
}

TEST(Idioms, NumbersStay) {  // traces hold them
  EXPECT_EQ(idiom_class_named("aten::add.Tensor"), 1);
  EXPECT_EQ(idiom_class_named("aten::unfold"), 20);
  EXPECT_EQ(idiom_class_named("aten::mm"), 21);
  EXPECT_EQ(idiom_class_named("aten::_softmax"), 23);
  EXPECT_EQ(idiom_class_named("aten::embedding"), 29);
  EXPECT_EQ(idiom_class_named("aten::_fused_adamw_"), 40);
  EXPECT_EQ(idiom_class_named("aten::native_dropout_backward"), 41);
  EXPECT_EQ(idiom_class_named("aten::bmm"), 42);
  EXPECT_EQ(idiom_classes(), 43U);
  EXPECT_LT(idiom_classes(), kIdiomClassesMax);
}

TEST(Idioms, FormsOfAnOpAreOne) {
  const IdiomClass mm = idiom_class_named("aten::mm");
  EXPECT_NE(mm, kNoIdiomClass);
  for (const char* const name : {"aten::mm.out", "mm", "mine::mm", "aten::mm [8x8], [8x8] (3 tensors) (backward)"}) {
    EXPECT_EQ(idiom_class_named(name), mm) << name;
  }
  EXPECT_EQ(idiom_class_named("aten::_foreach_sqrt_"), idiom_class_named("aten::sqrt"));
  EXPECT_EQ(idiom_class_named("aten::_scaled_dot_product_flash_attention_for_cpu"), idiom_class_named("aten::_flash_attention_forward"));
  EXPECT_EQ(idiom_class_named("aten::_scaled_dot_product_flash_attention_for_cpu_backward"),
            idiom_class_named("aten::_flash_attention_backward"));
}

TEST(Idioms, WhatNobodyKnowsIsUnknown) {
  for (const char* const name : {"", "::", "aten::", "_", "_out", "aten::nothing_of_the_kind", "profiler::_record_function_enter_new"}) {
    EXPECT_EQ(idiom_class_named(name), kNoIdiomClass) << name;
  }
  EXPECT_EQ(idioms_of(255), Idioms{});
  EXPECT_EQ(mark_of(255), BaseType::kPlain);
}

TEST(Idioms, RowsAreDistinct) {
  std::set<std::pair<Idioms, BaseType>> seen;
  for (IdiomClass row = 1; row < idiom_classes(); ++row) {
    EXPECT_TRUE(seen.emplace(idioms_of(row), mark_of(row)).second) << static_cast<int>(row);
  }
}

TEST(Idioms, SomeSayWhatKindOfNetworkHasThem) {
  EXPECT_EQ(mark_of(idiom_class_named("aten::mkldnn_convolution")), BaseType::kConvolution);
  EXPECT_EQ(mark_of(idiom_class_named("aten::mkldnn_rnn_layer")), BaseType::kRecurrent);
  EXPECT_EQ(mark_of(idiom_class_named("aten::_scaled_dot_product_flash_attention")), BaseType::kAttention);
  EXPECT_EQ(mark_of(idiom_class_named("aten::bmm")), BaseType::kAttention);
  EXPECT_EQ(mark_of(idiom_class_named("aten::mm")), BaseType::kPlain);
  EXPECT_STREQ(to_string(BaseType::kRecurrent), "recurrent");
}

TEST(Idioms, ANetworkIsWhatMostOfTheTimeOfSuchOpsSays) {
  BaseTypeScale scale;
  EXPECT_EQ(scale.type(), BaseType::kPlain);
  scale.weigh(BaseType::kPlain, 1000);
  EXPECT_EQ(scale.type(), BaseType::kPlain);
  scale.weigh(BaseType::kAttention, 19);
  EXPECT_EQ(scale.type(), BaseType::kPlain) << "less than a fiftieth is chance";
  scale.weigh(BaseType::kAttention, 2);
  EXPECT_EQ(scale.type(), BaseType::kAttention);
  scale.weigh(BaseType::kConvolution, 30);
  EXPECT_EQ(scale.type(), BaseType::kConvolution);
  EXPECT_EQ(scale.time(BaseType::kAttention), 21);
}

TEST(Idioms, AClassIsPartOfASite) {
  const SiteId site = with_idiom_class(0xffffffffffffffffULL, 5);
  EXPECT_EQ(idiom_class_of(site), 5);
  EXPECT_EQ(kind_of(site), 0xfffffU);
  EXPECT_EQ(with_idiom_class(site, 63), 0xffffffffffffffffULL);
}

}  // namespace
}  // namespace outsize
