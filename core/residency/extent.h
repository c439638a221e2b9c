// The residency record of one extent, and the table of all of them.
//
// States (see docs/INVARIANTS.md; Engine names the transitions):
//
//      kFree --birth--> kResident <--read done-- kFetching <--fetch-- kAbsent
//                          |  \------------------evict (valid copy)----^
//                          +--death--> kFree (`dying` until its transfer ends)
//
// Beside it, the copy below: kNone, kWriting (a transfer reads the resident bytes), kValid.
// A resident extent with a valid or growing copy is guarded: a write to it is noticed.
#pragma once

#include "core/base/large_table.h"
#include "core/base/types.h"

namespace outsize {

// Where an extent stands in the order of ops: absolute op positions, later is larger.
using Position = std::uint64_t;
inline constexpr Position kNever = ~Position{0};

enum class Where : std::uint8_t { kFree, kResident, kFetching, kAbsent };
enum class Below : std::uint8_t { kNone, kWriting, kValid };
// What the program said of the next use; until that use.
enum class Hint : std::uint8_t { kNone, kSoon, kLater };

// On whose word bytes came, or are coming, ahead of need, while nobody has used them.
enum class Prefetched : std::uint8_t { kNo, kForeseen, kHinted };

// A cache line each: whoever asks about one of a hundred thousand waits for memory once.
struct alignas(64) Extent {
  Bytes bytes = 0;
  std::uint64_t last_use = 0;     // op clock of the last access
  std::uint64_t born = 0;         // op clock of birth
  std::uint32_t pins = 0;         // innermost frames and user pins that hold it
  std::uint32_t write_pins = 0;   // of these, how many may write
  std::uint32_t soft = 0;         // suspended frames that hold it
  std::uint64_t frame = 0;        // serial of the last frame that listed it (duplicates)
  Where where = Where::kFree;
  Below below = Below::kNone;
  Hint hint = Hint::kNone;
  Prefetched prefetched = Prefetched::kNo;
  bool shared = false;       // small storages lie in it
  bool of_file = false;      // its copy is a file of the program's: giving it up frees nothing
  bool torn = false;         // changed while being written: the copy will be stale
  bool guarded = false;      // writes are noticed
  bool exposed = false;      // raw pointers are about: guarded at once when it comes back
  bool dying = false;        // dead, waits for its transfer
  bool resident_at_death = false;  // for the driver: kRelease leaves pages behind
  bool wanted = false;       // an op or a raw access waits for it
  bool fault_waiting = false;
  bool fault_write = false;
  bool hot = false;          // a raw access just waited for it: leaves late until ops go on
  std::uint8_t read_failures = 0;
};
static_assert(sizeof(Extent) == 64);

class ExtentTable {
 public:
  // Grows the table so that `id` can be used.
  void ensure(ExtentId id) {
    if (id >= extents_.size()) extents_.resize(id + 1 + id / 2);
  }
  Extent& operator[](ExtentId id) { return extents_[id]; }
  const Extent& operator[](ExtentId id) const { return extents_[id]; }
  ExtentId size() const { return static_cast<ExtentId>(extents_.size()); }

 private:
  LargeTable<Extent> extents_;
};

}  // namespace outsize
