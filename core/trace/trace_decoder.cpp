#include "core/trace/trace_decoder.h"

#include <bit>

namespace outsize::trace {
namespace {

constexpr const char* kAgain = "Copy it again from where it was recorded, or record it again.";
constexpr const char* kBeyond = "a number is beyond all bounds";
constexpr const char* kStops = "the block ends in the middle of an event";

}  // namespace

Error Decoder::fail(Error error) {
  failed_ = true;
  error_ = std::move(error);
  return error_;
}

Error Decoder::damaged() {
  return fail({ErrorCode::kInvalidArgument,
               "the trace is damaged at event " + std::to_string(totals_.events) + ": " + why_,
               "block " + std::to_string(blocks_ == 0 ? 0 : blocks_ - 1) + ", byte " + std::to_string(at_),
               kAgain});
}

bool Decoder::no(const char* why) {
  why_ = why;
  return false;
}

bool Decoder::byte(std::uint8_t& value) {
  if (at_ >= block_.size()) return no(kStops);
  value = static_cast<std::uint8_t>(block_[at_++]);
  return true;
}

bool Decoder::number(std::uint64_t& value, std::uint64_t most) {
  value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    std::uint8_t bits = 0;
    if (!byte(bits)) return false;
    if (shift == 63 && bits > 1) return no(kBeyond);
    value |= static_cast<std::uint64_t>(bits & 0x7f) << shift;
    if (bits < 0x80) return value <= most || no(kBeyond);
  }
  return no(kBeyond);
}

bool Decoder::number(std::int64_t& value) {
  std::uint64_t read = 0;
  if (!number(read)) return false;
  value = static_cast<std::int64_t>(read);
  return true;
}

bool Decoder::fixed(std::uint64_t& value) {
  if (block_.size() - at_ < 8) return no(kStops);
  value = 0;
  for (int shift = 0; shift < 64; shift += 8) {
    value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(block_[at_++])) << shift;
  }
  return true;
}

bool Decoder::text(std::string_view& text) {
  std::uint64_t size = 0;
  if (!number(size)) return false;
  if (size > block_.size() - at_) return no(kStops);
  text = std::string_view(block_).substr(at_, size);
  at_ += size;
  return true;
}

bool Decoder::site(SiteId& id) {
  std::uint64_t slot = 0;
  if (!number(slot, BlockState::kSites)) return false;
  if (slot > 0) {
    id = state_.sites[slot - 1];
    return id != 0 || no("an op site is named by a number that nothing has");
  }
  if (!fixed(id)) return false;
  state_.sites[BlockState::slot(id)] = id;
  return true;
}

bool Decoder::storage(unsigned extra_bits, StorageId& id, unsigned& extra) {
  std::uint64_t value = 0;
  if (!number(value, ~std::uint64_t{0})) return false;
  extra = static_cast<unsigned>(value & ((1U << extra_bits) - 1));
  value >>= extra_bits;
  const bool from_latest = (value & 1) != 0;
  id = value >> 1;
  if (!from_latest) return id <= kNumberMax / 2 || no(kBeyond);
  if (id >= state_.next_storage) return no("a storage is counted back from the latest to before the first");
  id = state_.next_storage - 1 - id;
  return true;
}

bool Decoder::op_begin(Event& event) {
  if (event.flag) {
    if (!byte(event.op_flags)) return false;
    if ((event.op_flags & kHasPlace) != 0 && !graph(event.graph)) return false;
    event.op_flags &= static_cast<std::uint8_t>(~kHasPlace);
    event.flag = false;
  }
  std::uint64_t count = 0;
  if (!site(event.site) || !number(count)) return false;
  if (count > block_.size() - at_) return no(kStops);
  operands_.resize(count);
  for (Operand& operand : operands_) {
    unsigned access = 0;
    if (!storage(2, operand.storage, access)) return false;
    operand.access = static_cast<Access>(access);
  }
  event.operands = operands_;
  return true;
}

bool Decoder::graph(GraphPlace& place) {
  std::uint64_t next = 0, running = 0;
  constexpr std::uint64_t kMost = 0xffffffffU;
  if (!number(next, kMost) || !number(running, kMost)) return false;
  const auto since = [](std::uint32_t before, std::uint64_t step) {
    return before + static_cast<std::uint32_t>(unzigzag(step));
  };
  state_.graph = graph_place(since(next_node(state_.graph), next), since(running_node(state_.graph), running));
  place = state_.graph;
  return true;
}

bool Decoder::features(Event& event) {
  std::uint64_t count = 0;
  if (!number(count)) return false;
  if (count > block_.size() - at_) return no(kStops);
  features_.clear();
  numbers_.clear();
  std::vector<std::size_t> sizes;
  for (std::uint64_t i = 0; i < count; ++i) {
    Feature feature;
    std::uint64_t size = 0;
    std::uint8_t form = 0;
    if (!text(feature.name) || !number(size) || !byte(form)) return false;
    if (form > 1) return no("a feature's numbers have a form that is not known");
    if (size > block_.size() - at_) return no(kStops);
    for (std::uint64_t j = 0; j < size; ++j) {
      std::uint64_t bits = 0;
      if (!(form == 0 ? number(bits, ~std::uint64_t{0}) : fixed(bits))) return false;
      numbers_.push_back(form == 0 ? static_cast<double>(unzigzag(bits)) : std::bit_cast<double>(bits));
    }
    features_.push_back(feature);
    sizes.push_back(size);
  }
  std::size_t from = 0;
  for (std::size_t i = 0; i < features_.size(); from += sizes[i++]) {
    features_[i].numbers = std::span(numbers_).subspan(from, sizes[i]);
  }
  event.features = features_;
  return true;
}

bool Decoder::end_record() {
  Totals told;
  if (!number(told.events) || !number(told.ops) || !number(told.steps) || !number(told.births) ||
      !number(told.deaths) || !number(told.born_bytes) || !number(told.foreign_operands) ||
      !number(told.held_up)) {
    return false;
  }
  totals_.foreign_operands = told.foreign_operands;
  totals_.held_up = told.held_up;
  if (told != totals_) return no("its end counts other events than it holds");
  return at_ == block_.size() || no("something follows its end");
}

bool Decoder::body(Event& event) {
  unsigned none = 0;
  switch (event.kind) {
    case Event::Kind::kOpBegin: return op_begin(event);
    case Event::Kind::kOpEnd:
    case Event::Kind::kStep: return true;
    case Event::Kind::kBirth:
    case Event::Kind::kAdopt:
      event.storage = state_.next_storage++;
      if (!number(event.bytes)) return false;
      return totals_.born_bytes + event.bytes <= static_cast<Bytes>(kNumberMax) || no(kBeyond);
    case Event::Kind::kWait: {
      std::uint8_t cause = 0;
      if (!byte(cause) || !number(event.duration)) return false;
      event.cause = static_cast<WaitCause>(cause);
      return true;
    }
    case Event::Kind::kUntracked: return site(event.site) && number(event.bytes);
    case Event::Kind::kSample: return features(event);
    case Event::Kind::kSiteName: return fixed(event.site) && text(event.text);
    case Event::Kind::kMeta: return text(event.text);
    case Event::Kind::kEnd: return end_record();
    default: return storage(0, event.storage, none);
  }
}

Status Decoder::start_block() {
  std::uint64_t events = 0, time = 0, storage = 0;
  at_ = 0;
  if (!number(events) || !number(time) || !number(storage)) return damaged();
  const bool follows = events == totals_.events && static_cast<Nanos>(time) == state_.time &&
                       storage == state_.next_storage;
  if (!follows) {
    no("this block does not follow the one before");
    return damaged();
  }
  state_.restart(state_.time, state_.next_storage);
  return {};
}

// Sees to it that there is a byte of an event, or the end of all blocks (false).
Result<bool> Decoder::fill() {
  while (at_ >= block_.size()) {
    block_.clear();
    at_ = 0;
    Result<bool> more = source_(block_);
    if (!more) return fail(more.error());
    if (!*more) return false;
    ++blocks_;
    if (ended_) return true;
    if (Status fine = start_block(); !fine) return fine.error();
  }
  return true;
}

Status Decoder::event_head(Event& event) {
  std::uint8_t tag = 0;
  std::uint64_t thread = state_.thread, delta = 0;
  if (!byte(tag)) return damaged();
  event = Event{};
  event.kind = static_cast<Event::Kind>(tag & kKindMask);
  event.flag = (tag & kFlagBit) != 0;
  const unsigned kind = tag & kKindMask;
  if (kind == 0 || kind > kEventKinds || (tag & kReservedBit) != 0) {
    --at_;
    no("no event begins like this");
    return damaged();
  }
  if ((tag & kSameThreadBit) == 0 && !number(thread, ~ThreadId{0})) return damaged();
  if (!number(delta, 2 * kNumberMax)) return damaged();
  const Nanos time = state_.time + unzigzag(delta);
  if (time < 0 || time > static_cast<Nanos>(kNumberMax)) {
    no(kBeyond);
    return damaged();
  }
  event.thread = state_.thread = static_cast<ThreadId>(thread);
  event.time = state_.time = time;
  return {};
}

Result<bool> Decoder::next(Event& event) {
  if (failed_) return error_;
  if (ended_) return false;
  Result<bool> more = fill();
  if (!more) return more.error();
  if (!*more) {
    return fail({ErrorCode::kInvalidArgument,
                 "the trace is cut off after event " + std::to_string(totals_.events) +
                     ": it has no end, and what came then is lost",
                 "block " + std::to_string(blocks_), kAgain});
  }
  if (Status fine = event_head(event); !fine) return fine.error();
  if (!body(event)) return damaged();
  if (event.kind != Event::Kind::kEnd) {
    totals_.count(event);
    return true;
  }
  ended_ = true;
  more = fill();  // nothing may follow
  if (!more) return more.error();
  if (*more) {
    no("something follows its end");
    return damaged();
  }
  return true;
}

}  // namespace outsize::trace
