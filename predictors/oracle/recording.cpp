#include "predictors/oracle/recording.h"

#include <algorithm>

namespace outsize::oracle {

Recording::Recording() {
  run_.clear(0);
  begin_op(0, 0, {});
}

std::uint32_t Recording::bear(Part part, Bytes bytes, Bytes whole) {
  const bool counts = part != Part::kFile;  // a file's bytes need room only as far as they are touched
  const std::uint32_t object = run_.add_object({counts ? bytes : 0, run_.size() - 1, kNone, kNone});
  objects_.push_back({part, whole});
  if (counts && !full_) run_.births.push_back(object);
  return object;
}

void Recording::bury(std::uint32_t object) {
  if (full_) return;
  run_.objects[object].death_op = run_.size() - 1;
  run_.ops.back().death_bytes += run_.objects[object].bytes;
}

void Recording::touch(std::uint32_t object) {
  if (!full_) touched_.push_back(object);
}

void Recording::begin_op(SiteId site, Nanos at, std::span<const std::uint32_t> operands) {
  full_ = full_ || run_.ops.size() == kOpsMax;
  if (full_) return;
  run_.add_op(site, at);
  operands_.push_back(static_cast<std::uint32_t>(operands.size()));
  run_.accesses.insert(run_.accesses.end(), operands.begin(), operands.end());
  run_.accesses.insert(run_.accesses.end(), touched_.begin(), touched_.end());
  touched_.clear();
}

void Recording::finish(Nanos at) { run_.finish(std::max(at, run_.ops.back().at)); }

// Of memory that was there before and lies in pieces of a chunk; those of an earlier session may be one extent.
void TraceReading::birth(const trace::Event& event) {
  constexpr Bytes kGranule = 64;  // of small storages
  using Part = Recording::Part;
  Objects objects{static_cast<std::uint32_t>(out_->run().objects.size()), 0};
  const bool adopted = event.kind == trace::Event::Kind::kAdopt;
  const auto bear = [&](Part part, Bytes bytes, Bytes whole = 0) {
    out_->bear(part, bytes, whole);
    ++objects.count;
  };
  if (adopted && event.flag) {
    bear(Part::kFile, 0);
  } else if (event.bytes < kLargeBytes) {
    if (event.bytes > 0) bear(Part::kSmall, round_up(event.bytes, kGranule));
  } else if (!adopted) {
    bear(Part::kOwn, round_up(event.bytes, kPageBytes));
  } else {
    for (Bytes at = 0; at < event.bytes; at += kChunkBytes) {
      bear(Part::kPiece, std::min(kChunkBytes, event.bytes - at), at == 0 ? round_up(event.bytes, kPageBytes) : 0);
    }
  }
  objects_.push_back(objects);
}

void TraceReading::op_begin(const trace::Event& event) {
  operands_.clear();
  for (const trace::Operand& operand : event.operands) {
    const Objects objects = objects_of(operand.storage);
    for (std::uint32_t i = 0; i < objects.count; ++i) operands_.push_back(objects.first + i);
  }
  out_->begin_op(event.site, latest_, operands_);
}

// Times are the program's own: without what it waited for bytes, room or pages.
void TraceReading::see(const trace::Event& event) {
  using Kind = trace::Event::Kind;
  if (event.kind == Kind::kWait) waited_ += event.duration;
  latest_ = std::max(latest_, event.time - waited_);
  const Objects objects = objects_of(event.storage);
  switch (event.kind) {
    case Kind::kOpBegin: op_begin(event); break;
    case Kind::kBirth:
    case Kind::kAdopt: birth(event); break;
    case Kind::kDeath:
      for (std::uint32_t i = 0; i < objects.count; ++i) out_->bury(objects.first + i);
      break;
    case Kind::kRawAccess:
    case Kind::kPin:
      for (std::uint32_t i = 0; i < objects.count; ++i) out_->touch(objects.first + i);
      break;
    default: break;
  }
}

std::unique_ptr<const Recording> TraceReading::finish() {
  out_->finish(latest_);
  return std::move(out_);
}

}  // namespace outsize::oracle
