// Bounce buffers: transfers of memory whose pages lie here and there go through a little memory that lies together.
//
// Direct I/O hands a disk the program's own pages, one run of neighbours after the other. Some disks mind how many runs
// there are: a virtual one moved four times as much a second from huge pages as from scattered small ones, and a copy
// costs a tenth to a fifth of the processor time that this saves (docs/notes/scattered-pages.md). Others do not mind, and a program's large tensors lie
// together as they are. Nobody says which, so the ways duel, in turns of several transfers each, and the way that wins more
// duels is that of the transfers which follow; as long as it wins, it is asked about ever more seldom. Turns, because
// beside others that go the slow way the quick one is slow, too.
//
// Threading: not thread-safe; the pool calls under its mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "platforms/host/chunk_memory.h"
#include "platforms/host/io_pool.h"

namespace outsize::host {

// Which way a transfer goes. Reads and writes, small and large ones are asked about by themselves. (As PageChoice does for
// pages: but here transfers are compared, which are many, and not steps.)
class BounceChoice {
 public:
  struct Way {
    bool bounce = false;
    std::uint32_t duel = 0;  // that it belongs to; 0: took() need not be told
  };
  explicit BounceChoice(IoPool::Bounce mode) : mode_(mode) {}

  // A transfer begins now.
  Way choose(IoRequest::Kind kind, Bytes bytes);
  // One that belongs to a duel took so long, wall and processor time together: the one holds up who waits for it, the other
  // who computes meanwhile. Nothing: it failed, or did not go that way.
  void took(IoRequest::Kind kind, Bytes bytes, Way way, std::optional<Nanos> nanos);
  // From now on the ways stay as they are.
  void keep() { kept_ = true; }

  static constexpr int kTurn = 16;   // transfers
  static constexpr int kOthers = 4;  // of these, that are beside some of the turn before, and not counted
  static constexpr int kTurns = 4;   // a b b a, as a disk gets faster or slower meanwhile
  static constexpr int kDuel = kTurns * kTurn;
  static constexpr int kCounted = kTurns * (kTurn - kOthers);

 private:
  static constexpr Bytes kLeast = 32 * kKiB;  // below, there are few runs whatever they are
  static constexpr std::size_t kSizes = 4;    // up to 128 KiB, 512 KiB, 2 MiB, and more
  static constexpr int kSure = 3;
  static constexpr int kGapMin = kDuel, kGapMax = 32 * kDuel;  // transfers from a duel to the next

  // Compared without the slowest of each: a host's pause takes longer than all the others together.
  struct Side {
    std::array<Nanos, kCounted / 2> of_a_kib = {};
    std::size_t count = 0;
    Nanos usual();  // mean of all but the slowest third; there are some
  };
  struct Class {
    int score = 0;  // above 0: bounce
    int gap = 0, wait = 0;
    std::uint32_t duel = 1;
    int begun = 0, told = 0;
    std::array<Side, 2> sides;  // direct, bounced
  };
  Class& class_of(IoRequest::Kind kind, Bytes bytes);
  static void end(Class& c);

  IoPool::Bounce mode_;
  bool kept_ = false;
  std::array<std::array<Class, kSizes>, 2> classes_;
};

// The buffers, in huge pages where the system has some. Made when the first is asked for, which takes some milliseconds.
class BounceBuffers {
 public:
  static constexpr Bytes kBytes = kMiB;  // of each: smaller ones are slower, larger ones hardly faster
  // The right to one; none where `memory()` is null. Given back before the buffers go.
  class Lease {
   public:
    Lease() = default;
    Lease(BounceBuffers* owner, char* memory) : owner_(owner), memory_(memory) {}
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { give_back(); }
    void give_back();
    char* memory() const { return memory_; }

   private:
    BounceBuffers* owner_ = nullptr;
    char* memory_ = nullptr;
  };

  BounceBuffers() = default;
  BounceBuffers(const BounceBuffers&) = delete;
  BounceBuffers& operator=(const BounceBuffers&) = delete;
  Lease lease();

 private:
  static constexpr Bytes kAll = 6 * kMiB;  // for the threads of a pool and some that help
  void make();

  ChunkMemory all_;
  bool made_ = false;
  std::vector<char*> free_;
};

}  // namespace outsize::host
