#include "sim/foresight/path.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "predictors/pilot/graph_nodes.h"
#include "sim/foresight/stage.h"

namespace outsize::sim::foresight {
namespace {

using pilot::Lasting;
using pilot::Role;
using pilot::Tokens;

// Tells of tokens as the pilot names them.
class Namer {
 public:
  explicit Namer(const ExtentTable& table) : table_(table) {}
  pilot::Token on_op(const OpEvent& op) {
    operands_.clear();
    for (const ExtentId id : op.extents) {
      if (!shared(id)) operands_.push_back(id);
    }
    const std::uint32_t next = next_node(op.graph);
    const auto ended = graph_.begin(next);
    if (ended.made && ended.maker != 0) graph_.keep(ended.number, ended.maker);
    const pilot::Turn turn = graph_.turn(running_node(op.graph), op.in_backward, [](pilot::Token maker) { return maker; });
    const pilot::Token token = tokens_.on_op(kind_of(op.site), operands_, op.in_backward, turn);
    graph_.place(next, token);
    return token;
  }
  void on_birth(ExtentId id, Bytes bytes) {
    if (!shared(id)) tokens_.on_birth(id, bytes);
  }
  void on_death(ExtentId id) {
    if (!shared(id)) tokens_.on_death(id);
  }
  void on_step() {
    tokens_.on_step();
    graph_.clear();
  }
  // Of the op told last.
  const std::vector<ExtentId>& operands() const { return operands_; }
  Role role(ExtentId id) const { return tokens_.role(id); }
  Bytes bytes(Role role) const {
    const ExtentId id = tokens_.holder(role);
    return id == kNoExtent ? 0 : table_[id].bytes;
  }

 private:
  bool shared(ExtentId id) const { return table_[id].shared; }
  const ExtentTable& table_;
  Tokens tokens_;
  pilot::GraphNodes<pilot::Token, 0> graph_;
  std::vector<ExtentId> operands_;
};

class Reader final : public Watcher {
 public:
  Reader(const ExtentTable& table, Path& out) : namer_(table), out_(out) {}

  void op(const OpEvent& op) override {
    const pilot::Token token = namer_.on_op(op);
    const auto [at, is_new] = out_.places.try_emplace(token, static_cast<Place>(out_.tokens.size()));
    if (is_new) meet(token, op.site);
    out_.ops.push_back(at->second);
    began_.push_back(op.now);
  }
  void birth(ExtentId id, Bytes bytes) override { namer_.on_birth(id, bytes); }
  void death(ExtentId id, Bytes) override { namer_.on_death(id); }
  void sample(std::span<const std::int64_t>) override {
    ++out_.samples;
    close(false);
    sampled_ = true;
    window_begin_ = out_.ops.size();
  }
  void step(Nanos now) override {
    close(true);
    began_.push_back(now);
    const std::size_t from = step_begin();
    path_.clear();
    for (std::size_t i = from; i < out_.ops.size(); ++i) {
      const Place place = out_.ops[i];
      path_.push_back({out_.tokens[place], began_[i - from + 1] - began_[i - from], lasting_[place],
                       idiom_class_of(out_.sites[place])});
    }
    graph_.step(path_);
    out_.step_ends.push_back(out_.ops.size());
    window_begin_ = out_.ops.size();
    sampled_ = false;
    began_.clear();
    namer_.on_step();
  }
  const pilot::BlockGraph& graph() const { return graph_; }

 private:
  std::size_t step_begin() const { return out_.step_ends.empty() ? 0 : out_.step_ends.back(); }
  void meet(pilot::Token token, SiteId site) {
    out_.tokens.push_back(token);
    out_.sites.push_back(site);
    std::vector<RoleNumber>& roles = out_.roles.emplace_back();
    std::vector<Lasting>& lasting = lasting_.emplace_back();
    for (const ExtentId id : namer_.operands()) {
      const Role role = namer_.role(id);
      if (role == pilot::kNoRole) continue;
      const auto [at, is_new] = role_numbers_.try_emplace(role, static_cast<RoleNumber>(out_.lasting.size()));
      lasting.push_back({role, namer_.bytes(role)});
      if (is_new) out_.lasting.push_back(lasting.back());
      roles.push_back(at->second);
    }
  }
  // What a step does before its first sample is no window, unless it has none.
  void close(bool ends_step) {
    if (window_begin_ == out_.ops.size() || (!sampled_ && !ends_step)) return;
    out_.windows.push_back({window_begin_, out_.ops.size(), out_.steps(), ends_step, {}});
  }

  Namer namer_;
  Path& out_;
  pilot::BlockGraph graph_;
  std::vector<std::vector<Lasting>> lasting_;  // by place
  std::unordered_map<Role, RoleNumber> role_numbers_;
  std::vector<Nanos> began_;  // ops of this step
  std::vector<pilot::TokenUse> path_;
  std::size_t window_begin_ = 0;
  bool sampled_ = false;
};

// Once it is known what matters: what of it is there as each window begins.
class Taker final : public Watcher {
 public:
  Taker(const ExtentTable& table, Path& out) : namer_(table), out_(out) {}
  void op(const OpEvent& op) override {
    if (window_ < out_.windows.size() && out_.windows[window_].first == ops_) take(out_.windows[window_++].there);
    namer_.on_op(op);
    ++ops_;
  }
  void birth(ExtentId id, Bytes bytes) override { namer_.on_birth(id, bytes); }
  void death(ExtentId id, Bytes) override { namer_.on_death(id); }
  void step(Nanos) override { namer_.on_step(); }

 private:
  void take(std::vector<bool>& there) const {
    there.reserve(out_.lasting.size());
    for (const Lasting& lasting : out_.lasting) there.push_back(namer_.bytes(lasting.role) > 0);
  }
  Namer namer_;
  Path& out_;
  std::size_t window_ = 0, ops_ = 0;
};

void know_blocks(const pilot::BlockGraph& graph, const pilot::BlockLimits& limits, Path& path) {
  path.base = graph.base_type();
  path.blocks = graph.blocks(limits);
  path.block_of.resize(path.tokens.size());
  path.in_block.resize(path.tokens.size());
  for (std::uint32_t block = 0; block < path.blocks.size(); ++block) {
    const std::vector<pilot::Token>& tokens = path.blocks[block].tokens;
    for (std::uint32_t i = 0; i < tokens.size(); ++i) {
      const Place place = path.places.at(tokens[i]);
      path.block_of[place] = block;
      path.in_block[place] = i;
    }
  }
  path.runs.resize(path.blocks.size());
  path.ends.resize(path.blocks.size());
  std::vector<std::unordered_set<Place>> next(path.blocks.size());
  for (std::size_t step = 0; step < path.steps(); ++step) {
    for (std::size_t i = path.step_begin(step); i < path.step_ends[step]; ++i) {
      const std::uint32_t block = path.block_of[path.ops[i]];
      if (!path.ends_block(path.ops[i])) continue;
      const bool ends = i + 1 == path.step_ends[step];
      next[block].insert(ends ? kStepEnd : path.ops[i + 1]);
      ++path.runs[block];
      path.ends[block] += ends;
    }
  }
  for (const auto& each : next) path.ways.push_back(static_cast<std::uint32_t>(each.size()));
}

}  // namespace

Result<Path> read_path(const Program& program, const pilot::BlockLimits& limits,
                       const std::function<bool()>& cancelled) {
  if (program.threads.size() > 1) {
    return Error{ErrorCode::kInvalidArgument, "The path of a run is one row of ops, and here threads ran ops at once.", "", ""};
  }
  Path path;
  Stage first(program);
  Reader reader(first.table(), path);
  if (!first.play(reader, cancelled)) return path;
  if (path.steps() < 2) {
    return Error{ErrorCode::kInvalidArgument, "There are fewer than two whole steps: nothing to learn a path from.", "",
                 "Record more steps; where no optimizer tells of them, call outsize.step()."};
  }
  know_blocks(reader.graph(), limits, path);
  Stage second(program);
  Taker taker(second.table(), path);
  second.play(taker, cancelled);
  return path;
}

}  // namespace outsize::sim::foresight
