// Small storages (less than kLargeBytes) share extents of kSharedBytes. Two classes:
//
//   in birth order  what is born together is used together, so blocks are laid one after another;
//                   an extent goes when all its blocks have died
//   long-lived      blocks whose birth site has been seen to outlive a step fill the holes of
//                   long-lived extents, so that one kept scalar never strands an extent
//
// An extent of the first class that still has live blocks two steps after it was closed joins the
// second class, and the sites of those blocks are remembered. When more than twice the live bytes
// are held, every small storage is placed into holes first.
//
// Bookkeeping lies outside the extents: a spilled extent's blocks can die without a touch.
// Threading: not thread-safe; the runtime calls under its lock.
#pragma once

#include <array>
#include <bitset>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/residency/extent.h"

namespace outsize::host {

class SmallStorages {
 public:
  static constexpr Bytes kGranule = 64;
  static constexpr std::uint32_t kGranules = static_cast<std::uint32_t>(kSharedBytes / kGranule);

  explicit SmallStorages(const ExtentTable& table) : table_(table) {}

  // A block in an extent that is resident, or null when a new extent is needed: then open() one
  // and ask again. `extent` receives where it lies.
  char* allocate(Bytes bytes, SiteId site, ExtentId& extent);
  void open(ExtentId extent, char* base, SiteId site);
  // True when the extent is empty and nobody fills it: it takes no more births and must be released
  // (forget() it then, which may be later: a transfer may still need it).
  bool deallocate(ExtentId extent, char* address);
  // An extent that was empty when it stopped taking births, to be released likewise; kNoExtent when
  // there is none. To be asked after allocate(), open() and on_evict().
  ExtentId take_emptied();
  void forget(ExtentId extent);
  // The extent's pages leave: it takes no more births.
  void on_evict(ExtentId extent);
  // Shows each block that is in use: its address, and its bytes in whole granules.
  template <class See>
  void each(See see) const {
    for (const auto& page : by_id_) {
      if (page == nullptr) continue;
      for (std::uint32_t at = 0; at < kGranules;) {
        const bool used = (page->map[at / 64] >> (at % 64) & 1) != 0;
        const std::uint32_t granules = used ? page->blocks[at].granules : 1;
        if (used) see(static_cast<const char*>(page->base + at * kGranule), granules * kGranule);
        at += granules;
      }
    }
  }
  // Between steps: closed extents that did not empty join the long-lived class.
  void step();
  bool owns(ExtentId extent) const { return extent < by_id_.size() && by_id_[extent] != nullptr; }

  Bytes held() const { return held_; }
  Bytes live() const { return live_; }

 private:
  struct Block {
    std::uint16_t granules;  // at a block's first granule; 0: none starts here
    std::uint16_t site;      // folded
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Page {
    ExtentId id = kNoExtent;
    char* base = nullptr;
    std::uint32_t next = 0;       // first granule never used (birth order)
    std::uint32_t live = 0;       // blocks
    std::uint32_t used = 0;       // granules
    std::uint32_t run_max = 0;    // no free run is longer (long-lived)
    std::uint32_t recent = 0;     // last freed block of the open extent: +1, 0: none
    std::uint64_t closed_step = 0;
    bool long_lived = false;
    std::array<std::uint64_t, kGranules / 64> map{};  // granules in use
    std::unique_ptr<Block[], Free> blocks;
  };
  using Pages = std::vector<Page*>;

  static std::uint16_t fold(SiteId site);
  char* place(Page& page, std::uint32_t at, std::uint32_t granules, SiteId site);
  char* in_birth_order(std::uint32_t granules, SiteId site, ExtentId& extent);
  char* in_holes(std::uint32_t granules, SiteId site, ExtentId& extent);
  void close(Page& page);
  void leave_lists(Page& page);
  bool reuse_wanted() const;
  static std::uint32_t find_run(const Page& page, std::uint32_t granules, std::uint32_t& longest);
  static void mark(Page& page, std::uint32_t at, std::uint32_t granules, bool used);

  const ExtentTable& table_;
  std::vector<std::unique_ptr<Page>> by_id_;
  Page* open_ = nullptr;
  Pages closed_;               // of the first class, oldest first
  Pages long_lived_;
  std::vector<ExtentId> emptied_;
  std::bitset<65536> outlives_;  // by folded site
  bool want_long_ = false;       // the extent to be opened next is for the long-lived class
  std::uint64_t step_ = 0;
  Bytes held_ = 0, live_ = 0;
};

}  // namespace outsize::host
