// What goes into the engine and what comes out. A driver (live or simulated) turns the world into
// Inputs, one at a time, and carries out the Commands in order before the next Input.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/types.h"

namespace outsize {

struct OperandRef {
  ExtentId extent = kNoExtent;
  Access access = Access::kRead;
};

struct Input {
  enum class Kind : std::uint8_t {
    kOpBegin,    // thread, site, operands, in_backward, graph, now
    kOpEnd,      // thread
    kAlloc,      // thread, extent (fresh id), bytes, flag: small storages will share it, now
    kTouch,      // thread, extent: a small storage was born inside this resident extent
    kAdopt,      // extent, bytes, flag: absent with a valid copy below (else resident)
    kDeath,      // extent
    kReadDone,   // extent, flag: failed, now = duration
    kWriteDone,  // extent, flag: failed, now = duration
    kFault,      // extent, flag: write. A raw access waits
    kExpose,     // extent
    kPin,        // extent: must be resident
    kUnpin,      // extent
    kStep,       // now
    kPlan,       // now
    kBudget,     // bytes
    kHint,       // extent, flag: used soon (else: not soon). The program's own word
    kNoSlot,     // extent: its write did not begin, there is no room below
    kSample,     // sample, now: what the sample says that the next ops work on
  };
  Kind kind = Kind::kPlan;
  bool flag = false;
  bool in_backward = false;
  ThreadId thread = 0;
  ExtentId extent = kNoExtent;
  Bytes bytes = 0;
  SiteId site = 0;
  GraphPlace graph = 0;
  Nanos now = 0;
  std::span<const OperandRef> operands;
  // For each feature: the hash of its name, the number of its values, these (core/trace/sample.h).
  std::span<const std::int64_t> sample = {};
};

// What inner ops bore stays pinned for their caller, which may hold raw pointers to it (a kernel
// that allocates its result through the dispatcher). Only so many, the latest: a composite op may
// bear more than fits. Earlier ones are last-choice victims until the outermost op ends.
inline constexpr std::uint32_t kInheritedMax = 16;

// What an op is said to need must not depend on how small storages happened to be packed, or the
// smallest budget that one run names would not be enough for the next. So each small storage of an
// op counts as a shared extent of its own; but no more than so many (kSharedBytes each). Those that
// lie in more than fit are reached through raw accesses, as a NumPy view would reach them.
inline constexpr std::uint32_t kSharedMax = 6;

enum class Urgency : std::uint8_t { kDemand, kPrefetch, kPressedWrite, kWriteAhead };

enum class Refusal : std::uint8_t { kBudget, kIo };

struct Command {
  enum class Kind : std::uint8_t {
    kGrant,    // thread: the waiting op or allocation may go on
    kRefuse,   // thread, refusal, bytes needed (in RAM at once)
    kEvict,    // extent: its pages go to the pool; the copy below is valid
    kFetch,    // extent, urgency: read it into pool pages
    kInstall,  // extent, flag: guarded, at_once. The read is done; put its pages in place, wake raw access
    kAbandon,  // extent: the read failed; its pool pages are free again
    kWrite,    // extent, urgency: guard it, reserve a slot, write
    kUnguard,  // extent: it is being written to
    kForget,   // extent: its copy below is stale
    kRelease,  // extent: dead and out of every transfer; pages, slot and id are free
    kResume,   // extent: let the raw access try again
    kPromote,  // extent, urgency: a queued transfer is waited for
    kFatal,    // extent: a raw access cannot be served; the run must stop
  };
  Kind kind = Kind::kGrant;
  bool flag = false;
  bool at_once = false;  // guarded from the first moment: raw pointers may write to it
  Urgency urgency = Urgency::kDemand;
  Refusal refusal = Refusal::kBudget;
  ThreadId thread = 0;
  ExtentId extent = kNoExtent;
  Bytes bytes = 0;
};

using Commands = std::vector<Command>;

// Whether the thread that gave the input goes on at once, or waits for its kGrant or kRefuse. These
// may already be among the commands of the same step. A thread that was told kGo gets neither.
enum class Outcome : std::uint8_t { kGo, kWait };

const char* to_string(Input::Kind kind);
const char* to_string(Command::Kind kind);

}  // namespace outsize
