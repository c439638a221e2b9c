// Names for ops that mean the same in every step and in every run of a program, so that the path of a network can
// be compared with earlier paths.
//
// A site is too little for that: experts of one shape share it, and where lengths vary hardly one comes twice. So an
// op's token is made of its kind (the op, whatever the sizes) and of the *lasting* extents that it works on: those
// that were there when the step began, weights and optimizer state. What an op without such belongs to is the last op
// before it that had some, its anchor: its token is that one's and how many ops ago that was. In backward an op that
// works on what forward made is an anchor as well, named after the op that made it; where autograd
// says whose gradient is made, ops are named after that one.
//
// An extent's number means nothing in the next run, so lasting extents have *roles*: the kind of the op that bore it and
// the roles of what that worked on (Adam's state is born of its parameter); else of the first op that used it
// together with something that has a role (momentum is born of a gradient, and then added to its parameter); else of the
// op that bore it alone. Of several alike the order of birth tells. What takes a dead one's place takes its role: the
// next alike, or what was born of it in its size, as where state is replaced and not changed.
//
// What was there before anybody looked is called after its first use, which may be another one in another run. What
// lives over a step's end by chance, as its last outputs, lasts too. Extents that small storages share take no part: who
// lies in them changes. The caller tells of one row of ops, not nested. Costs: O(operands) an op, and the extents of a
// step at its end. After the idea of DyNN-Offload (Ren et al., HPCA 2024); how it names its operators is not public.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/types.h"

namespace outsize::pilot {

using Token = std::uint64_t;
using Role = std::uint64_t;
inline constexpr Role kNoRole = 0;

// In backward: which op's gradient is made.
struct Turn {
  Token of = 0;        // 0: nobody knows
  bool begins = true;  // the op is the first of it
};

class Tokens {
 public:
  // The op that begins now; `extents` without those that are shared.
  Token on_op(std::uint64_t kind, std::span<const ExtentId> extents, bool backward = false, const Turn& turn = {});
  void on_birth(ExtentId id, Bytes bytes);
  void on_death(ExtentId id);
  void on_step();

  // Of the op that on_op was told last: what its token is without its anchor; 0 of an anchor. What comes after the end of
  // a branch is named after the branch, and is the same after all of them but for that.
  Token relative() const { return relative_; }

  // Of an extent that was there when the step began; else kNoRole.
  Role role(ExtentId id) const { return id < seen_.size() ? seen_[id].role : kNoRole; }
  // The extent that has this role now; kNoExtent where none has.
  ExtentId holder(Role role) const;

 private:
  struct Seen {
    Role role = kNoRole, base = kNoRole;  // base: what all alike have in common
    std::uint32_t number = 0;             // among these
    Bytes bytes = 0;
    std::uint64_t born = 0;               // a number of its own
    Role heir_base = kNoRole;             // it was born of that one, in its size
    std::uint32_t heir_number = 0;
    Role born_as = kNoRole;  // what it would be called after the op that bore it
    Role used_as = kNoRole;  // after the first op that used it with something that has a role
    Token born_in = 0;       // in forward, by that op
    bool alive = false;
    bool with_role = false;  // the op that bore it worked on something that has one
  };
  struct Born {
    ExtentId id = kNoExtent;
    std::uint64_t born = 0;
  };
  Seen& seen(ExtentId id);
  void bear(ExtentId id, Role as, bool with_role);
  void take(ExtentId id, Role base, std::uint32_t number);
  void name(ExtentId id, Role base);
  bool inherits(const Seen& s) const;
  bool unnamed(const Born& b) const;
  Token made_in_forward(std::span<const ExtentId> extents) const;
  Role role_of(const Seen& s) const;

  std::vector<Seen> seen_;                    // by extent
  std::vector<Born> born_;                    // in this step, or used first
  std::uint64_t births_ = 0;
  std::vector<ExtentId> works_on_;            // what the running op works on and has a role
  std::unordered_map<Role, std::uint32_t> alike_;  // by base: no number below is free
  std::unordered_map<Role, ExtentId> holders_;
  Role running_ = kNoRole;                    // kind and roles of the running op
  Token running_token_ = 0;
  bool running_with_role_ = false;
  bool backward_ = false;
  Token anchor_ = 0, relative_ = 0;
  static constexpr std::uint32_t kSinceMax = 8192;
  std::uint32_t since_ = 0;                   // ops after the anchor
};

}  // namespace outsize::pilot
