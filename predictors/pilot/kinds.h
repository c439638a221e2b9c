// What a choice and its ways are like, told without any network's names: what was learnt of one network then means
// something in another, as DyNN-Offload (Ren et al., HPCA 2024) has it, which tells its pilot of ops by idioms and of networks by
// their base type.
//
// A *kind* of work is an op's idiom class (core/base/idioms.h), about how long it takes, and whether it is backward. Of a
// way also how it stands to the one that was chosen last among such: the same, the next in order, an earlier one. Times
// to within a factor of eight: another machine is hardly another kind.
#pragma once

#include <cstdint>

#include "predictors/pilot/standing.h"

namespace outsize::pilot {

enum class IdiomUse : std::uint32_t { kOn, kOff, kOneHot };  // kOneHot: each kind of op is a class of its own

using Kind = std::uint32_t;  // below kKindEnd
inline constexpr Kind kKindEnd = Kind{1} << 31;

// How far back the contexts of kinds look: 0: at the op that the choice stands after; 1: at the last two choices too.
inline constexpr std::size_t kKindOrders = 2;

Kind kind_of_work(const Node& node, IdiomUse use);
// `latest`: what was chosen last in the class of this choice; kNobody: nothing lately.
Kind kind_of_way(const Standing& standing, NodeId way, NodeId latest, IdiomUse use);
NodeId latest_of(const Standing& standing, ClassId choice);
// A key of contexts; `ways`: how many there are to choose among.
std::uint64_t kind_key(const Standing& standing, std::size_t order, std::size_t ways, IdiomUse use);

// The sort that a choice is of: choices of one sort are alike in whom to trust. By the network's base type, the idiom class
// of what is chosen, and whether that is backward.
inline constexpr std::size_t kSorts = kBaseTypes * kIdiomClassesMax * 2;
std::size_t sort_of(const Standing& standing, bool base, IdiomUse use);

}  // namespace outsize::pilot
