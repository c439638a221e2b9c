// Bounce buffers: transfers of memory whose pages lie here and there go through a little memory that lies together.
//
// Direct I/O hands a disk the program's own pages, one run of neighbours after the other. Some disks mind how many runs
// there are: a virtual one moved four times as much a second from huge pages as from scattered small ones, and a copy
// costs a sixth of the difference (docs/notes/scattered-pages.md). Others do not mind, and a program's large tensors lie
// together as they are. Nobody says which, so the ways duel: of four transfers two go the one way and two the other, and
// the way that took less is the next ones'; the surer, the more seldom it is asked again. Such transfers are alone: beside
// others that go the slow way the quick one is slow, too.
//
// Threading: not thread-safe; the pool calls under its mutex.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/types.h"
#include "platforms/host/io_pool.h"

namespace outsize::host {

// Which way a transfer goes. Reads and writes, small and large ones are asked about by themselves.
class BounceChoice {
 public:
  struct Way {
    bool bounce = false;
    bool measured = false;  // took() wants to be told
  };
  explicit BounceChoice(IoPool::Bounce mode) : mode_(mode) {}

  // Of a transfer that begins now. `alone`: no other is under way, and none will begin before it ends.
  Way way(IoRequest::Kind kind, Bytes bytes, bool alone);
  // There was no such transfer for a while, and it is time to see to it that there is one; or not yet.
  bool overdue(IoRequest::Kind kind, Bytes bytes);
  void forgo(IoRequest::Kind kind, Bytes bytes);
  // One that is measured took so long, wall and processor time together: the one holds up who waits for it, the other
  // who computes meanwhile. Less than 0: it failed, was not alone or did not go that way, and the duel is void.
  void took(IoRequest::Kind kind, Bytes bytes, Way way, Nanos nanos);

 private:
  static constexpr Bytes kLeast = 32 * kKiB;  // below, there are few runs whatever they are
  static constexpr std::size_t kSizes = 4;    // up to 128 KiB, 512 KiB, 2 MiB, and more
  static constexpr int kSure = 3;
  static constexpr int kPatience = 16;        // so many transfers go by before others are held back
  static constexpr int kGapMin = 2, kGapMax = 512;  // transfers from a duel to the next

  struct Class {
    int score = 0;  // above 0: bounce
    int gap = 0, wait = 0, missed = 0;
    int told = 0;                        // of four
    std::array<Nanos, 2> cost = {0, 0};  // of a MiB: direct, bounced
  };
  Class& class_of(IoRequest::Kind kind, Bytes bytes);
  static void end(Class& c);
  static void pause(Class& c, int gap);

  IoPool::Bounce mode_;
  std::array<std::array<Class, kSizes>, 2> classes_;
};

// The buffers, in huge pages where the system has some. Made when the first is asked for.
class BounceBuffers {
 public:
  static constexpr Bytes kBytes = kMiB;  // of each: smaller ones are slower, larger ones no faster
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
  ~BounceBuffers();
  BounceBuffers(const BounceBuffers&) = delete;
  BounceBuffers& operator=(const BounceBuffers&) = delete;
  Lease lease();

 private:
  static constexpr Bytes kAll = 6 * kMiB;  // for the threads of a pool and some that help
  void make();

  char* mapping_ = nullptr;
  bool made_ = false;
  std::vector<char*> free_;
};

// The transfers of a pool: each asks whether it may begin, begins, and ends.
class Bouncer {
 public:
  // Of one transfer, until its end.
  struct Turn {
    BounceChoice::Way way;
    BounceBuffers::Lease buffer;
    char* memory() const { return buffer.memory(); }  // to go through, if any
  };
  explicit Bouncer(IoPool::Bounce mode) : choice_(mode) {}

  // Not while one is measured alone, or is about to be: to be asked again after `wait`, or when another ended. Never for
  // longer than kHold altogether. Who does not ask may begin: then nothing is measured.
  bool may_begin(IoRequest::Kind kind, Bytes bytes, Nanos now, Nanos* wait);
  // `plain`: as usual, so that how long it takes tells something.
  Turn begin(IoRequest::Kind kind, Bytes bytes, bool plain, Nanos now);
  // It took so long, less than 0 if it failed. True: others may begin that might not before.
  bool end(IoRequest::Kind kind, Bytes bytes, Turn& turn, Nanos took);

  Bytes bounced() const { return bounced_; }  // ended transfers that went through buffers

  static constexpr Nanos kHold = 20'000'000;

 private:
  BounceChoice choice_;
  BounceBuffers buffers_;
  int moving_ = 0;
  Bytes bounced_ = 0;
  Nanos alone_since_ = 0, held_since_ = 0;  // 0: none is measured; none is held back for one that is to be
  bool disturbed_ = false;                  // the one that is measured
};

}  // namespace outsize::host
