// Memory that was born before us, taken over in place: addresses do not change. Only whole pages
// are managed; the odd bytes at both ends stay where they are. Long ranges are cut into pieces, so
// that a view of a large file mapping brings up only what it covers.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "platforms/host/page_mover_internal.h"
#include "platforms/host/runtime_impl.h"

namespace outsize::host {
namespace {

struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  bool write = false, shared = false, file = false, special = false;
  std::uint64_t offset = 0;
  std::string path;
};

// The mappings that cover [begin, end), in order; empty where one is missing.
std::vector<Mapping> mappings_of(std::uintptr_t begin, std::uintptr_t end) {
  std::vector<Mapping> found;
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return found;
  char line[4608];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    Mapping m;
    char mode[8] = "", path[4096] = "";
    std::uint64_t inode = 0;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %" SCNx64 " %*s %" SCNu64 " %4095[^\n]",
                    &m.begin, &m.end, mode, &m.offset, &inode, path) < 5) {
      continue;
    }
    if (m.end <= begin || m.begin >= end) continue;
    m.write = mode[1] == 'w';
    m.shared = mode[3] == 's';
    m.file = inode != 0;
    m.path = path;
    m.special = !m.file && path[0] == '[' && m.path != "[heap]" && m.path.rfind("[anon", 0) != 0;
    found.push_back(m);
  }
  std::fclose(maps);
  std::uintptr_t at = begin;
  for (const Mapping& m : found) {
    if (m.begin > at) return {};
    at = m.end;
  }
  if (at < end) found.clear();
  return found;
}

// Whether any page of [begin, end) is a private copy: it differs from the file.
bool any_private_copy(const char* begin, Bytes bytes) {
  const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  std::vector<std::uint64_t> flags(static_cast<std::size_t>(bytes / kPageBytes));
  const auto page = reinterpret_cast<std::uintptr_t>(begin) / kPageBytes;
  const auto size = flags.size() * sizeof(std::uint64_t);
  const ssize_t got = pread(fd, flags.data(), size, static_cast<off_t>(page * sizeof(std::uint64_t)));
  close(fd);
  if (got != static_cast<ssize_t>(size)) return true;
  constexpr std::uint64_t kPresentOrSwapped = 3ULL << 62, kFilePage = 1ULL << 61;
  return std::any_of(flags.begin(), flags.end(), [](std::uint64_t flag) {
    return (flag & kPresentOrSwapped) != 0 && (flag & kFilePage) == 0;
  });
}

}  // namespace

const AdoptedRange* Runtime::Impl::adopted_at(const void* address) const {
  const char* p = static_cast<const char*>(address);
  if (p < adopted_begin || p >= adopted_end) return nullptr;
  auto at = adopted.upper_bound(p);
  if (at == adopted.begin()) return nullptr;
  --at;
  return p < at->second.begin + at->second.bytes ? &at->second : nullptr;
}

void Runtime::Impl::add_adopted_operands(const Operand& operand) {
  const AdoptedRange* range = adopted_at(operand.address);
  if (range == nullptr) return;
  const char* p = static_cast<const char*>(operand.address);
  const Bytes from = std::max<Bytes>(p - range->first, 0);
  const Bytes to = std::min<Bytes>(p - range->first + static_cast<Bytes>(operand.bytes), range->managed);
  for (Bytes at = from / kAdoptedPiece; at * kAdoptedPiece < to; ++at) {
    refs.push_back({range->pieces[static_cast<std::size_t>(at)], operand.access});
  }
}

void Runtime::room_to_adopt(std::size_t bytes) {
  Impl& m = *the_impl();
  if (m.in_child.load(std::memory_order_relaxed)) return;
  ThreadSlot& slot = m.slot();
  std::lock_guard guard(m.lock);
  m.room_to_adopt(slot, static_cast<Bytes>(bytes));
}

void Runtime::end_adoption() noexcept {
  Impl& m = *the_impl();
  if (m.in_child.load(std::memory_order_relaxed)) return;
  ThreadSlot& slot = m.slot();
  std::lock_guard guard(m.lock);
  if (!slot.adopting) return;
  m.leave_room(slot);
  slot.adopting = false;
  m.end_own_op(slot);
}

bool Runtime::adopt(void* address, std::size_t bytes, void (*free)(void*), void* context) {
  Impl& m = *the_impl();
  if (m.in_child.load(std::memory_order_relaxed) || bytes < static_cast<std::size_t>(kLargeBytes)) {
    return false;
  }
  ThreadSlot& slot = m.slot();
  AdoptedRange range;
  range.begin = static_cast<char*>(address);
  range.bytes = bytes;
  range.free = free;
  range.context = context;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const auto first = static_cast<std::uintptr_t>(round_up(static_cast<Bytes>(begin), kPageBytes));
  auto last = (begin + bytes) / kPageBytes * kPageBytes;
  std::lock_guard guard(m.lock);
  const std::vector<Mapping> mappings = mappings_of(first, last);
  if (mappings.empty()) return false;
  const bool file = mappings.front().file;
  for (const Mapping& mapping : mappings) {
    if (mapping.shared || mapping.special || mapping.file != file) return false;
    if (!file && !mapping.write) return false;
  }
  if (file) {
    const Mapping& mapping = mappings.front();
    range.fd = open(mapping.path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (range.fd < 0) range.fd = open(mapping.path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (range.fd < 0 || fstat(range.fd, &status) != 0 || mappings.size() != 1) {
      if (range.fd >= 0) close(range.fd);
      return false;
    }
    // The last page of the file stays mapped: it need not be whole.
    const std::uint64_t start = mapping.offset + (first - mapping.begin);
    const auto whole = static_cast<std::uint64_t>(status.st_size) / kPageBytes * kPageBytes;
    last = std::min<std::uintptr_t>(last, first + (whole > start ? whole - start : 0));
    range.pieces.push_back(static_cast<ExtentId>(start / kPageBytes));  // unpacked by adopt_range
  }
  range.first = reinterpret_cast<char*>(first);
  range.managed = static_cast<Bytes>(last - first);
  if (last <= first || range.managed < kLargeBytes / 2) {
    if (range.fd >= 0) close(range.fd);
    return false;
  }
  const bool adopted = m.adopt_range(std::move(range), file);
  if (m.recorder != nullptr && adopted) m.recorder->adopt(monotonic_now(), slot.id, address, bytes, file);
  m.leave_room(slot);  // after: those who wait for room would have it otherwise
  if (m.options.process_budget > 0) m.look();  // they are tensors now
  return adopted;
}

// The bytes are in RAM already, and count from now on: others leave first. An extent without pages
// holds the room, in an op of its own, until the adopted ones take it: a prefetch would have it
// otherwise. Where none can be had (the tensor alone is larger than the budget) they are adopted all
// the same: an op that needs them is refused.
void Runtime::Impl::room_to_adopt(ThreadSlot& thread, Bytes bytes) {
  constexpr const char* kDoing = "adoption";
  thread.adopting = begin_own_op(thread, kDoing).ok();
  if (thread.adopting) {
    auto room = new_extent_in_op(thread, bytes, HostExtent::Kind::kNone, kDoing);
    if (room) {
      thread.room = *room;
      return;
    }
  }
  if (thread.refusal == Refusal::kIo) io_error_pending = true;  // the next op tells
}

void Runtime::Impl::leave_room(ThreadSlot& thread) {
  const ExtentId room = std::exchange(thread.room, kNoExtent);
  if (room != kNoExtent) bury(room);
}

// Replaces a piece of a file mapping by memory of ours: `absent`, where its bytes are still the
// file's, with them where it was written to. False, with nothing changed, if it cannot be. For a
// moment its bytes are zeros: who adopts sees to it that no other thread reads them through a raw
// pointer meanwhile (ops wait).
bool Runtime::Impl::replace_mapping(char* address, Bytes bytes, int fd, std::int64_t offset,
                                    bool& absent) {
  const auto size = static_cast<std::size_t>(bytes);
  std::vector<char> changed;
  absent = !any_private_copy(address, bytes);
  if (!absent) changed.assign(address, address + size);
  if (mmap(address, size, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return false;
  }
  if (!absent) std::memcpy(address, changed.data(), size);
  if (mover->attach(address, bytes)) {
    if (!absent || mover->discard(address, bytes)) return true;
    mover->detach(address, bytes).ok();
  }
  if (absent && mmap(address, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, offset) == MAP_FAILED) {
    std::fprintf(stderr, "outsize: a mapping of a weights file was lost while it was taken over "
                 "(mmap: %s). The run stops rather than go on with wrong bytes.\n", std::strerror(errno));
    std::abort();
  }
  return false;
}

// A file mapping is replaced piece by piece by memory whose valid copy is the file. Where that stops
// half-way (too many mappings), what follows stays as it was.
bool Runtime::Impl::adopt_range(AdoptedRange range, bool file) {
  const std::int64_t source =
      file ? static_cast<std::int64_t>(range.pieces.front()) * kPageBytes : 0;
  range.pieces.clear();
  if (!file) pool->make_way(range.managed);
  if (!file && populate_pages(range.first, range.managed) != 0) return false;
  if (!file && !mover->attach(range.first, range.managed)) return false;
  for (Bytes at = 0; at < range.managed; at += kAdoptedPiece) {
    char* address = range.first + at;
    const Bytes bytes = std::min(kAdoptedPiece, range.managed - at);
    bool absent = false;
    if (file && !replace_mapping(address, bytes, range.fd, source + at, absent)) {
      range.managed = at;
      break;
    }
    const ExtentId id = new_id();
    HostExtent& e = extents[id];
    e.kind = HostExtent::Kind::kAdopted;
    e.range = {address, bytes, 0};
    e.source_fd = absent ? range.fd : -1;
    e.source_offset = source + at;
    e.asked = bytes;
    range.pieces.push_back(id);
    large_live += bytes;
    counts(id, true);
    if (!absent) pool->add_present(bytes);
    Input input;
    input.kind = Input::Kind::kAdopt;
    input.extent = id;
    input.bytes = bytes;
    input.flag = absent;
    feed(input);
  }
  if (range.pieces.empty()) {
    close(range.fd);
    return false;
  }
  range.pieces_left = static_cast<std::uint32_t>(range.pieces.size());
  adopted_begin = adopted_begin == nullptr ? range.begin : std::min<const char*>(adopted_begin, range.begin);
  adopted_end = std::max<const char*>(adopted_end, range.begin + range.bytes);
  tensor_peak = std::max(tensor_peak, large_live + small->live());
  const char* key = range.begin;
  adopted.emplace(key, std::move(range));
  return true;
}

void Runtime::deallocate_adopted(void* address) noexcept {
  Impl& m = *the_impl();
  if (m.in_child.load(std::memory_order_relaxed)) return;  // the parent's
  std::unique_lock guard(m.lock);
  const auto at = m.adopted.find(static_cast<const char*>(address));
  if (at == m.adopted.end()) return;
  if (m.recorder != nullptr) m.recorder->death(monotonic_now(), Impl::thread_id(), address);
  for (const ExtentId id : std::vector<ExtentId>(at->second.pieces)) m.bury(id);
  while (at->second.pieces_left > 0) {  // transfers under way still use the memory
    guard.unlock();
    usleep(200);
    guard.lock();
  }
  AdoptedRange range = std::move(at->second);
  m.adopted.erase(at);
  // As it was attached: a file mapping came piece by piece.
  const Bytes piece = range.fd >= 0 ? Impl::kAdoptedPiece : range.managed;
  for (Bytes at = 0; at < range.managed; at += piece) {
    const Status status = m.mover->detach(range.first + at, std::min(piece, range.managed - at));
    if (!status) std::fprintf(stderr, "outsize: %s\n", status.error().message().c_str());
  }
  guard.unlock();
  range.free(range.context);
  if (range.fd >= 0) close(range.fd);
}

// The engine is done with a piece of a dead adopted range.
void Runtime::Impl::release_adopted(ExtentId id) {
  HostExtent& e = extents[id];
  if (table[id].resident_at_death) pool->add_present(-e.range.bytes);
  large_live -= e.range.bytes;
  for (auto& [begin, range] : adopted) {
    if (e.range.address < range.first || e.range.address >= range.first + range.managed) continue;
    --range.pieces_left;
    break;
  }
  e = HostExtent{};
  free_ids.push_back(id);
}

}  // namespace outsize::host
