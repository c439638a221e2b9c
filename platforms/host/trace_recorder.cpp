#include "platforms/host/trace_recorder.h"

#include <system_error>
#include <utility>

#include "platforms/host/clock.h"
#include "platforms/host/signals_blocked.h"

namespace outsize::host {
namespace {

constexpr Nanos kCutEvery = 1'000'000'000;

}  // namespace

Result<std::unique_ptr<TraceRecorder>> TraceRecorder::create(const std::string& path, const std::string& meta,
                                                             Nanos now, std::size_t buffer_records) {
  auto file = traces::FileWriter::create(path);
  if (!file) return file.error();
  std::unique_ptr<TraceRecorder> recorder(new TraceRecorder(std::move(*file), now, buffer_records));
  recorder->put_text(now, 0, {trace::RawText::Kind::kMeta, 0, meta, {}});
  const SignalsBlocked blocked;
  try {
    recorder->thread_ = std::thread([raw = recorder.get()] { raw->write_buffers(); });
  } catch (const std::system_error&) {
    return Error{ErrorCode::kUnsupported, "no thread can be started to write the trace", path,
                 "Raise the limit on threads (ulimit -u, pids.max), or do not record."};
  }
  return recorder;
}

TraceRecorder::TraceRecorder(std::unique_ptr<traces::FileWriter> file, Nanos now, std::size_t buffer_records)
    : file_(std::move(file)), translator_(file_->encoder(), now) {
  for (Buffer& buffer : buffers_) buffer.records.resize(buffer_records);  // every page of it touched
  take(0);
}

TraceRecorder::~TraceRecorder() {
  if (!thread_.joinable()) return;
  wait_until_taken();
  given_.store(kStop, std::memory_order_release);
  given_.notify_one();
  thread_.join();
}

void TraceRecorder::wait_until_taken() noexcept {
  for (int given = given_.load(std::memory_order_acquire); given != kNone;) {
    given_.wait(given, std::memory_order_acquire);
    given = given_.load(std::memory_order_acquire);
  }
}

void TraceRecorder::take(std::size_t buffer) noexcept {
  filling_ = buffer;
  records_ = buffers_[buffer].records.data();
  capacity_ = buffers_[buffer].records.size();
  used_ = 0;
}

// Gives the filled buffer to the thread and takes the other one. Waits for it to be empty, or leaves
// everything as it is.
void TraceRecorder::hand_over(bool wait) noexcept {
  if (given_.load(std::memory_order_acquire) != kNone) {
    if (!wait) return;
    const Nanos since = monotonic_now();
    wait_until_taken();
    held_up_ += monotonic_now() - since;
  }
  buffers_[filling_].used = used_;
  const std::size_t full = filling_;
  take(1 - full);
  given_.store(static_cast<int>(full), std::memory_order_release);
  given_.notify_one();
}

void TraceRecorder::untracked(Nanos now, ThreadId thread, SiteId site, Bytes bytes) noexcept {
  put(Raw::kUntracked, now, thread, 0, site);
  trace::RawEvent& raw = next();
  raw.a = 0;
  raw.b = static_cast<std::uint64_t>(bytes);
  raw.kind = Raw::kRange;
}

void TraceRecorder::step(Nanos now, ThreadId thread) noexcept {
  put(Raw::kStep, now, thread, 0, 0);
  hand_over(false);
}

void TraceRecorder::put_text(Nanos now, ThreadId thread, trace::RawText text) {
  // The record first: it may be the one that changes buffers, and its text belongs beside it.
  put(Raw::kText, now, thread, 0, 0);
  std::vector<trace::RawText>& texts = buffers_[filling_].texts;
  records_[used_ - 1].b = texts.size();
  texts.push_back(std::move(text));
}

void TraceRecorder::name_site(Nanos now, ThreadId thread, SiteId site, std::string name) {
  put_text(now, thread, {trace::RawText::Kind::kSiteName, site, std::move(name), {}});
}

void TraceRecorder::sample(Nanos now, ThreadId thread,
                           std::vector<std::pair<std::string, std::vector<double>>> features) {
  put_text(now, thread, {trace::RawText::Kind::kSample, 0, {}, std::move(features)});
}

// The thread's life.
void TraceRecorder::write_buffers() {
  Nanos cut = monotonic_now();
  for (;;) {
    given_.wait(kNone, std::memory_order_acquire);
    const int given = given_.load(std::memory_order_acquire);
    if (given == kStop) return;
    if (given == kNone) continue;
    Buffer& buffer = buffers_[given];
    if (status_.ok()) {
      status_ = translator_.translate({buffer.records.data(), buffer.used}, buffer.texts);
      // What is in the file outlives the process; small blocks compress badly.
      if (status_.ok() && monotonic_now() - cut > kCutEvery) {
        status_ = file_->encoder().cut();
        cut = monotonic_now();
      }
      if (!status_) failed_.store(true, std::memory_order_relaxed);
    }
    buffer.texts.clear();
    given_.store(kNone, std::memory_order_release);
    given_.notify_one();
  }
}

Status TraceRecorder::finish(Nanos now) {
  if (!thread_.joinable()) return status_;
  hand_over(true);
  wait_until_taken();
  given_.store(kStop, std::memory_order_release);
  given_.notify_one();
  thread_.join();
  if (status_.ok()) status_ = translator_.finish(now, held_up_);
  if (Status closed = file_->close(); status_.ok()) status_ = closed;
  return status_;
}

}  // namespace outsize::host
