#include "planners/dtr/dropped_regions.h"

#include <algorithm>

namespace outsize::dtr {

void DroppedRegions::add(StorageId storage) {
  if (storage >= regions_.size()) regions_.resize(storage + 1);
}

void DroppedRegions::build(StorageId base, Way way) {
  Region& region = regions_[base][way];
  region.interior.clear();
  region.frontier.clear();
  region.compute = 0;
  inside_.clear();
  edge_.clear();
  stack_.assign(1, base);
  while (!stack_.empty()) {
    const StorageId storage = stack_.back();
    stack_.pop_back();
    for (StorageId neighbour : next(storage, way)) {
      if (graph_->resident(neighbour)) {
        // The regions of kept storages are never asked for: they need not hear of changes.
        if (neighbour != base && !graph_->kept(neighbour) && edge_.insert(neighbour)) {
          region.frontier.push_back(neighbour);
        }
      } else if (inside_.insert(neighbour)) {
        region.compute += graph_->facts(neighbour).compute;
        region.interior.push_back(neighbour);
        stack_.push_back(neighbour);
      }
    }
  }
}

void DroppedRegions::absorb(StorageId base, StorageId dropped, Way way) {
  Region& region = regions_[base][way];
  std::erase(region.frontier, dropped);
  inside_.clear();
  edge_.clear();
  for (StorageId storage : region.interior) inside_.insert(storage);
  for (StorageId storage : region.frontier) edge_.insert(storage);
  if (base != dropped) {  // views can make a storage its own ancestor
    const Region& other = regions_[dropped][way];
    for (StorageId storage : other.frontier) {
      if (edge_.insert(storage)) region.frontier.push_back(storage);
    }
    for (StorageId storage : other.interior) {
      if (storage == dropped || !inside_.insert(storage)) continue;
      region.interior.push_back(storage);
      region.compute += graph_->facts(storage).compute;
    }
  }
  region.compute += graph_->facts(dropped).compute;
  if (inside_.insert(dropped)) region.interior.push_back(dropped);
}

void DroppedRegions::dropped(StorageId storage) {
  for (Way way : {kDown, kUp}) {
    // By index: a region may absorb itself.
    for (std::size_t i = 0; i < regions_[storage][back(way)].frontier.size(); ++i) {
      absorb(regions_[storage][back(way)].frontier[i], storage, way);
    }
  }
  regions_[storage] = {};
}

void DroppedRegions::computed(const std::vector<StorageId>& storages) {
  for (auto& list : affected_) list.clear();
  for (StorageId storage : storages) {
    for (Way way : {kDown, kUp}) {
      build(storage, way);
      const auto& frontier = regions_[storage][way].frontier;
      auto& list = affected_[back(way)];
      list.insert(list.end(), frontier.begin(), frontier.end());
    }
  }
  for (Way way : {kDown, kUp}) {
    auto& list = affected_[way];
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    for (StorageId storage : list) build(storage, way);
  }
}

DroppedRegions::Neighbourhood DroppedRegions::search(StorageId storage) {
  Neighbourhood found;
  inside_.clear();  // over both ways: each counts once
  for (Way way : {kDown, kUp}) {
    edge_.clear();  // here: met on this way
    stack_.assign(1, storage);
    while (!stack_.empty()) {
      const StorageId from = stack_.back();
      stack_.pop_back();
      for (StorageId neighbour : next(from, way)) {
        if (graph_->resident(neighbour) || !edge_.insert(neighbour)) continue;
        stack_.push_back(neighbour);
        if (!inside_.insert(neighbour)) continue;
        const Facts& facts = graph_->facts(neighbour);
        found.compute += facts.compute;
        found.last_use = std::max(found.last_use, facts.last_use);
      }
    }
  }
  return found;
}

}  // namespace outsize::dtr
