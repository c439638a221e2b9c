#include "sim/roofline.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace outsize::sim {
namespace {

using Shape = std::vector<std::int64_t>;
using Shapes = std::vector<Shape>;

constexpr Bytes kElement = 4;  // of what is born: a trace has no dtypes

// "512x64"; empty where it is anything else.
Shape shape(std::string_view text) {
  Shape dims;
  const char *at = text.data(), *const end = at + text.size();
  while (at < end) {
    std::int64_t dim = 0;
    const auto [next, error] = std::from_chars(at, end, dim);
    if (error != std::errc{} || (next < end && *next != 'x')) return {};
    dims.push_back(dim);
    at = next + 1;
  }
  return dims;
}

Shapes shapes_in(std::string_view name) {
  Shapes found;
  for (std::size_t open = name.find('['); open != std::string_view::npos; open = name.find('[', open + 1)) {
    const std::size_t close = name.find(']', open);
    if (close == std::string_view::npos) break;
    found.push_back(shape(name.substr(open + 1, close - open - 1)));
  }
  return found;
}

std::int64_t product(const Shape& dims, std::size_t from = 0) {
  std::int64_t all = 1;
  for (std::size_t i = from; i < dims.size(); ++i) all *= dims[i];
  return all;
}

// Of [..., m, k] and [..., k, n].
std::int64_t matrix_product(const Shape& a, const Shape& b) {
  if (a.size() < 2 || b.size() < 2) return 0;
  return 2 * product(a) * b.back();
}

// For each element of the output one product with the weight's [in / groups, kernel...].
std::int64_t convolution(const Shape& weight, std::int64_t outputs) {
  return weight.size() < 3 ? 0 : 2 * outputs * product(weight, 1);
}

// Scores and weighted sum: q is [batch, heads, length, size], k [batch, heads, others, size].
std::int64_t attention(const Shape& q, const Shape& k) {
  return q.size() < 4 || k.size() < 4 ? 0 : 4 * product(q) * k[k.size() - 2];
}

}  // namespace

std::int64_t flops_of(std::string_view name, Bytes born) {
  const Shapes in = shapes_in(name);
  std::string_view op = name.substr(0, name.find(' '));
  if (const std::size_t space = op.find("::"); space != std::string_view::npos) op.remove_prefix(space + 2);
  op = op.substr(0, op.find('.'));
  const auto has = [&](std::size_t count) { return in.size() >= count; };
  if ((op == "mm" || op == "bmm") && has(2)) return matrix_product(in[0], in[1]);
  if ((op == "addmm" || op == "baddbmm") && has(3)) return matrix_product(in[1], in[2]);
  if (op.ends_with("convolution_backward") && has(3)) return 2 * convolution(in[2], product(in[0]));
  if (op.ends_with("convolution") && has(2)) return convolution(in[1], born / kElement);
  if (op.starts_with("_scaled_dot_product")) {
    // Backward: the gradient first, and five products in place of two.
    if (op.ends_with("_backward") && has(3)) return attention(in[1], in[2]) * 5 / 2;
    if (has(2)) return attention(in[0], in[1]);
  }
  return 0;
}

Nanos time_on(const Roofline& device, std::string_view name, Bytes bytes, Bytes born) {
  const Nanos arithmetic = flops_of(name, born) * 1000 / std::max<std::int64_t>(device.flops_per_us, 1);
  const Nanos memory = bytes * 1000 / std::max<Bytes>(device.bytes_per_us, 1);
  return std::max({arithmetic, memory, device.op});
}

}  // namespace outsize::sim
