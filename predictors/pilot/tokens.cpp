#include "predictors/pilot/tokens.h"

#include <algorithm>

namespace outsize::pilot {
namespace {

// The finisher of splitmix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014).
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t z = (hash ^ value) + 0x9e3779b97f4a7c15ULL * (value + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return z == 0 ? 1 : z;  // 0 is nobody
}

}  // namespace

Tokens::Seen& Tokens::seen(ExtentId id) {
  if (id >= seen_.size()) seen_.resize(id + 1 + id / 2);
  return seen_[id];
}

ExtentId Tokens::holder(Role role) const {
  const auto at = holders_.find(role);
  return at == holders_.end() ? kNoExtent : at->second;
}

Token Tokens::on_op(std::uint64_t kind, std::span<const ExtentId> extents) {
  Role roles = mix(kind, 0);
  bool any = false;
  for (const ExtentId id : extents) {
    const Role role = this->role(id);
    if (role == kNoRole) continue;
    roles = mix(roles, role);
    any = true;
  }
  for (const ExtentId id : extents) {
    Seen& s = seen(id);
    if (!s.alive) {  // it was born before anybody looked
      s.alive = true;
      s.born_as = roles;
      s.with_role = any;
      born_.push_back(id);
    }
    if (any && s.role == kNoRole && s.used_as == kNoRole) s.used_as = roles;
  }
  running_ = roles;
  running_with_role_ = any;
  if (any) {
    anchor_ = roles;
    since_ = 0;
    return anchor_;
  }
  return mix(mix(anchor_, ++since_), kind);
}

void Tokens::on_birth(ExtentId id, Bytes bytes) {
  Seen& s = seen(id);
  s = Seen{};
  s.alive = true;
  s.born_as = mix(running_, static_cast<std::uint64_t>(bytes));
  s.with_role = running_with_role_;
  born_.push_back(id);
}

void Tokens::on_death(ExtentId id) {
  Seen& s = seen(id);
  if (s.role != kNoRole) {
    holders_.erase(s.role);
    std::uint32_t& free = alike_[s.base];
    free = std::min(free, s.number);
  }
  s = Seen{};
}

Role Tokens::role_of(const Seen& s) const { return s.with_role || s.used_as == kNoRole ? s.born_as : s.used_as; }

void Tokens::name(ExtentId id, Role base) {
  Seen& s = seen_[id];
  std::uint32_t& free = alike_[base];
  while (holders_.contains(mix(base, free))) ++free;
  s.base = base;
  s.number = free++;
  s.role = mix(base, s.number);
  holders_[s.role] = id;
}

// What was born in the step and is still there lasts.
void Tokens::on_step() {
  for (const ExtentId id : born_) {
    const Seen& s = seen_[id];
    if (s.alive && s.role == kNoRole && s.born_as != kNoRole) name(id, role_of(s));
  }
  born_.clear();
  running_ = kNoRole;
  running_with_role_ = false;
  anchor_ = 0;
  since_ = 0;
}

}  // namespace outsize::pilot
