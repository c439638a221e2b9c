// The nodes of autograd's graph that this step has made, by their numbers: what made each of them; told op by op.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "predictors/pilot/tokens.h"

namespace outsize::pilot {

template <class Maker, Maker kNone>
class GraphNodes {
 public:
  static constexpr std::size_t kMax = 1U << 20;

  // By that op. Numbers are told in ascending order; what is too far from the first is forgotten: false.
  bool keep(std::uint32_t number, Maker maker, std::uint64_t op = 0) {
    if (made_.empty()) first_ = number;
    const std::size_t index = number - first_;
    if (index >= kMax) return false;
    if (index >= made_.size()) made_.resize(index + 1);
    made_[index] = {maker, op};
    return true;
  }
  // kNone where nobody made it.
  Maker find(std::uint32_t number) const {
    const std::size_t index = number - first_;
    return index < made_.size() ? made_[index].maker : kNone;
  }
  // The op that made it; 0 where nobody knows, as of number 0, which is nobody's.
  std::uint64_t op_of(std::uint32_t number) const {
    const std::size_t index = number - first_;
    return index < made_.size() ? made_[index].op : 0;
  }

  // An op begins, before whose own node that one comes next: the op that stood there last made a node if the number is
  // another one now. Of pins and the like nobody knows where they stand: number 0.
  struct Ended {
    Maker maker = kNone;  // kNone: nobody stood there
    std::uint64_t op = 0;  // that one
    std::uint32_t number = 0;
    bool made = false;
  };
  Ended begin(std::uint32_t next) {
    if (next == 0) return {};
    const Ended ended{std::exchange(placed_, kNone), placed_op_, next_, next != next_};
    next_ = next;
    return ended;
  }
  // That op is called so.
  void place(std::uint32_t next, Maker maker, std::uint64_t op = 0) {
    if (next == 0) return;
    placed_ = maker;
    placed_op_ = op;
  }
  // Whose gradient is made; `token_of` its maker. That op is the first of it where the node was not running yet. In backward
  // nodes run that nobody made, such as those that add up gradients, whose number is 0: it goes on after them.
  template <class TokenOf>
  Turn turn(std::uint32_t running, bool backward, const TokenOf& token_of) {
    const Maker maker = running == 0 ? kNone : find(running);
    if (!backward) turn_ = 0;
    else if (maker != kNone) turn_ = running;
    return {maker == kNone ? Token{0} : token_of(maker), std::exchange(running_, running) != running};
  }
  Maker whose_turn() const { return find(running_); }
  std::uint32_t running() const { return running_; }
  // The latest that somebody made, since backward began; 0 in forward.
  std::uint32_t latest_turn() const { return turn_; }

  // The step has ended.
  void clear() {
    made_.clear();
    placed_ = kNone;
    running_ = turn_ = 0;
  }
  std::size_t capacity() const { return made_.capacity(); }
  Bytes bytes() const { return static_cast<Bytes>(made_.capacity() * sizeof(Made)); }

 private:
  std::uint32_t first_ = 1;  // never 0, so that number 0 is beyond the last
  std::uint32_t next_ = 0, running_ = 0, turn_ = 0;  // as the latest op had them that had any
  Maker placed_ = kNone;                  // that op, in this step
  std::uint64_t placed_op_ = 0;
  struct Made {
    Maker maker = kNone;
    std::uint64_t op = 0;
  };
  std::vector<Made> made_;  // by number, from the first on
};

}  // namespace outsize::pilot
