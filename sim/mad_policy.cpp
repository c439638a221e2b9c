#include "sim/mad_policy.h"

#include "planners/lookahead/lookahead.h"

namespace outsize::sim {
namespace {

class MadPredictor final : public Predictor {
 public:
  MadPredictor(const ExtentTable& table, std::uint64_t seed) : table_(table), random_(seed) {}
  const char* name() const override { return "mad"; }
  void on_op(const OpEvent&) override { ++position_; }
  void on_birth(ExtentId, Bytes) override {}
  void on_death(ExtentId, Bytes) override {}
  void on_step(Nanos) override {}
  Position position() const override { return position_; }
  Position next_use(ExtentId) const override {
    return random_.one_in(8) ? kNever : random_.below(2 * position_ + 200);
  }
  std::size_t upcoming(std::span<Upcoming> out) const override {
    const std::size_t count = random_.below(20);
    for (std::size_t i = 0; i < count; ++i) {
      out[i].extent = static_cast<ExtentId>(random_.below(table_.size()));
      out[i].position = random_.below(2 * position_ + 200);
      out[i].in = random_.between(-1'000'000, 100'000'000);
      out[i].demand = random_.between(0, 100 * kMiB);
    }
    return table_.size() == 0 ? 0 : count;
  }
  Bytes demand_within(Nanos) const override { return random_.between(0, 100 * kMiB); }
  bool take_rekeyed() override { return random_.one_in(10); }

 private:
  const ExtentTable& table_;
  mutable Random random_;
  Position position_ = 0;
};

// Lookahead's order of victims, and any decision on any extent.
class MadPlanner final : public Planner {
 public:
  MadPlanner(const ExtentTable& table, const Predictor& predictor, std::uint64_t seed)
      : table_(table), inner_(table, predictor), random_(seed) {}
  const char* name() const override { return "mad"; }
  void on_resident(ExtentId id) override { inner_.on_resident(id); }
  void on_gone(ExtentId id) override { inner_.on_gone(id); }
  void on_rekey() override { inner_.on_rekey(); }
  void victims(bool last_choice, std::size_t limit, std::vector<ExtentId>& out) override {
    // Any extents at all before the right ones; but none is withheld, or room would seem to be gone.
    for (std::uint64_t left = random_.below(3); left > 0 && table_.size() > 0; --left) {
      out.push_back(static_cast<ExtentId>(random_.below(table_.size())));
    }
    inner_.victims(last_choice, limit + out.size(), out);
  }
  bool needed_soon(ExtentId) const override { return random_.chance(50); }
  void plan(const PlanState& state, std::vector<Decision>& out) override {
    if (random_.chance(50)) inner_.plan(state, out);
    if (table_.size() == 0) return;
    for (std::uint64_t left = random_.below(6); left > 0; --left) {
      Decision decision;
      decision.kind = static_cast<Decision::Kind>(random_.below(3));
      decision.extent = static_cast<ExtentId>(random_.below(table_.size()));
      out.push_back(decision);
    }
  }

 private:
  const ExtentTable& table_;
  lookahead::LookaheadPlanner inner_;
  mutable Random random_;
};

}  // namespace

Policy make_mad_policy(const ExtentTable& table, std::uint64_t seed) {
  auto predictor = std::make_unique<MadPredictor>(table, seed);
  auto planner = std::make_unique<MadPlanner>(table, *predictor, seed + 1);
  return {std::move(predictor), std::move(planner)};
}

}  // namespace outsize::sim
