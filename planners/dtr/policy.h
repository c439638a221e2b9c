// DTR's heuristics by name. Each storage that may be dropped gets a score,
//
//     (its compute + the compute of its dropped neighbourhood) / (its bytes * its staleness),
//
// and the smallest score is dropped. The policies differ in what counts as the neighbourhood (how
// much more would have to be computed to have this storage back), and the ablations leave out the
// bytes, the staleness (clock - last use), or both.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outsize::dtr {

// What stands above the fraction line.
enum class Cost : unsigned char {
  kRegions,  // e*: absent ancestors and descendants, kept up to date step by step
  kFresh,    // e* searched anew for each score, each storage once; stale since the latest use in it
  kAncestors,  // absent ancestors only (MSPS: Peng et al., "Capuchin", ASPLOS 2020)
  kClasses,    // classes of absent neighbours, which are joined and never split
  kOwn,        // nothing but the storage itself
  kOne,        // 1
  kLastUse,    // no fraction: the time of the last use (least recently used)
};

struct Policy {
  Cost cost = Cost::kClasses;
  bool by_bytes = true;
  bool by_staleness = true;
};

std::optional<Policy> find_policy(std::string_view name);
// All names, for messages: "dtr, dtr-eqclass, ...".
std::string policy_names();

}  // namespace outsize::dtr
