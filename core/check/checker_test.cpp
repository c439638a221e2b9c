// The judge must find each kind of lie, and nothing where there is none. Each test feeds a story of
// inputs and commands as the engine would tell it, once true and once false.
#include "core/check/checker.h"

#include <gtest/gtest.h>

namespace outsize::check {
namespace {

class Story {
 public:
  explicit Story(Bytes budget = 100) : checker_(budget) {}

  Story& op(ThreadId thread, std::vector<OperandRef> operands) {
    begin(Input::Kind::kOpBegin, kNoExtent);
    input_.thread = thread;
    operands_ = std::move(operands);
    input_.operands = operands_;
    return *this;
  }
  Story& end(ThreadId thread) {
    begin(Input::Kind::kOpEnd, kNoExtent);
    input_.thread = thread;
    return *this;
  }
  Story& alloc(ThreadId thread, ExtentId id, Bytes bytes) {
    begin(Input::Kind::kAlloc, id);
    input_.thread = thread;
    input_.bytes = bytes;
    return *this;
  }
  Story& adopt(ExtentId id, Bytes bytes, bool absent) {
    begin(Input::Kind::kAdopt, id);
    input_.bytes = bytes;
    input_.flag = absent;
    return *this;
  }
  Story& input(Input::Kind kind, ExtentId id = kNoExtent, bool flag = false) {
    begin(kind, id);
    input_.flag = flag;
    return *this;
  }
  Story& then(Command::Kind kind, ExtentId id, bool flag = false) {
    Command& command = commands_.emplace_back();
    command.kind = kind;
    command.extent = id;
    command.flag = flag;
    return *this;
  }
  Story& grant(ThreadId thread) {
    then(Command::Kind::kGrant, kNoExtent).commands_.back().thread = thread;
    return *this;
  }
  Story& refuse(ThreadId thread, Refusal why, Bytes bytes, ExtentId id = kNoExtent) {
    Command& command = then(Command::Kind::kRefuse, id).commands_.back();
    command.thread = thread;
    command.refusal = why;
    command.bytes = bytes;
    return *this;
  }
  // Numbers of the invariants broken so far, in order, as text.
  std::string verdict() {
    flush();
    std::string text;
    for (const std::string& violation : checker_.violations()) {
      const std::size_t at = violation.find("invariant ") + 10;
      text += (text.empty() ? "" : " ") + violation.substr(at, violation.find(':', at) - at);
    }
    return text;
  }
  std::string report() const { return checker_.report(); }

 private:
  void begin(Input::Kind kind, ExtentId id) {
    flush();
    input_ = Input{};
    input_.kind = kind;
    input_.extent = id;
    pending_ = true;
  }
  void flush() {
    if (pending_) checker_.observe(input_, commands_);
    pending_ = false;
    commands_.clear();
  }

  Checker checker_;
  Input input_;
  std::vector<OperandRef> operands_;
  Commands commands_;
  bool pending_ = false;
};

using I = Input::Kind;
using C = Command::Kind;

// Extent 1 of 60 bytes, clean and resident; a valid copy below.
Story& clean_resident(Story& s) {
  return s.adopt(1, 60, true)
      .op(0, {{1, Access::kRead}}).then(C::kFetch, 1)
      .input(I::kReadDone, 1).then(C::kInstall, 1, true).grant(0)
      .end(0);
}

TEST(Checker, AnHonestStoryPasses) {
  Story s;
  clean_resident(s)
      .alloc(0, 2, 60).then(C::kEvict, 1).grant(0)
      .op(0, {{1, Access::kRead}}).then(C::kWrite, 2)
      .input(I::kWriteDone, 2).then(C::kEvict, 2).then(C::kFetch, 1)
      .input(I::kReadDone, 1).then(C::kInstall, 1, true).grant(0)
      .end(0)
      .input(I::kDeath, 1).then(C::kRelease, 1)
      .input(I::kDeath, 2).then(C::kRelease, 2);
  EXPECT_EQ(s.verdict(), "") << s.report();
}

TEST(Checker, MoreThanTheBudget) {
  Story birth, fetch, goes_on;
  birth.alloc(0, 1, 60).alloc(0, 2, 60).grant(0);
  EXPECT_EQ(birth.verdict(), "1") << birth.report();
  fetch.alloc(0, 1, 60).adopt(2, 60, true).op(0, {{2, Access::kRead}}).then(C::kFetch, 2);
  EXPECT_EQ(fetch.verdict(), "1") << fetch.report();
  goes_on.adopt(1, 60, false).adopt(2, 60, false).op(0, {{1, Access::kRead}}).grant(0);
  EXPECT_EQ(goes_on.verdict(), "1") << goes_on.report();
}

TEST(Checker, AdoptionAloneMayExceedTheBudget) {
  Story s;
  s.adopt(1, 60, false).adopt(2, 60, false);
  EXPECT_EQ(s.verdict(), "") << s.report();
}

TEST(Checker, EvictedWithoutACopy) {
  Story s;
  s.alloc(0, 1, 60).alloc(0, 2, 60).then(C::kEvict, 1).grant(0);
  EXPECT_EQ(s.verdict(), "2 2") << s.report();  // the eviction, and what it leaves
}

TEST(Checker, EvictedWithAStaleCopy) {
  Story s;  // the op wrote, and the copy was not forgotten
  clean_resident(s).op(0, {{1, Access::kWrite}}).end(0);
  EXPECT_EQ(s.verdict(), "4") << s.report();
  s.alloc(0, 2, 60).then(C::kEvict, 1).grant(0);
  EXPECT_EQ(s.verdict(), "4 4") << s.report();
}

TEST(Checker, AWriteThatWasOvertakenMustNotBeTrusted) {
  Story honest, liar;
  for (Story* s : {&honest, &liar}) {
    s->alloc(0, 1, 60)
        .alloc(1, 2, 60).then(C::kWrite, 1)
        .op(0, {{1, Access::kWrite}}).then(C::kUnguard, 1)
        .end(0)
        .input(I::kWriteDone, 1);
  }
  honest.then(C::kForget, 1).then(C::kWrite, 1);
  liar.then(C::kEvict, 1).grant(1);
  EXPECT_EQ(honest.verdict(), "") << honest.report();
  EXPECT_EQ(liar.verdict().substr(0, 1), "2") << liar.report();
}

TEST(Checker, APinnedExtentStays) {
  Story s;
  clean_resident(s).op(0, {{1, Access::kRead}}).alloc(1, 2, 60).then(C::kEvict, 1).grant(1);
  EXPECT_EQ(s.verdict(), "3") << s.report();
}

TEST(Checker, ASuspendedPinMayBeTaken) {
  Story s;
  clean_resident(s).op(0, {{1, Access::kRead}}).op(0, {}).alloc(0, 2, 60).then(C::kEvict, 1).grant(0);
  EXPECT_EQ(s.verdict(), "") << s.report();
}

TEST(Checker, ARawAccessMayTakePins) {
  Story s;
  clean_resident(s).adopt(2, 60, true).op(0, {{1, Access::kRead}})
      .input(I::kFault, 2).then(C::kEvict, 1).then(C::kFetch, 2);
  EXPECT_EQ(s.verdict(), "") << s.report();
}

TEST(Checker, GrantedWithoutItsBytes) {
  Story s;
  s.adopt(1, 60, true).op(0, {{1, Access::kRead}}).then(C::kFetch, 1).grant(0);
  EXPECT_EQ(s.verdict(), "3") << s.report();
}

TEST(Checker, GrantedWithoutWaiting) {
  Story s;
  s.alloc(0, 1, 60).grant(0);
  EXPECT_EQ(s.verdict(), "11") << s.report();
}

TEST(Checker, RefusedThoughItFits) {
  Story fits, does_not, too_much;
  fits.adopt(1, 60, true).op(0, {{1, Access::kRead}}).refuse(0, Refusal::kBudget, 60);
  EXPECT_EQ(fits.verdict(), "11") << fits.report();
  does_not.alloc(0, 1, 101).refuse(0, Refusal::kBudget, 101, 1);
  EXPECT_EQ(does_not.verdict(), "") << does_not.report();
  too_much.alloc(0, 1, 101).refuse(0, Refusal::kBudget, 102, 1);
  EXPECT_EQ(too_much.verdict(), "1") << too_much.report();
}

TEST(Checker, BlamesADiskThatDidNotFail) {
  Story s;
  s.adopt(1, 60, true).op(0, {{1, Access::kRead}}).refuse(0, Refusal::kIo, 0);
  EXPECT_EQ(s.verdict(), "6") << s.report();
}

TEST(Checker, WaitsForEver) {
  Story op, raw;
  op.adopt(1, 60, true).op(0, {{1, Access::kRead}});
  EXPECT_EQ(op.verdict(), "11") << op.report();
  raw.adopt(1, 60, true).input(I::kFault, 1);
  EXPECT_EQ(raw.verdict(), "11") << raw.report();
}

TEST(Checker, AnExposedExtentIsGuardedAtOnce) {  // ADR 0004
  Story s;
  s.adopt(1, 60, true).input(I::kExpose, 1).op(0, {{1, Access::kRead}}).then(C::kFetch, 1)
      .input(I::kReadDone, 1).then(C::kInstall, 1, true).grant(0);
  EXPECT_EQ(s.verdict(), "4") << s.report();
}

TEST(Checker, GuardsPair) {
  Story twice, missing, raw;
  twice.alloc(0, 1, 60).op(0, {{1, Access::kWrite}}).then(C::kUnguard, 1);
  EXPECT_EQ(twice.verdict(), "4") << twice.report();
  clean_resident(missing).op(0, {{1, Access::kWrite}}).then(C::kUnguard, 1);
  EXPECT_EQ(missing.verdict(), "4 4") << missing.report();  // unguarded, and stale, with a copy
  clean_resident(raw).input(I::kFault, 1, true).then(C::kForget, 1).then(C::kResume, 1);
  EXPECT_EQ(raw.verdict(), "4") << raw.report();
}

TEST(Checker, TheOnlyCopyIsNotForgotten) {
  Story s;
  s.adopt(1, 60, true).input(I::kPlan).then(C::kForget, 1);
  EXPECT_EQ(s.verdict(), "2 2") << s.report();
}

TEST(Checker, WritesUnderAWriter) {
  Story s;
  s.alloc(0, 1, 60).op(0, {{1, Access::kWrite}}).input(I::kPlan).then(C::kWrite, 1);
  EXPECT_EQ(s.verdict(), "4") << s.report();
}

TEST(Checker, TheDeadAreReleasedOnceAndInTime) {
  Story late, early, command_for_dead;
  late.alloc(0, 1, 60).input(I::kDeath, 1).input(I::kPlan);
  EXPECT_EQ(late.verdict(), "1") << late.report();
  early.alloc(0, 1, 60).input(I::kPlan).then(C::kWrite, 1).input(I::kDeath, 1).then(C::kRelease, 1);
  EXPECT_EQ(early.verdict(), "2") << early.report();
  command_for_dead.alloc(0, 1, 60).input(I::kDeath, 1).then(C::kRelease, 1).input(I::kPlan).then(C::kWrite, 1);
  EXPECT_EQ(command_for_dead.verdict(), "2") << command_for_dead.report();
}

TEST(Checker, AFailedReadIsAbandoned) {
  Story s;
  s.adopt(1, 60, true).op(0, {{1, Access::kRead}}).then(C::kFetch, 1)
      .input(I::kReadDone, 1, true).refuse(0, Refusal::kIo, 0);
  EXPECT_EQ(s.verdict(), "6") << s.report();
}

TEST(Checker, AFailedWriteLeavesNoCopy) {
  Story s;
  s.alloc(0, 1, 60).alloc(1, 2, 60).then(C::kWrite, 1)
      .input(I::kWriteDone, 1, true).refuse(1, Refusal::kIo, 0, 2);
  EXPECT_EQ(s.verdict(), "4 4") << s.report();  // neither forgotten nor unguarded
}

TEST(Checker, StopsTheRunOnlyInNeed) {
  Story s;
  s.adopt(1, 60, true).input(I::kFault, 1).then(C::kFatal, 1);
  EXPECT_EQ(s.verdict(), "11") << s.report();
}

}  // namespace
}  // namespace outsize::check
