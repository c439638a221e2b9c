// The C++ front door: include/outsize/outsize.h on top of control.h.

#include "adapter/control.h"
#include "adapter/interception.h"
#include "adapter/wishes.h"
// After the headers above, in which `Error` means the internal struct.
#include "outsize/outsize.h"

#include <ATen/core/Tensor.h>
#include <torch/version.h>

#include <cstdio>
#include <utility>

namespace outsize {
namespace {

void check(const Status& status) {
  if (status.ok()) return;
  const auto& error = status.error();
  switch (error.code) {
    case ErrorCode::kOutOfBudget: throw api::BudgetError(error.message());
    case ErrorCode::kOutOfSpace:
    case ErrorCode::kIo: throw api::SpillError(error.message());
    default: throw api::Error(error.message());
  }
}

// What a trace says of the run. Names of policies need no escapes: no other one makes a session.
std::string record_meta(const SessionOptions& options) {
  const bool whole = options.process_budget > 0;
  return "{\"torch\": \"" TORCH_VERSION "\", \"policy\": \"" + options.policy + "\", \"" +
         (whole ? "budget_rss" : "budget") + "\": " + std::to_string(whole ? options.process_budget : options.budget) +
         "}";
}

void end_recording() {
  const host::Recorded recorded = host::Runtime::end_recording();
  if (!recorded.error.empty()) std::fprintf(stderr, "outsize: %s\n", recorded.error.c_str());
}

}  // namespace

inline namespace api {

Session::Session(const SessionOptions& options) {
  const auto faults = adapter::fault_mechanism(options.faults);
  if (!faults) throw api::Error(faults.error().message());
  host::RuntimeOptions wanted;
  wanted.budget = options.budget;
  wanted.process_budget = options.process_budget;
  wanted.policy = options.policy;
  wanted.pilot = options.pilot;
  wanted.foresee = options.foresee;
  wanted.spill_dir = options.spill_dir;
  wanted.spill_limit = options.spill_limit;
  wanted.disk_write_limit = options.disk_write_limit;
  wanted.faults = faults.value();
  wanted.io_threads = options.io_threads;
  wanted.verify = options.verify;
  wanted.decision_log = options.decision_log;
  wanted.record = options.record;
  wanted.record_meta = record_meta(options);
  check(adapter::enable(wanted));
  adapter::with_runtime([](host::Runtime& runtime) {
    const std::string warning = runtime.stats().warning;
    if (!warning.empty()) std::fprintf(stderr, "outsize: %s\n", warning.c_str());
  });
  open_ = true;
  thread_was_covered_ = adapter::include_thread(true);
}

Session::~Session() {
  try {
    close();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "outsize: the session ends with its tensors still managed: %s\n",
                 error.what());
    end_recording();
  }
}

void Session::close() {
  if (!open_) return;
  check(adapter::disable());
  open_ = false;
  end_recording();
  adapter::include_thread(thread_was_covered_);
}

void Session::step() {
  adapter::with_runtime([](host::Runtime& runtime) { runtime.step(); });
}

SessionStats Session::stats() const {
  SessionStats result;
  adapter::with_runtime([&](host::Runtime& runtime) {
    const host::Stats stats = runtime.stats();
    result.budget = stats.budget;
    result.resident = stats.resident;
    result.resident_peak = stats.resident_peak;
    result.tensor_bytes = stats.tensor_bytes;
    result.tensor_bytes_peak = stats.tensor_bytes_peak;
    result.pinned = stats.pinned;
    result.spilled = stats.spilled;
    result.spill_file = stats.spill_file;
    result.read_bytes = stats.read_bytes;
    result.write_bytes = stats.write_bytes;
    result.prefetched_bytes = stats.prefetched_bytes;
    result.prefetch_hit_bytes = stats.prefetch_hit_bytes;
    result.demand_bytes = stats.demand_bytes;
    result.stall_nanoseconds = stats.stall;
    result.steps = stats.steps;
    result.ops = stats.ops;
    result.evictions = stats.evictions;
    result.min_budget = stats.min_budget;
    result.min_budget_op = stats.min_budget_op;
    result.refused_ops = stats.refused_ops;
    result.min_spill_file = stats.min_spill_file;
    result.mechanism = stats.mechanism;
    result.policy = stats.policy;
    result.spill_dir = stats.spill_dir;
  });
  return result;
}

void hint(const at::Tensor& tensor, Use next) { adapter::hint(tensor, next == Use::kSoon); }

struct Pin::Held {
  host::Pins pins;
};

Pin::Pin(const at::Tensor& tensor) : held_(std::make_unique<Held>()) {
  auto pins = adapter::pin_for_program(tensor);
  if (!pins) check(pins.error());
  held_->pins = std::move(*pins);
}

Pin::~Pin() { release(); }
Pin::Pin(Pin&& other) noexcept = default;

Pin& Pin::operator=(Pin&& other) noexcept {
  if (this == &other) return *this;
  release();
  held_ = std::move(other.held_);
  return *this;
}

void Pin::release() noexcept {
  if (held_ != nullptr) host::Runtime::unpin(held_->pins);
  held_.reset();
}

ThreadGuard::ThreadGuard() : before_(adapter::include_thread(true)) {}
ThreadGuard::~ThreadGuard() { adapter::include_thread(before_); }

}  // namespace api
}  // namespace outsize
