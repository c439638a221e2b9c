// Bounce buffers: transfers of memory whose pages lie here and there go through a little memory that lies together.
//
// Direct I/O hands a disk the program's own pages, one run of neighbours after the other. Some disks mind how many runs
// there are: a virtual one moved four times as much a second from huge pages as from scattered small ones, and a copy
// costs a tenth of what that saves (docs/notes/scattered-pages.md). Others do not mind, and a program's large tensors lie
// together as they are. Nobody says which, so the ways duel: of four transfers two go the one way and two the other, and
// the way that wins more duels is that of the transfers which follow; as long as it wins, it is asked about ever more
// seldom. A transfer that is measured is alone: beside others that go the slow way the quick one is slow, too.
//
// Threading: not thread-safe; the pool calls under its mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
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

  // A transfer begins now. `alone`: no other is under way.
  Way choose(IoRequest::Kind kind, Bytes bytes, bool alone);
  // There was none alone for a while, and it is time to see to it that there is; or not yet.
  bool overdue(IoRequest::Kind kind, Bytes bytes);
  void forgo(IoRequest::Kind kind, Bytes bytes);
  // One that is measured took so long, wall and processor time together: the one holds up who waits for it, the other who
  // computes meanwhile. Less than 0: it failed or did not go that way, and the duel is void. Where nothing can be said of
  // one, as others began meanwhile, nothing is, and the next takes its place.
  void took(IoRequest::Kind kind, Bytes bytes, Way way, Nanos nanos);

 private:
  static constexpr Bytes kLeast = 32 * kKiB;  // below, there are few runs whatever they are
  static constexpr std::size_t kSizes = 4;    // up to 128 KiB, 512 KiB, 2 MiB, and more
  static constexpr int kDuel = 4;             // transfers
  static constexpr int kSure = 3;
  static constexpr int kPatience = 16;        // so many transfers go by before others are held back
  static constexpr int kGapMin = 2, kGapMax = 512;  // transfers from a duel to the next

  struct Class {
    int score = 0;  // above 0: bounce
    int gap = 0, wait = 0, missed = 0;
    int told = 0;                        // of kDuel
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

  // Not while one is measured, or waits for the others' end to be: then it is to be asked again after `wait`, or when another
  // ended. Either lasts kHold at most, and not twice in a row. `pressing`: somebody waits for it; it may, and
  // spoils what is measured, as do those that begin without asking.
  bool may_begin(IoRequest::Kind kind, Bytes bytes, bool pressing, Nanos now, Nanos* wait);
  // `plain`: as usual, so that how long it takes tells something.
  Turn begin(IoRequest::Kind kind, Bytes bytes, bool plain, Nanos now);
  // It took so long, less than 0 if it failed. True: one that might not begin is to ask again.
  bool end(IoRequest::Kind kind, Bytes bytes, Turn& turn, Nanos took);
  // Some might not begin, and have not been told to ask again.
  bool holds() const { return held_; }
  Bytes bounced() const { return bounced_; }  // ended transfers that went through buffers

  static constexpr Nanos kHold = 20'000'000;

 private:
  BounceChoice choice_;
  BounceBuffers buffers_;
  int moving_ = 0;
  Bytes bounced_ = 0;
  Nanos alone_since_ = 0, held_since_ = 0;  // 0: none is measured; none waits for the others' end
  bool disturbed_ = false;  // the one that is measured
  bool rest_ = false;       // one was; the next is not, as it may have been held back
  bool held_ = false;
};

}  // namespace outsize::host
