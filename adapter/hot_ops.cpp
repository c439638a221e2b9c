#include "adapter/hot_ops.h"

#include <ATen/ops/_local_scalar_dense_ops.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/argmax_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/gt_ops.h>
#include <ATen/ops/index_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/lt_ops.h>
#include <ATen/ops/masked_fill_ops.h>
#include <ATen/ops/max_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/native_dropout_backward_ops.h>
#include <ATen/ops/native_dropout_ops.h>
#include <ATen/ops/native_layer_norm_backward_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/nll_loss_backward_ops.h>
#include <ATen/ops/nll_loss_forward_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sigmoid_backward_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/stack_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tanh_backward_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/threshold_backward_ops.h>
#include <ATen/ops/where_ops.h>
#include <ATen/ops/zero_ops.h>

#include "adapter/typed_kernel.h"

namespace outsize::adapter {
namespace {

namespace ops = at::_ops;  // many of its names are also functions of <math.h>

template <class... Ops>
void register_all(torch::Library& library) {
  (register_typed<Ops>(library), ...);
}

void register_arithmetic(torch::Library& library) {
  register_all<ops::add_Tensor, ops::add__Tensor, ops::sub_Tensor, ops::sub__Tensor,
               ops::mul_Tensor, ops::mul__Tensor, ops::div_Tensor, ops::div__Tensor, ops::neg,
               ops::exp, ops::log, ops::sqrt, ops::rsqrt, ops::pow_Tensor_Scalar, ops::addcmul,
               ops::addcmul_, ops::addcdiv_, ops::lerp__Scalar, ops::where_self,
               ops::masked_fill_Scalar, ops::masked_fill__Scalar, ops::eq_Tensor, ops::eq_Scalar,
               ops::ne_Tensor, ops::ne_Scalar, ops::gt_Scalar, ops::lt_Scalar>(library);
}

void register_products(torch::Library& library) {
  register_all<ops::mm, ops::addmm, ops::bmm, ops::baddbmm,
               ops::_scaled_dot_product_flash_attention_for_cpu,
               ops::_scaled_dot_product_flash_attention_for_cpu_backward>(library);
}

void register_movement(torch::Library& library) {
  register_all<ops::cat, ops::stack, ops::copy_, ops::zero_, ops::fill__Scalar, ops::index_Tensor,
               ops::index_select, ops::embedding_dense_backward,
               ops::_local_scalar_dense>(library);
}

void register_layers(torch::Library& library) {
  register_all<ops::sum, ops::sum_dim_IntList, ops::mean, ops::mean_dim, ops::max, ops::argmax,
               ops::sigmoid, ops::sigmoid_backward, ops::tanh, ops::tanh_backward, ops::relu,
               ops::relu_, ops::threshold_backward, ops::gelu, ops::gelu_backward, ops::silu,
               ops::_softmax, ops::_softmax_backward_data, ops::_log_softmax,
               ops::_log_softmax_backward_data, ops::native_layer_norm,
               ops::native_layer_norm_backward, ops::native_dropout, ops::native_dropout_backward,
               ops::nll_loss_forward, ops::nll_loss_backward>(library);
}

}  // namespace

void register_hot_ops() {
  // Never destroyed: its registrations must outlive every op, and so does the process.
  static auto* const library =
      new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE_NAME__, __LINE__);
  register_arithmetic(*library);
  register_products(*library);
  register_movement(*library);
  register_layers(*library);
}

}  // namespace outsize::adapter
