#include "sim/oracle.h"

#include <vector>

namespace outsize::sim {
namespace {

using Part = oracle::Recording::Part;

class Writer {
 public:
  explicit Writer(ObjectId objects) : of_(objects, oracle::kNone) {}
  void see(const Action& action);
  std::unique_ptr<const oracle::Recording> finish() {
    out_->finish(time_);
    return std::move(out_);
  }

 private:
  void begin_op(const Action& action);
  void bear(const Action& action, Part part, Bytes whole = 0) {
    of_[action.object] = out_->bear(part, action.bytes, whole);
  }

  std::unique_ptr<oracle::Recording> out_ = std::make_unique<oracle::Recording>();
  std::vector<std::uint32_t> of_;        // by object of the program
  std::vector<std::uint32_t> operands_;  // scratch
  Nanos time_ = 0;
};

// An op without a site is the driver's own.
void Writer::begin_op(const Action& action) {
  operands_.clear();
  for (const ObjectRef& ref : action.operands) {
    if (of_[ref.object] != oracle::kNone) operands_.push_back(of_[ref.object]);
  }
  if (action.site != 0) out_->begin_op(action.site, time_, operands_);
}

void Writer::see(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kWork: time_ += action.duration; break;
    case Action::Kind::kOpBegin: begin_op(action); break;
    case Action::Kind::kBirth: bear(action, action.flag ? Part::kShared : Part::kOwn); break;
    case Action::Kind::kAdopt: bear(action, Part::kPiece, action.bytes); break;
    case Action::Kind::kDeath:
      if (of_[action.object] != oracle::kNone) out_->bury(of_[action.object]);
      break;
    case Action::Kind::kPin:
    case Action::Kind::kRawAccess:
      if (of_[action.object] != oracle::kNone) out_->touch(of_[action.object]);
      break;
    default: break;
  }
}

}  // namespace

std::unique_ptr<const oracle::Recording> recording_of(const Program& program) {
  Writer writer(program.objects);
  for (const Action& action : program.threads.at(0)) writer.see(action);
  return writer.finish();
}

}  // namespace outsize::sim
