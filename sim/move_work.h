// What moving extents costs the program beside the disk's time, as `outsize doctor` measures it: its own commands,
// what transfers take of the processors, and pages: small ones are looked at one by one when they move or
// are guarded, huge ones cost next to nothing. With a model of the live driver's page pool
// (platforms/host/page_pool.h): what is born or comes takes pages as they lie where there are such, and pays for
// those that have to be put together. Huge pages that the program gave back come again, no more of them than it gave. What
// stays behind a taken beginning is not given back to its range here when
// that is put, and fresh small pages are made singly here, not as a part of a huge one whose rest is pooled. The program
// pays for all pages but those of bytes that arrive, though I/O threads do a part.
#pragma once

#include <map>
#include <utility>

#include "core/base/types.h"
#include "sim/link.h"

namespace outsize::sim {

// Nanoseconds; nothing costs anything where all are 0.
struct MoveCosts {
  Nanos page = 0;      // a small page that moves or is guarded
  Nanos fresh = 0;     // a MiB of small pages that come from the system ...
  Nanos fresh_huge = 0;  // ... and of huge ones, for which the system has to find memory ...
  Nanos warm_huge = 0;   // ... or takes what the program gave back to it
  Bytes cold = 0;        // bytes: so many of huge ones are found before they are what was given back; 0: all are found
  Nanos command = 0;   // a read, write or eviction that the program has begun
  Nanos transfer = 0;  // of I/O threads for a read or write, as far as it is at the program's expense; also while it waits
  Nanos mebibyte = 0;  // by which a MiB that comes or goes holds up a program that works meanwhile
};

class MoveWork {
 public:
  explicit MoveWork(const MoveCosts& costs) : costs_(costs) {}

  void command() { owed_ += costs_.command; }
  // A read or write has ended. While nobody works its bytes hold up nobody.
  void transferred(const Transfer& transfer);
  // An extent's pages were moved elsewhere, guarded or unguarded.
  void handled(Bytes bytes) { owed_ += of(bytes % kChunkBytes); }
  // Pages that nobody owns any more.
  void put(Bytes bytes);
  // Pages for an extent; fresh ones take the place of what is pooled beyond `most`.
  void take(Bytes bytes, Bytes most);
  // What the thread that works next has to pay.
  Nanos owed() { return std::exchange(owed_, 0); }
  Bytes made() const { return made_; }  // fresh pages, ever
  Bytes pooled() const { return pooled_ + left_; }

 private:
  Nanos of(Bytes bytes) const { return costs_.page * ((bytes + kPageBytes - 1) / kPageBytes); }
  void remove(std::map<Bytes, int>::iterator at);
  void fill(Bytes bytes);
  void fresh(Bytes bytes, bool huge);
  Nanos price_of_huge(Bytes bytes);
  bool free_of_charge() const { return costs_.page == 0 && costs_.fresh == 0 && costs_.fresh_huge == 0; }

  MoveCosts costs_;
  Nanos owed_ = 0;
  std::map<Bytes, int> ranges_;  // bytes -> how many such
  Bytes pooled_ = 0;  // their sum
  Bytes made_ = 0;
  Bytes huge_ = 0;    // of these, whole chunks
  Bytes given_back_ = 0;  // and not taken again
  Bytes most_ = 0;    // of this take
  Bytes left_ = 0;    // pages behind taken beginnings: they can only be moved
};

}  // namespace outsize::sim
