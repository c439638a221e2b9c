// The trace of a run: what the recorder is told beyond the thin calls in the other files. What the
// program does is told, not what outsize makes of it: its own ops and its moves have no place in it.
#include <mutex>
#include <utility>

#include "core/trace/sample.h"
#include "platforms/host/runtime_impl.h"

namespace outsize::host {

Status Runtime::Impl::start_recording() {
  recorded = {};
  faulted.clear();
  recorder.reset();
  if (options.record.empty()) return {};
  const std::string meta = options.record_meta.empty() ? "{}" : options.record_meta;
  auto made = TraceRecorder::create(options.record, meta, monotonic_now());
  if (!made) return made.error();
  recorder = std::move(*made);
  record_living();
  untracked.tell([this](ThreadId thread, SiteId site, Bytes bytes) {
    if (recorder != nullptr) recorder->untracked(monotonic_now(), thread, site, bytes);
  });
  return {};
}

// What an earlier session has left: names that no thread will register again, and tensors.
void Runtime::Impl::record_living() {
  const Nanos now = monotonic_now();
  const ThreadId thread = thread_id();
  for (const auto& [site, name] : names) recorder->name_site(now, thread, site, name);
  for (ExtentId id = 0; id < extents.size(); ++id) {
    const HostExtent& e = extents[id];
    if (e.kind != HostExtent::Kind::kLarge || table[id].dying) continue;
    recorder->adopt(now, thread, e.range.address, static_cast<std::size_t>(e.asked), false);
  }
  small->each([&](const char* address, Bytes bytes) {
    recorder->adopt(now, thread, address, static_cast<std::size_t>(bytes), false);
  });
  for (const auto& [begin, range] : adopted) {
    if (table[range.pieces.front()].dying) continue;
    recorder->adopt(now, thread, begin, range.bytes, range.fd >= 0);
  }
}

void Runtime::Impl::record_op_end(ThreadSlot& slot) {
  --slot.recorded;
  recorder->op_end(monotonic_now(), slot.id);
}

// On the service thread: which thread it was that touched the bytes nobody knows, nor which of the small
// storages of a page.
void Runtime::Impl::record_fault(ExtentId id, const Fault& fault) {
  const Nanos now = monotonic_now();
  const bool small_ones = extents[id].kind == HostExtent::Kind::kSmall;
  const std::size_t touched = small_ones ? static_cast<std::size_t>(kPageBytes) : 1;
  recorder->raw_access(now, trace::kUnknownThread, fault.address, touched, fault.write);
  faulted.emplace(id, now);
}

// The bytes are there, or may be written.
void Runtime::Impl::record_resumed(ExtentId id) {
  const auto since = faulted.find(id);
  if (since == faulted.end()) return;
  const Nanos now = monotonic_now();
  recorder->wait(now, trace::kUnknownThread, trace::WaitCause::kRawAccess, now - since->second);
  faulted.erase(since);
}

// From here on nobody records. Ops that still run end with the trace, or it would make no sense.
std::unique_ptr<TraceRecorder> Runtime::Impl::stop_recording() {
  if (recorder == nullptr) return nullptr;
  const Nanos now = monotonic_now();
  for (const auto& slot : threads) {
    for (; slot->recorded > 0; --slot->recorded) recorder->op_end(now, slot->id);
  }
  faulted.clear();
  return std::move(recorder);
}

Recorded Runtime::Impl::end_recording(Nanos now) {
  std::unique_lock guard(lock);
  const std::unique_ptr<TraceRecorder> last = stop_recording();
  if (last == nullptr) return recorded;
  const std::string path = options.record;
  guard.unlock();
  Recorded result;
  result.path = path;
  if (const Status status = last->finish(now); !status) result.error = status.error().message();
  result.bytes = static_cast<Bytes>(last->file_bytes());
  result.ops = last->totals().ops;
  result.steps = last->totals().steps;
  guard.lock();
  recorded = result;
  return result;
}

Recorded Runtime::end_recording() {
  Impl* const m = the_impl();
  if (m == nullptr || m->in_child.load(std::memory_order_relaxed)) return {};
  return m->end_recording(monotonic_now());
}

void Runtime::sample(std::vector<std::pair<std::string, std::vector<double>>> features) {
  Impl& m = *the_impl();
  if (m.in_child.load(std::memory_order_relaxed)) return;
  std::vector<trace::Feature> views;
  views.reserve(features.size());
  for (const auto& [name, numbers] : features) views.push_back({name, numbers});
  const std::vector<std::int64_t> sample = trace::encode_sample(views);
  std::lock_guard guard(m.lock);
  Input input;
  input.kind = Input::Kind::kSample;
  input.sample = sample;
  input.now = monotonic_now();
  if (m.recorder != nullptr) m.recorder->sample(input.now, Impl::thread_id(), std::move(features));
  m.feed(input);
}

}  // namespace outsize::host
