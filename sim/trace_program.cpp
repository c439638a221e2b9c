#include "sim/trace_program.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/trace/sample.h"
#include "core/trace/trace_validator.h"

namespace outsize::sim {
namespace {

using trace::Event;
using Kind = Event::Kind;
constexpr ObjectId kNoObject = ~ObjectId{0};
constexpr Bytes kGranule = 64;  // of small storages
constexpr std::int64_t kNever = -1;

// What must be known of a trace before its actions can be written down.
struct Overview {
  struct Life {
    std::int64_t born = 0, died = kNever;  // steps
  };
  std::vector<Life> lives;  // by storage
  bool overlap = false;
};

Result<Overview> look_over(const std::string& path, const traces::Cancelled& cancelled) {
  auto file = traces::FileReader::open(path, cancelled);
  if (!file) return file.error();
  Overview overview;
  trace::Validator validator;
  std::map<ThreadId, int> depth;
  int inside = 0;  // threads that are in an op
  std::int64_t step = 0;
  const Status read = (*file)->each([&](const Event& event) {
    validator.event(event);
    if (validator.found() > 0) return;
    switch (event.kind) {
      case Kind::kOpBegin:
        if (depth[event.thread]++ == 0 && ++inside > 1) overview.overlap = true;
        break;
      case Kind::kOpEnd:
        if (--depth[event.thread] == 0) --inside;
        break;
      case Kind::kBirth:
      case Kind::kAdopt: overview.lives.push_back({step, kNever}); break;
      case Kind::kDeath: overview.lives[event.storage].died = step; break;
      case Kind::kStep: ++step; break;
      default: break;
    }
  });
  if (!read) return read.error();
  validator.finish((*file)->totals());
  if (validator.found() > 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "The trace makes no sense: event " + std::to_string(validator.problems()[0].event) + ": " +
                     validator.problems()[0].what,
                 path, "See all of it with: outsize trace validate"};
  }
  return overview;
}

class Writer {
 public:
  Writer(Overview overview, const Roofline* device, ObjectIs object)
      : overview_(std::move(overview)), device_(device), object_is_(object) {
    out_.threads_overlap = overview_.overlap;
    rows_.resize(1);
    out_.program.threads.resize(1);
  }
  void see(const Event& event);
  TraceProgram finish();

 private:
  // An op that runs, as far as its time on another device needs it.
  struct Open {
    SiteId site = 0;
    Bytes touched = 0, born = 0;
    bool alone = true;  // no op ran inside
  };
  struct Row {
    Nanos time = 0;   // of its last event
    int depth = 0;    // ops begun and not ended
    std::vector<Open> open;
  };
  // An extent that small storages share.
  struct Shared {
    std::uint32_t alive = 0;
    bool open = true;
  };
  struct Pack {
    ObjectId object = kNoObject;
    Bytes used = 0;
  };
  // Of one storage: what was adopted has several.
  struct Objects {
    ObjectId first = 0;
    std::uint32_t count = 0;
  };

  void choose_row(ThreadId thread) {
    if (!overview_.overlap) return;
    at_ = row_of_.try_emplace(thread, row_of_.size()).first->second;
    if (at_ < rows_.size()) return;
    rows_.resize(at_ + 1);
    out_.program.threads.resize(at_ + 1);
  }
  Action& add(Action::Kind kind) {
    Action& action = out_.program.threads[at_].emplace_back();
    action.kind = kind;
    return action;
  }
  void pass(Nanos time, Nanos waited);
  void work(Nanos duration);
  void op_end();
  void on_objects(const Event& event, Action::Kind kind);
  void op_begin(const Event& event);
  void open(const Event& event);
  void birth(const Event& event);
  Pack& pack_of(const Event& event);
  bool opens_pack(const Event& event);
  void open_pack(const Event& event);
  void share(const Event& event);
  void large_birth(Bytes bytes, Action::Kind kind, bool file);
  void adoption(Bytes bytes, bool file);
  void death(trace::StorageId storage);
  void bury(ObjectId object);
  void count(Bytes bytes);
  ObjectId new_object(Bytes bytes);

  Overview overview_;
  const Roofline* device_;  // null: times are as recorded
  ObjectIs object_is_;
  TraceProgram out_;
  std::vector<Row> rows_;
  std::map<ThreadId, std::size_t> row_of_;
  std::size_t at_ = 0;  // row of the event that is seen
  std::vector<Objects> objects_;   // by storage
  std::vector<Bytes> bytes_;       // by object
  std::vector<Bytes> sizes_;       // by storage, where times are another device's
  std::vector<Shared> shared_;     // by object; those that are not shared stay as they are
  std::vector<ObjectRef> operands_;
  Pack packs_[2];  // of what dies soon, of what stays
  Bytes alive_ = 0;
};

// The time since the row's last event, less what its thread waited.
void Writer::pass(Nanos time, Nanos waited) {
  Row& row = rows_[at_];
  const Nanos passed = std::max<Nanos>(0, time - row.time - waited);
  row.time = std::max(row.time, time);
  if (device_ == nullptr) work(passed);
}

void Writer::work(Nanos duration) {
  if (duration == 0) return;
  out_.duration += duration;
  auto& actions = out_.program.threads[at_];
  if (!actions.empty() && actions.back().kind == Action::Kind::kWork) {
    actions.back().duration += duration;
  } else {
    add(Action::Kind::kWork).duration = duration;
  }
}

void Writer::see(const Event& event) {
  if (event.kind == Kind::kMeta && out_.meta.empty()) out_.meta = std::string(event.text);
  if (event.kind == Kind::kSiteName) out_.names.emplace(event.site, event.text);
  choose_row(event.thread);
  pass(event.time, event.kind == Kind::kWait ? event.duration : 0);
  switch (event.kind) {
    case Kind::kOpBegin: op_begin(event); break;
    case Kind::kOpEnd: op_end(); break;
    case Kind::kBirth:
    case Kind::kAdopt: birth(event); break;
    case Kind::kDeath: death(event.storage); break;
    case Kind::kExpose: on_objects(event, Action::Kind::kExpose); break;
    case Kind::kRawAccess: on_objects(event, Action::Kind::kRawAccess); break;
    case Kind::kPin: on_objects(event, Action::Kind::kPin); break;
    case Kind::kUnpin: on_objects(event, Action::Kind::kUnpin); break;
    case Kind::kHint: on_objects(event, Action::Kind::kHint); break;
    case Kind::kStep:
      ++out_.steps;
      add(Action::Kind::kStep);
      break;
    case Kind::kSample: add(Action::Kind::kSample).sample = trace::encode_sample(event.features); break;
    default: break;  // says nothing of what the program does to its storages
  }
}

void Writer::op_end() {
  Row& row = rows_[at_];
  if (device_ != nullptr && !row.open.empty()) {
    const Open op = row.open.back();
    row.open.pop_back();
    const auto name = out_.names.find(op.site);
    if (op.alone) {
      work(time_on(*device_, name == out_.names.end() ? "" : name->second, op.touched + op.born, op.born));
    }
  }
  --row.depth;
  add(Action::Kind::kOpEnd);
}

void Writer::on_objects(const Event& event, Action::Kind kind) {
  const Objects objects = objects_[event.storage];
  for (ObjectId i = 0; i < objects.count; ++i) {
    Action& action = add(kind);
    action.object = objects.first + i;
    action.flag = event.flag;
  }
}

void Writer::op_begin(const Event& event) {
  ++out_.ops;
  ++rows_[at_].depth;
  Action& action = add(Action::Kind::kOpBegin);
  action.site = event.site;
  action.graph = event.graph;
  action.in_backward = (event.op_flags & trace::kInBackward) != 0;
  operands_.clear();
  for (const trace::Operand& operand : event.operands) {
    const Objects objects = objects_[operand.storage];
    for (ObjectId i = 0; i < objects.count; ++i) operands_.push_back({objects.first + i, operand.access});
  }
  action.operands = operands_;
  if (device_ != nullptr) open(event);
}

void Writer::open(const Event& event) {
  Row& row = rows_[at_];
  if (!row.open.empty()) row.open.back().alone = false;
  Open op{event.site, 0, 0, true};
  for (std::size_t i = 0; i < event.operands.size(); ++i) {
    const trace::StorageId storage = event.operands[i].storage;
    const auto before = event.operands.first(i);
    const bool again = std::ranges::any_of(before, [&](const trace::Operand& o) { return o.storage == storage; });
    if (!again) op.touched += sizes_[storage];
  }
  row.open.push_back(op);
}

ObjectId Writer::new_object(Bytes bytes) {
  bytes_.push_back(bytes);
  shared_.emplace_back();
  out_.largest = std::max(out_.largest, bytes);
  count(bytes);
  return out_.program.objects++;
}

void Writer::count(Bytes bytes) {
  alive_ += bytes;
  out_.peak = std::max(out_.peak, alive_);
}

void Writer::birth(const Event& event) {
  objects_.push_back({out_.program.objects, 0});
  if (device_ != nullptr) {
    sizes_.push_back(event.bytes);
    if (!rows_[at_].open.empty()) rows_[at_].open.back().born += event.bytes;
  }
  if (event.bytes == 0) return;
  const bool adopted = event.kind == Kind::kAdopt;
  const bool file = adopted && event.flag;
  const bool outside = rows_[at_].depth == 0 && !file;
  const bool small = object_is_ != ObjectIs::kStorage && !adopted && event.bytes < kLargeBytes;
  if (small && !opens_pack(event)) return share(event);
  // As the live driver makes one up where an extent is born.
  if (outside) add(Action::Kind::kOpBegin);
  if (object_is_ == ObjectIs::kStorage) {
    large_birth(event.bytes, adopted ? Action::Kind::kAdopt : Action::Kind::kBirth, file);
  } else if (adopted) {
    adoption(event.bytes, file);
  } else if (small) {
    open_pack(event);
  } else {
    large_birth(event.bytes, Action::Kind::kBirth, false);
  }
  if (outside) add(Action::Kind::kOpEnd);
  if (small) share(event);
}

void Writer::large_birth(Bytes bytes, Action::Kind kind, bool file) {
  ++objects_.back().count;
  const ObjectId object = new_object(object_is_ == ObjectIs::kStorage ? bytes : round_up(bytes, kPageBytes));
  Action& action = add(kind);
  action.object = object;
  action.bytes = bytes_[object];
  action.flag = file;
}

// In pieces. Of a file they lie below; what was in RAM already came when there was room.
void Writer::adoption(Bytes bytes, bool file) {
  for (Bytes at = 0; at < bytes; at += kChunkBytes) {
    large_birth(std::min(kChunkBytes, bytes - at), file ? Action::Kind::kAdopt : Action::Kind::kBirth, file);
  }
}

// What outlives the next step lies with its like, so that one scalar that stays does not keep an extent.
Writer::Pack& Writer::pack_of(const Event& event) {
  const Overview::Life& life = overview_.lives[event.storage];
  return packs_[life.died == kNever || life.died > life.born + 1 ? 1 : 0];
}

bool Writer::opens_pack(const Event& event) {
  const Pack& pack = pack_of(event);
  return pack.object == kNoObject || pack.used + round_up(event.bytes, kGranule) > kSharedBytes;
}

void Writer::open_pack(const Event& event) {
  Pack& pack = pack_of(event);
  if (pack.object != kNoObject) {
    shared_[pack.object].open = false;
    if (shared_[pack.object].alive == 0) bury(pack.object);
  }
  pack = {new_object(kSharedBytes), 0};
  Action& action = add(Action::Kind::kBirth);
  action.object = pack.object;
  action.bytes = kSharedBytes;
  action.flag = true;
}

void Writer::share(const Event& event) {
  Pack& pack = pack_of(event);
  add(Action::Kind::kShare).object = pack.object;
  pack.used += round_up(event.bytes, kGranule);
  ++shared_[pack.object].alive;
  objects_.back() = {pack.object, 1};
}

void Writer::death(trace::StorageId storage) {
  const Objects objects = objects_[storage];
  for (ObjectId object = objects.first; object < objects.first + objects.count; ++object) {
    Shared& shared = shared_[object];
    if (shared.alive > 0 && (--shared.alive > 0 || shared.open)) return;
    bury(object);
  }
}

void Writer::bury(ObjectId object) {
  add(Action::Kind::kDeath).object = object;
  count(-bytes_[object]);
}

TraceProgram Writer::finish() {
  for (at_ = 0; at_ < rows_.size(); ++at_) {  // recording ended inside an op
    for (; rows_[at_].depth > 0; --rows_[at_].depth) add(Action::Kind::kOpEnd);
  }
  return std::move(out_);
}

}  // namespace

Result<TraceProgram> read_trace_program(const std::string& path, const traces::Cancelled& cancelled,
                                        const Roofline* device, ObjectIs object) {
  Result<Overview> overview = look_over(path, cancelled);
  if (!overview) return overview.error();
  auto file = traces::FileReader::open(path, cancelled);
  if (!file) return file.error();
  Writer writer(std::move(*overview), device, object);
  const Status read = (*file)->each([&](const Event& event) { writer.see(event); });
  if (!read) return read.error();
  return writer.finish();
}

}  // namespace outsize::sim
