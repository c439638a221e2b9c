#include "platforms/host/small_storages.h"

#include <algorithm>
#include <bit>

namespace outsize::host {
namespace {

// Below this much held, holes are not worth the search.
constexpr Bytes kHeldFloor = 8 * kMiB;

}  // namespace

std::uint16_t SmallStorages::fold(SiteId site) {
  site ^= site >> 32;
  return static_cast<std::uint16_t>(site ^ (site >> 16));
}

bool SmallStorages::reuse_wanted() const { return held_ > kHeldFloor && held_ > 2 * live_; }

char* SmallStorages::allocate(Bytes bytes, SiteId site, ExtentId& extent) {
  const auto granules = static_cast<std::uint32_t>(round_up(bytes, kGranule) / kGranule);
  if (outlives_.test(fold(site)) || reuse_wanted()) {
    char* address = in_holes(granules, site, extent);
    if (address != nullptr || outlives_.test(fold(site))) return address;
  }
  return in_birth_order(granules, site, extent);
}

char* SmallStorages::in_birth_order(std::uint32_t granules, SiteId site, ExtentId& extent) {
  if (open_ != nullptr && table_[open_->id].where != Where::kResident) close(*open_);
  want_long_ = false;
  if (open_ == nullptr) return nullptr;
  Page& page = *open_;
  extent = page.id;
  if (page.recent != 0 && page.blocks[page.recent - 1].granules == granules) {
    const std::uint32_t at = page.recent - 1;
    page.recent = 0;
    return place(page, at, granules, site);
  }
  if (page.next + granules > kGranules) {
    close(page);
    return nullptr;
  }
  const std::uint32_t at = page.next;
  page.next += granules;
  return place(page, at, granules, site);
}

char* SmallStorages::in_holes(std::uint32_t granules, SiteId site, ExtentId& extent) {
  for (Page* page : long_lived_) {
    if (page->run_max < granules || table_[page->id].where != Where::kResident) continue;
    std::uint32_t longest = 0;
    const std::uint32_t at = find_run(*page, granules, longest);
    if (at == kGranules) {
      page->run_max = longest;
      continue;
    }
    extent = page->id;
    return place(*page, at, granules, site);
  }
  want_long_ = true;
  return nullptr;
}

char* SmallStorages::place(Page& page, std::uint32_t at, std::uint32_t granules, SiteId site) {
  page.blocks[at] = {static_cast<std::uint16_t>(granules), fold(site)};
  mark(page, at, granules, true);
  ++page.live;
  page.used += granules;
  live_ += granules * kGranule;
  return page.base + at * kGranule;
}

void SmallStorages::mark(Page& page, std::uint32_t at, std::uint32_t granules, bool used) {
  for (std::uint32_t end = at + granules; at < end;) {
    const std::uint32_t bit = at % 64;
    const std::uint32_t count = std::min(64 - bit, end - at);
    const std::uint64_t mask = (count == 64 ? ~0ULL : (1ULL << count) - 1) << bit;
    if (used) {
      page.map[at / 64] |= mask;
    } else {
      page.map[at / 64] &= ~mask;
    }
    at += count;
  }
}

// First run of `granules` free ones, or kGranules; then `longest` is the longest run there is.
std::uint32_t SmallStorages::find_run(const Page& page, std::uint32_t granules,
                                      std::uint32_t& longest) {
  std::uint32_t run = 0;
  longest = 0;
  for (std::uint32_t at = 0; at < kGranules;) {
    const std::uint64_t word = page.map[at / 64] >> (at % 64);
    const std::uint32_t left = 64 - at % 64;
    const bool used = (word & 1) != 0;
    const auto same = std::min<std::uint32_t>(
        left, static_cast<std::uint32_t>(used ? std::countr_one(word) : std::countr_zero(word)));
    run = used ? 0 : run + same;
    at += same;
    longest = std::max(longest, run);
    if (run >= granules) return at - run;
  }
  return kGranules;
}

void SmallStorages::open(ExtentId extent, char* base, SiteId) {
  if (extent >= by_id_.size()) by_id_.resize(extent + 1 + extent / 2);
  auto page = std::make_unique<Page>();
  page->id = extent;
  page->base = base;
  // Zero pages until touched: large bookkeeping for large blocks costs nothing.
  page->blocks.reset(static_cast<Block*>(std::calloc(kGranules, sizeof(Block))));
  held_ += kSharedBytes;
  if (want_long_) {
    page->long_lived = true;
    page->run_max = kGranules;
    long_lived_.push_back(page.get());
  } else {
    if (open_ != nullptr) close(*open_);  // another thread was faster
    open_ = page.get();
  }
  by_id_[extent] = std::move(page);
}

void SmallStorages::close(Page& page) {
  page.closed_step = step_;
  page.recent = 0;
  open_ = nullptr;
  if (page.live == 0) {
    emptied_.push_back(page.id);
  } else {
    closed_.push_back(&page);
  }
}

void SmallStorages::leave_lists(Page& page) {
  if (&page == open_) open_ = nullptr;
  std::erase(closed_, &page);
  std::erase(long_lived_, &page);
}

ExtentId SmallStorages::take_emptied() {
  if (emptied_.empty()) return kNoExtent;
  const ExtentId extent = emptied_.back();
  emptied_.pop_back();
  return extent;
}

bool SmallStorages::deallocate(ExtentId extent, char* address) {
  Page& page = *by_id_[extent];
  const auto at = static_cast<std::uint32_t>((address - page.base) / kGranule);
  const std::uint32_t granules = page.blocks[at].granules;
  mark(page, at, granules, false);
  --page.live;
  page.used -= granules;
  live_ -= granules * kGranule;
  if (page.long_lived) {
    page.run_max = kGranules;  // not known any more
  } else if (&page == open_) {
    if (page.live == 0) {
      page.next = page.recent = 0;
    } else if (at + granules == page.next) {
      page.next = at;
    } else {
      page.recent = at + 1;
    }
    if (page.recent != 0 && page.recent - 1 >= page.next) page.recent = 0;
  }
  if (page.live > 0 || &page == open_) return false;
  leave_lists(page);
  return true;
}

void SmallStorages::forget(ExtentId extent) {
  leave_lists(*by_id_[extent]);
  held_ -= kSharedBytes;
  by_id_[extent].reset();
}

void SmallStorages::on_evict(ExtentId extent) {
  Page& page = *by_id_[extent];
  if (&page == open_) {
    close(page);
  } else if (page.long_lived && page.live == 0) {
    // Opened for a block that was outrun: no death would ever release it.
    leave_lists(page);
    emptied_.push_back(extent);
  }
}

void SmallStorages::step() {
  ++step_;
  while (!closed_.empty() && closed_.front()->closed_step + 2 <= step_) {
    Page& page = *closed_.front();
    closed_.erase(closed_.begin());
    for (std::uint32_t at = 0; at < kGranules;) {
      const bool used = (page.map[at / 64] >> (at % 64) & 1) != 0;
      if (used) outlives_.set(page.blocks[at].site);
      at += used ? page.blocks[at].granules : 1;
    }
    page.long_lived = true;
    page.run_max = kGranules;
    long_lived_.push_back(&page);
  }
}

}  // namespace outsize::host
