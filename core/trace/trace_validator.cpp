#include "core/trace/trace_validator.h"

#include "core/base/idioms.h"

namespace outsize::trace {
namespace {

std::string of(StorageId storage) { return "storage " + std::to_string(storage); }

const char* doing(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kDeath: return "dies";
    case Event::Kind::kExpose: return "is exposed";
    case Event::Kind::kRawAccess: return "is touched raw";
    case Event::Kind::kPin: return "is pinned";
    case Event::Kind::kUnpin: return "is unpinned";
    default: return "gets a hint";
  }
}

}  // namespace

void Validator::problem(std::string what) {
  ++found_;
  if (problems_.size() < kProblemsMax) problems_.push_back({events_, std::move(what)});
}

Validator::Living* Validator::living(StorageId storage, const char* doing) {
  const auto found = living_.find(storage);
  if (found != living_.end()) return &found->second;
  problem(of(storage) + " " + doing + (storage < next_ ? " after its death." : " before its birth."));
  return nullptr;
}

void Validator::time(const Event& event) {
  if (event.time < latest_) {
    problem("Time goes back by " + std::to_string(latest_ - event.time) + " ns.");
  }
  latest_ = event.time;
}

void Validator::op_begin(const Event& event) {
  ++ops_;
  ++open_[event.thread];
  if (event.op_flags > kOpFlags) {
    problem("An op has flags that are not known: " + std::to_string(event.op_flags) + ".");
  }
  if (const IdiomClass number = idiom_class_of(event.site); number >= idiom_classes()) {
    problem("An op has an idiom class that is not known: " + std::to_string(number) + ".");
  }
  for (const Operand& operand : event.operands) {
    living(operand.storage, "is used");
    if (operand.access != Access::kRead && operand.access != Access::kWrite) {
      problem("An op's access to " + of(operand.storage) + " is neither a read nor a write.");
    }
  }
}

void Validator::op_end(const Event& event) {
  const auto open = open_.find(event.thread);
  if (open == open_.end() || open->second == 0) {
    problem("An op ends on thread " + std::to_string(event.thread) + " where none has begun.");
    return;
  }
  --open->second;
}

void Validator::birth(const Event& event) {
  if (event.storage != next_) {
    problem(of(event.storage) + " is born where " + std::to_string(next_) + " is the next number.");
    return;
  }
  ++next_;
  born_bytes_ += static_cast<std::uint64_t>(event.bytes);
  living_[event.storage].bytes = event.bytes;
  if (event.bytes == 0) problem(of(event.storage) + " is born with no bytes.");
}

void Validator::of_storage(const Event& event) {
  deaths_ += event.kind == Event::Kind::kDeath;
  Living* storage = living(event.storage, doing(event.kind));
  if (storage == nullptr) return;
  if (event.kind == Event::Kind::kDeath) living_.erase(event.storage);
  if (event.kind == Event::Kind::kPin) ++storage->pins;
  if (event.kind == Event::Kind::kUnpin && storage->pins-- == 0) {
    storage->pins = 0;
    problem(of(event.storage) + " is unpinned and was not pinned.");
  }
}

void Validator::event(const Event& event) {
  if (ended_) problem("An event follows the end.");
  time(event);
  switch (event.kind) {
    case Event::Kind::kOpBegin: op_begin(event); break;
    case Event::Kind::kOpEnd: op_end(event); break;
    case Event::Kind::kBirth:
    case Event::Kind::kAdopt: birth(event); break;
    case Event::Kind::kDeath:
    case Event::Kind::kExpose:
    case Event::Kind::kRawAccess:
    case Event::Kind::kPin:
    case Event::Kind::kUnpin:
    case Event::Kind::kHint: of_storage(event); break;
    case Event::Kind::kWait:
      if (static_cast<std::uint8_t>(event.cause) >= kWaitCauses) {
        problem("A wait has a cause that is not known.");
      }
      if (event.duration > event.time) problem("A wait is longer than the trace so far.");
      break;
    case Event::Kind::kStep: ++steps_; break;
    case Event::Kind::kEnd: ended_ = true; return;  // is none of the events that it counts
    case Event::Kind::kMeta:
    case Event::Kind::kSiteName:
    case Event::Kind::kUntracked:
    case Event::Kind::kSample: break;
  }
  ++events_;
}

void Validator::compare(const char* what, std::uint64_t told, std::uint64_t counted) {
  if (told == counted) return;
  problem("The end counts " + std::to_string(told) + " " + what + ", and the trace has " +
          std::to_string(counted) + ".");
}

void Validator::finish(const Totals& totals) {
  if (!ended_) problem("The trace has no end.");
  for (const auto& [thread, open] : open_) {
    if (open == 0) continue;
    problem("On thread " + std::to_string(thread) + " " + std::to_string(open) + " of the ops have no end.");
  }
  compare("events", totals.events, events_);
  compare("ops", totals.ops, ops_);
  compare("steps", totals.steps, steps_);
  compare("births", totals.births, next_);
  compare("deaths", totals.deaths, deaths_);
  compare("bytes born", static_cast<std::uint64_t>(totals.born_bytes), born_bytes_);
}

}  // namespace outsize::trace
