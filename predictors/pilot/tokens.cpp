#include "predictors/pilot/tokens.h"

#include <algorithm>

#include "predictors/pilot/mix.h"

namespace outsize::pilot {

Tokens::Seen& Tokens::seen(ExtentId id) {
  if (id >= seen_.size()) seen_.resize(id + 1 + id / 2);
  return seen_[id];
}

ExtentId Tokens::holder(Role role) const {
  const auto at = holders_.find(role);
  return at == holders_.end() ? kNoExtent : at->second;
}

// The op that made the latest of them; 0 where all are older, or of backward's own.
Token Tokens::made_in_forward(std::span<const ExtentId> extents) const {
  Token token = 0;
  std::uint64_t latest = 0;
  for (const ExtentId id : extents) {
    const Seen& s = seen_[id];
    if (s.role != kNoRole || s.born_in == 0 || s.born < latest) continue;
    latest = s.born;
    token = s.born_in;
  }
  return token;
}

Token Tokens::on_op(std::uint64_t kind, std::span<const ExtentId> extents, bool backward, const Turn& turn) {
  Role roles = mix(kind, 0);
  works_on_.clear();
  for (const ExtentId id : extents) {
    const Role role = this->role(id);
    if (role == kNoRole) continue;
    roles = mix(roles, role);
    works_on_.push_back(id);
  }
  const bool any = !works_on_.empty();
  for (const ExtentId id : extents) {
    if (!seen(id).alive) bear(id, roles, any);  // it was born before anybody looked
    Seen& s = seen(id);
    if (any && s.role == kNoRole && s.used_as == kNoRole) s.used_as = roles;
  }
  running_ = roles;
  running_with_role_ = any;
  backward_ = backward;
  if (turn.of != 0) {
    if (turn.begins) anchor_ = mix(mix(turn.of, 3), roles);
    since_ = turn.begins ? 0 : std::min(since_ + 1, kSinceMax);
    relative_ = since_ == 0 ? 0 : mix(since_, roles);
    return running_token_ = since_ == 0 ? anchor_ : mix(mix(anchor_, since_), roles);
  }
  const Token made = any || !backward ? 0 : made_in_forward(extents);
  if (any || made != 0) {
    anchor_ = any ? roles : mix(mix(made, 1), kind);
    since_ = 0;
    relative_ = 0;
    return running_token_ = anchor_;
  }
  // Where no step ends nothing lasts: names must not be without end.
  since_ = std::min(since_ + 1, kSinceMax);
  relative_ = mix(since_, kind);
  return running_token_ = mix(mix(anchor_, since_), kind);
}

void Tokens::bear(ExtentId id, Role as, bool with_role) {
  Seen& s = seen(id);
  s = Seen{};
  s.alive = true;
  s.born_as = as;
  s.with_role = with_role;
  s.born = ++births_;
  // Where no step ends, what has died does not pile up.
  if (born_.size() > 2 * seen_.size()) std::erase_if(born_, [this](const Born& b) { return !unnamed(b); });
  born_.push_back({id, s.born});
}

void Tokens::on_birth(ExtentId id, Bytes bytes) {
  if (seen(id).alive) on_death(id);
  bear(id, mix(running_, static_cast<std::uint64_t>(bytes)), running_with_role_);
  Seen& s = seen_[id];
  s.bytes = bytes;
  if (!backward_) s.born_in = running_token_;
  for (const ExtentId from : works_on_) {
    const Seen& f = seen_[from];
    if (f.role == kNoRole || f.bytes != bytes) continue;
    s.heir_base = f.base;
    s.heir_number = f.number;
    return;
  }
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

void Tokens::take(ExtentId id, Role base, std::uint32_t number) {
  Seen& s = seen_[id];
  s.base = base;
  s.number = number;
  s.role = mix(base, number);
  holders_[s.role] = id;
}

void Tokens::name(ExtentId id, Role base) {
  std::uint32_t& free = alike_[base];
  while (holders_.contains(mix(base, free))) ++free;
  take(id, base, free++);
}

bool Tokens::inherits(const Seen& s) const {
  return s.heir_base != kNoRole && !holders_.contains(mix(s.heir_base, s.heir_number));
}

// Still the one that was born then, and alive.
bool Tokens::unnamed(const Born& b) const {
  const Seen& s = seen_[b.id];
  return s.alive && s.born == b.born && s.role == kNoRole;
}

// What was born in the step and is still there lasts. Heirs first: the next alike could take their place.
void Tokens::on_step() {
  for (const Born& b : born_) {
    const Seen& s = seen_[b.id];
    if (unnamed(b) && inherits(s)) take(b.id, s.heir_base, s.heir_number);
  }
  for (const Born& b : born_) {
    if (unnamed(b)) name(b.id, role_of(seen_[b.id]));
  }
  born_.clear();
  works_on_.clear();
  running_ = kNoRole;
  running_with_role_ = backward_ = false;
  running_token_ = 0;
  anchor_ = 0;
  since_ = 0;
}

}  // namespace outsize::pilot
