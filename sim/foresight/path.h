// The way that a recorded run went, as foresight of it is judged: ops by their tokens (predictors/pilot/tokens.h), steps,
// the windows in which a sample's path lies, the blocks that all of it consists of, and what lasts of what ops work on.
#pragma once

#include <functional>
#include <limits>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "predictors/pilot/block_graph.h"
#include "sim/program.h"

namespace outsize::sim::foresight {

// Tokens by number, in the order in which they were first seen.
using Place = std::uint32_t;
inline constexpr Place kUnknown = std::numeric_limits<Place>::max();
inline constexpr Place kStepEnd = kUnknown - 1;  // stands in a row of places where a step ends
using RoleNumber = std::uint32_t;

// From a sample's arrival to the next one's, or to the step's end; the whole step where it has no samples.
struct Window {
  std::size_t first = 0, end = 0;  // ops
  std::size_t step = 0;
  bool ends_step = false;
  std::vector<bool> there;  // by role's number: something has it when the window begins
};

struct Path {
  std::vector<Place> ops;
  std::vector<std::size_t> step_ends;  // ops before each step's end
  std::vector<Window> windows;         // none without ops
  std::uint64_t samples = 0;

  std::vector<pilot::Token> tokens;            // by place
  std::vector<SiteId> sites;                   // by place: of the first such op
  std::vector<std::vector<RoleNumber>> roles;  // by place: of what lasts and it works on
  std::vector<pilot::Lasting> lasting;         // by role's number
  std::unordered_map<pilot::Token, Place> places;

  BaseType base = BaseType::kPlain;
  std::vector<pilot::Block> blocks;
  std::vector<std::uint32_t> block_of;  // by place
  std::vector<std::uint32_t> in_block;  // by place: how far from its block's begin
  // By block: how many different things ever came after it, a step's end among them; how often it ran, how often
  // a step ended behind it.
  std::vector<std::uint32_t> ways;
  std::vector<std::uint64_t> runs, ends;

  std::size_t steps() const { return step_ends.size(); }
  std::size_t step_begin(std::size_t step) const { return step == 0 ? 0 : step_ends[step - 1]; }
  bool ends_block(Place place) const { return in_block[place] + 1 == blocks[block_of[place]].tokens.size(); }
  // Several things have come after it: what comes is foreseen rightly, or not.
  bool is_choice(Place place) const { return ends_block(place) && ways[block_of[place]] > 1; }
};

// Refused where threads ran ops at once, or where there are fewer than two whole steps. What there is where `cancelled`.
Result<Path> read_path(const Program& program, const pilot::BlockLimits& limits = {},
                       const std::function<bool()>& cancelled = nullptr);

}  // namespace outsize::sim::foresight
