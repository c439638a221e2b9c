#include "core/base/idioms.h"

#include <algorithm>
#include <optional>

namespace outsize {
namespace {

struct Row {
  Idioms idioms;
  BaseType mark = BaseType::kPlain;
};

// Append only; traces hold these numbers.
enum Class : IdiomClass {
  kUnknown,
  // As in the paper's table.
  kArithmetic, kCopy, kTranspose, kConvolution, kNorm, kConvolutionOfMode, kAveragePool, kConvolutionNd, kStream,
  kQuantizedNorm, kConvolutionTbc, kConvolutionTransposed, kMaxPool, kConvolutionUnfolded, kConvolutionFused, kGatherBackward,
  kActivationBackward, kDepthwise, kConvolution3d, kUnfoldBackward,
  // Ours.
  kProduct, kProductWithBias, kSoftmax, kSoftmaxBackward, kRowNorm, kRowNormBackward, kAttention, kAttentionBackward, kLookUp,
  kScatter, kOrder, kPoolBackward, kResample, kResampleBackward, kRecurrentLayer, kRecurrentCell, kFourier, kDecomposition,
  kSgd, kAdam, kTwoStreams, kBatchedProduct,
  kClasses,
};
static_assert(kClasses < kIdiomClassesMax);

constexpr BaseType kConv = BaseType::kConvolution, kRnn = BaseType::kRecurrent, kAtt = BaseType::kAttention;

constexpr std::array<Row, kClasses> kRows = [] {
  std::array<Row, kClasses> rows{};
  rows[kArithmetic] = {{0, 1, 0, 0, 0, 0}};
  rows[kCopy] = {{0, 0, 0, 0, 0, 0}};
  rows[kTranspose] = {{1, 0, 0, 0, 0, 0}};
  rows[kConvolution] = {{0, 1, 0, 1, 1, 2}, kConv};
  rows[kNorm] = {{0, 1, 1, 1, 1, 0}};
  rows[kConvolutionOfMode] = {{0, 1, 0, 1, 2, 2}, kConv};
  rows[kAveragePool] = {{0, 0, 0, 1, 0, 1}};
  rows[kConvolutionNd] = {{0, 0, 0, 0, 1, 0}, kConv};
  rows[kStream] = {{0, 0, 0, 0, 1, 0}};
  rows[kQuantizedNorm] = {{0, 1, 0, 1, 0, 0}};
  rows[kConvolutionTbc] = {{1, 1, 0, 1, 1, 2}, kConv};
  rows[kConvolutionTransposed] = {{1, 1, 0, 1, 2, 2}, kConv};
  rows[kMaxPool] = {{0, 0, 0, 1, 0, 0}};
  rows[kConvolutionUnfolded] = {{0, 1, 0, 1, 3, 2}, kConv};
  rows[kConvolutionFused] = {{0, 1, 0, 2, 3, 2}, kConv};
  rows[kGatherBackward] = {{0, 1, 1, 1, 0, 0}};
  rows[kActivationBackward] = {{0, 0, 0, 1, 1, 0}};
  rows[kDepthwise] = {{1, 1, 0, 1, 3, 2}, kConv};
  rows[kConvolution3d] = {{0, 1, 0, 1, 2, 3}, kConv};
  rows[kUnfoldBackward] = {{1, 0, 0, 1, 1, 1}};

  rows[kProduct] = {{0, 0, 0, 1, 2, 0}};            // two operands, and sums over the inner dimension
  rows[kProductWithBias] = {{0, 0, 0, 1, 3, 0}};
  rows[kSoftmax] = {{0, 0, 0, 2, 1, 0}};            // greatest and sum of a row, then the row
  rows[kSoftmaxBackward] = {{0, 0, 0, 1, 4, 0}};
  rows[kRowNorm] = {{0, 1, 0, 2, 1, 0}};            // mean and variance, then the row with weights by column
  rows[kRowNormBackward] = {{0, 1, 1, 2, 2, 0}};
  rows[kAttention] = {{0, 0, 0, 4, 3, 0}, kAtt};    // product, softmax, product
  rows[kAttentionBackward] = {{0, 0, 1, 4, 5, 0}, kAtt};
  rows[kLookUp] = {{0, 1, 0, 0, 1, 0}};
  rows[kScatter] = {{0, 0, 1, 0, 1, 0}};
  rows[kOrder] = {{0, 1, 1, 0, 1, 0}};
  rows[kPoolBackward] = {{0, 0, 1, 0, 0, 1}};
  rows[kResample] = {{0, 1, 0, 0, 0, 1}};
  rows[kResampleBackward] = {{0, 0, 1, 0, 1, 1}};
  rows[kRecurrentLayer] = {{0, 0, 0, 2, 6, 0}, kRnn};  // two products and the gates
  rows[kRecurrentCell] = {{0, 0, 0, 0, 5, 0}, kRnn};   // the gates alone
  rows[kFourier] = {{1, 1, 1, 0, 1, 0}};
  rows[kDecomposition] = {{0, 1, 1, 2, 3, 0}};
  rows[kSgd] = {{0, 0, 0, 0, 3, 0}};                // parameter, gradient, momentum
  rows[kAdam] = {{0, 0, 0, 0, 4, 0}};               // and another
  rows[kTwoStreams] = {{0, 0, 0, 0, 2, 0}};
  rows[kBatchedProduct] = {{0, 0, 0, 1, 2, 0}, kAtt};  // hardly anything but attention written out has these
  return rows;
}();

struct Named {
  std::string_view op;
  Class row;
};

// Sorted. Without namespace and overload; in place as plain.
constexpr Named kNamed[] = {
    {"_adaptive_avg_pool2d", kAveragePool},  // paper: adaptive_avg_pool1d
    {"_adaptive_avg_pool2d_backward", kPoolBackward},
    {"_adaptive_avg_pool3d", kAveragePool},
    {"_addmm_activation", kProductWithBias},
    {"_amp_foreach_non_finite_check_and_unscale", kTwoStreams},
    {"_convolution", kConvolution},
    {"_convolution_mode", kConvolutionOfMode},
    {"_efficient_attention_backward", kAttentionBackward},
    {"_efficient_attention_forward", kAttention},
    {"_embedding_bag", kQuantizedNorm},
    {"_embedding_bag_backward", kNorm},
    {"_embedding_bag_dense_backward", kNorm},
    {"_embedding_bag_forward_only", kQuantizedNorm},
    {"_flash_attention_backward", kAttentionBackward},
    {"_flash_attention_forward", kAttention},
    {"_fused_adagrad", kSgd},
    {"_fused_adam", kAdam},
    {"_fused_adamw", kAdam},
    {"_fused_dropout", kStream},
    {"_fused_rms_norm", kRowNorm},
    {"_fused_rms_norm_backward", kRowNormBackward},
    {"_fused_sgd", kSgd},
    {"_index_put_impl", kScatter},
    {"_local_scalar_dense", kCopy},
    {"_log_softmax", kSoftmax},
    {"_log_softmax_backward_data", kSoftmaxBackward},
    {"_native_batch_norm_legit", kNorm},
    {"_native_multi_head_attention", kAttention},
    {"_safe_softmax", kSoftmax},
    {"_slow_conv2d_backward", kConvolutionUnfolded},  // paper: thnn_conv2d
    {"_slow_conv2d_forward", kConvolutionUnfolded},
    {"_softmax", kSoftmax},
    {"_softmax_backward_data", kSoftmaxBackward},
    {"_thnn_fused_gru_cell", kRecurrentCell},
    {"_thnn_fused_gru_cell_backward", kRecurrentCell},
    {"_thnn_fused_lstm_cell", kRecurrentCell},
    {"_thnn_fused_lstm_cell_backward_impl", kRecurrentCell},
    {"_transform_bias_rescale_qkv", kAttention},
    {"_unique2", kOrder},
    {"_weight_norm_interface", kRowNorm},
    {"_weight_norm_interface_backward", kRowNormBackward},
    {"abs", kStream},
    {"adaptive_avg_pool1d", kAveragePool},  // paper
    {"adaptive_max_pool1d", kAveragePool},  // paper
    {"adaptive_max_pool2d", kAveragePool},
    {"adaptive_max_pool2d_backward", kPoolBackward},
    {"add", kArithmetic},  // paper
    {"addbmm", kProductWithBias},
    {"addcdiv", kArithmetic},
    {"addcmul", kArithmetic},
    {"addmm", kProductWithBias},
    {"addmv", kProductWithBias},
    {"addr", kProductWithBias},
    {"all", kMaxPool},
    {"amax", kMaxPool},
    {"amin", kMaxPool},
    {"aminmax", kMaxPool},
    {"any", kMaxPool},
    {"arange", kStream},
    {"argmax", kMaxPool},
    {"argmin", kMaxPool},
    {"argsort", kOrder},
    {"avg_pool1d", kAveragePool},  // paper
    {"avg_pool2d", kAveragePool},
    {"avg_pool2d_backward", kPoolBackward},
    {"avg_pool3d", kAveragePool},
    {"avg_pool3d_backward", kPoolBackward},
    {"baddbmm", kBatchedProduct},
    {"batch_norm_backward", kNorm},
    {"bernoulli", kStream},
    {"binary_cross_entropy", kActivationBackward},
    {"binary_cross_entropy_backward", kTwoStreams},
    {"binary_cross_entropy_with_logits", kActivationBackward},
    {"bincount", kScatter},
    {"bitwise_and", kArithmetic},
    {"bitwise_not", kStream},
    {"bitwise_or", kArithmetic},
    {"bmm", kBatchedProduct},
    {"cat", kCopy},  // paper
    {"ceil", kStream},
    {"clamp", kStream},
    {"clamp_max", kStream},
    {"clamp_min", kStream},
    {"clone", kCopy},  // paper
    {"col2im", kUnfoldBackward},
    {"col2im_backward", kUnfoldBackward},  // paper
    {"constant_pad_nd", kCopy},
    {"conv1d", kConvolutionNd},  // paper, as the two after it
    {"conv2d", kConvolutionNd},
    {"conv3d", kConvolutionNd},
    {"conv_depthwise3d", kConvolutionTransposed},           // paper
    {"conv_depthwise3d_backward", kConvolutionTransposed},  // paper
    {"conv_tbc", kConvolutionTbc},                          // paper
    {"conv_tbc_backward", kConvolutionTbc},                 // paper
    {"conv_transpose1d", kConvolutionTransposed},           // paper, as the two after it
    {"conv_transpose2d", kConvolutionTransposed},
    {"conv_transpose3d", kConvolutionTransposed},
    {"convolution", kConvolution},           // paper
    {"convolution_backward", kConvolution},  // as the paper's convolutions, whose backward is as they are
    {"convolution_mode", kConvolutionOfMode},     // paper
    {"convolution_nogroup", kConvolutionOfMode},  // paper
    {"convolution_overrideable", kConvolution},
    {"copy", kCopy},
    {"cos", kStream},
    {"count_nonzero", kMaxPool},
    {"cudnn_batch_norm", kNorm},           // paper
    {"cudnn_batch_norm_backward", kNorm},  // paper
    {"cudnn_convolution", kConvolutionOfMode},                  // paper, as the seven after it
    {"cudnn_convolution_add_relu", kConvolutionFused},
    {"cudnn_convolution_backward", kConvolutionOfMode},
    {"cudnn_convolution_backward_weight", kConvolutionOfMode},
    {"cudnn_convolution_relu", kConvolutionUnfolded},
    {"cudnn_convolution_transpose", kConvolutionTransposed},
    {"cudnn_convolution_transpose_backward", kConvolutionTransposed},
    {"cudnn_convolution_transpose_backward_weight", kConvolutionTransposed},
    {"cummax", kActivationBackward},
    {"cumprod", kActivationBackward},
    {"cumsum", kActivationBackward},
    {"diag", kCopy},  // paper
    {"diagonal", kCopy},
    {"div", kArithmetic},
    {"dot", kProduct},
    {"dropout", kStream},  // paper
    {"elu", kStream},      // paper
    {"elu_backward", kActivationBackward},
    {"embedding", kLookUp},
    {"embedding_backward", kNorm},  // paper
    {"embedding_dense_backward", kNorm},
    {"empty", kCopy},
    {"eq", kArithmetic},
    {"erf", kStream},
    {"exp", kStream},
    {"expm1", kStream},
    {"exponential", kStream},
    {"eye", kStream},
    {"fill", kStream},
    {"flip", kLookUp},
    {"floor", kStream},
    {"floor_divide", kArithmetic},
    {"gather", kLookUp},
    {"gather_backward", kGatherBackward},  // paper
    {"ge", kArithmetic},
    {"gelu", kStream},
    {"gelu_backward", kActivationBackward},  // paper
    {"glu", kTwoStreams},
    {"glu_backward", kActivationBackward},
    {"grid_sampler_2d", kResample},
    {"grid_sampler_2d_backward", kResampleBackward},
    {"gru", kRecurrentLayer},
    {"gru_cell", kRecurrentLayer},
    {"gt", kArithmetic},
    {"hardsigmoid", kStream},
    {"hardsigmoid_backward", kActivationBackward},
    {"hardswish", kStream},
    {"hardswish_backward", kActivationBackward},
    {"hardtanh", kStream},
    {"hardtanh_backward", kActivationBackward},
    {"histc", kScatter},
    {"im2col", kUnfoldBackward},
    {"im2col_backward", kUnfoldBackward},  // paper
    {"index", kLookUp},
    {"index_add", kScatter},
    {"index_copy", kScatter},
    {"index_fill", kScatter},
    {"index_put", kScatter},
    {"index_select", kLookUp},
    {"isfinite", kStream},
    {"isinf", kStream},
    {"isnan", kStream},
    {"isneginf", kStream},
    {"kthvalue", kOrder},
    {"l1_loss", kActivationBackward},
    {"l1_loss_backward", kGatherBackward},  // paper
    {"le", kArithmetic},
    {"leaky_relu", kStream},
    {"leaky_relu_backward", kActivationBackward},
    {"lerp", kArithmetic},
    {"linear", kProductWithBias},
    {"linear_backward", kProductWithBias},
    {"linspace", kStream},
    {"log", kStream},
    {"log1p", kStream},
    {"log_sigmoid_backward", kActivationBackward},
    {"log_sigmoid_forward", kStream},
    {"logical_and", kArithmetic},
    {"logical_not", kStream},
    {"logical_or", kArithmetic},
    {"logit", kStream},
    {"logit_backward", kActivationBackward},  // paper
    {"logsumexp", kSoftmax},
    {"lstm", kRecurrentLayer},
    {"lstm_cell", kRecurrentLayer},
    {"lt", kArithmetic},
    {"masked_fill", kArithmetic},
    {"masked_scatter", kScatter},
    {"masked_select", kLookUp},
    {"matmul", kProduct},
    {"max", kMaxPool},
    {"max_pool1d", kMaxPool},               // paper
    {"max_pool1d_with_indices", kMaxPool},  // paper
    {"max_pool2d", kMaxPool},               // paper
    {"max_pool2d_with_indices", kMaxPool},  // paper
    {"max_pool2d_with_indices_backward", kPoolBackward},
    {"max_pool3d", kAveragePool},               // paper
    {"max_pool3d_with_indices", kAveragePool},  // paper
    {"max_pool3d_with_indices_backward", kPoolBackward},
    {"maximum", kStream},  // paper
    {"mean", kMaxPool},
    {"median", kOrder},
    {"min", kMaxPool},
    {"minimum", kStream},
    {"miopen_convolution", kConvolutionOfMode},           // paper
    {"miopen_convolution_backward", kConvolutionOfMode},  // paper
    {"mish", kStream},
    {"mish_backward", kActivationBackward},
    {"mkldnn_convolution", kConvolutionOfMode},                   // paper, as the six after it
    {"mkldnn_convolution_backward", kConvolutionOfMode},
    {"mkldnn_convolution_backward_input", kConvolutionOfMode},
    {"mkldnn_convolution_backward_weights", kConvolutionOfMode},
    {"mkldnn_max_pool2d", kAveragePool},
    {"mkldnn_max_pool2d_backward", kAveragePool},
    {"mkldnn_max_pool3d", kAveragePool},
    {"mkldnn_max_pool3d_backward", kAveragePool},  // paper
    {"mkldnn_rnn_layer", kRecurrentLayer},
    {"mkldnn_rnn_layer_backward", kRecurrentLayer},
    {"mm", kProduct},
    {"mode", kOrder},
    {"mse_loss", kActivationBackward},
    {"mse_loss_backward", kNorm},  // paper
    {"mul", kArithmetic},
    {"multinomial", kLookUp},
    {"mv", kProduct},
    {"native_batch_norm", kNorm},
    {"native_batch_norm_backward", kNorm},
    {"native_dropout", kStream},
    {"native_dropout_backward", kTwoStreams},
    {"native_group_norm", kRowNorm},
    {"native_group_norm_backward", kRowNormBackward},
    {"native_layer_norm", kRowNorm},
    {"native_layer_norm_backward", kRowNormBackward},
    {"ne", kArithmetic},
    {"neg", kStream},
    {"nll_loss", kQuantizedNorm},
    {"nll_loss2d_backward", kArithmetic},
    {"nll_loss2d_forward", kQuantizedNorm},
    {"nll_loss_backward", kArithmetic},  // paper
    {"nll_loss_forward", kQuantizedNorm},
    {"nonzero", kLookUp},
    {"norm", kMaxPool},
    {"normal", kStream},
    {"one_hot", kScatter},
    {"permute", kTranspose},
    {"poisson", kStream},
    {"pow", kStream},
    {"prelu", kStream},
    {"prelu_backward", kActivationBackward},  // paper
    {"prod", kMaxPool},
    {"quantized_batch_norm", kQuantizedNorm},  // paper
    {"quantized_max_pool1d", kQuantizedNorm},  // paper
    {"quantized_max_pool2d", kQuantizedNorm},  // paper
    {"random", kStream},
    {"randperm", kOrder},
    {"reciprocal", kStream},
    {"reflection_pad1d", kLookUp},
    {"reflection_pad2d", kLookUp},
    {"reflection_pad2d_backward", kScatter},
    {"relu", kArithmetic},  // paper
    {"remainder", kArithmetic},
    {"renorm", kRowNorm},
    {"repeat", kCopy},
    {"repeat_interleave", kLookUp},
    {"replication_pad2d", kLookUp},
    {"replication_pad2d_backward", kScatter},
    {"resize", kCopy},
    {"rnn_relu", kRecurrentLayer},
    {"rnn_relu_cell", kRecurrentLayer},
    {"rnn_tanh", kRecurrentLayer},
    {"rnn_tanh_cell", kRecurrentLayer},
    {"roll", kLookUp},
    {"round", kStream},
    {"rrelu_with_noise", kStream},
    {"rrelu_with_noise_backward", kActivationBackward},
    {"rsqrt", kStream},
    {"rsub", kArithmetic},
    {"scalar_tensor", kCopy},
    {"scatter", kScatter},
    {"scatter_add", kScatter},
    {"scatter_reduce", kScatter},
    {"searchsorted", kLookUp},
    {"select_backward", kCopy},
    {"sigmoid", kStream},
    {"sigmoid_backward", kActivationBackward},  // paper
    {"sign", kStream},
    {"silu", kStream},
    {"silu_backward", kActivationBackward},  // paper
    {"sin", kStream},
    {"slice_backward", kCopy},
    {"slow_conv3d", kConvolution3d},                     // paper, as the two after it
    {"slow_conv3d_backward", kConvolution3d},
    {"slow_conv3d_forward", kConvolution3d},
    {"slow_conv_dilated2d", kConvolutionOfMode},         // paper, as the three after it
    {"slow_conv_dilated2d_backward", kConvolutionOfMode},
    {"slow_conv_dilated3d", kConvolutionOfMode},
    {"slow_conv_dilated3d_backward", kConvolutionOfMode},
    {"slow_conv_transpose2d", kConvolutionTransposed},   // paper, as the three after it
    {"slow_conv_transpose2d_backward", kConvolutionTransposed},
    {"slow_conv_transpose3d", kConvolutionTransposed},
    {"slow_conv_transpose3d_backward", kConvolutionTransposed},
    {"smooth_l1_loss", kActivationBackward},
    {"smooth_l1_loss_backward", kTwoStreams},
    {"softplus", kStream},
    {"softplus_backward", kActivationBackward},
    {"sort", kOrder},
    {"sqrt", kStream},
    {"stack", kCopy},
    {"std", kMaxPool},
    {"sub", kArithmetic},
    {"sum", kMaxPool},
    {"take", kLookUp},
    {"tanh", kStream},
    {"tanh_backward", kActivationBackward},              // paper
    {"thnn_conv2d", kConvolutionUnfolded},               // paper, as the five after it
    {"thnn_conv2d_backward", kConvolutionUnfolded},
    {"thnn_conv2d_forward", kConvolutionUnfolded},
    {"thnn_conv_depthwise2d", kDepthwise},
    {"thnn_conv_depthwise2d_backward", kDepthwise},
    {"thnn_conv_depthwise2d_forward", kDepthwise},
    {"threshold", kArithmetic},
    {"threshold_backward", kActivationBackward},
    {"topk", kOrder},
    {"transpose", kTranspose},  // paper
    {"tril", kStream},
    {"triu", kStream},
    {"unfold", kUnfoldBackward},
    {"unfold_backward", kUnfoldBackward},
    {"uniform", kStream},
    {"unique_dim", kOrder},
    {"var", kMaxPool},
    {"var_mean", kMaxPool},
    {"vdot", kProduct},
    {"where", kArithmetic},
    {"xlogy", kArithmetic},
    {"zero", kStream},
};
static_assert(std::ranges::is_sorted(kNamed, {}, &Named::op));

struct Family {
  std::string_view begins;
  Class row, backward;
};
constexpr Family kFamilies[] = {
    {"_fft_", kFourier, kFourier},
    {"_linalg_", kDecomposition, kDecomposition},
    {"_scaled_dot_product_", kAttention, kAttentionBackward},
    {"_upsample_", kResample, kResampleBackward},
    {"cholesky", kDecomposition, kDecomposition},
    {"fbgemm", kNorm, kNorm},  // paper
    {"fft_", kFourier, kFourier},
    {"linalg_", kDecomposition, kDecomposition},
    {"scaled_dot_product_", kAttention, kAttentionBackward},
    {"upsample_", kResample, kResampleBackward},
};

std::optional<IdiomClass> find(std::string_view op) {
  const auto* const at = std::ranges::lower_bound(kNamed, op, {}, &Named::op);
  if (at == std::end(kNamed) || at->op != op) return std::nullopt;
  return at->row;
}

}  // namespace

const char* to_string(BaseType type) {
  switch (type) {
    case BaseType::kPlain: return "plain";
    case BaseType::kConvolution: return "convolution";
    case BaseType::kRecurrent: return "recurrent";
    case BaseType::kAttention: return "attention";
  }
  return "?";
}

std::size_t idiom_classes() { return kRows.size(); }
const Idioms& idioms_of(IdiomClass number) { return kRows[number < kRows.size() ? number : 0].idioms; }
BaseType mark_of(IdiomClass number) { return kRows[number < kRows.size() ? number : 0].mark; }

BaseType BaseTypeScale::type() const {
  constexpr Nanos kLeast = 50;  // of all time one part in so many
  Nanos all = 0;
  for (const Nanos time : times_) all += time;
  const auto most = std::max_element(times_.begin() + 1, times_.end());
  if (*most == 0 || *most < all / kLeast) return BaseType::kPlain;
  return static_cast<BaseType>(most - times_.begin());
}

IdiomClass idiom_class_named(std::string_view name) {
  constexpr std::string_view kForeach = "_foreach_", kOut = "_out", kBackward = "_backward";
  if (const std::size_t space = name.find("::"); space != name.npos) name.remove_prefix(space + 2);
  name = name.substr(0, name.find_first_of(". "));
  if (name.starts_with(kForeach)) name.remove_prefix(kForeach.size());
  if (const auto found = find(name)) return *found;
  if (name.ends_with('_')) name.remove_suffix(1);
  if (name.ends_with(kOut)) name.remove_suffix(kOut.size());
  if (const auto found = find(name)) return *found;
  for (const Family& family : kFamilies) {
    if (name.starts_with(family.begins)) return name.ends_with(kBackward) ? family.backward : family.row;
  }
  return kUnknown;
}

}  // namespace outsize
