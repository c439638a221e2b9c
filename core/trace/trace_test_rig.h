// For tests of traces: events that own what they point to, a small trace by hand, random ones that
// make sense, and encoding to and from blocks in memory.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "core/base/idioms.h"
#include "core/trace/trace_decoder.h"
#include "core/trace/trace_encoder.h"
#include "core/trace/trace_event.h"

namespace outsize::trace {

struct OwnedFeature {
  std::string name;
  std::vector<double> numbers;
  bool operator==(const OwnedFeature&) const = default;
};

struct OwnedEvent {
  Event plain;  // its pointers are not used
  std::vector<Operand> operands;
  std::vector<OwnedFeature> features;
  std::string text;

  OwnedEvent() = default;
  explicit OwnedEvent(const Event& event)
      : plain(event), operands(event.operands.begin(), event.operands.end()), text(event.text) {
    for (const Feature& feature : event.features) {
      features.push_back({std::string(feature.name), {feature.numbers.begin(), feature.numbers.end()}});
    }
  }
  bool operator==(const OwnedEvent& other) const {
    const Event &a = plain, &b = other.plain;
    return a.kind == b.kind && a.flag == b.flag && a.op_flags == b.op_flags && a.cause == b.cause &&
           a.thread == b.thread && a.time == b.time && a.site == b.site && a.graph == b.graph && a.storage == b.storage &&
           a.bytes == b.bytes && a.duration == b.duration && operands == other.operands &&
           features == other.features && text == other.text;
  }
};

using Events = std::vector<OwnedEvent>;
using Blocks = std::vector<std::string>;

// Calls `with` with an event whose pointers are good meanwhile.
template <class With>
auto borrowed(const OwnedEvent& owned, With with) {
  Event event = owned.plain;
  std::vector<Feature> features;
  for (const OwnedFeature& feature : owned.features) features.push_back({feature.name, feature.numbers});
  event.operands = owned.operands;
  event.features = features;
  event.text = owned.text;
  return with(event);
}

inline Encoder::Sink into(Blocks& blocks) {
  return [&blocks](std::string_view block, bool) {
    blocks.emplace_back(block);
    return Status{};
  };
}

inline Decoder::Source from(const Blocks& blocks) {
  return [&blocks, next = std::size_t{0}](std::string& block) mutable -> Result<bool> {
    if (next == blocks.size()) return false;
    block = blocks[next++];
    return true;
  };
}

// Blocks of a whole trace of these events, which end with a kEnd; cut by hand every `cut_every`.
inline Blocks encoded(const Events& events, std::size_t cut_every = 0) {
  Blocks blocks;
  Encoder encoder(into(blocks));
  std::size_t written = 0;
  for (const OwnedEvent& owned : events) {
    const Status fine = owned.plain.kind == Event::Kind::kEnd
                            ? encoder.finish(owned.plain.time)
                            : borrowed(owned, [&](const Event& event) { return encoder.write(event); });
    if (!fine) return {"cannot be encoded: " + fine.error().message()};
    if (cut_every > 0 && ++written % cut_every == 0 && !encoder.cut()) return {};
  }
  return blocks;
}

struct Decoded {
  Events events;
  Totals totals;
  std::string error;  // empty: it is whole
};

inline Decoded decoded(const Blocks& blocks) {
  Decoded all;
  Decoder decoder(from(blocks));
  Event event;
  for (;;) {
    const Result<bool> more = decoder.next(event);
    if (!more.ok()) all.error = more.error().message();
    if (!more.ok() || !more.value()) break;
    all.events.emplace_back(event);
  }
  all.totals = decoder.totals();
  return all;
}

// Makes events that make sense: several threads with nested ops, storages that are born, used and
// die. The last one is the end.
class RandomTrace {
 public:
  explicit RandomTrace(std::uint64_t seed) : random_(seed) {}

  Events make(std::size_t events) {
    Events all;
    for (std::size_t i = 0; i < events; ++i) all.push_back(one());
    for (ThreadId thread = 0; thread < kThreads; ++thread) {
      for (; depth_[thread] > 0; --depth_[thread]) {
        all.push_back(plain(Event::Kind::kOpEnd));
        all.back().plain.thread = thread;
      }
    }
    all.push_back(plain(Event::Kind::kEnd));
    all.back().plain.thread = 0;
    return all;
  }

 private:
  static constexpr ThreadId kThreads = 3;

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  SiteId site() {
    if (below(40) == 0) return 0;
    const std::uint64_t number = below(3000) + 1;
    return with_idiom_class(number * 0x9e3779b97f4a7c15ULL, static_cast<IdiomClass>(number % idiom_classes()));
  }
  std::string letters() { return std::string(below(20), static_cast<char>('a' + below(26))); }

  OwnedEvent plain(Event::Kind kind) {
    OwnedEvent owned;
    owned.plain.kind = kind;
    owned.plain.time = now_ += static_cast<Nanos>(below(4) == 0 ? below(1U << 30) : below(2000));
    owned.plain.thread = static_cast<ThreadId>(below(kThreads));
    return owned;
  }

  OwnedEvent one() {
    const std::uint64_t dice = below(100);
    if (dice < 30) return op_begin();
    if (dice < 55) return op_end();
    if (dice < 75 || living_.empty()) return birth();
    if (dice < 90) return of_storage(Event::Kind::kDeath);
    if (dice < 97) {
      constexpr Event::Kind kinds[] = {Event::Kind::kExpose, Event::Kind::kRawAccess, Event::Kind::kPin,
                                       Event::Kind::kHint};
      return of_storage(kinds[below(4)]);
    }
    return rare();
  }

  OwnedEvent op_begin() {
    OwnedEvent owned = plain(Event::Kind::kOpBegin);
    owned.plain.site = site();
    owned.plain.op_flags = static_cast<std::uint8_t>(below(2) == 0 ? 0 : below(kOpFlags + 1));
    if (below(2) == 0) owned.plain.graph = below(4) == 0 ? random_() : graph_place(below(1000), below(1000));
    for (std::uint64_t left = living_.empty() ? 0 : below(6); left > 0; --left) {
      owned.operands.push_back({living_[below(living_.size())], below(3) == 0 ? Access::kWrite : Access::kRead});
    }
    ++depth_[owned.plain.thread];
    return owned;
  }

  OwnedEvent op_end() {
    OwnedEvent owned = plain(Event::Kind::kOpEnd);
    for (ThreadId thread = 0; thread < kThreads; ++thread) {
      if (depth_[thread] == 0) continue;
      owned.plain.thread = thread;
      --depth_[thread];
      return owned;
    }
    return plain(Event::Kind::kStep);
  }

  OwnedEvent birth() {
    OwnedEvent owned = plain(below(8) == 0 ? Event::Kind::kAdopt : Event::Kind::kBirth);
    owned.plain.flag = owned.plain.kind == Event::Kind::kAdopt && below(2) == 0;
    owned.plain.bytes = static_cast<Bytes>(1 + below(std::uint64_t{1} << below(40)));
    owned.plain.storage = next_++;
    living_.push_back(owned.plain.storage);
    return owned;
  }

  OwnedEvent of_storage(Event::Kind kind) {
    OwnedEvent owned = plain(kind);
    const std::uint64_t which = below(living_.size());
    owned.plain.storage = living_[which];
    if (kind == Event::Kind::kRawAccess || kind == Event::Kind::kHint) owned.plain.flag = below(2) == 0;
    if (kind == Event::Kind::kDeath) living_.erase(living_.begin() + static_cast<std::ptrdiff_t>(which));
    return owned;
  }

  OwnedEvent rare() {
    constexpr Event::Kind kinds[] = {Event::Kind::kMeta, Event::Kind::kSiteName, Event::Kind::kWait,
                                     Event::Kind::kUntracked, Event::Kind::kSample};
    OwnedEvent owned = plain(kinds[below(5)]);
    switch (owned.plain.kind) {
      case Event::Kind::kMeta: owned.text = "{\"x\": \"" + letters() + "\"}"; break;
      case Event::Kind::kSiteName:
        owned.plain.site = site();
        owned.text = letters();
        break;
      case Event::Kind::kWait:
        owned.plain.cause = static_cast<WaitCause>(below(kWaitCauses));
        owned.plain.duration = static_cast<Nanos>(below(static_cast<std::uint64_t>(now_) + 1));
        break;
      case Event::Kind::kUntracked:
        owned.plain.site = site();
        owned.plain.bytes = static_cast<Bytes>(below(1U << 30));
        break;
      default:
        for (std::uint64_t left = below(4); left > 0; --left) {
          OwnedFeature feature{letters(), {}};
          for (std::uint64_t more = below(5); more > 0; --more) {
            const auto number = static_cast<double>(random_());
            feature.numbers.push_back(below(2) == 0 ? number / 3 : -static_cast<double>(below(1000)));
          }
          owned.features.push_back(feature);
        }
    }
    return owned;
  }

  std::mt19937_64 random_;  // its numbers are the standard's: the same everywhere
  Nanos now_ = 0;
  StorageId next_ = 0;
  std::vector<StorageId> living_;
  std::uint64_t depth_[kThreads] = {};
};

}  // namespace outsize::trace
