// A trace: the record of a run, from which predictors learn, planners plan and the simulator runs
// again. It is a row of events, in the order in which the runtime's lock let them happen.
//
// Time is in nanoseconds since recording began. Storages are numbered by birth, from 0, and a number
// is never used again. An event is inside the innermost op that its thread has begun and not ended:
// so a birth needs no op of its own, and workspace is what was born and died inside one op.
//
// docs/TRACE.md has the format byte by byte; why it is like this is docs/adr/0011-traces.md.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/types.h"

namespace outsize::trace {

using StorageId = std::uint64_t;
inline constexpr StorageId kNoStorage = ~StorageId{0};

// Where nobody knows which thread it was: it has begun no op, or a page fault does not say.
inline constexpr ThreadId kUnknownThread = ~ThreadId{0};

// How an op touches a storage. The same storage may stand several times among an op's operands.
struct Operand {
  StorageId storage = kNoStorage;
  Access access = Access::kRead;
  bool operator==(const Operand&) const = default;
};

// Why a thread waited.
enum class WaitCause : std::uint8_t {
  kOperands,   // before an op: its operands were not resident
  kRoom,       // for an allocation: no room for what is born
  kRawAccess,  // for bytes that NumPy or a raw pointer touched
  kPages,      // while pages were found for what is born, some of them fresh; not of the program's own time
};
inline constexpr std::uint8_t kWaitCauses = 4;
const char* to_string(WaitCause cause);

// What one run of an op was, beside its site. Bits.
enum OpFlag : std::uint8_t {
  kInBackward = 1,
  kUsesRng = 2,      // draws random numbers: repeating it repeats a side effect
  kCollective = 4,   // talks to other processes
  kPiece = 8,        // one piece of a multi-tensor op that was cut
};
inline constexpr std::uint8_t kOpFlags = 15;

// One thing that a sample's features say: a name and some numbers, such as the length of a sequence
// or the shape of a tree.
struct Feature {
  std::string_view name;
  std::span<const double> numbers;
};

struct Event {
  enum class Kind : std::uint8_t {
    kMeta = 1,    // text: one JSON object (torch, machine, threads, budget, policy)
    kSiteName,    // site, text: how a person calls the op site
    kOpBegin,     // site, op_flags, graph, operands. It runs from here on: waiting lies before
    kOpEnd,       // of the innermost op of this thread
    kBirth,       // storage (the next number), bytes
    kAdopt,       // storage (the next number), bytes, flag: a file mapping. Born before recording
    kDeath,       // storage
    kExpose,      // storage: raw pointers to it may be about from now on
    kRawAccess,   // storage, flag: it was a write. No dispatcher saw it
    kPin,         // storage: the program keeps it in RAM
    kUnpin,       // storage
    kHint,        // storage, flag: used soon (else: not soon). The program's own word
    kWait,        // cause, duration: this thread has just waited so long
    kUntracked,   // site, bytes: so many that are no tensor came while that op ran
    kStep,        // a training step ends
    kSample,      // features of the sample that the next ops work on
    kEnd,         // totals; the last event of a whole trace
  };
  Kind kind = Kind::kStep;
  bool flag = false;
  std::uint8_t op_flags = 0;
  WaitCause cause = WaitCause::kOperands;
  ThreadId thread = 0;
  Nanos time = 0;
  SiteId site = 0;
  GraphPlace graph = 0;
  StorageId storage = kNoStorage;
  Bytes bytes = 0;
  Nanos duration = 0;
  std::span<const Operand> operands;   // these three: whose the event is, see there
  std::span<const Feature> features;
  std::string_view text;
};
inline constexpr std::uint8_t kEventKinds = 17;

const char* to_string(Event::Kind kind);

// What a whole trace adds up to; the encoder writes it at the end, so that what was cut off, or is
// missing in between, is known.
struct Totals {
  std::uint64_t events = 0;   // the end itself not counted
  std::uint64_t ops = 0, steps = 0;
  std::uint64_t births = 0;   // adoptions included
  std::uint64_t deaths = 0;
  Bytes born_bytes = 0;
  // What only the recorder knows. Operands in memory that is not ours (NumPy, shared memory), left
  // out; and how long recording held the program up because the disk was too slow.
  std::uint64_t foreign_operands = 0;
  Nanos held_up = 0;

  void count(const Event& event);
  bool operator==(const Totals&) const = default;
};

}  // namespace outsize::trace
