// `ondemand`: no foresight. What was used longest ago leaves when room is needed, bytes come when
// they are touched: what UVM-style paging does, on extents. The baseline.
#pragma once

#include "core/plan/planner.h"
#include "core/residency/victim_order.h"

namespace outsize::ondemand {

// Counts ops; foresees nothing.
class NoPredictor final : public Predictor {
 public:
  const char* name() const override { return "none"; }
  void on_op(const OpEvent&) override { ++position_; }
  void on_birth(ExtentId, Bytes) override {}
  void on_death(ExtentId, Bytes) override {}
  void on_step(Nanos) override {}
  Position position() const override { return position_; }
  Position next_use(ExtentId) const override { return kNever; }
  std::size_t upcoming(std::span<Upcoming>) const override { return 0; }
  Bytes demand_within(Nanos) const override { return 0; }
  bool take_rekeyed() override { return false; }

 private:
  Position position_ = 0;
};

class OndemandPlanner final : public Planner {
 public:
  explicit OndemandPlanner(const ExtentTable& table) : table_(table) {}
  const char* name() const override { return "ondemand"; }
  void on_resident(ExtentId id) override {
    leaving_.put(id, hinted_use(table_[id], 0, kNever - table_[id].last_use));
  }
  void on_gone(ExtentId id) override { leaving_.remove(id); }
  void on_rekey() override {}
  void victims(bool last_choice, std::size_t limit, std::vector<ExtentId>& out) override {
    leaving_.in_order([&](ExtentId id) {
      const Extent& e = table_[id];
      if (last_choice ? may_leave(e) : evictable(e)) out.push_back(id);
      return out.size() < limit;
    });
  }
  bool needed_soon(ExtentId) const override { return false; }
  void plan(const PlanState&, std::vector<Decision>&) override {}

 private:
  const ExtentTable& table_;
  VictimOrder leaving_;
};

}  // namespace outsize::ondemand
