#include "planners/dtr/dropped_classes.h"

namespace outsize::dtr {

DroppedClasses::Node DroppedClasses::new_node(Nanos compute) {
  const auto node = static_cast<Node>(up_.size());
  up_.push_back(node);
  compute_.push_back(compute);
  return node;
}

DroppedClasses::Node DroppedClasses::root(Node node) {
  while (up_[node] != node) {
    up_[node] = up_[up_[node]];
    node = up_[node];
  }
  return node;
}

void DroppedClasses::add(StorageId storage) {
  if (storage >= node_of_.size()) node_of_.resize(storage + 1, 0);
  node_of_[storage] = new_node(0);
}

void DroppedClasses::dropped(StorageId storage) {
  const Node own = new_node(graph_->facts(storage).compute);
  node_of_[storage] = own;
  auto join = [&](StorageId neighbour) {
    if (graph_->resident(neighbour) || neighbour == storage) return;
    const Node other = root(node_of_[neighbour]);
    if (other == own) return;
    up_[other] = own;
    compute_[own] += compute_[other];
  };
  for (StorageId parent : graph_->parents(storage)) join(parent);
  for (StorageId child : graph_->children(storage)) join(child);
}

void DroppedClasses::computed(StorageId storage) {
  // Its compute may have grown since it was dropped (another op made a view of it): what is taken
  // away is today's, as in the public simulator, and a class may fall below zero.
  compute_[root(node_of_[storage])] -= graph_->facts(storage).compute;
}

Nanos DroppedClasses::around(StorageId storage) {
  Nanos sum = 0;
  met_.clear();
  auto count = [&](StorageId neighbour) {
    if (graph_->resident(neighbour)) return;
    const Node found = root(node_of_[neighbour]);
    if (met_.insert(found)) sum += compute_[found];
  };
  for (StorageId parent : graph_->parents(storage)) count(parent);
  for (StorageId child : graph_->children(storage)) count(child);
  return sum;
}

}  // namespace outsize::dtr
