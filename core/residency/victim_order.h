// Resident extents in the order in which they leave: the next victim is the one with the largest key
// (farthest next use); ties go to the smaller id.
//
// Those who look for victims look at some tens from the best on, again and again, while every use of an extent
// changes a key somewhere. So only some of the best are kept in order, in rows that are read one after another; all
// others lie in a bag, where a change costs O(1). When the rows have been read to their end, the best of the bag
// come out of it, O(n) for up to a quarter of them. Where rows begin tells in which one a key belongs: a change
// there costs O(log n) and the move of half a row at most. Nothing is allocated once the table has its size, but
// for rows.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/large_table.h"
#include "core/residency/extent.h"

namespace outsize {

class VictimOrder {
 public:
  void ensure(ExtentId id);
  bool contains(ExtentId id) const { return id < known_.size() && (in_[id / 64] >> (id % 64) & 1) != 0; }
  void put(ExtentId id, Position key);  // insert or change the key
  void remove(ExtentId id) {
    if (!contains(id)) return;
    in_[id / 64] &= ~(std::uint64_t{1} << (id % 64));
    erase(id);
  }
  Position key(ExtentId id) const { return known_[id].key; }
  std::size_t size() const { return in_rows_ + bag_.size(); }
  // Calls visit(id) from the best victim on, until it returns false. It must not change the order.
  template <class Visit>
  void in_order(Visit visit) {
    for (std::size_t place = 0; place < order_.size() || refill(); ++place) {
      const Row& row = rows_[order_[place]];
      for (std::uint32_t i = row.begin; i < row.end; ++i) {
        if (!visit(row.nodes[i].id)) return;
      }
    }
  }
  // Changes every key at once: `key_of(id)`; O(n).
  template <class KeyOf>
  void rebuild(KeyOf key_of) {
    empty_rows();
    for (Node& node : bag_) node.key = known_[node.id].key = key_of(node.id);
  }

 private:
  static constexpr std::uint32_t kOut = 0xffffffffU, kBag = 0xfffffffeU;  // in place of a row
  static constexpr std::uint32_t kRow = 64;
  static constexpr std::uint32_t kRowLaidOut = 48;      // room is left for what comes
  static constexpr std::uint32_t kRowLow = 8;           // fewer join a neighbour, if both fill half a row at most
  // Nodes that come out of the bag at a time: about a quarter of it, within these.
  static constexpr std::size_t kRefillMin = 32, kRefillMax = 2048;
  static constexpr std::size_t kRowsMax = 4 * kRefillMax;  // nodes in rows
  struct Node {
    Position key;
    ExtentId id;
    // 1 or 0: whether it is before is as good as random where it is looked for, so no branch is taken on it.
    std::uint32_t before(const Node& other) const {
      return static_cast<std::uint32_t>(key > other.key) |
             (static_cast<std::uint32_t>(key == other.key) & static_cast<std::uint32_t>(id < other.id));
    }
  };
  static constexpr Node kBestOfAll{kNever, 0}, kWorstOfAll{0, kNoExtent};
  struct Row {  // best first, in [begin, end): what leaves, leaves in front
    std::uint32_t begin = 0, end = 0;
    std::array<Node, kRow> nodes;
    std::uint32_t size() const { return end - begin; }
  };
  struct Known {
    Position key = 0;
    std::uint32_t row = kOut;  // in which it is
    std::uint32_t at = 0;      // in the bag
  };

  void erase(ExtentId id);
  void erase_from_row(ExtentId id);
  void insert(const Node& node);
  // the bag
  void put_in_bag(const Node& node);
  void take_out_of_bag(std::uint32_t at);
  bool refill();
  void empty_rows();
  void empty_last_row();
  // rows
  std::size_t place_of(const Node& node) const;
  static std::uint32_t find(const Row& row, const Node& node);
  static void open(Row& row, std::uint32_t at, const Node& node);
  void append(std::uint32_t row, const Node* first, std::uint32_t count);
  void add_row(std::size_t place, const Node* first, std::uint32_t count);
  void drop_row(std::size_t place);
  void split(std::size_t place);
  void join(std::size_t place);

  std::vector<Row> rows_;
  std::vector<std::uint32_t> order_;    // rows, best first
  std::vector<Node> begins_;            // like order_: what comes before it lies in rows before; not of the first
  std::vector<std::uint32_t> unused_;   // rows
  std::vector<Node> bag_;
  Node bound_ = kBestOfAll;             // what is before it lies in rows, all else in the bag
  std::size_t in_rows_ = 0;             // nodes
  LargeTable<Known> known_;             // by id
  std::vector<std::uint64_t> in_;       // by id, a bit each: who asks about a thousand of them waits for no memory
  std::vector<Node> scratch_;
};

}  // namespace outsize
