#include "sim/replay.h"

#include <algorithm>
#include <utility>

#include "core/check/checker.h"
#include "core/engine/engine.h"
#include "core/trace/sample.h"
#include "planners/registry/policies.h"

namespace outsize::sim {
namespace {

// The next line with its end; empty at the end of the text.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::size_t size = end == std::string_view::npos ? rest.size() : end + 1;
  const std::string_view line = rest.substr(0, size);
  rest.remove_prefix(size);
  return line;
}

std::string without_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  return std::string(line);
}

class Replay {
 public:
  // Takes from `rest` the lines of extents that were there.
  Replay(const LogHeader& header, Beginning beginning, std::string_view& rest, ReplayResult& result)
      : log_([this](std::string_view line) { produced_ += line; }), checker_(header.budget) {
    ExtentId id = kNoExtent;
    Extent extent;
    constexpr ExtentId kExtentsMax = 1U << 24;
    for (; parse_left_over(rest.substr(0, rest.find('\n')), id, extent) && id < kExtentsMax; ++result.lines) {
      table_.ensure(id);
      table_[id] = extent;
      checker_.left_over(id, extent.bytes, extent.shared, extent.exposed, static_cast<int>(extent.pins));
      take_line(rest);
    }
    Policy policy = make_policy(header.policy, table_, std::move(beginning));
    if (!policy.planner) return;
    EngineOptions options;
    options.budget = header.budget;
    options.reading_max = header.reading_max;
    options.writing_max = header.writing_max;
    engine_ = std::make_unique<Engine>(options, std::move(policy.predictor),
                                       std::move(policy.planner), table_);
    engine_->set_log(&log_);
  }
  bool known_policy() const { return engine_ != nullptr; }

  // One input and the commands that were recorded after it; false at the first difference.
  Status step(std::string_view& rest, ReplayResult& result) {
    const std::string_view recorded = rest;
    const std::string_view first = take_line(rest);
    Input input;
    if (!parse_input(first, input, lists_)) return unreadable(first, result.lines + 1);
    if (!fits(input)) return nonsense(first, result.lines + 1);
    commands_.clear();
    while (rest.starts_with("< ")) {
      const std::string_view line = take_line(rest);
      Command& command = commands_.emplace_back();
      if (!parse_command(line, command)) return unreadable(line, result.lines + 1 + commands_.size());
    }
    checker_.observe(input, commands_);
    ++result.inputs;
    for (const Command& command : commands_) {
      result.moves += command.kind == Command::Kind::kFetch || command.kind == Command::Kind::kWrite ||
                      command.kind == Command::Kind::kEvict;
    }
    produced_.clear();
    replayed_.clear();
    engine_->step(input, replayed_);
    compare(recorded.substr(0, recorded.size() - rest.size()), result);
    return {};
  }
  void finish(ReplayResult& result) const { result.violations = checker_.violations(); }

 private:
  // Extents and threads are numbered without gaps; what an input is about has been born.
  bool fits(const Input& input) {
    constexpr ThreadId kThreadsMax = 1U << 16;
    constexpr ExtentId kAhead = 1U << 16;
    using Kind = Input::Kind;
    const auto alive = [this](ExtentId id) { return id < table_.size() && table_[id].where != Where::kFree; };
    if (input.thread >= kThreadsMax) return false;
    switch (input.kind) {
      case Kind::kOpEnd: return engine_->in_op(input.thread);
      case Kind::kOpBegin:
        return std::ranges::all_of(input.operands, [&](const OperandRef& ref) { return alive(ref.extent); });
      case Kind::kAlloc:
      case Kind::kAdopt: return input.extent < table_.size() + kAhead && input.bytes >= 0;
      case Kind::kSample: return trace::is_sample(input.sample);
      case Kind::kStep:
      case Kind::kPlan:
      case Kind::kBudget: return true;
      default: return alive(input.extent);
    }
  }
  static Error nonsense(std::string_view line, std::size_t number) {
    return {ErrorCode::kInvalidArgument,
            "a line of the decision log does not fit to what stands before it: " + without_end(line),
            "line " + std::to_string(number + 1), "Is the log whole and as it was written? Record it anew."};
  }
  static Error unreadable(std::string_view line, std::size_t number) {
    return {ErrorCode::kInvalidArgument, "a line of the decision log cannot be read: " + without_end(line),
            "line " + std::to_string(number + 1),
            "Was the run that wrote it killed? Cut the log before its last line that begins with '>'."};
  }
  void compare(std::string_view recorded, ReplayResult& result) {
    std::string_view produced = produced_;
    while (result.same && !(recorded.empty() && produced.empty())) {
      const std::string_view a = take_line(recorded), b = take_line(produced);
      ++result.lines;
      if (a == b) continue;
      result.same = false;
      result.first_difference = result.lines + 1;  // the header is line 1
      result.recorded = without_end(a);
      result.replayed = without_end(b);
    }
  }

  ExtentTable table_;
  DecisionLog log_;
  std::unique_ptr<Engine> engine_;
  check::Checker checker_;
  std::string produced_;
  Commands commands_, replayed_;
  InputLists lists_;
};

Status check_model(const LogHeader& header, const ReplayModel& model) {
  if (header.model == model.name) return {};
  if (header.model.empty()) {
    return Error{ErrorCode::kInvalidArgument, "the run that wrote the log began without a model of the pilot", "line 1",
                 "Replay it without --pilot."};
  }
  return Error{ErrorCode::kInvalidArgument,
               "the run that wrote the log began with the pilot's model " + header.model +
                   (model.name.empty() ? "" : ", and the one given is " + model.name),
               "line 1", "Give that model with --pilot FILE; `outsize pilot show FILE` says which one a file is."};
}

Status check_run(const LogHeader& header, const ReplayRun& run) {
  if (header.run == run.name) return {};
  if (header.run.empty()) {
    return Error{ErrorCode::kInvalidArgument, "the run that wrote the log foresaw from no recorded run", "line 1",
                 "Replay it without --foresee."};
  }
  return Error{ErrorCode::kInvalidArgument,
               "the run that wrote the log foresaw from the trace " + header.run +
                   (run.name.empty() ? "" : ", and the one given is " + run.name),
               "line 1", "Give that trace with --foresee FILE."};
}

}  // namespace

Result<ReplayResult> replay(std::string_view log, const std::function<bool()>& cancelled, const ReplayModel& model,
                            ReplayRun recorded) {
  constexpr std::size_t kAskEvery = 4096;  // inputs
  LogHeader header;
  if (!parse_header(take_line(log), header)) {
    return Error{ErrorCode::kInvalidArgument, "this is no decision log of this version", "line 1",
                 "Record one with --decision-log and this version of outsize."};
  }
  if (!log.empty() && !log.ends_with('\n')) {
    return Error{ErrorCode::kInvalidArgument, "the log ends in the middle of a line", "its end",
                 "Was the run that wrote it killed? Cut the log before its last line that begins with '>'."};
  }
  if (Status status = check_model(header, model); !status) return status.error();
  if (Status status = check_run(header, recorded); !status) return status.error();
  ReplayResult result;
  Replay run(header, {model.bytes, std::move(recorded.recording)}, log, result);
  if (!run.known_policy()) {
    return Error{ErrorCode::kInvalidArgument, "the log names an unknown policy: " + header.policy,
                 "line 1", "Replay it with the version of outsize that recorded it."};
  }
  result.same = true;
  result.policy = header.policy;
  result.budget = header.budget;
  while (!log.empty() && result.same) {
    if (cancelled && result.inputs % kAskEvery == 0 && cancelled()) break;
    if (Status status = run.step(log, result); !status) return status.error();
  }
  run.finish(result);
  return result;
}

}  // namespace outsize::sim
