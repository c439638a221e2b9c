#include "planners/dtr/policy.h"

namespace outsize::dtr {
namespace {

struct Named {
  std::string_view name;
  Policy policy;
};

constexpr Named kPolicies[] = {
    {"dtr", {Cost::kRegions, true, true}},
    {"dtr-eqclass", {Cost::kClasses, true, true}},
    {"dtr-local", {Cost::kOwn, true, true}},
    {"lru", {Cost::kLastUse, false, false}},
    {"dtr-fresh", {Cost::kFresh, true, true}},
    {"msps", {Cost::kAncestors, true, false}},
    {"largest", {Cost::kOne, true, false}},
    // The ablations of the paper: what is named is what counts.
    {"exact", {Cost::kRegions, false, false}},
    {"exact-size", {Cost::kRegions, true, false}},
    {"exact-stale", {Cost::kRegions, false, true}},
    {"eqclass", {Cost::kClasses, false, false}},
    {"eqclass-size", {Cost::kClasses, true, false}},
    {"eqclass-stale", {Cost::kClasses, false, true}},
    {"local", {Cost::kOwn, false, false}},
    {"local-size", {Cost::kOwn, true, false}},
    {"local-stale", {Cost::kOwn, false, true}},
    {"size-stale", {Cost::kOne, true, true}},
    {"stale", {Cost::kOne, false, true}},
};

}  // namespace

std::optional<Policy> find_policy(std::string_view name) {
  for (const Named& entry : kPolicies) {
    if (entry.name == name) return entry.policy;
  }
  return std::nullopt;
}

std::string policy_names() {
  std::string names;
  for (const Named& entry : kPolicies) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

}  // namespace outsize::dtr
