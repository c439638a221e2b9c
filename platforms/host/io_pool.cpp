#include "platforms/host/io_pool.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "platforms/host/clock.h"
#include "platforms/host/io_bounce.h"
#include "platforms/host/io_pool_fault.h"
#include "platforms/host/machine_error.h"
#include "platforms/host/signals_blocked.h"
#include "platforms/host/write_limit.h"

namespace outsize::host {
namespace {

// Small enough that one large transfer keeps several threads busy and that a demand read never
// waits long for a thread; large enough that the disk sees long requests.
constexpr Bytes kPiece = 4 * kMiB;
constexpr std::size_t kUrgencies = 4;

struct Transfer {
  IoRequest request;
  InjectedFault fault;
  Bytes issued = 0;      // bytes handed to threads
  int under_way = 0;     // pieces
  Nanos started = 0;
  Status status;         // the first error
};
using Queue = std::list<Transfer>;

// Bytes go around the page cache where the file was opened so; where it could not be, the cache is
// told to let go, or it would be a second copy of everything in RAM that nobody budgeted.
void drop_from_cache(const IoRequest& request, std::int64_t offset, Bytes bytes) {
  const int flags = fcntl(request.fd, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) != 0) return;
  if (request.kind == IoRequest::Kind::kWrite) {
    (void)sync_file_range(request.fd, offset, bytes,
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  (void)posix_fadvise(request.fd, offset, bytes, POSIX_FADV_DONTNEED);
}

}  // namespace

Error transfer_error(const IoRequest& request, std::int64_t offset, Bytes asked, Bytes done, int error) {
  const bool read = request.kind == IoRequest::Kind::kRead;
  std::string what = std::string(read ? "pread" : "pwrite") + " of " + std::to_string(asked) +
                     " bytes at offset " + std::to_string(offset) + " ";
  what += error != 0 ? "failed: " + errno_text(error) + "."
                     : "stopped after " + std::to_string(done) + " bytes.";
  const ErrorCode code = error != 0 && !read ? code_of_errno(error) : ErrorCode::kIo;
  return Error{code, std::move(what), {},
               code == ErrorCode::kOutOfSpace
                   ? "Free space in the spill directory or name another with --spill-dir."
                   : "Check the disk behind the spill directory (dmesg), or name another with --spill-dir."};
}

FileRun place(const IoRequest& request, Bytes from) {
  for (const FileRun& run : request.pieces) {
    if (from < run.bytes) return {run.offset + from, run.bytes - from};
    from -= run.bytes;
  }
  if (!request.pieces.empty()) return {-1, request.bytes};  // beyond the last: an error, no other bytes
  return {request.offset + from, request.bytes - from};
}

namespace {

// `bytes` that lie in one run of the file.
Status run_in_one(const IoRequest& request, Bytes from, std::int64_t begin, Bytes bytes, char* bounce, Bytes at_once) {
  const bool read = request.kind == IoRequest::Kind::kRead;
  if (bounce != nullptr) at_once = std::min(at_once, BounceBuffers::kBytes);
  Bytes done = 0;
  while (done < bytes) {
    char* const memory = static_cast<char*>(request.memory) + from + done;
    char* const at_disk = bounce != nullptr ? bounce : memory;
    const std::int64_t offset = begin + done;
    const auto size = static_cast<std::size_t>(std::min(bytes - done, at_once));
    if (!read && bounce != nullptr) std::memcpy(bounce, memory, size);
    const ssize_t got = read ? pread(request.fd, at_disk, size, offset) : pwrite(request.fd, at_disk, size, offset);
    if (got > 0) {
      if (read && bounce != nullptr) std::memcpy(memory, bounce, static_cast<std::size_t>(got));
      done += got;
      continue;
    }
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    return transfer_error(request, offset, bytes - done, done, got < 0 ? errno : 0);
  }
  drop_from_cache(request, begin, bytes);
  return {};
}

}  // namespace

Status run_piece(const IoRequest& request, Bytes from, Bytes bytes, char* bounce, Bytes at_once) {
  for (const Bytes end = from + bytes; from < end;) {
    const FileRun at = place(request, from);
    const Bytes here = std::min(at.bytes, end - from);
    if (Status status = run_in_one(request, from, at.offset, here, bounce, at_once); !status) return status;
    from += here;
  }
  return {};
}

namespace {

class Pool final : public IoPool {
 public:
  Pool(int threads, Done done, Bounce bounce)
      : thread_count_(std::max(threads, 1)), done_(std::move(done)), bounce_(bounce),
        faults_(FaultPlan::from_environment()), state_(new State(bounce)) {}
  ~Pool() override;
  void start();

  void submit(const IoRequest& request) override;
  void promote(std::uint64_t token, IoRequest::Urgency urgency, const void* helper) override;
  bool help(const void* helper) override;
  void give_up(const void* helper) override;
  void set_write_limit(std::uint64_t bytes_a_second) override;
  Nanos held_back() const override;
  Bytes bounced() const override;
  void keep_ways() override;
  void quiesce() override;
  void resume() override;
  void after_fork_child() override;

 private:
  struct Piece {
    Queue::iterator transfer;
    Bytes from = 0;
    Bytes bytes = 0;
    BounceChoice::Way way = {};
    BounceBuffers::Lease buffer = {};
  };
  // Everything a forked child must forget lives in one block that it can leave behind as it is.
  struct State {
    explicit State(Bounce bounce) : choice(bounce) {}
    std::mutex mutex;
    std::condition_variable work;   // something to start, or stopping
    std::condition_variable quiet;  // nothing left
    std::array<Queue, kUrgencies> queued;  // with pieces to issue
    Queue under_way;                       // all pieces issued
    std::vector<IoRequest> held;           // submitted while quiescing
    int active = 0;                        // threads in a transfer or its callback
    int writing = 0;
    int reading = 0;
    std::size_t reads_queued = 0;
    BounceChoice choice;
    BounceBuffers buffers;
    Bytes bounced = 0;
    WriteLimit limit;
    Nanos held_since = 0;  // a pressed write is held back by the limit since then; 0: none is
    Nanos held_back = 0;   // before that
    bool holding = false;
    bool stopping = false;
  };

  static void* entry(void* self);
  void loop();
  void enqueue(const IoRequest& request);
  bool next_piece(Piece* piece, Nanos* wait);
  Piece issue(Queue& queue, Queue::iterator at);
  Queue::iterator of_helper(const void* helper);
  void run(std::unique_lock<std::mutex>& lock, Piece piece);
  Nanos write_wait(Transfer& write, Nanos at);
  void write_begins(const Transfer& write, Bytes bytes);
  void finish(std::unique_lock<std::mutex>& lock, Queue::iterator transfer);
  bool none_queued() const;
  bool idle() const;

  const int thread_count_;
  const Done done_;
  const Bounce bounce_;
  FaultPlan faults_;
  State* state_;
  std::vector<pthread_t> threads_;
};

Pool::~Pool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->holding = false;
    for (const IoRequest& request : state_->held) enqueue(request);
    state_->held.clear();
  }
  state_->work.notify_all();
  for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  delete state_;
}

void Pool::start() {
  const SignalsBlocked blocked;
  for (int i = 0; i < thread_count_; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, &Pool::entry, this) != 0) break;
    pthread_setname_np(thread, "outsize-io");
    threads_.push_back(thread);
  }
}

void* Pool::entry(void* self) {
  static_cast<Pool*>(self)->loop();
  return nullptr;
}

bool Pool::none_queued() const {
  return std::all_of(state_->queued.begin(), state_->queued.end(), [](const Queue& q) { return q.empty(); });
}

bool Pool::idle() const { return state_->active == 0 && state_->under_way.empty() && none_queued(); }

// Under the mutex.
void Pool::enqueue(const IoRequest& request) {
  Transfer transfer{request, faults_.next(request.kind), 0, 0, 0, {}};
  if (request.kind == IoRequest::Kind::kRead) ++state_->reads_queued;
  state_->queued[static_cast<std::size_t>(request.urgency)].push_back(std::move(transfer));
}

void Pool::submit(const IoRequest& request) {
  if (threads_.empty()) {
    // A forked child, or a machine that starts no thread: a loud answer rather than none.
    done_({request.token, Error{ErrorCode::kUnsupported, "There is no thread to do this transfer.", {},
                                "Spilled tensors cannot be moved in a forked process."}, 0});
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->holding) {
      state_->held.push_back(request);
      return;
    }
    enqueue(request);
  }
  // All of them: a large transfer has work for several, and which may take it depends on its kind.
  if (request.bytes > kPiece) state_->work.notify_all();
  else if (request.helper == nullptr) state_->work.notify_one();
}

// Its first read that no thread has begun. Under the mutex.
Queue::iterator Pool::of_helper(const void* helper) {
  Queue& queue = state_->queued[static_cast<std::size_t>(IoRequest::Urgency::kDemand)];
  return std::find_if(queue.begin(), queue.end(), [&](const Transfer& t) { return t.request.helper == helper; });
}

bool Pool::help(const void* helper) {
  std::unique_lock lock(state_->mutex);
  Queue& queue = state_->queued[static_cast<std::size_t>(IoRequest::Urgency::kDemand)];
  const auto at = of_helper(helper);
  if (at == queue.end()) return false;
  Piece piece = issue(queue, at);
  if (of_helper(helper) != queue.end()) state_->work.notify_one();  // several at once
  run(lock, std::move(piece));
  return true;
}

void Pool::give_up(const void* helper) {
  const std::lock_guard lock(state_->mutex);
  if (of_helper(helper) != state_->queued[static_cast<std::size_t>(IoRequest::Urgency::kDemand)].end()) {
    state_->work.notify_all();
  }
}

void Pool::promote(std::uint64_t token, IoRequest::Urgency urgency, const void* helper) {
  const std::lock_guard lock(state_->mutex);
  const auto to = static_cast<std::size_t>(urgency);
  for (IoRequest& request : state_->held) {
    if (request.token == token && urgency < request.urgency) request.urgency = urgency;
  }
  for (std::size_t from = to + 1; from < kUrgencies; ++from) {
    Queue& queue = state_->queued[from];
    for (auto at = queue.begin(); at != queue.end(); ++at) {
      if (at->request.token != token) continue;
      at->request.urgency = urgency;
      at->request.helper = helper;
      state_->queued[to].splice(state_->queued[to].end(), queue, at);
      if (state_->limit.on()) state_->work.notify_one();  // from here on it counts as held back
      return;
    }
  }
}

void Pool::set_write_limit(std::uint64_t bytes_a_second) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->limit.set_rate(bytes_a_second);
  }
  state_->work.notify_all();
}

Nanos Pool::held_back() const {
  const std::lock_guard lock(state_->mutex);
  return state_->held_back + (state_->held_since > 0 ? monotonic_now() - state_->held_since : 0);
}

Bytes Pool::bounced() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bounced;
}

void Pool::keep_ways() {
  const std::lock_guard lock(state_->mutex);
  state_->choice.keep();
}

// How long the limit holds this write back. Who ends or forks does not wait for a pace. Under the mutex.
Nanos Pool::write_wait(Transfer& write, Nanos at) {
  if (state_->holding || state_->stopping) return 0;
  const Nanos wait = state_->limit.wait(at);
  if (wait == 0) return 0;
  if (write.started == 0) write.started = at;  // so that planners see the pace as the disk's
  if (write.request.urgency == IoRequest::Urgency::kPressedWrite && state_->held_since == 0) {
    state_->held_since = at;
  }
  return wait;
}

void Pool::write_begins(const Transfer& write, Bytes bytes) {
  if (!state_->limit.on() && state_->held_since == 0) return;
  const Nanos at = monotonic_now();
  state_->limit.begin(bytes, at);
  if (write.request.urgency == IoRequest::Urgency::kPressedWrite && state_->held_since > 0) {
    state_->held_back += at - state_->held_since;
    state_->held_since = 0;
  }
}

void Pool::quiesce() {
  std::unique_lock lock(state_->mutex);
  state_->holding = true;
  if (state_->limit.on()) state_->work.notify_all();
  state_->quiet.wait(lock, [this] { return idle(); });
}

void Pool::resume() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->holding = false;
    for (const IoRequest& request : state_->held) enqueue(request);
    state_->held.clear();
  }
  state_->work.notify_all();
}

void Pool::after_fork_child() {
  // The old block may be locked by a thread that does not exist here: left behind, never looked at.
  state_ = new State(bounce_);
  threads_.clear();
}

// The most urgent piece that may start now, or in `wait` when to ask again (0: when something changes).
// While anything is to be read, at most half of the threads write. Under the mutex.
bool Pool::next_piece(Piece* piece, Nanos* wait) {
  *wait = 0;
  const int writers_allowed = std::max(1, thread_count_ / 2);
  const bool reads_about = state_->reads_queued > 0 || state_->reading > 0;
  for (Queue& queue : state_->queued) {
    for (auto at = queue.begin(); at != queue.end(); ++at) {
      const bool read = at->request.kind == IoRequest::Kind::kRead;
      if (!read && reads_about && state_->writing >= writers_allowed) continue;
      if (!read && (*wait > 0 || (state_->limit.on() && (*wait = write_wait(*at, monotonic_now())) > 0))) continue;
      *piece = issue(queue, at);
      return true;
    }
  }
  return false;
}

// Its next piece. Under the mutex.
Pool::Piece Pool::issue(Queue& queue, Queue::iterator at) {
  const bool read = at->request.kind == IoRequest::Kind::kRead;
  if (at->started == 0) at->started = monotonic_now();
  const Bytes left = at->request.bytes - at->issued;
  // An injected fault takes the whole transfer in one go, so that it is counted once.
  const Bytes bytes = at->fault.kind == InjectedFault::Kind::kNone ? std::min(left, kPiece) : left;
  Piece piece{at, at->issued, bytes, state_->choice.choose(at->request.kind, bytes), {}};
  if (piece.way.bounce) piece.buffer = state_->buffers.lease();
  at->issued += bytes;
  ++at->under_way;
  ++(read ? state_->reading : state_->writing);
  if (!read) write_begins(*at, bytes);
  if (at->issued == at->request.bytes) {
    if (read) --state_->reads_queued;
    state_->under_way.splice(state_->under_way.end(), queue, at);
  }
  return piece;
}

void Pool::finish(std::unique_lock<std::mutex>& lock, Queue::iterator transfer) {
  const IoResult result{transfer->request.token, std::move(transfer->status), monotonic_now() - transfer->started};
  state_->under_way.erase(transfer);
  lock.unlock();
  done_(result);
  lock.lock();
}

// Under the mutex, which it lets go of meanwhile.
void Pool::run(std::unique_lock<std::mutex>& lock, Piece piece) {
  State* const state = state_;
  const auto transfer = piece.transfer;
  const IoRequest request = transfer->request;
  const InjectedFault fault = transfer->fault;
  char* const bounce = piece.buffer.memory();
  const bool duels = piece.way.duel != 0;
  ++state->active;
  lock.unlock();
  const Nanos began = duels ? monotonic_now() + thread_used() : 0;
  Status status = fault.kind == InjectedFault::Kind::kNone
                      ? run_piece(request, piece.from, piece.bytes, bounce)
                      : run_injected(request, fault, bounce);
  std::optional<Nanos> took;
  const bool tells = status.ok() && fault.kind == InjectedFault::Kind::kNone && piece.way.bounce == (bounce != nullptr);
  if (duels && tells) took = monotonic_now() + thread_used() - began;
  lock.lock();
  piece.buffer.give_back();
  if (bounce != nullptr && status) state->bounced += piece.bytes;
  state->choice.took(request.kind, piece.bytes, piece.way, took);
  const bool read = request.kind == IoRequest::Kind::kRead;
  if (!status && transfer->status.ok()) {
    transfer->status = std::move(status);
    if (transfer->issued < request.bytes) {
      // What is left of a failed transfer is not worth doing.
      transfer->issued = request.bytes;
      if (read) --state->reads_queued;
      state->under_way.splice(state->under_way.end(),
                              state->queued[static_cast<std::size_t>(transfer->request.urgency)], transfer);
    }
  }
  if (--transfer->under_way == 0 && transfer->issued == request.bytes) finish(lock, transfer);
  --(read ? state->reading : state->writing);
  --state->active;
  // A write may have been held back by what just ended.
  if (state->stopping || !none_queued()) state->work.notify_all();
  if (idle()) state->quiet.notify_all();
}

void Pool::loop() {
  State* state = state_;
  std::unique_lock lock(state->mutex);
  for (;;) {
    Piece piece;
    Nanos wait = 0;
    if (next_piece(&piece, &wait)) {
      run(lock, std::move(piece));
    } else {
      if (state->stopping && idle()) break;
      if (wait > 0) state->work.wait_for(lock, std::chrono::nanoseconds(wait));
      else state->work.wait(lock);
    }
  }
  state->work.notify_all();
}

}  // namespace

std::unique_ptr<IoPool> IoPool::create(int threads, Done done, Bounce bounce) {
  auto pool = std::make_unique<Pool>(threads, std::move(done), bounce);
  pool->start();
  return pool;
}

}  // namespace outsize::host
