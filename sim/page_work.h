// What the live driver's pages cost the program: small ones are looked at one by one when they move or are
// guarded, huge ones cost next to nothing. With a model of its page pool (platforms/host/page_pool.h): what is
// born or comes takes pages as they lie where there are such, and pays for those that have to be put together.
// What stays behind a taken beginning is not given back to its range here when that is put. The program pays
// for all of it, though I/O threads do a part, and for nothing that they alone do (bytes that arrive).
#pragma once

#include <map>
#include <utility>

#include "core/base/types.h"

namespace outsize::sim {

class PageWork {
 public:
  // Nanoseconds a small page; 0: nothing costs anything.
  explicit PageWork(Nanos page) : page_(page) {}

  // An extent's pages were moved elsewhere, guarded or unguarded.
  void handled(Bytes bytes) { owed_ += of(bytes % kChunkBytes); }
  // Pages that nobody owns any more.
  void put(Bytes bytes);
  // Pages for an extent, of which `most` may wait in the pool afterwards.
  void take(Bytes bytes, Bytes most);
  // What the thread that works next has to pay.
  Nanos owed() { return std::exchange(owed_, 0); }
  Bytes pooled() const { return pooled_ + left_; }

 private:
  Nanos of(Bytes bytes) const { return page_ * ((bytes + kPageBytes - 1) / kPageBytes); }
  void remove(std::map<Bytes, int>::iterator at);
  void fill(Bytes bytes);

  Nanos page_, owed_ = 0;
  std::map<Bytes, int> ranges_;  // bytes -> how many such
  Bytes pooled_ = 0;  // their sum
  Bytes left_ = 0;    // pages behind taken beginnings: they can only be moved
};

}  // namespace outsize::sim
