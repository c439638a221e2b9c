#include "platforms/host/spill_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "platforms/host/machine_error.h"
#include "platforms/host/page_mover_ranges.h"
#include "platforms/host/spill_file_slots.h"

namespace outsize::host {
namespace {

constexpr Bytes kReserveForOthers = 256 * kMiB;  // left free on the file system
constexpr Bytes kGrowth = 64 * kMiB;
constexpr Bytes kSmallestHole = 16 * kMiB;
// A training step frees and takes the same space again: what was in use within this many calls of
// reclaim() stays reserved.
constexpr std::size_t kMemory = 4;
// A full disk is asked again after the first of these, then after twice as long each time up to the second.
constexpr Nanos kPauseMin = 1'000'000, kPauseMax = 250'000'000;
// Where others give an errno: nothing failed, the limit is reached.
constexpr int kAtLimit = -1;
// A limit below this holds no tensor worth spilling; its unit was forgotten.
constexpr Bytes kLimitMin = kMiB;

struct Named {
  std::uint32_t magic;
  const char* name;
};
constexpr Named kMemoryFileSystems[] = {
    {0x01021994, "tmpfs"}, {0x858458f6, "ramfs"}, {0x958458f6, "hugetlbfs"}};
constexpr Named kNetworkFileSystems[] = {
    {0x6969, "NFS"},         {0x517B, "SMB"},        {0xFF534D42, "CIFS"},   {0xFE534D42, "SMB"},
    {0x01021997, "9p"},      {0x00C36400, "Ceph"},   {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"},
    {0x5346414F, "AFS"},     {0x65735546, "FUSE"},   {0x19830326, "BeeGFS"}, {0x013111a8, "IBRIX"}};

template <std::size_t N>
const char* name_of(const Named (&list)[N], std::uint32_t magic) {
  for (const Named& entry : list) {
    if (entry.magic == magic) return entry.name;
  }
  return nullptr;
}

// Opens a file without a name, around the page cache where the file system can.
int open_unnamed(const std::string& directory, int direct) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC | direct, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  // This file system has no O_TMPFILE: a name for an instant.
  std::string path = directory + "/.outsize-spill-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC | direct);
  if (named < 0) return named;
  if (unlink(path.c_str()) == 0) return named;
  const int error = errno;
  close(named);
  errno = error;
  return -1;
}

// Whether a page can be written to and read from the file as it is open now. 0 or an errno.
int try_page(int fd) {
  void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return errno;
  std::memset(page, 0x5a, kPageBytes);
  int error = 0;
  errno = EIO;  // for short counts
  if (pwrite(fd, page, kPageBytes, 0) != kPageBytes || pread(fd, page, kPageBytes, 0) != kPageBytes) {
    error = errno;
  }
  munmap(page, kPageBytes);
  return error;
}

class File final : public SpillFile {
 public:
  File(const Options& options, int fd, Bytes limit, Bytes disk_size, std::string warning)
      : directory_(options.directory), warning_(std::move(warning)), fd_(fd), limit_(limit), given_(options.limit > 0),
        now_(options.now), disk_size_(disk_size) {}
  ~File() override;

  Result<Slot> allocate(Bytes bytes) override;
  void release(const Slot& slot) noexcept override;
  Status hold(Bytes bytes, Bytes spare) override;
  void ask_again() noexcept override { ask_at_ = 0; }
  void reclaim() noexcept override;
  void before_fork() override;
  void after_fork_parent() override;
  void after_fork_child() override;

  int fd() const override { return fd_; }
  Bytes size() const override { return slots_.end() - hole_bytes_; }
  Bytes used() const override { return slots_.used(); }
  Bytes disk_size() const override { return disk_size_; }
  const std::string& directory() const override { return directory_; }
  const std::string& warning() const override { return warning_; }

 private:
  struct Fork {
    std::uint64_t id;
    int read_end;  // at end of file when the child and its children are gone; -1: cannot know
  };
  int grow(Bytes missing);
  int fill_holes(Bytes missing);
  int extend(Bytes wanted);
  Result<Slot> allocate_pieces(Bytes bytes, int error);
  int reserve(std::int64_t offset, Bytes bytes);
  bool known_full(Bytes bytes) const { return bytes >= full_for_ && now_() < ask_at_; }
  Error no_space(const std::string& what, Bytes size, int error) const;
  Error no_slot(Bytes bytes, int error) const;
  void look_after_children() noexcept;
  void punch(std::int64_t offset, Bytes bytes) noexcept;

  const std::string directory_;
  std::string warning_;
  const int fd_;
  const Bytes limit_;
  const bool given_;  // the limit, by the user
  Nanos (*const now_)();
  const Bytes disk_size_;
  SlotMap slots_;
  RangeSet<std::int64_t> holes_;  // free ranges given back; reserved again before use
  Bytes hole_bytes_ = 0;
  bool can_reserve_ = true;
  Bytes full_for_ = 0;  // what the disk last had no room for, and why not; not asked again before `ask_at_`
  int full_error_ = 0;
  Nanos ask_at_ = 0, pause_ = 0;
  bool in_child_ = false;
  std::vector<Fork> forks_;
  std::uint64_t next_fork_ = 0;
  int write_end_ = -1;  // between before_fork and after_fork_*; in the child for good
  Bytes peak_ = 0;      // of used + quarantined bytes, since the last reclaim
  std::array<Bytes, kMemory> peaks_{};
  std::size_t turn_ = 0;
};

File::~File() {
  for (const Fork& fork : forks_) {
    if (fork.read_end >= 0) close(fork.read_end);
  }
  if (write_end_ >= 0) close(write_end_);
  close(fd_);
}

// `what` it cannot do, where the file would have to be `size` long; `error` of fallocate, or kAtLimit.
Error File::no_space(const std::string& what, Bytes size, int error) const {
  const std::string text = "The spill file in " + directory_ + what;
  if (error != kAtLimit) {
    return Error{error == ENOSPC || error == EDQUOT ? ErrorCode::kOutOfSpace : ErrorCode::kIo,
                 text + ", and fallocate failed: " + errno_text(error) + ".", {},
                 "Free space there, raise --budget, or name a larger disk with --spill-dir.", {}, size};
  }
  if (given_) {
    return Error{ErrorCode::kOutOfSpace, text + ", and its limit is " + mib(limit_) + ".", {},
                 "Raise --spill-limit to " + mib(size) + " or more (other ops may need more), raise --budget, or name a "
                 "larger disk with --spill-dir.", {}, size};
  }
  return Error{ErrorCode::kOutOfSpace, text + ", and of what was free there at the start it may have " + mib(limit_) +
               ": " + mib(kReserveForOthers) + " are left for others.", {},
               "Free space there and start anew, raise --budget, or name a larger disk with --spill-dir.", {}, size};
}

Error File::no_slot(Bytes bytes, int error) const {
  return no_space(" cannot take another " + mib(bytes) + ": " + mib(slots_.used()) + " of " + mib(size()) + " in use",
                  slots_.end() + bytes, error);
}

int File::reserve(std::int64_t offset, Bytes bytes) {
  if (known_full(bytes)) return full_error_;
  while (can_reserve_) {
    if (fallocate(fd_, 0, offset, bytes) == 0) {
      pause_ = ask_at_ = 0;
      return 0;
    }
    if (errno == EINTR) continue;
    if (errno != EOPNOTSUPP && errno != ENOSYS) {
      full_error_ = errno;
      full_for_ = bytes;
      pause_ = std::clamp(2 * pause_, kPauseMin, kPauseMax);
      ask_at_ = now_() + pause_;
      return full_error_;
    }
    can_reserve_ = false;
    if (!warning_.empty()) warning_ += " ";
    warning_ += "The file system of " + directory_ +
                " cannot reserve space, so a full disk will only be noticed when a tensor is written.";
  }
  if (offset + bytes <= slots_.end()) return 0;
  return ftruncate(fd_, offset + bytes) == 0 ? 0 : errno;
}

// Adds `missing` bytes at the end of the file, or more. 0, an errno, or kAtLimit.
int File::grow(Bytes missing) {
  if (slots_.end() + missing > limit_) return kAtLimit;
  for (Bytes step : {std::min(std::max(kGrowth, missing), limit_ - slots_.end()), missing}) {
    if (known_full(step)) {
      if (step == missing) return full_error_;
      continue;
    }
    const int error = reserve(slots_.end(), step);
    if (error == 0) {
      slots_.grow(step);
      return 0;
    }
    // A failed fallocate may have reserved part of it and moved the end.
    (void)!ftruncate(fd_, slots_.end());
    if (error != ENOSPC && error != EDQUOT && error != EFBIG) return error;
    if (step == missing) return error;
  }
  return 0;
}

Result<Slot> File::allocate(Bytes bytes) {
  if (in_child_) {
    return Error{ErrorCode::kUnsupported, "A forked process cannot write to the spill file.", directory_, {}};
  }
  if (bytes <= 0) return Error{ErrorCode::kInvalidArgument, "A spill slot needs a size.", directory_, {}};
  bytes = round_up(bytes, kPageBytes);
  look_after_children();
  std::int64_t offset = slots_.take(bytes);
  if (offset < 0) {
    if (const int error = grow(slots_.missing_at_end(bytes)); error != 0) return allocate_pieces(bytes, error);
    offset = slots_.take(bytes);
  }
  if (const Bytes hole = holes_.overlap(offset, offset + bytes); hole > 0) {
    if (const int error = reserve(offset, bytes); error != 0) {
      slots_.release(offset, bytes);
      return allocate_pieces(bytes, error);
    }
    holes_.erase(offset, offset + bytes);
    hole_bytes_ -= hole;
  }
  peak_ = std::max(peak_, slots_.used() + slots_.quarantined());
  return Slot{offset, bytes};
}

// Where no one run can be had, for `error`: tensors of very different sizes leave gaps.
Result<Slot> File::allocate_pieces(Bytes bytes, int error) {
  if (extend(slots_.used() + bytes) != 0) return no_slot(bytes, error);
  Slot slot{-1, bytes, slots_.take_pieces(bytes, holes_)};
  if (slot.pieces.empty()) return no_slot(bytes, error);
  slot.offset = slot.pieces.front().offset;
  if (slot.pieces.size() == 1) slot.pieces.clear();
  peak_ = std::max(peak_, slots_.used() + slots_.quarantined());
  return slot;
}

void File::release(const Slot& slot) noexcept {
  if (in_child_ || !slot.valid()) return;
  look_after_children();
  if (slot.pieces.empty()) slots_.release(slot.offset, slot.bytes);
  for (const FileRun& run : slot.pieces) slots_.release(run.offset, run.bytes);
}

// Space that was given back and still lies inside the file, until `missing` bytes are ours again.
int File::fill_holes(Bytes missing) {
  missing = round_up(missing, kPageBytes);
  while (missing > 0 && !holes_.empty()) {
    const auto [begin, end] = *holes_.ranges().begin();
    const Bytes bytes = std::min(end - begin, missing);
    if (const int error = reserve(begin, bytes); error != 0) return error;
    holes_.erase(begin, begin + bytes);
    hole_bytes_ -= bytes;
    missing -= bytes;
  }
  return 0;
}

// Until the file holds `wanted` bytes that are used or free, and no hole. 0, an errno, or kAtLimit.
int File::extend(Bytes wanted) {
  const auto missing = [&] { return wanted - (size() - slots_.quarantined()); };
  int error = missing() > 0 ? fill_holes(missing()) : 0;
  if (error == 0 && missing() > 0) error = grow(missing());
  return error;
}

Status File::hold(Bytes bytes, Bytes spare) {
  if (in_child_) return {};
  const Bytes wanted = round_up(bytes + spare, kPageBytes);
  if (wanted > size() - slots_.quarantined()) {
    look_after_children();
    ask_again();
    if (const int error = extend(wanted); error != 0) {
      return no_space(" cannot hold " + mib(bytes) + " and, to exchange tensors when RAM is full as well, " + mib(spare) +
                          " that stay free",
                      round_up(wanted + slots_.quarantined(), kMiB), error);
    }
  }
  peak_ = std::max(peak_, wanted + slots_.quarantined());
  return {};
}

void File::punch(std::int64_t offset, Bytes bytes) noexcept {
  if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) != 0) return;
  hole_bytes_ += bytes - holes_.overlap(offset, offset + bytes);
  holes_.insert(offset, offset + bytes);
}

void File::reclaim() noexcept {
  if (in_child_) return;
  look_after_children();
  peaks_[turn_++ % kMemory] = peak_;
  peak_ = slots_.used() + slots_.quarantined();
  if (turn_ < kMemory) return;
  Bytes excess = size() - *std::max_element(peaks_.begin(), peaks_.end());
  // From the end of the file: there the space can be given back without a trace.
  std::vector<std::pair<std::int64_t, Bytes>> runs(slots_.free_runs().rbegin(), slots_.free_runs().rend());
  for (const auto& [offset, bytes] : runs) {
    if (excess < kSmallestHole) return;
    const Bytes hole = holes_.overlap(offset, offset + bytes);
    if (offset + bytes == slots_.end()) {
      const Bytes cut = std::min(bytes, std::max(excess / kPageBytes * kPageBytes, hole));
      const std::int64_t end = slots_.end() - cut;
      if (cut < kSmallestHole || ftruncate(fd_, end) != 0) continue;
      const Bytes gone = holes_.overlap(end, slots_.end());
      holes_.erase(end, slots_.end());
      hole_bytes_ -= gone;
      excess -= cut - gone;
      slots_.shrink(end);
    } else if (bytes - hole >= kSmallestHole) {
      const Bytes before = hole_bytes_;
      punch(offset, bytes);
      excess -= hole_bytes_ - before;
    }
  }
}

// A child holds the write end of a pipe open for as long as it lives; its end shows at ours.
void File::look_after_children() noexcept {
  std::erase_if(forks_, [this](const Fork& fork) {
    if (fork.read_end < 0) return false;
    pollfd wait{fork.read_end, POLLIN, 0};
    if (poll(&wait, 1, 0) <= 0 || (wait.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0) return false;
    close(fork.read_end);
    slots_.child_gone(fork.id);
    return true;
  });
}

void File::before_fork() {
  if (in_child_) return;
  look_after_children();
  int ends[2] = {-1, -1};
  // Without a pipe we can never know that the child is gone: its slots are kept for good.
  if (pipe2(ends, O_CLOEXEC) != 0) ends[0] = ends[1] = -1;
  write_end_ = ends[1];
  forks_.push_back({next_fork_, ends[0]});
  slots_.fork(next_fork_++);
}

void File::after_fork_parent() {
  if (in_child_ || write_end_ < 0) return;
  close(write_end_);
  write_end_ = -1;
}

void File::after_fork_child() {
  if (in_child_) return;
  in_child_ = true;
  for (const Fork& fork : forks_) {
    if (fork.read_end >= 0) close(fork.read_end);
  }
  forks_.clear();
}

Error cannot_create(const std::string& directory, int error) {
  switch (error) {
    case EROFS:
      return os_error(ErrorCode::kIo, "Creating the spill file in " + directory, error, {},
                      "It is read-only: name a writable directory on a disk with --spill-dir.");
    case EACCES:
    case EPERM:
      return os_error(ErrorCode::kIo, "Creating the spill file in " + directory, error, {},
                      "You may not write there: name a directory of yours on a disk with --spill-dir.");
    case ENOSPC:
    case EDQUOT:
      return os_error(ErrorCode::kOutOfSpace, "Creating the spill file in " + directory, error, {},
                      "The disk or your quota is full: free space or name another with --spill-dir.");
    default:
      return os_error(ErrorCode::kIo, "Creating the spill file in " + directory, error, {},
                      "Name another directory with --spill-dir.");
  }
}

Status check_directory(const std::string& directory, struct statfs* system, std::string* warning) {
  struct stat info {};
  if (stat(directory.c_str(), &info) != 0) {
    return os_error(ErrorCode::kInvalidArgument, "Looking at the spill directory " + directory, errno, {},
                    "Create it or name another with --spill-dir.");
  }
  if (!S_ISDIR(info.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "The spill directory " + directory + " is not a directory.",
                 {}, "Name a directory with --spill-dir."};
  }
  if (statfs(directory.c_str(), system) != 0) {
    return os_error(ErrorCode::kIo, "statfs of the spill directory " + directory, errno);
  }
  const auto magic = static_cast<std::uint32_t>(system->f_type);
  if (const char* name = name_of(kMemoryFileSystems, magic)) {
    return Error{ErrorCode::kInvalidArgument,
                 "The spill directory " + directory + " is on " + name +
                     ", which is RAM: spilling there would free nothing.",
                 {}, "Name a directory on a disk with --spill-dir, or set TMPDIR to one."};
  }
  if (const char* name = network_file_system(magic)) {
    *warning = "The spill directory " + directory + " is on " + name +
               ", which may be slow and, on a full server, may lose the reservation; a local disk "
               "named with --spill-dir is better.";
  }
  return {};
}

}  // namespace

const char* network_file_system(std::uint32_t magic) { return name_of(kNetworkFileSystems, magic); }

Result<std::unique_ptr<SpillFile>> SpillFile::create(const Options& options) {
  const std::string& directory = options.directory;
  if (options.limit > 0 && options.limit < kLimitMin) {
    return Error{ErrorCode::kInvalidArgument,
                 "A spill limit of " + std::to_string(options.limit) + " bytes holds no tensor.", {},
                 "Give --spill-limit with a unit, such as 20GiB."};
  }
  struct statfs system {};
  std::string warning;
  if (Status status = check_directory(directory, &system, &warning); !status) return status.error();

  int fd = open_unnamed(directory, O_DIRECT);
  if (fd < 0 && errno == EINVAL) fd = open_unnamed(directory, 0);
  if (fd < 0) return cannot_create(directory, errno);

  const Bytes free = static_cast<Bytes>(system.f_bavail) * static_cast<Bytes>(system.f_frsize);
  Bytes limit = options.limit / kPageBytes * kPageBytes;
  if (options.limit <= 0) limit = (free - kReserveForOthers) / kPageBytes * kPageBytes;
  if (limit > free) {
    if (!warning.empty()) warning += " ";
    warning += "The spill limit of " + mib(limit) + " is more than the " + mib(free) + " that are free in " +
               directory + ": the disk will be full before the limit is reached.";
  }
  if (limit <= 0) {
    close(fd);
    return Error{ErrorCode::kOutOfSpace,
                 "The disk of the spill directory " + directory + " is full: " + mib(free) +
                     " free, of which " + mib(kReserveForOthers) + " are left for others.",
                 {}, "Free space there, name another disk with --spill-dir, or set --spill-limit."};
  }
  int error = fchmod(fd, 0600) == 0 ? 0 : errno;
  if (error == 0) error = try_page(fd);
  if (error == EINVAL) {
    // Opens with O_DIRECT, but wants another alignment than pages.
    const int flags = fcntl(fd, F_GETFL);
    error = fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0 ? try_page(fd) : errno;
  }
  if (error == 0 && ftruncate(fd, 0) != 0) error = errno;
  if (error != 0) {
    close(fd);
    return cannot_create(directory, error);
  }
  // Without direct I/O: no read-ahead into a cache that nobody will look at.
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  const Bytes disk_size = static_cast<Bytes>(system.f_blocks) * static_cast<Bytes>(system.f_frsize);
  return std::unique_ptr<SpillFile>(std::make_unique<File>(options, fd, limit, disk_size, std::move(warning)));
}

}  // namespace outsize::host
