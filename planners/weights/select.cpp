#include "planners/weights/select.h"

#include <algorithm>
#include <string>

namespace outsize::weights {
namespace {

class Selection {
 public:
  Selection(const Chain& chain, Bytes memory, Solver solver, const Options& options)
      : chain_(chain), line_(chain), solver_(solver), options_(options), away_(chain.length()) {
    for (std::size_t op = 0; op < line_.ops(); ++op) {
      overflow_.push_back(line_.running(op) + line_.all_weights() - memory);
    }
  }

  Result<std::vector<Away>> run() {
    while (*std::max_element(overflow_.begin(), overflow_.end()) > 0) {
      if (!take_best()) {
        return Error{ErrorCode::kOutOfBudget, "The weights that may leave do not free enough memory.",
                     name_of(solver_), ""};
      }
    }
    return std::move(away_);
  }

 private:
  bool allowed(std::size_t layer, Gap gap) const {
    const Away& away = away_[layer];
    if (away.in[gap]) return false;
    if (solver_ == Solver::kSingle) return gap == kForwardToBackward;
    return solver_ == Solver::kGreedyStar || !away.any();
  }

  // Positive where taking the gap helps.
  __extension__ using Wide = __int128;
  Wide score(std::size_t layer, Gap gap) const {
    Wide covered = 0;
    for (std::size_t op = 0; op < line_.ops(); ++op) {
      if (overflow_[op] <= 0 || !within(line_, layer, gap, op)) continue;
      const Bytes part = std::min(overflow_[op], chain_.layers[layer].weight);
      covered += static_cast<Wide>(part) * (options_.by_time ? line_.time_of(op) : 1);
    }
    const bool cheaper = gap == kForwardToBackward && !away_[layer].any();
    return covered * (cheaper ? options_.coefficient_num : options_.coefficient_den);
  }

  bool take_best() {
    Wide best = 0;
    std::size_t best_layer = 0;
    Gap best_gap = kForwardToBackward;
    for (std::size_t layer = 0; layer < chain_.length(); ++layer) {
      for (const Gap gap : {kForwardToBackward, kBackwardToForward}) {
        const Wide s = allowed(layer, gap) ? score(layer, gap) : 0;
        if (s <= best) continue;
        best = s;
        best_layer = layer;
        best_gap = gap;
      }
    }
    if (best == 0) return false;
    away_[best_layer].in[best_gap] = true;
    for (std::size_t op = 0; op < line_.ops(); ++op) {
      if (within(line_, best_layer, best_gap, op)) overflow_[op] -= chain_.layers[best_layer].weight;
    }
    return true;
  }

  const Chain& chain_;
  const Timeline line_;
  const Solver solver_;
  const Options& options_;
  std::vector<Bytes> overflow_;  // of each op; negative where there is room
  std::vector<Away> away_;
};

}  // namespace

Result<std::vector<Away>> select(const Chain& chain, Bytes memory, Solver solver,
                                 const Options& options) {
  if (Status valid = validate(chain); !valid) return valid.error();
  if (options.coefficient_num <= 0 || options.coefficient_den <= 0) {
    return Error{ErrorCode::kInvalidArgument, "The coefficient must be positive.", name_of(solver), ""};
  }
  return Selection(chain, memory, solver, options).run();
}

}  // namespace outsize::weights
