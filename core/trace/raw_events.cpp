#include "core/trace/raw_events.h"

#include <algorithm>

namespace outsize::trace {

void Translator::head(Event::Kind kind, const RawEvent& raw) {
  event_ = Event{};
  event_.kind = kind;
  event_.thread = raw.thread;
  // Two threads read the clock before they take the lock, perhaps in the other order.
  event_.time = std::max(encoder_.latest(), static_cast<Nanos>(raw.a) - start_);
}

Status Translator::flush() {
  if (!op_open_) return {};
  op_open_ = false;
  event_.operands = operands_;
  return encoder_.write(event_);
}

// The storage that `address` lies in, else the first one behind it.
Translator::LivingMap::iterator Translator::first_in(std::uint64_t address) {
  auto found = living_.upper_bound(address);
  if (found == living_.begin()) return found;
  const auto before = std::prev(found);
  return before->second.end > address ? before : found;
}

void Translator::operand(const RawEvent& raw) {
  if (raw.b == 0) return;  // touches nothing
  const auto access = static_cast<Access>(raw.flags);
  const std::uint64_t end = raw.a + raw.b;
  Recent& last = recent(raw.a);
  if (last.begin == raw.a && end <= last.end) {
    operands_.push_back({last.storage, access});
    return;
  }
  bool ours = false;
  for (auto at = first_in(raw.a); at != living_.end() && at->first < end; ++at) {
    operands_.push_back({at->second.storage, access});
    ours = true;
    if (at->first == raw.a && end <= at->second.end) last = {raw.a, at->second.end, at->second.storage};
  }
  if (!ours) ++foreign_;
}

Status Translator::bury(LivingMap::iterator storage) {
  Event death;
  death.kind = Event::Kind::kDeath;
  death.thread = event_.thread;
  death.time = event_.time;
  death.storage = storage->second.storage;
  Recent& last = recent(storage->first);
  if (last.storage == death.storage) last = Recent{};
  living_.erase(storage);
  return encoder_.write(death);
}

// A storage of no bytes is none: it holds nothing, and may share its address with another.
Status Translator::birth(std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0) return {};
  // Whatever was there has died without a word (memory that was adopted and freed by its owner).
  for (auto at = first_in(address); at != living_.end() && at->first < address + bytes; at = first_in(address)) {
    if (Status fine = bury(at); !fine) return fine;
  }
  event_.storage = encoder_.next_storage();
  event_.bytes = static_cast<Bytes>(bytes);
  living_[address] = {address + bytes, event_.storage, 0};
  return encoder_.write(event_);
}

// What was born before recording began, or in memory that is not ours, dies unsaid.
Status Translator::death(std::uint64_t address) {
  const auto found = living_.find(address);
  return found == living_.end() ? Status{} : bury(found);
}

Status Translator::of_range(std::uint64_t address, std::uint64_t bytes) {
  if (event_.kind == Event::Kind::kUntracked) {
    event_.bytes = static_cast<Bytes>(bytes);
    return encoder_.write(event_);
  }
  if (bytes == 0) return {};
  for (auto at = first_in(address); at != living_.end() && at->first < address + bytes; ++at) {
    if (event_.kind == Event::Kind::kPin) ++at->second.pins;
    // A pin dies with its storage; an address that has been used again was not pinned.
    if (event_.kind == Event::Kind::kUnpin && at->second.pins == 0) continue;
    if (event_.kind == Event::Kind::kUnpin) --at->second.pins;
    event_.storage = at->second.storage;
    if (Status fine = encoder_.write(event_); !fine) return fine;
  }
  return {};
}

Status Translator::text(const RawText& text) {
  event_.site = text.site;
  event_.text = text.text;
  std::vector<Feature> features;
  if (text.kind == RawText::Kind::kSample) {
    for (const auto& [name, numbers] : text.features) features.push_back({name, numbers});
    event_.features = features;
    event_.kind = Event::Kind::kSample;
  } else {
    event_.kind = text.kind == RawText::Kind::kMeta ? Event::Kind::kMeta : Event::Kind::kSiteName;
  }
  const Status fine = encoder_.write(event_);
  event_ = Event{};  // it points to the caller's memory
  return fine;
}

Status Translator::record(const RawEvent& raw, std::span<const RawText> texts) {
  using Raw = RawEvent::Kind;
  if (raw.kind == Raw::kPlace) {
    event_.graph = raw.b;
    return {};
  }
  if (raw.kind == Raw::kOperand) {
    operand(raw);
    return {};
  }
  if (raw.kind == Raw::kRange) {
    const bool born = event_.kind == Event::Kind::kBirth || event_.kind == Event::Kind::kAdopt;
    return born ? birth(raw.a, raw.b) : of_range(raw.a, raw.b);
  }
  if (Status fine = flush(); !fine) return fine;
  const bool flag = raw.flags != 0;
  switch (raw.kind) {
    case Raw::kOpBegin:
      head(Event::Kind::kOpBegin, raw);
      event_.site = raw.b;
      event_.op_flags = raw.flags;
      operands_.clear();
      op_open_ = true;
      return {};
    case Raw::kOpEnd: head(Event::Kind::kOpEnd, raw); return encoder_.write(event_);
    case Raw::kStep: head(Event::Kind::kStep, raw); return encoder_.write(event_);
    case Raw::kBirth: head(Event::Kind::kBirth, raw); return {};
    case Raw::kAdopt: head(Event::Kind::kAdopt, raw); break;
    case Raw::kExpose: head(Event::Kind::kExpose, raw); return {};
    case Raw::kRawAccess: head(Event::Kind::kRawAccess, raw); break;
    case Raw::kPin: head(Event::Kind::kPin, raw); return {};
    case Raw::kUnpin: head(Event::Kind::kUnpin, raw); return {};
    case Raw::kHint: head(Event::Kind::kHint, raw); break;
    case Raw::kDeath: head(Event::Kind::kDeath, raw); return death(raw.b);
    case Raw::kWait:
      head(Event::Kind::kWait, raw);
      event_.cause = static_cast<WaitCause>(raw.flags);
      event_.duration = static_cast<Nanos>(raw.b);
      return encoder_.write(event_);
    case Raw::kUntracked:
      head(Event::Kind::kUntracked, raw);
      event_.site = raw.b;
      return {};
    case Raw::kText:
      if (raw.b >= texts.size()) return {};  // there was no memory for it
      head(Event::Kind::kMeta, raw);
      return text(texts[raw.b]);
    case Raw::kPlace:
    case Raw::kOperand:
    case Raw::kRange: return {};
  }
  event_.flag = flag;
  return {};
}

Status Translator::translate(std::span<const RawEvent> events, std::span<const RawText> texts) {
  for (const RawEvent& raw : events) {
    if (Status fine = record(raw, texts); !fine) return fine;
  }
  return {};
}

Status Translator::finish(Nanos now, Nanos held_up) {
  if (Status fine = flush(); !fine) return fine;
  return encoder_.finish(std::max(encoder_.latest(), now - start_), foreign_, held_up);
}

}  // namespace outsize::trace
