#include "platforms/host/runtime.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "platforms/host/machine.h"
#include "platforms/host/runtime_impl.h"
#include "platforms/host/system_calls.h"

namespace outsize::host {
namespace {

Runtime::Impl* the_impl_ = nullptr;
std::atomic<Runtime*> current_{nullptr};
constexpr Bytes kUnlimited = Bytes{1} << 60;

std::string default_spill_dir() {
  const char* set = std::getenv("TMPDIR");
  return set != nullptr && *set != '\0' ? set : "/var/tmp";
}

// As much address space as the system grants, aligned to a chunk.
char* reserve_arena(std::uint32_t most, std::uint32_t& chunks) {
  constexpr std::uint32_t kFewest = 1U << 12;
  for (chunks = most; chunks >= kFewest; chunks /= 2) {
    const std::size_t bytes = static_cast<std::size_t>(chunks + 1) * kChunkBytes;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    char* base = reinterpret_cast<char*>(round_up(static_cast<Bytes>(address), kChunkBytes));
    char* end = base + static_cast<std::size_t>(chunks) * kChunkBytes;
    if (base > memory) munmap(memory, static_cast<std::size_t>(base - static_cast<char*>(memory)));
    munmap(end, bytes - static_cast<std::size_t>(end - static_cast<char*>(memory)));
    madvise(base, static_cast<std::size_t>(chunks) * kChunkBytes, MADV_DONTDUMP);
    madvise(base, static_cast<std::size_t>(chunks) * kChunkBytes, MADV_HUGEPAGE);
    return base;
  }
  return nullptr;
}

}  // namespace

Runtime::Impl* the_impl() noexcept { return the_impl_; }

Runtime::Impl::Impl(const RuntimeOptions& runtime_options, char* base, std::uint32_t chunks)
    : options(runtime_options), arena(base), arena_chunks(chunks),
      chunk_owner(chunks, kNoExtent), space(base, chunks) {
  refs.reserve(1024);
  commands.reserve(1024);
  small = std::make_unique<SmallStorages>(table);
}

Result<std::unique_ptr<Runtime::Impl>> Runtime::Impl::make(const RuntimeOptions& options) {
  tell_large_pages = [](void* memory, std::size_t bytes) noexcept { (void)madvise(memory, bytes, MADV_HUGEPAGE); };
  std::uint32_t chunks = 0;
  char* base = reserve_arena(kArenaChunksMax, chunks);
  if (base == nullptr) {
    return Error{ErrorCode::kUnsupported, "no address space can be reserved for tensors", "mmap",
                 "Raise the limit on virtual memory (ulimit -v unlimited) and start again."};
  }
  auto impl = std::make_unique<Impl>(options, base, chunks);
  Impl* raw = impl.get();
  auto mover = make_page_mover(options.faults, base, static_cast<Bytes>(chunks) * kChunkBytes,
                               [raw](const Fault& fault) { raw->on_fault(fault); });
  if (!mover) {
    munmap(base, static_cast<std::size_t>(chunks) * kChunkBytes);
    return mover.error();
  }
  impl->mover = std::move(*mover);
  // Where mremap moves pages every piece is a mapping, and of these there may be so many only. Where pages are copied,
  // each one is made anew, the small ones as well.
  impl->page_choice = std::make_unique<PageChoice>(impl->mover->kind() == PageMover::Kind::kUserfaultfdMove);
  impl->pool = std::make_unique<PagePool>(impl->space, *impl->mover, *impl->page_choice);
  return impl;
}

void Runtime::Impl::cover_modules() const {
  if (!mover->serves_kernel()) cover_system_calls();
}

Status Runtime::Impl::start(const RuntimeOptions& wanted) {
  options = wanted;
  if (Status status = derive_budget(); !status) return status;
  if (options.spill_dir.empty()) options.spill_dir = default_spill_dir();
  if (options.budget < kBudgetMin) {
    return Error{ErrorCode::kInvalidArgument, "a budget of " + mib(options.budget) +
                 " is too small to hold even one small tensor", "budget", "Give at least 1 MiB."};
  }
  const bool signal = mover->kind() == PageMover::Kind::kSignal;
  if (options.faults != FaultMechanism::kAuto && signal != (options.faults == FaultMechanism::kSignal)) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string("pages are moved by ") + mover->name() + " already, since this process's first session",
                 "faults", "Leave it at auto, or start a new process."};
  }
  Policy policy = make_chosen_policy();
  if (!policy.planner) return policy.error;
  auto file = SpillFile::create({options.spill_dir, options.spill_limit});
  if (!file) return file.error();
  spill = std::move(*file);
  io = IoPool::create(options.io_threads, [this](const IoResult& result) { io_done(result); });
  io->set_write_limit(options.disk_write_limit);
  const EngineOptions of_engine = engine_options(options.budget);
  if (engine) {
    engine->restart(of_engine, std::move(policy.predictor), std::move(policy.planner));
  } else {
    engine = std::make_unique<Engine>(of_engine, std::move(policy.predictor),
                                      std::move(policy.planner), table);
  }
  pool->forget_choice();
  untracked = {};  // before the trace asks it to tell
  if (Status status = start_recording(); !status) return status;
  if (!options.decision_log.empty()) {
    log_file = std::fopen(options.decision_log.c_str(), "we");
    if (log_file == nullptr) {
      recorder.reset();
      return Error{ErrorCode::kIo, "the decision log cannot be written", options.decision_log,
                   "Name a file in a folder that exists."};
    }
    log = std::make_unique<DecisionLog>(
        [this](std::string_view line) { std::fwrite(line.data(), 1, line.size(), log_file); });
    log->header(options.policy, options.budget, of_engine.reading_max, of_engine.writing_max, pilot_model, foreseen_run);
    for (ExtentId id = 0; id < table.size(); ++id) {
      if (table[id].where != Where::kFree) log->left_over(id, table[id]);
    }
    engine->set_log(log.get());
  }
  pool->set_limit(options.budget);
  pool->reset_peak();
  process_peak = resident_size.read();
  stall = verify = 0;
  verified_bytes = 0;
  tensor_peak = large_live + small->live();
  io_error_pending = false;
  start_watch();
  if (watch == nullptr && options.process_budget > 0) {
    recorder.reset();
    return Error{ErrorCode::kUnsupported, "no thread can be started to watch the memory of the process", "budget_rss",
                 "Raise the limit on threads (ulimit -u, pids.max), or give a budget for tensors only."};
  }
  serving = true;
  return {};
}

// Tensors of an earlier session are here still. What exceeds the new budget leaves before anything runs;
// what cannot (the disk fails) is told to the ops that need room.
void Runtime::Impl::fit_into_budget(std::unique_lock<RuntimeLock>& guard) {
  if (engine->free() >= 0) return;
  change_budget(options.budget);
  while (engine->free() < 0 && engine->writing() > 0) {
    guard.unlock();
    usleep(500);
    guard.lock();
  }
  trim_to_budget();
  pool->reset_peak();
}

Result<std::unique_ptr<Runtime>> Runtime::create(const RuntimeOptions& options) {
  if (current_.load() != nullptr) {
    return Error{ErrorCode::kInvalidArgument, "outsize is already running in this process", "",
                 "Disable it before enabling it anew."};
  }
  if (the_impl_ == nullptr) {
    auto made = Impl::make(options);
    if (!made) return made.error();
    the_impl_ = made->release();  // for the life of the process: addresses outlive us
    pthread_atfork([] { the_impl_->before_fork(); }, [] { the_impl_->after_fork_parent(); },
                   [] { the_impl_->after_fork_child(); });
  }
  {
    std::unique_lock guard(the_impl_->lock);
    if (Status status = the_impl_->start(options); !status) return status.error();
    the_impl_->fit_into_budget(guard);
  }
  the_impl_->cover_modules();
  std::unique_ptr<Runtime> runtime(new Runtime);
  current_.store(runtime.get());
  return runtime;
}

Runtime::Runtime() = default;

Runtime::~Runtime() {
  if (current_.load() == this) shutdown().ok();
}

Runtime* Runtime::current() noexcept { return current_.load(std::memory_order_relaxed); }

bool Runtime::owns(const void* address) noexcept {
  const Impl* m = the_impl_;
  if (m == nullptr) return false;
  const char* p = static_cast<const char*>(address);
  return p >= m->arena && p < m->arena + static_cast<Bytes>(m->arena_chunks) * kChunkBytes;
}

// --- ops --------------------------------------------------------------------------------------

ExtentId Runtime::Impl::extent_at(const void* address) const {
  const char* p = static_cast<const char*>(address);
  const auto offset = static_cast<std::uint64_t>(p - arena);
  const std::uint64_t chunk = offset / kChunkBytes;
  if (p >= arena && chunk < arena_chunks) return chunk_owner[chunk];
  const AdoptedRange* range = adopted_at(address);
  if (range == nullptr || p < range->first || p >= range->first + range->managed) return kNoExtent;
  return range->pieces[static_cast<std::size_t>((p - range->first) / kAdoptedPiece)];
}

void Runtime::Impl::resolve(std::span<const Operand> operands) {
  refs.clear();
  for (const Operand& operand : operands) {
    const char* p = static_cast<const char*>(operand.address);
    const auto chunk = static_cast<std::uint64_t>(p - arena) / kChunkBytes;
    if (p >= arena && chunk < arena_chunks) {
      if (chunk_owner[chunk] != kNoExtent) refs.push_back({chunk_owner[chunk], operand.access});
    } else if (p < adopted_end && p + operand.bytes > adopted_begin) {
      add_adopted_operands(operand);
    }
  }
}

Status Runtime::op_begin(SiteId site, std::span<const Operand> operands, std::uint8_t flags, GraphPlace graph) {
  Impl& m = *the_impl_;
  if (m.in_child.load(std::memory_order_relaxed)) return {};
  ThreadSlot& slot = m.slot();
  std::lock_guard guard(m.lock);
  Status status = m.begin_op(slot, site, operands, (flags & trace::kInBackward) != 0, graph);
  if (m.recorder != nullptr && status.ok()) [[unlikely]] {
    ++slot.recorded;
    m.recorder->op_begin(monotonic_now(), slot.id, site, flags, graph, operands);
  }
  return status;
}

Status Runtime::Impl::begin_op(ThreadSlot& slot, SiteId site, std::span<const Operand> operands, bool in_backward,
                               GraphPlace graph) {
  if (io_error_pending && slot.depth == 0) {  // not half-way through an op that began
    io_error_pending = false;
    if (slot.expects) scratch_is_back(slot);
    return told_in_op(io_error, "operands", site);
  }
  if (options.process_budget > 0 && site != 0) {
    const Bytes scratch = untracked.seen(site);
    if (scratch > 0) {
      if (Status status = expect_untracked(slot, scratch, op_name(site, "an op")); !status) return status;
    }
  }
  resolve(operands);
  Input input;
  input.kind = Input::Kind::kOpBegin;
  input.thread = slot.id;
  input.site = site;
  input.in_backward = in_backward;
  input.graph = graph;
  input.operands = refs;
  const bool watching = engine->watching();
  if (watching) input.now = monotonic_now();
  slot.signal.store(0, std::memory_order_relaxed);
  if (timeline != nullptr) [[unlikely]] tell_work(slot, monotonic_now());
  slot.sites.push_back(site);
  ++slot.depth;
  ++slot.ops;
  reader = &slot;
  const Outcome outcome = feed(input);
  reader = nullptr;
  if (outcome == Outcome::kWait) {
    const Nanos since = watching ? input.now : monotonic_now();
    if (Status status = wait(slot, trace::WaitCause::kOperands, "operands", since); !status) {
      slot.sites.pop_back();
      --slot.depth;
      if (slot.expects && slot.depth == slot.expects_at) scratch_is_back(slot);
      return status;
    }
  }
  if (watching) plan_if_useful(input.now);
  return {};
}

void Runtime::op_end() noexcept {
  Impl& m = *the_impl_;
  if (m.in_child.load(std::memory_order_relaxed)) return;
  ThreadSlot& slot = m.slot();
  std::lock_guard guard(m.lock);
  if (slot.depth == 0) return;  // began in the parent of this process, or not at all
  if (slot.recorded > 0) [[unlikely]] m.record_op_end(slot);
  m.end_op(slot);
}

void Runtime::Impl::end_op(ThreadSlot& slot) {
  if (timeline != nullptr) [[unlikely]] tell_work(slot, monotonic_now());
  --slot.depth;
  slot.sites.pop_back();
  Input input;
  input.kind = Input::Kind::kOpEnd;
  input.thread = slot.id;
  feed(input);
  if (slot.expects && slot.depth == slot.expects_at) scratch_is_back(slot);
}

void Runtime::name_site(SiteId site, const char* name) {
  Impl& m = *the_impl_;
  std::lock_guard guard(m.lock);
  if (m.names.size() >= kNamesMax) {
    m.forget_names();
    names_forgotten_.fetch_add(1, std::memory_order_relaxed);
  }
  const bool fresh = m.names.emplace(site, name).second;
  if (m.recorder != nullptr && fresh) m.recorder->name_site(monotonic_now(), Impl::thread_id(), site, name);
}

void Runtime::step() {
  Impl& m = *the_impl_;
  if (m.in_child.load(std::memory_order_relaxed)) return;
  m.cover_modules();
  std::lock_guard guard(m.lock);
  Input input;
  input.kind = Input::Kind::kStep;
  input.now = monotonic_now();
  if (m.recorder != nullptr) m.recorder->step(input.now, Impl::thread_id());
  if (m.timeline != nullptr) m.timeline->step(m.on_timeline(input.now));
  m.feed(input);
  m.small->step();
  m.page_choice->step();
  if (m.spill) {
    m.room_below(0).ok();  // so that it is not given back
    m.spill->reclaim();
  }
}

// --- the end ----------------------------------------------------------------------------------

// Every extent that an op can have. One that died while it travels goes when it arrives.
std::vector<OperandRef> Runtime::Impl::living() const {
  std::vector<OperandRef> all;
  for (ExtentId id = 0; id < extents.size(); ++id) {
    if (extents[id].kind == HostExtent::Kind::kNone || table[id].dying) continue;
    all.push_back({id, Access::kWrite});
  }
  return all;
}

Status Runtime::Impl::stop() {
  watch.reset();  // the budget moves no more
  const Nanos now = monotonic_now();
  Status status = bring_back();
  if (status.ok()) {
    end_recording(now);
    Runtime::timeline();
  } else {
    start_watch();
  }
  return status;
}

void Runtime::Impl::start_watch() {
  watch = MemoryWatch::start([this] { look_at_memory(); });
}

Status Runtime::Impl::bring_back() {
  Bytes absent = 0;
  {
    std::lock_guard guard(lock);
    for (const OperandRef& operand : living()) {
      if (table[operand.extent].where != Where::kResident) absent += table[operand.extent].bytes;
    }
  }
  const MemoryLimits limits = memory_limits();
  const Bytes left = limits.cgroup > 0
                         ? std::min(limits.available, limits.cgroup - limits.cgroup_used)
                         : limits.available;
  if (absent > left) {
    return Error{ErrorCode::kOutOfBudget, "bringing " + mib(absent) + " of spilled tensors back "
                 "needs more memory than is free (" + mib(left) + ")", "disable",
                 "Drop tensors that are not needed any more, or keep outsize enabled."};
  }
  ThreadSlot& waiting = slot();
  std::unique_lock guard(lock);
  Input input;
  input.kind = Input::Kind::kBudget;
  input.bytes = kUnlimited;
  feed(input);
  io->set_write_limit(0);  // what is under way holds nobody up
  // As operands that are written: everything comes back and no copy below is trusted any more. Other
  // threads' tensors may have died since the count.
  const std::vector<OperandRef> all = living();
  input = Input{};
  input.kind = Input::Kind::kOpBegin;
  input.thread = waiting.id;
  input.operands = all;
  waiting.signal.store(0, std::memory_order_relaxed);
  if (feed(input) == Outcome::kWait) {
    if (Status status = wait(waiting, trace::WaitCause::kRoom, "disable", monotonic_now()); !status) {
      input = Input{};
      input.kind = Input::Kind::kBudget;
      input.bytes = options.budget;
      feed(input);
      io->set_write_limit(options.disk_write_limit);
      return status;
    }
  }
  input = Input{};
  input.kind = Input::Kind::kOpEnd;
  input.thread = waiting.id;
  feed(input);
  while (engine->reading() > 0 || engine->writing() > 0) {
    guard.unlock();
    usleep(500);
    guard.lock();
  }
  serving = false;
  auto pool_of_threads = std::move(io);
  guard.unlock();
  pool_of_threads.reset();
  guard.lock();
  spill.reset();
  pool->trim(0);
  engine->set_log(nullptr);
  log.reset();
  if (log_file != nullptr) {
    const bool lost = std::ferror(log_file) != 0;
    if (std::fclose(std::exchange(log_file, nullptr)) != 0 || lost) {
      std::fprintf(stderr, "outsize: the decision log %s is not whole: it could not be written.\n",
                   options.decision_log.c_str());
    }
  }
  return {};
}

Status Runtime::shutdown() {
  if (current_.load() != this || the_impl_->in_child.load()) return {};
  if (Status status = the_impl_->stop(); !status) return status;
  current_.store(nullptr);
  return {};
}

Bytes Runtime::Impl::min_budget() const {
  return round_up(engine->stats().need_peak, kMiB);
}

Stats Runtime::stats() const {
  Impl& m = *the_impl_;
  std::lock_guard guard(m.lock);
  const EngineStats& e = m.engine->stats();
  Stats s;
  s.budget = m.options.budget;
  s.resident = m.pool->present();
  s.resident_peak = m.pool->present_peak();
  s.tensor_bytes = m.large_live + m.small->live();
  s.tensor_bytes_peak = std::max(m.tensor_peak, s.tensor_bytes);
  s.pinned = m.pinned();
  s.spilled = e.below;
  s.spill_file = m.file_size();
  s.read_bytes = e.read;
  s.write_bytes = e.written;
  s.dropped_bytes = e.dropped;
  s.prefetched_bytes = e.prefetched;
  s.prefetch_hit_bytes = e.prefetch_hit;
  s.demand_bytes = e.demanded;
  s.stall = m.stall;
  s.steps = e.steps;
  s.ops = e.ops;
  s.raw_faults = e.faults;
  s.reads = e.reads;
  s.writes = e.writes;
  s.evictions = e.evictions;
  s.min_budget = m.min_budget();
  s.named_sites = m.names.size();
  s.min_budget_op = e.need_site == 0 ? m.refused_birth : m.op_name(e.need_site, "");
  s.refused_ops = m.refused_ops;
  s.min_spill_file = m.min_spill_file;
  s.small_held = m.small->held();
  s.small_live = m.small->live();
  s.arena_bytes = m.space.used();
  s.mechanism = m.mover->name();
  s.small_pages = m.page_choice->small();
  s.bounced_bytes = m.io ? m.io->bounced() : 0;
  m.tell_policy(s);
  s.spill_dir = m.options.spill_dir;
  if (m.spill) s.warning = m.spill->warning();
  s.disk_size = m.spill ? m.spill->disk_size() : 0;
  s.disk_write_limit = m.options.disk_write_limit;
  s.held_back = m.io ? m.io->held_back() : 0;
  s.verified_bytes = m.verified_bytes;
  s.verify = m.verify;
  s.process_budget = m.options.process_budget;
  s.process_peak = m.process_peak;
  for (const Untracked& rise : m.untracked.largest(5)) {
    s.untracked.push_back({rise.site == 0 ? "" : m.op_name(rise.site, "an op"), rise.bytes});
  }
  return s;
}

}  // namespace outsize::host
