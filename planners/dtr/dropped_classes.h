// The cheap stand-in for e*: absent neighbours are joined into classes (union-find), each with the
// sum of its members' compute. Dropping joins; computing again takes the storage's own compute from
// its class and leaves the others joined, although nothing may connect them any more.
#pragma once

#include <vector>

#include "planners/dtr/storage_graph.h"

namespace outsize::dtr {

class DroppedClasses {
 public:
  explicit DroppedClasses(const StorageGraph& graph) : graph_(&graph) {}

  // A new storage, absent until its op runs: a class of its own that costs nothing.
  void add(StorageId storage);
  void dropped(StorageId storage);
  void computed(StorageId storage);
  // The compute of the different classes around a resident storage.
  Nanos around(StorageId storage);

 private:
  using Node = std::uint32_t;
  Node new_node(Nanos compute);
  Node root(Node node);

  const StorageGraph* graph_;
  std::vector<Node> node_of_;   // by storage; means something while it is absent
  std::vector<Node> up_;        // by node; a root points to itself
  std::vector<Nanos> compute_;  // by node; means something at roots
  Marks met_;
};

}  // namespace outsize::dtr
