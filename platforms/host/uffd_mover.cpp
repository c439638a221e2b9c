// userfaultfd: the arena is registered for missing pages and write protection, pages move with
// UFFDIO_MOVE (Linux 6.8) or are copied with UFFDIO_COPY.
//
// closed = no page, open = page, guarded = page with the write-protect bit. A registered range must
// never be written while it has no page (the write would wait for us), so fresh pages are made in
// an unregistered staging mapping and moved in.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>

#include "platforms/host/fork_child.h"
#include "platforms/host/machine_error.h"
#include "platforms/host/page_mover_internal.h"
#include "platforms/host/page_mover_service.h"
#include "platforms/host/system_calls.h"
#include "platforms/host/uffd_open.h"

namespace outsize::host {
namespace {

// 8 MiB of huge pages are staged at a time, or 2 MiB of small ones: staged pages are memory that
// the budget does not know of, so they are few and their life is short.
constexpr Bytes kHugeStaging = 8 * kMiB;
constexpr Bytes kSmallStaging = kChunkBytes;
// Transient refusals (a page is locked, the memory map is changing) before we call it a refusal.
constexpr int kPatience = 2000;

std::size_t size_of(Bytes bytes) { return static_cast<std::size_t>(bytes); }
char* advance(void* address, Bytes bytes) { return static_cast<char*>(address) + bytes; }
// How far to the end of the chunk that `address` lies in.
Bytes to_chunk_end(const void* address) {
  return kChunkBytes - static_cast<Bytes>(address_of(address) % static_cast<Address>(kChunkBytes));
}

class UffdMover final : public PageMover {
 public:
  UffdMover(void* arena, Bytes bytes, bool force_copy)
      : arena_(arena), arena_bytes_(bytes), force_copy_(force_copy) {}
  ~UffdMover() override;
  Status start(FaultHandler handler);

  Kind kind() const override { return move_ ? Kind::kUserfaultfdMove : Kind::kUserfaultfdCopy; }
  const char* name() const override { return move_ ? "userfaultfd+move" : "userfaultfd+copy"; }
  bool serves_kernel() const override { return serves_kernel_; }
  Status populate(void* address, Bytes bytes) override;
  Status move_in(void* src, void* dst, Bytes bytes, bool guarded, bool at_once) override;
  Status move_out(void* src, void* dst, Bytes bytes) override;
  Status discard(void* address, Bytes bytes) override;
  void forget_small_pages(void* address, Bytes bytes) override;
  void before_split(void* chunk) override;
  void keep_whole(bool on) override { keep_whole_.store(on, std::memory_order_relaxed); }
  Status guard(void* address, Bytes bytes) override;
  Status unguard(void* address, Bytes bytes) override;
  void resume(void* address, Bytes bytes) override;
  Status attach(void* address, Bytes bytes) override;
  Status detach(void* address, Bytes bytes) override;
  void before_fork() override;
  void after_fork_parent() override;
  void after_fork_child(const Range* closed, std::size_t count, ChildFault fault) override;

 private:
  struct Moved {
    Bytes bytes = 0;  // from the front
    int error = 0;    // why not all
  };
  static std::size_t collect(void* self, Fault* faults, std::size_t capacity);
  Status make_staging();
  Status populate_by_move(void* address, Bytes bytes);
  Status populate_by_copy(void* address, Bytes bytes);
  static bool moved_untold(void* src, void* dst);
  void make_whole(void* dst, Bytes bytes);
  Moved move(void* src, void* dst, Bytes bytes, bool wake);
  Moved copy(void* src, void* dst, Bytes bytes, bool guarded);
  Status move_piece(void* src, void* dst, Bytes bytes, bool guarded, bool may_move);
  int write_protect(void* address, Bytes bytes, bool on);
  int register_range(void* address, Bytes bytes);

  void* const arena_;
  const Bytes arena_bytes_;
  const bool force_copy_;
  int fd_ = -1;
  bool move_ = false;
  std::atomic<bool> keep_whole_{false};
  bool serves_kernel_ = true;
  AreaTable areas_;  // asked by the forked child, and for system calls
  std::optional<CoveredAreas> covered_;
  std::mutex areas_mutex_;
  FaultService service_;
  std::mutex staging_mutex_;
  void* staging_ = nullptr;  // [huge pages][small pages]; in copy mode the small part is zeros
};

UffdMover::~UffdMover() {
  covered_.reset();
  service_.stop();
  if (fd_ >= 0) close(fd_);
  if (staging_ != nullptr) munmap(staging_, size_of(kHugeStaging + kSmallStaging));
}

Status UffdMover::start(FaultHandler handler) {
  Result<Uffd> uffd = open_uffd();
  if (!uffd) return uffd.error();
  fd_ = uffd->fd;
  move_ = uffd->move && !force_copy_;
  serves_kernel_ = uffd->kernel_faults;
  if (Status status = make_staging(); !status) return status;
  if (madvise(arena_, size_of(arena_bytes_), MADV_DONTNEED) != 0) {
    return os_error(ErrorCode::kUnsupported, "madvise(MADV_DONTNEED) of the arena", errno,
                    range_text(arena_, arena_bytes_));
  }
  if (const int error = register_range(arena_, arena_bytes_); error != 0) {
    return os_error(ErrorCode::kUnsupported, "UFFDIO_REGISTER of the arena", error,
                    range_text(arena_, arena_bytes_));
  }
  areas_.insert(address_of(arena_), address_of(arena_) + static_cast<Address>(arena_bytes_));
  if (!serves_kernel_) covered_.emplace(areas_);
  return service_.start(fd_, &UffdMover::collect, this, std::move(handler));
}

Status UffdMover::make_staging() {
  const Bytes bytes = kHugeStaging + kSmallStaging;
  // Reserved with slack, then cut, so that huge pages are possible.
  void* wide = mmap(nullptr, size_of(bytes + kChunkBytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (wide == MAP_FAILED) return os_error(ErrorCode::kUnsupported, "mmap of the staging area", errno);
  const Bytes head = to_chunk_end(wide) % kChunkBytes;
  if (head != 0) munmap(wide, size_of(head));
  if (head != kChunkBytes) munmap(advance(wide, head + bytes), size_of(kChunkBytes - head));
  staging_ = advance(wide, head);
  (void)madvise(staging_, size_of(kHugeStaging), MADV_HUGEPAGE);
  (void)madvise(advance(staging_, kHugeStaging), size_of(kSmallStaging), MADV_NOHUGEPAGE);
  // Pages shared with a forked child cannot move.
  (void)madvise(staging_, size_of(bytes), MADV_DONTFORK);
  return {};
}

int UffdMover::register_range(void* address, Bytes bytes) {
  uffdio_register argument{};
  argument.range = {address_of(address), static_cast<std::uint64_t>(bytes)};
  argument.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
  return ioctl(fd_, UFFDIO_REGISTER, &argument) == 0 ? 0 : errno;
}

std::size_t UffdMover::collect(void* self, Fault* faults, std::size_t capacity) {
  auto* mover = static_cast<UffdMover*>(self);
  uffd_msg messages[16];
  const std::size_t room = std::min(capacity, sizeof messages / sizeof *messages);
  const ssize_t got = read(mover->fd_, messages, room * sizeof *messages);
  if (got <= 0) return 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(got) / sizeof *messages; ++i) {
    if (messages[i].event != UFFD_EVENT_PAGEFAULT) continue;
    const auto& fault = messages[i].arg.pagefault;
    const Address page = fault.address & ~static_cast<Address>(kPageBytes - 1);
    faults[count++] = Fault{pointer_to(page), (fault.flags & (UFFD_PAGEFAULT_FLAG_WRITE |
                                                              UFFD_PAGEFAULT_FLAG_WP)) != 0};
  }
  return count;
}

// The kernel (6.18) may move a page that it has swapped out and report the page before it as the last.
// Then it is gone from the source and there at the destination; two ranges that were mixed up look
// otherwise.
bool UffdMover::moved_untold(void* src, void* dst) {
  constexpr std::uint64_t kPresentOrSwapped = 3ULL << 62;
  const int pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pages < 0) return false;
  std::uint64_t entries[2] = {};
  bool known = true;
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<off_t>(address_of(i == 0 ? src : dst) / kPageBytes * sizeof *entries);
    known = known && pread(pages, &entries[i], sizeof *entries, at) == sizeof *entries;
  }
  close(pages);
  return known && (entries[0] & kPresentOrSwapped) == 0 && (entries[1] & kPresentOrSwapped) != 0;
}

// Before pages come to these chunks. One that has pages is left as it is: two ranges were mixed up, and the move will say so.
void UffdMover::make_whole(void* dst, Bytes bytes) {
  unsigned char there[kChunkBytes / kPageBytes];
  for (Bytes at = 0; at + kChunkBytes <= bytes; at += kChunkBytes) {
    void* const chunk = advance(dst, at);
    if (mincore(chunk, size_of(kChunkBytes), there) != 0) return;
    if (std::none_of(there, there + sizeof there, [](unsigned char page) { return (page & 1) != 0; })) {
      forget_small_pages(chunk, kChunkBytes);
    }
  }
}

UffdMover::Moved UffdMover::move(void* src, void* dst, Bytes bytes, bool wake) {
  Moved done;
  if (keep_whole_.load(std::memory_order_relaxed) && to_chunk_end(dst) == kChunkBytes) make_whole(dst, bytes);
  for (int refused = 0; done.bytes < bytes;) {
    UffdMoveArgument argument{};
    argument.destination = address_of(dst) + static_cast<Address>(done.bytes);
    argument.source = address_of(src) + static_cast<Address>(done.bytes);
    argument.bytes = static_cast<std::uint64_t>(bytes - done.bytes);
    argument.mode = wake ? 0 : kUffdMoveDontWake;
    if (ioctl(fd_, kUffdIoctlMove, &argument) == 0) {
      done.bytes = bytes;
      break;
    }
    done.error = errno;
    if (done.error == EAGAIN && argument.moved > 0) {
      // Part of it. The reason, if it stays, comes with the next call.
      done.bytes += argument.moved;
      refused = 0;
      continue;
    }
    if (done.error == EEXIST && moved_untold(advance(src, done.bytes), advance(dst, done.bytes))) {
      done.bytes += kPageBytes;
      refused = 0;
      continue;
    }
    if ((done.error != EAGAIN && done.error != EINTR) || ++refused > kPatience) return done;
    sched_yield();
  }
  done.error = 0;
  return done;
}

UffdMover::Moved UffdMover::copy(void* src, void* dst, Bytes bytes, bool guarded) {
  Moved done;
  for (int refused = 0; done.bytes < bytes;) {
    uffdio_copy argument{};
    argument.dst = address_of(dst) + static_cast<Address>(done.bytes);
    argument.src = address_of(src) + static_cast<Address>(done.bytes);
    argument.len = static_cast<std::uint64_t>(bytes - done.bytes);
    argument.mode = guarded ? UFFDIO_COPY_MODE_WP : 0;
    if (ioctl(fd_, UFFDIO_COPY, &argument) == 0) {
      done.bytes = bytes;
      break;
    }
    done.error = errno;
    if (argument.copy > 0) {
      done.bytes += argument.copy;
      refused = 0;
      continue;
    }
    if ((done.error != EAGAIN && done.error != EINTR) || ++refused > kPatience) return done;
    sched_yield();
  }
  done.error = 0;
  return done;
}

Status UffdMover::populate(void* address, Bytes bytes) {
  if (!page_aligned(address, bytes)) return misaligned("populate", address, bytes);
  const std::lock_guard lock(staging_mutex_);
  return move_ ? populate_by_move(address, bytes) : populate_by_copy(address, bytes);
}

Status UffdMover::populate_by_move(void* address, Bytes bytes) {
  for (Bytes at = 0; at < bytes;) {
    void* dst = advance(address, at);
    const Bytes left = bytes - at;
    const bool huge = to_chunk_end(dst) == kChunkBytes && left >= kChunkBytes;
    const Bytes piece = huge ? std::min(left / kChunkBytes * kChunkBytes, kHugeStaging)
                             : std::min(left, to_chunk_end(dst));
    void* staging = huge ? staging_ : advance(staging_, kHugeStaging);
    // A huge page that moves to where small ones were is split, and leaves a table of small ones behind it: from then on
    // the staging area would give none but those.
    if (huge) {
      forget_small_pages(staging, piece);
      if (!keep_whole_.load(std::memory_order_relaxed)) make_whole(dst, piece);  // else the move does
    }
    if (const int error = populate_pages(staging, piece); error != 0) {
      (void)madvise(staging, size_of(piece), MADV_DONTNEED);
      return os_error(ErrorCode::kInternal, "Getting fresh pages: madvise(MADV_POPULATE_WRITE)", error,
                      range_text(dst, piece), "The machine or the memory cgroup is out of memory.");
    }
    const Moved moved = move(staging, dst, piece, true);
    if (moved.error != 0) {
      const Moved copied = copy(advance(staging, moved.bytes), advance(dst, moved.bytes),
                                piece - moved.bytes, false);
      (void)madvise(staging, size_of(piece), MADV_DONTNEED);
      if (copied.error != 0) {
        return os_error(ErrorCode::kInternal, "populate: UFFDIO_COPY", copied.error,
                        range_text(dst, piece), "UFFDIO_MOVE said: " + errno_text(moved.error) + ".");
      }
    }
    at += piece;
  }
  return {};
}

// The source is a mapping never written, whose pages are all the kernel's one page of zeros.
Status UffdMover::populate_by_copy(void* address, Bytes bytes) {
  for (Bytes at = 0; at < bytes; at += kSmallStaging) {
    const Bytes piece = std::min(kSmallStaging, bytes - at);
    const Moved copied = copy(advance(staging_, kHugeStaging), advance(address, at), piece, false);
    if (copied.error == 0) continue;
    return os_error(ErrorCode::kInternal, "populate: UFFDIO_COPY", copied.error,
                    range_text(advance(address, at), piece));
  }
  return {};
}

int UffdMover::write_protect(void* address, Bytes bytes, bool on) {
  uffdio_writeprotect argument{};
  argument.range = {address_of(address), static_cast<std::uint64_t>(bytes)};
  argument.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  for (int refused = 0; ioctl(fd_, UFFDIO_WRITEPROTECT, &argument) != 0;) {
    const int error = errno;
    if ((error != EAGAIN && error != EINTR) || ++refused > kPatience) return error;
    sched_yield();
  }
  return 0;
}

// One piece of a move_in: MOVE, or COPY where MOVE cannot or may not. Guarded pieces arrive without waking
// anybody, because a writer woken before the protection is on would go unnoticed.
Status UffdMover::move_piece(void* src, void* dst, Bytes bytes, bool guarded, bool may_move) {
  Moved moved;
  moved.error = EBUSY;
  if (may_move) moved = move(src, dst, bytes, !guarded);
  if (guarded && moved.bytes > 0) {
    if (const int error = write_protect(dst, moved.bytes, true); error != 0) {
      return os_error(ErrorCode::kInternal, "move_in: UFFDIO_WRITEPROTECT", error, range_text(dst, bytes));
    }
  }
  if (moved.bytes == bytes) return {};
  // A missing source page is a broken promise, not a reason to copy zeros; a present destination
  // page means that two ranges were mixed up.
  if (moved.error != EEXIST && moved.error != ENOENT) {
    const Moved copied = copy(advance(src, moved.bytes), advance(dst, moved.bytes),
                              bytes - moved.bytes, guarded);
    if (copied.error == 0) {
      if (madvise(src, size_of(bytes), MADV_DONTNEED) == 0) return {};
      return os_error(ErrorCode::kInternal, "move_in: madvise(MADV_DONTNEED)", errno, range_text(src, bytes));
    }
    return os_error(ErrorCode::kInternal, "move_in: UFFDIO_COPY", copied.error, range_text(dst, bytes));
  }
  return os_error(ErrorCode::kInternal, "move_in: UFFDIO_MOVE", moved.error, range_text(dst, bytes),
                  "This is a defect of outsize: please report it.");
}

Status UffdMover::move_in(void* src, void* dst, Bytes bytes, bool guarded, bool at_once) {
  if (!page_aligned(src, bytes) || !page_aligned(dst, bytes)) return misaligned("move_in", dst, bytes);
  // Only copied pages can arrive guarded.
  const bool may_move = move_ && !(guarded && at_once);
  Status status;
  for (Bytes at = 0; at < bytes && status.ok();) {
    // Guarded pieces are short, so that the moment between page and protection is; copied ones,
    // so that few bytes are held twice.
    const Bytes chunk = to_chunk_end(advance(dst, at));
    const Bytes piece = guarded || !may_move ? std::min(chunk, bytes - at) : bytes - at;
    status = move_piece(advance(src, at), advance(dst, at), piece, guarded, may_move);
    at += piece;
  }
  resume(dst, bytes);
  return status;
}

Status UffdMover::move_out(void* src, void* dst, Bytes bytes) {
  if (!page_aligned(src, bytes) || !page_aligned(dst, bytes)) return misaligned("move_out", src, bytes);
  Moved moved;
  if (move_) moved = move(src, dst, bytes, true);
  // A page that the kernel has swapped out keeps its protection on its way.
  if (moved.bytes > 0) (void)write_protect(dst, moved.bytes, false);
  if (moved.bytes == bytes) return {};
  // Shared with a forked child, or pinned by somebody's I/O: these pages cannot move. Give them
  // back and take fresh ones.
  const Bytes left = bytes - moved.bytes;
  if (Status status = discard(advance(src, moved.bytes), left); !status) return status;
  if (moved.error == EEXIST) (void)discard(advance(dst, moved.bytes), left).ok();
  return populate(advance(dst, moved.bytes), left);
}

Status UffdMover::discard(void* address, Bytes bytes) {
  if (!page_aligned(address, bytes)) return misaligned("discard", address, bytes);
  if (madvise(address, size_of(bytes), MADV_DONTNEED) == 0) return {};
  return os_error(ErrorCode::kInternal, "discard: madvise(MADV_DONTNEED)", errno, range_text(address, bytes));
}

// Page tables that are empty go with MADV_DONTNEED (CONFIG_PT_RECLAIM).
void UffdMover::forget_small_pages(void* address, Bytes bytes) {
  if (move_) (void)madvise(address, size_of(bytes), MADV_DONTNEED);
}

// The kernel (6.12) takes pages of zeros away where it splits a huge one, and makes others, elsewhere, once they are written.
void UffdMover::before_split(void* chunk) {
  if (!move_) return;
  for (Bytes at = 0; at < kChunkBytes; at += kPageBytes) *static_cast<volatile char*>(advance(chunk, at)) = 1;
}

Status UffdMover::guard(void* address, Bytes bytes) {
  if (!page_aligned(address, bytes)) return misaligned("guard", address, bytes);
  if (const int error = write_protect(address, bytes, true); error != 0) {
    return os_error(ErrorCode::kInternal, "guard: UFFDIO_WRITEPROTECT", error, range_text(address, bytes));
  }
  return {};
}

Status UffdMover::unguard(void* address, Bytes bytes) {
  if (!page_aligned(address, bytes)) return misaligned("unguard", address, bytes);
  if (const int error = write_protect(address, bytes, false); error != 0) {
    return os_error(ErrorCode::kInternal, "unguard: UFFDIO_WRITEPROTECT", error, range_text(address, bytes));
  }
  return {};
}

void UffdMover::resume(void* address, Bytes bytes) {
  uffdio_range range{address_of(address), static_cast<std::uint64_t>(bytes)};
  (void)ioctl(fd_, UFFDIO_WAKE, &range);
}

Status UffdMover::attach(void* address, Bytes bytes) {
  if (!page_aligned(address, bytes)) return misaligned("attach", address, bytes);
  // A page that was never touched would be reported as missing.
  if (const int error = populate_pages(address, bytes); error != 0) {
    return os_error(ErrorCode::kUnsupported, "attach: madvise(MADV_POPULATE_WRITE)", error,
                    range_text(address, bytes));
  }
  if (const int error = register_range(address, bytes); error != 0) {
    return os_error(ErrorCode::kUnsupported, "attach: UFFDIO_REGISTER", error, range_text(address, bytes),
                    "Only private anonymous memory can be attached.");
  }
  const std::lock_guard lock(areas_mutex_);
  areas_.insert(address_of(address), address_of(address) + static_cast<Address>(bytes));
  return {};
}

Status UffdMover::detach(void* address, Bytes bytes) {
  if (!page_aligned(address, bytes)) return misaligned("detach", address, bytes);
  {
    const std::lock_guard lock(areas_mutex_);
    if (!areas_.erase(address_of(address), address_of(address) + static_cast<Address>(bytes))) {
      return Error{ErrorCode::kInvalidArgument, "detach of a range that was not attached.",
                   range_text(address, bytes), "This is a defect of outsize: please report it."};
    }
  }
  // Also takes the write protection off and wakes whoever waits.
  uffdio_range range{address_of(address), static_cast<std::uint64_t>(bytes)};
  if (ioctl(fd_, UFFDIO_UNREGISTER, &range) == 0) return {};
  return os_error(ErrorCode::kInternal, "detach: UFFDIO_UNREGISTER", errno, range_text(address, bytes));
}

void UffdMover::before_fork() {
  // Not the staging area's lock: the child has neither the area nor a use for it.
  service_.before_fork();
  areas_mutex_.lock();
}

void UffdMover::after_fork_parent() {
  areas_mutex_.unlock();
  service_.after_fork_parent();
}

void UffdMover::after_fork_child(const Range* closed, std::size_t count, ChildFault fault) {
  areas_mutex_.unlock();
  service_.after_fork_child();
  staging_ = nullptr;  // not inherited
  close(fd_);          // speaks of the parent's memory
  fd_ = -1;
  // The registration and its write protection stayed with the parent.
  enter_fork_child(areas_, closed, count, fault);
}

}  // namespace

Result<std::unique_ptr<PageMover>> make_uffd_mover(void* arena, Bytes bytes, bool force_copy,
                                                   PageMover::FaultHandler handler) {
  auto mover = std::make_unique<UffdMover>(arena, bytes, force_copy);
  if (Status status = mover->start(std::move(handler)); !status) return status.error();
  return std::unique_ptr<PageMover>(std::move(mover));
}

}  // namespace outsize::host
