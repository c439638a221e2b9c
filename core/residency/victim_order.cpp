#include "core/residency/victim_order.h"

#include <algorithm>

namespace outsize {

void VictimOrder::ensure(ExtentId id) {
  if (id < known_.size()) return;
  const std::size_t size = id + 1 + id / 2;
  known_.resize(size);
  in_.resize(size / 64 + 1, 0);
  bag_.reserve(size);
  scratch_.reserve(size);
}

void VictimOrder::put(ExtentId id, Position key) {
  ensure(id);
  Known& known = known_[id];
  const Node node{key, id};
  if (known.row == kBag && !node.before(bound_)) {
    bag_[known.at].key = known.key = key;
    return;
  }
  if (known.row != kOut) {
    if (known.key == key) return;
    erase(id);
  } else {
    in_[id / 64] |= std::uint64_t{1} << (id % 64);
  }
  known.key = key;
  insert(node);
}

void VictimOrder::erase(ExtentId id) {
  if (known_[id].row == kBag) {
    take_out_of_bag(known_[id].at);
  } else {
    erase_from_row(id);
  }
}

// --- the bag ----------------------------------------------------------------------------------

void VictimOrder::put_in_bag(const Node& node) {
  known_[node.id].row = kBag;
  known_[node.id].at = static_cast<std::uint32_t>(bag_.size());
  bag_.push_back(node);
}

void VictimOrder::take_out_of_bag(std::uint32_t at) {
  known_[bag_[at].id].row = kOut;
  if (at + 1 < bag_.size()) known_[bag_.back().id].at = at;
  bag_[at] = bag_.back();
  bag_.pop_back();
}

// Everything in rows is before everything in the bag: what comes out goes behind. Some of the bag tell which node it is
// that about so many are before.
bool VictimOrder::refill() {
  constexpr std::size_t kSamplesMax = 256;
  if (bag_.empty()) return false;
  const auto before = [](const Node& a, const Node& b) { return a.before(b) != 0; };
  scratch_.clear();
  bound_ = kWorstOfAll;
  const std::size_t wanted = std::clamp(bag_.size() / 4, kRefillMin, kRefillMax);
  if (bag_.size() > 2 * wanted) {
    const std::size_t samples = std::min(kSamplesMax, bag_.size());
    for (std::size_t i = 0; i < samples; ++i) scratch_.push_back(bag_[i * bag_.size() / samples]);
    const std::size_t enough = std::max<std::size_t>(samples * wanted / bag_.size(), 1);  // never none
    const auto at = scratch_.begin() + static_cast<std::ptrdiff_t>(enough);
    std::nth_element(scratch_.begin(), at, scratch_.end(), before);
    bound_ = *at;
    scratch_.clear();
  }
  for (const Node& node : bag_) {
    if (node.before(bound_)) scratch_.push_back(node);
  }
  for (const Node& node : scratch_) take_out_of_bag(known_[node.id].at);
  if (!std::is_sorted(scratch_.begin(), scratch_.end(), before)) std::sort(scratch_.begin(), scratch_.end(), before);
  for (std::size_t at = 0; at < scratch_.size(); at += kRowLaidOut) {
    const std::size_t count = std::min<std::size_t>(kRowLaidOut, scratch_.size() - at);
    add_row(order_.size(), &scratch_[at], static_cast<std::uint32_t>(count));
  }
  in_rows_ += scratch_.size();
  return true;
}

void VictimOrder::empty_last_row() {
  const Row& row = rows_[order_.back()];
  for (std::uint32_t i = row.begin; i < row.end; ++i) put_in_bag(row.nodes[i]);
  in_rows_ -= row.size();
  drop_row(order_.size() - 1);
}

void VictimOrder::empty_rows() {
  while (!order_.empty()) empty_last_row();
  bound_ = kBestOfAll;
}

// --- rows -------------------------------------------------------------------------------------

// The last row that begins with `node` or before it.
std::size_t VictimOrder::place_of(const Node& node) const {
  std::size_t place = 0;
  for (std::size_t count = order_.size(); count > 1;) {
    const std::size_t half = count / 2;
    place += half & (std::size_t{node.before(begins_[place + half])} - 1);
    count -= half;
  }
  return place;
}

// Where `node` is in the row, which has some, or would be. Often that is the end: what was used just now is there
// where the longest unused leaves, and goes there.
std::uint32_t VictimOrder::find(const Row& row, const Node& node) {
  if (row.nodes[row.end - 1].id == node.id) return row.end - 1;
  if (row.nodes[row.end - 1].before(node)) return row.end;
  std::uint32_t at = row.begin;
  for (std::uint32_t count = row.size(); count > 0;) {
    const std::uint32_t half = (count + 1) / 2;
    at += half & (0 - row.nodes[at + half - 1].before(node));
    count -= half;
  }
  return at;
}

void VictimOrder::insert(const Node& node) {
  if (!node.before(bound_)) return put_in_bag(node);
  if (in_rows_ == kRowsMax) {
    bound_ = begins_.back();
    empty_last_row();
    return insert(node);
  }
  ++in_rows_;
  if (order_.empty()) return add_row(0, &node, 1);
  std::size_t place = place_of(node);
  if (rows_[order_[place]].size() == kRow) {
    const Row& full = rows_[order_[place]];
    const bool behind_all = place + 1 == order_.size() && full.nodes[kRow - 1].before(node) != 0;
    if (behind_all) return add_row(place + 1, &node, 1);  // they come in order: half full rows would stay so
    split(place);
    place += 1 - node.before(begins_[place + 1]);
  }
  known_[node.id].row = order_[place];
  Row& row = rows_[order_[place]];
  open(row, find(row, node), node);
}

// Puts `node` there, and moves what is on the shorter side, where that has room.
void VictimOrder::open(Row& row, std::uint32_t at, const Node& node) {
  Node* const nodes = row.nodes.data();
  if (row.begin > 0 && (row.end == kRow || at - row.begin < row.end - at)) {
    std::copy(nodes + row.begin, nodes + at, nodes + row.begin - 1);
    --row.begin;
    nodes[at - 1] = node;
  } else {
    std::copy_backward(nodes + at, nodes + row.end, nodes + row.end + 1);
    ++row.end;
    nodes[at] = node;
  }
}

void VictimOrder::erase_from_row(ExtentId id) {
  --in_rows_;
  const Node node{known_[id].key, id};
  Row& row = rows_[known_[id].row];
  known_[id].row = kOut;
  Node* const nodes = row.nodes.data();
  const std::uint32_t at = find(row, node);
  if (at - row.begin < row.end - at) {
    std::copy_backward(nodes + row.begin, nodes + at, nodes + at + 1);
    ++row.begin;
  } else {
    std::copy(nodes + at + 1, nodes + row.end, nodes + at);
    --row.end;
  }
  if (row.size() == 0) {
    drop_row(place_of(node));
  } else if (row.size() < kRowLow) {
    join(place_of(node));
  }
}

// Behind what the row has.
void VictimOrder::append(std::uint32_t row, const Node* first, std::uint32_t count) {
  Row& r = rows_[row];
  std::copy_n(first, count, r.nodes.data() + r.end);
  r.end += count;
  for (std::uint32_t i = 0; i < count; ++i) known_[first[i].id].row = row;
}

void VictimOrder::add_row(std::size_t place, const Node* first, std::uint32_t count) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(rows_.size()));
    rows_.emplace_back();
  }
  const std::uint32_t row = unused_.back();
  unused_.pop_back();
  rows_[row].begin = rows_[row].end = 0;
  append(row, first, count);
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(place), row);
  begins_.insert(begins_.begin() + static_cast<std::ptrdiff_t>(place), *first);
}

void VictimOrder::drop_row(std::size_t place) {
  unused_.push_back(order_[place]);
  order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(place));
  begins_.erase(begins_.begin() + static_cast<std::ptrdiff_t>(place));
}

void VictimOrder::split(std::size_t place) {
  Row& row = rows_[order_[place]];
  std::array<Node, kRow / 2> half;  // the row may move when another is added
  row.end -= kRow / 2;
  std::copy_n(row.nodes.data() + row.end, kRow / 2, half.data());
  add_row(place + 1, half.data(), kRow / 2);
}

// The row is nearly empty: it and the one behind it, or before it where it is the last, become one if that is no more
// than half full.
void VictimOrder::join(std::size_t place) {
  if (order_.size() == 1) return;
  if (place + 1 == order_.size()) --place;
  Row& row = rows_[order_[place]];
  const Row& next = rows_[order_[place + 1]];
  if (row.size() + next.size() > kRow / 2) return;
  if (row.end + next.size() > kRow) {
    std::copy(row.nodes.data() + row.begin, row.nodes.data() + row.end, row.nodes.data());
    row.end = row.size();
    row.begin = 0;
  }
  append(order_[place], next.nodes.data() + next.begin, next.size());
  drop_row(place + 1);
}

}  // namespace outsize
