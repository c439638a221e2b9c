#include "core/trace/trace_encoder.h"

#include <bit>
#include <cmath>

namespace outsize::trace {
namespace {

Error cannot(const char* what) {
  return {ErrorCode::kInvalidArgument, std::string("an event of a trace cannot be written: ") + what,
          "trace", "Please report it."};
}

// Integers that a double holds exactly, which is most features, are short.
bool all_whole(std::span<const double> numbers) {
  for (const double number : numbers) {
    if (!(std::abs(number) < 0x1p53) || number != std::floor(number)) return false;
    if (number == 0 && std::signbit(number)) return false;
  }
  return true;
}

bool outside(std::int64_t value) { return value < 0 || value > static_cast<std::int64_t>(kNumberMax); }

bool names_storage(Event::Kind kind) {
  return kind >= Event::Kind::kDeath && kind <= Event::Kind::kHint;
}

// Each operand takes up to ten bytes, and so does each number of a feature.
const char* too_long(const Event& event) {
  std::size_t most = 64 + event.text.size() + 10 * event.operands.size();
  for (const Feature& feature : event.features) {
    most += 32 + feature.name.size() + 10 * feature.numbers.size();
  }
  return most > kEventMax ? "it is longer than 2 MiB" : nullptr;
}

const char* impossible_operands(const Event& event) {
  for (const Operand& operand : event.operands) {
    if (operand.storage > kNumberMax / 2) return "an operand of it has no storage";
    if (static_cast<unsigned>(operand.access) > 3) return "an access mode of it is not known";
  }
  return nullptr;
}

const char* impossible(const Event& event, const Totals& totals, StorageId next) {
  const auto kind = static_cast<std::uint8_t>(event.kind);
  if (kind == 0 || kind > kEventKinds) return "its kind is not known";
  if (event.kind == Event::Kind::kEnd) return "the end is written by finish()";
  if (outside(event.bytes)) return "its bytes are below zero or beyond all bounds";
  if (outside(event.time)) return "its time is below zero or beyond all bounds";
  if (outside(event.duration)) return "it lasts less than nothing or beyond all bounds";
  if (event.kind == Event::Kind::kBirth || event.kind == Event::Kind::kAdopt) {
    if (event.storage != next) return "storages are numbered by birth, and it has another number";
    if (outside(totals.born_bytes + event.bytes)) return "all births together are beyond all bounds";
  }
  if (names_storage(event.kind) && event.storage > kNumberMax / 2) return "it has no storage";
  if (const char* why = too_long(event)) return why;
  if (event.op_flags & kHasPlace) return "its kind is not known";
  return impossible_operands(event);
}

}  // namespace

Encoder::Encoder(Sink sink) : sink_(std::move(sink)) {
  block_.reserve(kBlockBytes + 4096);
  start_block();
}

void Encoder::start_block() {
  block_.clear();
  number(totals_.events);
  number(static_cast<std::uint64_t>(state_.time));
  number(state_.next_storage);
  prologue_ = block_.size();
  state_.restart(state_.time, state_.next_storage);
}

void Encoder::number(std::uint64_t value) {
  while (value >= 0x80) {
    block_.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  block_.push_back(static_cast<char>(value));
}

void Encoder::fixed(std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) block_.push_back(static_cast<char>(value >> shift));
}

void Encoder::text(std::string_view text) {
  number(text.size());
  block_.append(text);
}

void Encoder::site(SiteId id) {
  SiteId& remembered = state_.sites[BlockState::slot(id)];
  if (remembered == id && id != 0) {
    number(BlockState::slot(id) + 1);
    return;
  }
  number(0);
  fixed(id);
  remembered = id;
}

// Weights are old and have small numbers, what was just born has a number close to the next.
void Encoder::storage(StorageId id, unsigned extra_bits, unsigned extra) {
  const bool known = id < state_.next_storage;
  const StorageId back = known ? state_.next_storage - 1 - id : id;
  const bool from_latest = known && back < id;
  number(((from_latest ? back : id) << 1 | (from_latest ? 1 : 0)) << extra_bits | extra);
}

void Encoder::op_begin(const Event& event) {
  const unsigned flags = event.op_flags | (event.graph != 0 ? kHasPlace : 0U);
  if (flags != 0) block_.push_back(static_cast<char>(flags));
  if (event.graph != 0) graph(event.graph);
  site(event.site);
  number(event.operands.size());
  for (const Operand& operand : event.operands) {
    storage(operand.storage, 2, static_cast<unsigned>(operand.access) & 3);
  }
}

// Most nodes are made one by one, and run in reverse.
void Encoder::graph(GraphPlace place) {
  const auto since = [](std::uint32_t now, std::uint32_t before) {
    return zigzag(static_cast<std::int32_t>(now - before));
  };
  number(since(next_node(place), next_node(state_.graph)));
  number(since(running_node(place), running_node(state_.graph)));
  state_.graph = place;
}

void Encoder::features(const Event& event) {
  number(event.features.size());
  for (const Feature& feature : event.features) {
    text(feature.name);
    number(feature.numbers.size());
    const bool whole = all_whole(feature.numbers);
    block_.push_back(whole ? 0 : 1);
    for (const double value : feature.numbers) {
      if (whole) number(zigzag(static_cast<std::int64_t>(value)));
      else fixed(std::bit_cast<std::uint64_t>(value));
    }
  }
}

void Encoder::body(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kOpBegin: op_begin(event); break;
    case Event::Kind::kBirth:
    case Event::Kind::kAdopt:
      number(static_cast<std::uint64_t>(event.bytes));
      ++state_.next_storage;
      break;
    case Event::Kind::kWait:
      block_.push_back(static_cast<char>(event.cause));
      number(static_cast<std::uint64_t>(event.duration));
      break;
    case Event::Kind::kUntracked:
      site(event.site);
      number(static_cast<std::uint64_t>(event.bytes));
      break;
    case Event::Kind::kSample: features(event); break;
    case Event::Kind::kSiteName: fixed(event.site); [[fallthrough]];
    case Event::Kind::kMeta: text(event.text); break;
    default:
      if (names_storage(event.kind)) storage(event.storage, 0, 0);
      break;
  }
}

Status Encoder::write(const Event& event) {
  if (failed_) return error_;
  if (finished_) return cannot("the trace has ended");
  if (const char* why = impossible(event, totals_, state_.next_storage)) return cannot(why);
  const bool op = event.kind == Event::Kind::kOpBegin;
  const bool flag = op ? event.op_flags != 0 || event.graph != 0 : event.flag;
  const bool same = event.thread == state_.thread;
  block_.push_back(static_cast<char>(static_cast<unsigned>(event.kind) | (flag ? kFlagBit : 0U) |
                                     (same ? kSameThreadBit : 0U)));
  if (!same) number(event.thread);
  number(zigzag(event.time - state_.time));
  state_.thread = event.thread;
  state_.time = event.time;
  body(event);
  totals_.count(event);
  return block_.size() >= kBlockBytes ? give(false) : Status{};
}

Status Encoder::give(bool last) {
  if (Status fine = sink_(block_, last); !fine) {
    failed_ = true;
    error_ = fine.error();
    return fine;
  }
  start_block();
  return {};
}

Status Encoder::cut() {
  if (failed_) return error_;
  return block_.size() > prologue_ && !finished_ ? give(false) : Status{};
}

void Encoder::end_record() {
  number(totals_.events);
  number(totals_.ops);
  number(totals_.steps);
  number(totals_.births);
  number(totals_.deaths);
  number(static_cast<std::uint64_t>(totals_.born_bytes));
  number(totals_.foreign_operands);
  number(static_cast<std::uint64_t>(totals_.held_up));
}

Status Encoder::finish(Nanos time, std::uint64_t foreign_operands, Nanos held_up) {
  if (failed_) return error_;
  if (finished_) return cannot("the trace has ended");
  if (outside(time) || outside(held_up)) return cannot("its time is below zero or beyond all bounds");
  finished_ = true;
  totals_.foreign_operands = foreign_operands;
  totals_.held_up = held_up;
  const bool same = state_.thread == 0;
  block_.push_back(static_cast<char>(static_cast<unsigned>(Event::Kind::kEnd) | (same ? kSameThreadBit : 0U)));
  if (!same) number(0);
  number(zigzag(time - state_.time));
  state_.time = time;
  end_record();
  return give(true);
}

}  // namespace outsize::trace
