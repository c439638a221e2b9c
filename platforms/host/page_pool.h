// Address ranges and the warm pages that nobody owns at the moment.
//
// AddressSpace hands out runs of chunks of the arena. PagePool keeps ranges whose pages are present
// but belong to no extent: a dead storage's range, kept whole so that the next storage of that size
// takes it as it is, and ranges into which evicted pages were moved. Fresh pages cost more than
// reading from disk on some machines, so pages recycle and are given back only on request.
//
// A small page that moves costs a look at it, a flush of every core's TLB and, where it was part of a
// huge page, that one's end. So what is smaller than a chunk takes a range as it lies: of a larger one
// the beginning, and behind it leftover pages stay in the pool until its owner is done; to a smaller
// one comes what is missing. Where there is room for a chunk, fresh pages are the end of one and its rest is the pool's:
// they lie together in memory then, which disks care about.
//
// Where the limit binds and whole chunks are wanted, warm small pages are given up for fresh huge ones, or fill whole
// chunks, too: as PageChoice says.
//
// Threading: not thread-safe; the runtime calls under its lock.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/types.h"
#include "platforms/host/page_choice.h"
#include "platforms/host/page_mover.h"

namespace outsize::host {

// A run of chunks of which the first `bytes` are meant.
struct PageRange {
  char* address = nullptr;
  Bytes bytes = 0;            // multiple of kPageBytes
  std::uint32_t chunks = 0;   // address space held
};

class AddressSpace {
 public:
  AddressSpace(char* base, std::uint32_t chunks);
  // Lowest free run that fits; nullopt when the address space is exhausted.
  std::optional<PageRange> take(Bytes bytes);
  void put_back(const PageRange& range);
  Bytes used() const { return used_chunks_ * kChunkBytes; }

 private:
  char* base_;
  std::map<std::uint32_t, std::uint32_t> free_;  // first chunk -> length
  Bytes used_chunks_ = 0;
};

class PagePool {
 public:
  PagePool(AddressSpace& space, PageMover& mover, PageChoice& choice)
      : space_(space), mover_(mover), choice_(choice) {}

  // A range of exactly `bytes` with pages present, contents unspecified: a warm one of that size, else
  // (below a chunk) a part of a larger or the whole of a smaller one, else a new address range; what is
  // missing comes from warm pages elsewhere, else from fresh ones.
  Result<PageRange> take(Bytes bytes);
  // Addresses without pages. Where there are no others, those that are kept for single pages.
  std::optional<PageRange> addresses(Bytes bytes);
  // The range's pages are nobody's now. They are present, readable and writable.
  void put(PageRange range);
  // To be called often: lets the choice look (PageChoice::look), and does as it says.
  void look(std::int64_t ops, Nanos waited);
  // Another program begins.
  void forget_choice();
  // Addresses of a range whose pages moved elsewhere.
  void give_back(const PageRange& range);
  // Fresh pages take the place of pooled ones rather than make more than `bytes` present.
  void set_limit(Bytes bytes) { limit_ = bytes; }
  // Gives pooled pages back so that `bytes` more can be present within the limit, as far as they go.
  void make_way(Bytes bytes);
  // Gives pages back to the system until at most `keep` stay: less than `keep` only where a page or a whole chunk
  // would be divided.
  void trim(Bytes keep);

  Bytes bytes() const { return bytes_; }
  // Pages that exist: pool plus whatever was taken and not put back, fresh ones included.
  Bytes present() const { return present_; }
  Bytes present_peak() const { return present_peak_; }
  Bytes made() const { return made_; }  // fresh ones, ever
  // Pages that joined or left without passing the pool (adopted memory).
  void add_present(Bytes bytes);
  void reset_peak() { present_peak_ = present_; }

 private:
  // Pages behind a range of less than a chunk, in its chunk.
  struct Leftover {
    Bytes bytes = 0;
    bool owned = true;  // the range in front is somebody's; else the chunk's address space is kept for these alone
  };
  using Leftovers = std::map<char*, Leftover>;

  std::optional<PageRange> take_beginning(Bytes bytes);
  Status fill(const PageRange& range);
  Result<Bytes> fill_whole(char* address, Bytes bytes);
  Status fill_rest(char* address, Bytes bytes);
  PageRange cut(const PageRange& range, Bytes bytes);
  Status take_end(PageRange source, char* address, Bytes bytes);
  void keep_beginning(PageRange range, Bytes bytes);
  Status take_leftover(char* address, Bytes bytes, Bytes& taken);
  void change_sides();
  void keep(PageRange range);
  void leave(char* address, Bytes bytes);
  void shrink(Leftovers::iterator at, Bytes by);
  Status fresh(char* address, Bytes bytes);
  Status fresh_part(char* address, Bytes bytes);
  Status make(char* address, Bytes bytes);
  // Whether so many fresh pages are a part of a chunk. Not where moving pages would make more mappings or copies.
  bool come_of_a_chunk(Bytes bytes) const {
    return bytes < kChunkBytes && mover_.kind() == PageMover::Kind::kUserfaultfdMove;
  }
  std::optional<PageRange> pop(std::map<Bytes, std::vector<PageRange>>::iterator at);
  void drop(const PageRange& range);
  void drop_some(Bytes bytes);
  void drop_end(PageRange range, Bytes bytes);
  void drop_leftover(Leftovers::iterator at, Bytes bytes);

  AddressSpace& space_;
  PageMover& mover_;
  PageChoice& choice_;
  std::map<Bytes, std::vector<PageRange>> ranges_;  // by bytes; the last put goes first
  Leftovers leftovers_;                             // at most one in a chunk; none behind a range of the pool
  std::set<std::pair<Bytes, char*>> by_size_;       // of these
  Bytes bytes_ = 0, present_ = 0, present_peak_ = 0;
  Bytes made_ = 0;
  Bytes renew_ = 0;  // so many bytes more are given up where they are whole chunks
  Bytes filled_ = 0;  // of the range being filled
  Bytes limit_ = std::numeric_limits<Bytes>::max() / 2;
};

}  // namespace outsize::host
