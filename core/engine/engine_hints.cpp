// What the program said of the uses to come. A hint moves bytes early or lets them go first; like a
// prediction it is never trusted for correctness.
#include <algorithm>

#include "core/engine/engine.h"

namespace outsize {
namespace {

constexpr std::size_t kHintsMax = 4096;  // remembered at a time; the others are not heard
constexpr std::int64_t kHintSteps = 2;   // what was not used by the end of the next step was wrong
constexpr std::size_t kHintVictims = 64;

}  // namespace

void Engine::hint(const Input& input) {
  Extent& e = table_[input.extent];
  if (e.where == Where::kFree || e.dying) return;
  const bool heard = e.hint == Hint::kSoon;
  if (input.flag && !heard) {
    if (hints_.size() >= kHintsMax) return;
    hints_.push_back({input.extent, e.born, stats_.steps});
  }
  e.hint = input.flag ? Hint::kSoon : Hint::kLater;
  if (input.flag && e.where == Where::kAbsent && !watching_) start_watching();
  if (watching_) refresh(input.extent);
}

// Fetches what is to be used soon, in the order in which it was said, as far as the transfer slots
// allow and room can be made from what nobody foretold.
void Engine::serve_hints() {
  if (hints_.empty()) return;
  std::erase_if(hints_, [this](const Hinted& hinted) {
    const Extent& e = table_[hinted.extent];
    return e.hint != Hint::kSoon || e.born != hinted.born || e.where == Where::kFree || e.dying;
  });
  if (!queue_.empty() || !fault_queue_.empty()) return;  // whoever waits comes first
  for (const Hinted& hinted : hints_) {
    const Extent& e = table_[hinted.extent];
    if (e.where != Where::kAbsent || e.wanted) continue;
    if (reading_ > 0 && reading_ + e.bytes > options_.reading_max) return;
    if (e.bytes > free() && !make_hinted_room(e.bytes)) return;
    fetch(hinted.extent, Urgency::kPrefetch, Prefetched::kHinted);
  }
}

// Victims leave in their order, the changed ones after they were written: to prefer clean ones would
// throw out what was read just now.
bool Engine::make_hinted_room(Bytes need) {
  victims_.clear();
  planner_->victims(false, kHintVictims, victims_);
  std::erase_if(victims_, [this](ExtentId id) {
    return !evictable(table_[id]) || table_[id].hint == Hint::kSoon;
  });
  Bytes room = free(), coming = free();
  std::size_t count = 0;
  for (; count < victims_.size() && coming < need; ++count) {
    const ExtentId id = victims_[count];
    const Extent& e = table_[id];
    coming += e.bytes;
    if (clean(e)) {
      room += e.bytes;
    } else if (e.below == Below::kNone && e.write_pins == 0) {
      if (!fits_below(e) || (writing_ > 0 && writing_ + e.bytes > options_.writing_max)) return false;
      write(id, Urgency::kWriteAhead);
    }
  }
  if (room < need) return false;
  for (std::size_t i = 0; i < count && free() < need; ++i) {
    const Extent& e = table_[victims_[i]];
    if (evictable(e) && clean(e)) evict(victims_[i]);  // a planner may name one twice
  }
  return free() >= need;
}

void Engine::expire_hints() {
  std::erase_if(hints_, [this](const Hinted& hinted) {
    if (hinted.step + kHintSteps > stats_.steps) return false;
    Extent& e = table_[hinted.extent];
    if (e.born == hinted.born && e.hint == Hint::kSoon) {
      e.hint = Hint::kNone;
      if (watching_) refresh(hinted.extent);
    }
    return true;
  });
}

}  // namespace outsize
