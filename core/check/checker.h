// An independent judge of the engine. It watches the stream of inputs and commands and verifies
// the invariants of docs/INVARIANTS.md with its own arithmetic; it sees values only and shares no
// code with what it judges.
//
// What it knows of bytes is a version number per extent. Whenever somebody may change an extent's
// bytes unnoticed (an op that writes holds it, a birth, an unguarded page) the version moves on; a
// copy below carries the version it was made of. So "evicted with an up-to-date copy" is equality
// of two numbers, whatever the engine believes.
//
// Usage: observe(input, commands) after every step, then ok(). Violations are sentences, each with
// the number of the invariant and of the input (from 1). Not thread-safe. O(commands + operands) a
// step, and O(threads) where somebody waits.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/engine/input.h"

namespace outsize::check {

class Checker {
 public:
  explicit Checker(Bytes budget) : budget_(budget) {}

  // Before the first input: an extent that an earlier session of the process left behind, resident.
  void left_over(ExtentId id, Bytes bytes, bool shared, bool exposed, int user_pins);
  // Returns whether the thread that gave the input may go on at once (kGo) or was queued (kWait),
  // by the checker's own reckoning; the driver compares it with the engine's answer.
  Outcome observe(const Input& input, std::span<const Command> commands);

  bool ok() const { return violations_.empty(); }
  const std::vector<std::string>& violations() const { return violations_; }
  std::string report() const;

  Bytes resident() const { return resident_; }
  Bytes resident_peak() const { return resident_peak_; }
  // Bytes that must be resident at once for `thread` to go on: its innermost op's living operands
  // and births, what user pins hold besides, and what it asks for.
  Bytes needed(ThreadId thread) const;
  std::int64_t refusals() const { return refusals_; }
  std::int64_t moves() const { return moves_; }  // fetches, writes and evictions
  bool fatal() const { return fatal_; }

 private:
  enum class State : std::uint8_t { kFree, kResident, kFetching, kAbsent };
  enum class Copy : std::uint8_t { kNone, kWriting, kValid };
  struct Extent {
    Bytes bytes = 0;
    State state = State::kFree;
    Copy copy = Copy::kNone;
    std::uint64_t version = 0;       // of the bytes in RAM, or of the copy while absent
    std::uint64_t copy_version = 0;  // of the copy, or of what the write under way began with
    bool guarded = false;
    bool exposed = false;
    bool shared = false;          // small storages lie in it
    bool dead = false;            // waits for its transfer
    bool fault = false;           // a raw access waits
    bool fault_write = false;
    int user_pins = 0;
    int read_failures = 0;        // in a row
  };
  struct Hold {
    bool write = false;
    bool born = false;
    bool held = false;  // resident and pinned, as far as anybody may rely on it
    bool inherited = false;      // born in an inner op
    std::uint64_t order = 0;     // in which the frame came by it
  };
  struct Frame {
    std::map<ExtentId, Hold> holds;
    bool lent = false;  // a raw access had to wait meanwhile: its pins may have been lent
    std::uint32_t small = 0, small_born = 0;  // small storages it met; born in it
    bool crowded = false;  // its shared extents did not fit: it reaches them through raw accesses
  };
  enum class Waits : std::uint8_t { kNo, kOp, kAlloc, kTouch };
  struct Thread {
    std::vector<Frame> frames;
    Waits waits = Waits::kNo;
    Bytes alloc = 0;
    bool alloc_shared = false;
    ExtentId alloc_extent = kNoExtent;
    bool io_failed = false;  // a transfer failed since it began to wait
  };
  struct Expected {  // what this step must bring, besides what it may
    ExtentId install = kNoExtent, abandon = kNoExtent, release = kNoExtent, resume = kNoExtent;
    ExtentId forget = kNoExtent, unguard = kNoExtent;
  };

  void accept(const Input& input);
  void obey(const Command& command);
  void finish(const Input& input);

  void op_begin(const Input& input);
  void op_end(const Input& input);
  void alloc(const Input& input);
  void touch(const Input& input);
  void adopt(const Input& input);
  void death(const Input& input);
  void transfer_ended(const Input& input);
  void no_slot(const Input& input);
  void fault(const Input& input);

  void grant(const Command& command);
  void refuse(const Command& command);
  void evict(const Command& command);
  void fetch(const Command& command);
  void install(const Command& command);
  void abandon(const Command& command);
  void write(const Command& command);
  void unguard(const Command& command);
  void forget(const Command& command);
  void release(const Command& command);
  void resume(const Command& command);
  void promote(const Command& command);
  void fatal(const Command& command);

  void pop_frame(Thread& t);
  void inherit(Frame& caller, const Frame& popped);
  void hold_all(Thread& t);
  Bytes claimed(const Thread& t, Bytes alloc, bool shared) const;
  bool crowded(ThreadId id) const;
  void suspend(Thread& t);
  void lend();
  void birth(Thread& t, ExtentId id, Bytes bytes, bool shared);
  void charge(Bytes bytes);
  const char* holder(ExtentId id, bool writers_only) const;
  bool somebody_runs(ThreadId but) const;
  void check_progress();
  void check_extent(ExtentId id);
  Extent& extent(ExtentId id);
  Thread& thread(ThreadId id);
  void violation(int invariant, const std::string& what);
  std::string name(ExtentId id) const;

  Bytes budget_ = 0, resident_ = 0, resident_peak_ = 0;
  std::int64_t transfers_ = 0, faults_ = 0, inputs_ = 0, refusals_ = 0, moves_ = 0;
  std::uint64_t order_ = 0;
  int write_failures_ = 0;  // in a row
  bool below_full_ = false;  // a write found no room, and no copy went since
  bool fatal_ = false;
  Outcome outcome_ = Outcome::kGo;
  Expected expected_;
  std::vector<Extent> extents_;
  std::vector<Thread> threads_;
  std::vector<ExtentId> seen_;  // extents this step was about
  std::vector<std::string> violations_;
};

}  // namespace outsize::check
