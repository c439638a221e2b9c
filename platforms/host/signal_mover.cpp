// Page protection, SIGSEGV and mremap: works for ordinary users and under seccomp filters that
// forbid userfaultfd.
//
// closed = PROT_NONE, guarded = PROT_READ, open = PROT_READ|PROT_WRITE. mremap(DONTUNMAP) replaces
// the destination in one step, with the protection that the source had, so the source is always
// given the wanted protection first.
//
// Every move can leave a mapping of its own behind (the kernel cannot merge pages that come from
// different places), and a process may have 65530. Ranges given back are therefore mapped anew,
// which merges them, and when the kernel refuses a move for lack of mappings we copy instead.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include "platforms/host/fork_child.h"
#include "platforms/host/machine_error.h"
#include "platforms/host/page_mover_internal.h"
#include "platforms/host/page_mover_service.h"
#include "platforms/host/signal_faults.h"
#include "platforms/host/system_calls.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace outsize::host {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr Bytes kCopyPiece = 8 * kMiB;
constexpr const char* kMapHint =
    "If errno is 12, the process has too many memory mappings: raise vm.max_map_count.";

std::size_t size_of(Bytes bytes) { return static_cast<std::size_t>(bytes); }
char* advance(void* address, Bytes bytes) { return static_cast<char*>(address) + bytes; }

// Whether this kernel moves pages and leaves the source mapped (Linux 5.7).
bool probe_dont_unmap() {
  const auto page = size_of(kPageBytes);
  void* memory = mmap(nullptr, 2 * page, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  *static_cast<char*>(memory) = 1;
  void* to = advance(memory, kPageBytes);
  const bool works = mremap(memory, page, page, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                            to) == to && *static_cast<char*>(to) == 1;
  munmap(memory, 2 * page);
  return works;
}

class SignalMover final : public PageMover {
 public:
  SignalMover(void* arena, Bytes bytes, bool force_copy)
      : arena_begin_(address_of(arena)), arena_end_(arena_begin_ + static_cast<Address>(bytes)),
        force_copy_(force_copy) {}
  ~SignalMover() override;
  Status start(FaultHandler handler);

  Kind kind() const override { return Kind::kSignal; }
  const char* name() const override { return "signal"; }
  bool serves_kernel() const override { return false; }
  Status populate(void* address, Bytes bytes) override;
  Status move_in(void* src, void* dst, Bytes bytes, bool guarded, bool at_once) override;
  Status move_out(void* src, void* dst, Bytes bytes) override;
  Status discard(void* address, Bytes bytes) override;
  Status guard(void* address, Bytes bytes) override;
  Status unguard(void* address, Bytes bytes) override;
  void resume(void* address, Bytes bytes) override;
  Status attach(void* address, Bytes bytes) override;
  Status detach(void* address, Bytes bytes) override;
  void before_fork() override;
  void after_fork_parent() override;
  void after_fork_child(const Range* closed, std::size_t count, ChildFault fault) override;

 private:
  static std::size_t collect(void* self, Fault* faults, std::size_t capacity);
  int give_back(void* address, Bytes bytes);
  int move(void* src, void* dst, Bytes bytes, int protection);
  int copy_in(void* src, void* dst, Bytes bytes, int protection);
  Status protect(void* address, Bytes bytes, int protection, const char* what);
  void mark_guarded(const void* address, Bytes bytes, bool guarded);

  const Address arena_begin_;
  const Address arena_end_;
  const bool force_copy_;
  AreaTable areas_;
  bool dont_unmap_ = false;
  int wake_ = -1;
  std::unique_ptr<SignalFaults> faults_;
  std::optional<CoveredAreas> covered_;
  FaultService service_;
  std::mutex mutex_;             // guarded_ and changes of areas_
  RangeSet<Address> guarded_;    // a forked child must make these writable
};

SignalMover::~SignalMover() {
  covered_.reset();
  if (faults_) faults_->unregister();
  service_.stop();
  if (wake_ >= 0) close(wake_);
}

Status SignalMover::start(FaultHandler handler) {
  dont_unmap_ = !force_copy_ && probe_dont_unmap();
  void* arena = pointer_to(arena_begin_);
  const auto bytes = static_cast<Bytes>(arena_end_ - arena_begin_);
  if (const int error = give_back(arena, bytes); error != 0) {
    return os_error(ErrorCode::kUnsupported, "mmap(PROT_NONE) of the arena", error,
                    range_text(arena, bytes));
  }
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return os_error(ErrorCode::kUnsupported, "eventfd", errno);
  areas_.insert(arena_begin_, arena_end_);
  faults_ = std::make_unique<SignalFaults>(areas_, wake_);
  if (Status status = service_.start(wake_, &SignalMover::collect, this, std::move(handler)); !status) {
    return status;
  }
  covered_.emplace(areas_);
  return faults_->enroll();
}

std::size_t SignalMover::collect(void* self, Fault* faults, std::size_t capacity) {
  auto* mover = static_cast<SignalMover*>(self);
  std::uint64_t posts = 0;
  // Before the slots are looked at: a post that comes later finds the counter at zero and wakes us.
  (void)!read(mover->wake_, &posts, sizeof posts);
  std::size_t count = 0;
  Address address = 0;
  bool write = false;
  while (count < capacity && mover->faults_->take(&address, &write)) {
    faults[count++] = Fault{pointer_to(address), write};
  }
  return count;
}

void SignalMover::mark_guarded(const void* address, Bytes bytes, bool guarded) {
  const Address begin = address_of(address);
  const Address end = begin + static_cast<Address>(bytes);
  const std::lock_guard lock(mutex_);
  if (guarded) guarded_.insert(begin, end);
  else if (!guarded_.empty()) guarded_.erase(begin, end);
}

// Pages go back to the system and the range becomes closed, in one step. Returns an errno.
int SignalMover::give_back(void* address, Bytes bytes) {
  const Address begin = address_of(address);
  const bool arena = begin >= arena_begin_ && begin + static_cast<Address>(bytes) <= arena_end_;
  if (arena) {
    if (mmap(address, size_of(bytes), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
      return errno;
    }
    // The same everywhere in the arena, so that neighbours merge. Not fatal where refused.
    (void)madvise(address, size_of(bytes), MADV_HUGEPAGE);
    return 0;
  }
  // Somebody else's mapping keeps its flags.
  if (mprotect(address, size_of(bytes), PROT_NONE) != 0) return errno;
  return madvise(address, size_of(bytes), MADV_DONTNEED) == 0 ? 0 : errno;
}

Status SignalMover::protect(void* address, Bytes bytes, int protection, const char* what) {
  if (!page_aligned(address, bytes)) return misaligned(what, address, bytes);
  if (mprotect(address, size_of(bytes), protection) == 0) return {};
  return os_error(ErrorCode::kInternal, std::string(what) + ": mprotect", errno,
                  range_text(address, bytes), kMapHint);
}

Status SignalMover::populate(void* address, Bytes bytes) {
  if (Status status = protect(address, bytes, kReadWrite, "populate"); !status) return status;
  if (const int error = populate_pages(address, bytes); error != 0) {
    (void)give_back(address, bytes);
    return os_error(ErrorCode::kInternal, "Getting fresh pages: madvise(MADV_POPULATE_WRITE)", error,
                    range_text(address, bytes), "The machine or the memory cgroup is out of memory.");
  }
  resume(address, bytes);
  return {};
}

// mremap wants a source that is one mapping; cut until it is. A piece that the kernel will not move
// is copied where `protection` says how it must arrive, and an error where it is PROT_NONE. Returns
// an errno; what was moved by then stays moved.
int SignalMover::move(void* src, void* dst, Bytes bytes, int protection) {
  const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  int error = ENOSYS;
  if (dont_unmap_) {
    if (mremap(src, size_of(bytes), size_of(bytes), flags, dst) != MAP_FAILED) return 0;
    error = errno;
    if (error == EFAULT && bytes > kPageBytes) {
      const Bytes unit = bytes > kChunkBytes ? kChunkBytes : kPageBytes;
      const Bytes half = round_up(bytes / 2, unit);
      if (const int first = move(src, dst, half, protection); first != 0) return first;
      return move(advance(src, half), advance(dst, half), bytes - half, protection);
    }
  }
  return protection == PROT_NONE ? error : copy_in(src, dst, bytes, protection);
}

// Writes under a closed range through the file that stands for our memory, which the range's
// protection does not stop, and opens it when it is whole. Returns an errno.
int fill_closed(const void* src, void* dst, Bytes bytes, int protection) {
  const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory < 0) return errno;
  Bytes done = 0;
  int error = 0;
  while (done < bytes && error == 0) {
    const ssize_t put = pwrite(memory, static_cast<const char*>(src) + done, size_of(bytes - done),
                               static_cast<off_t>(address_of(dst)) + done);
    if (put > 0) done += put;
    else if (put == 0) error = EIO;
    else if (errno != EINTR) error = errno;
  }
  close(memory);
  if (error == 0 && mprotect(dst, size_of(bytes), protection) != 0) error = errno;
  return error;
}

// Copies into a mapping that nobody else knows, which then replaces dst whole. Returns an errno.
int replace_closed(const void* src, void* dst, Bytes bytes, int protection) {
  void* fresh = mmap(nullptr, size_of(bytes), kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) return errno;
  std::memcpy(fresh, src, size_of(bytes));
  if (mprotect(fresh, size_of(bytes), protection) == 0 &&
      mremap(fresh, size_of(bytes), size_of(bytes), MREMAP_MAYMOVE | MREMAP_FIXED, dst) != MAP_FAILED) {
    return 0;
  }
  const int error = errno;
  munmap(fresh, size_of(bytes));
  return error;
}

// The slow ways, for kernels and filters that refuse mremap or part of it, and for processes that
// have nearly as many mappings as they may.
int SignalMover::copy_in(void* src, void* dst, Bytes bytes, int protection) {
  for (Bytes at = 0; at < bytes; at += kCopyPiece) {
    const Bytes piece = std::min(kCopyPiece, bytes - at);
    int error = replace_closed(advance(src, at), advance(dst, at), piece, protection);
    if (error != 0 && fill_closed(advance(src, at), advance(dst, at), piece, protection) != 0) return error;
    // Bounds the double holding; the caller closes the rest of the source.
    (void)madvise(advance(src, at), size_of(piece), MADV_DONTNEED);
  }
  return 0;
}

// Pages arrive with their protection here, so that a guard is always at once.
Status SignalMover::move_in(void* src, void* dst, Bytes bytes, bool guarded, bool) {
  if (!page_aligned(src, bytes) || !page_aligned(dst, bytes)) return misaligned("move_in", dst, bytes);
  const int protection = guarded ? PROT_READ : kReadWrite;
  // Before the pages can be seen: a child forked in between must find the range in the set.
  mark_guarded(dst, bytes, guarded);
  int error = 0;
  if (guarded && mprotect(src, size_of(bytes), PROT_READ) != 0) error = errno;
  if (error == 0) error = move(src, dst, bytes, protection);
  if (error == 0) error = give_back(src, bytes);
  if (error != 0) {
    return os_error(ErrorCode::kInternal, "move_in: mremap", error, range_text(dst, bytes), kMapHint);
  }
  resume(dst, bytes);
  return {};
}

Status SignalMover::move_out(void* src, void* dst, Bytes bytes) {
  if (!page_aligned(src, bytes) || !page_aligned(dst, bytes)) return misaligned("move_out", src, bytes);
  // First nobody may touch src; then its pages go.
  if (Status status = protect(src, bytes, PROT_NONE, "move_out"); !status) return status;
  mark_guarded(src, bytes, false);
  if (move(src, dst, bytes, PROT_NONE) == 0) return protect(dst, bytes, kReadWrite, "move_out");
  // The pages cannot move: give them back and take fresh ones.
  int error = give_back(src, bytes);
  if (error == 0) error = give_back(dst, bytes);
  if (error != 0) {
    return os_error(ErrorCode::kInternal, "move_out", error, range_text(src, bytes), kMapHint);
  }
  return populate(dst, bytes);
}

Status SignalMover::discard(void* address, Bytes bytes) {
  if (!page_aligned(address, bytes)) return misaligned("discard", address, bytes);
  const int error = give_back(address, bytes);
  mark_guarded(address, bytes, false);
  if (error == 0) return {};
  return os_error(ErrorCode::kInternal, "discard", error, range_text(address, bytes), kMapHint);
}

Status SignalMover::guard(void* address, Bytes bytes) {
  mark_guarded(address, bytes, true);
  return protect(address, bytes, PROT_READ, "guard");
}

Status SignalMover::unguard(void* address, Bytes bytes) {
  if (Status status = protect(address, bytes, kReadWrite, "unguard"); !status) return status;
  mark_guarded(address, bytes, false);
  resume(address, bytes);
  return {};
}

void SignalMover::resume(void* address, Bytes bytes) {
  const Address begin = address_of(address);
  faults_->resume(begin, begin + static_cast<Address>(bytes));
}

Status SignalMover::attach(void* address, Bytes bytes) {
  if (!page_aligned(address, bytes)) return misaligned("attach", address, bytes);
  const std::lock_guard lock(mutex_);
  areas_.insert(address_of(address), address_of(address) + static_cast<Address>(bytes));
  return {};
}

Status SignalMover::detach(void* address, Bytes bytes) {
  if (Status status = protect(address, bytes, kReadWrite, "detach"); !status) return status;
  mark_guarded(address, bytes, false);
  resume(address, bytes);
  const std::lock_guard lock(mutex_);
  if (areas_.erase(address_of(address), address_of(address) + static_cast<Address>(bytes))) return {};
  return Error{ErrorCode::kInvalidArgument, "detach of a range that was not attached.",
               range_text(address, bytes), "This is a defect of outsize: please report it."};
}

void SignalMover::before_fork() {
  service_.before_fork();
  mutex_.lock();
}

void SignalMover::after_fork_parent() {
  mutex_.unlock();
  service_.after_fork_parent();
}

void SignalMover::after_fork_child(const Range* closed, std::size_t count, ChildFault fault) {
  mutex_.unlock();
  service_.after_fork_child();
  enter_fork_child(areas_, closed, count, fault);
  for (const auto& [begin, end] : guarded_.ranges()) {
    // Where this fails the handler does it page by page.
    (void)mprotect(pointer_to(begin), end - begin, kReadWrite);
  }
  guarded_.clear();
}

}  // namespace

Result<std::unique_ptr<PageMover>> make_signal_mover(void* arena, Bytes bytes, bool force_copy,
                                                     PageMover::FaultHandler handler) {
  auto mover = std::make_unique<SignalMover>(arena, bytes, force_copy);
  if (Status status = mover->start(std::move(handler)); !status) return status.error();
  return std::unique_ptr<PageMover>(std::move(mover));
}

}  // namespace outsize::host
