#include "core/trace/trace_validator.h"

#include <gtest/gtest.h>

#include "core/trace/trace_test_rig.h"

namespace outsize::trace {
namespace {

// What the validator finds in these events, as text; totals are counted unless others are told.
std::string found(const Events& events, const Totals* told = nullptr) {
  Validator validator;
  Totals totals;
  for (const OwnedEvent& owned : events) {
    borrowed(owned, [&](const Event& event) {
      validator.event(event);
      if (event.kind != Event::Kind::kEnd) totals.count(event);
    });
  }
  validator.finish(told != nullptr ? *told : totals);
  std::string text;
  for (const Problem& problem : validator.problems()) {
    text += std::to_string(problem.event) + ": " + problem.what + "\n";
  }
  return text;
}

OwnedEvent on(Event::Kind kind, Nanos time, StorageId storage = kNoStorage) {
  OwnedEvent owned;
  owned.plain.kind = kind;
  owned.plain.time = time;
  owned.plain.storage = storage;
  return owned;
}

// Storage 0 is born, an op reads it, it dies.
Events good() {
  Events events{on(Event::Kind::kBirth, 1, 0), on(Event::Kind::kOpBegin, 2), on(Event::Kind::kOpEnd, 3),
                on(Event::Kind::kPin, 4, 0),   on(Event::Kind::kUnpin, 5, 0), on(Event::Kind::kDeath, 6, 0),
                on(Event::Kind::kEnd, 7)};
  events[0].plain.bytes = 64;
  events[1].operands = {{0, Access::kRead}};
  return events;
}

TEST(TraceValidator, FindsNothingInWhatMakesSense) {
  EXPECT_EQ(found(good()), "");
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    EXPECT_EQ(found(RandomTrace(seed).make(2000)), "") << "seed " << seed;
  }
}

TEST(TraceValidator, UseBeforeBirth) {
  Events events = good();
  std::swap(events[0], events[1]);
  std::swap(events[0].plain.time, events[1].plain.time);
  EXPECT_EQ(found(events), "0: storage 0 is used before its birth.\n");
}

TEST(TraceValidator, UseAfterDeath) {
  const std::pair<Event::Kind, const char*> uses[] = {
      {Event::Kind::kDeath, "dies"},          {Event::Kind::kExpose, "is exposed"},
      {Event::Kind::kRawAccess, "is touched raw"}, {Event::Kind::kPin, "is pinned"},
      {Event::Kind::kUnpin, "is unpinned"},   {Event::Kind::kHint, "gets a hint"}};
  for (const auto& [kind, doing] : uses) {
    Events events = good();
    events.insert(events.begin() + 6, on(kind, 6, 0));
    EXPECT_EQ(found(events), std::string("6: storage 0 ") + doing + " after its death.\n");
  }
  Events events = good();
  events.insert(events.begin() + 6, {on(Event::Kind::kOpBegin, 6), on(Event::Kind::kOpEnd, 6)});
  events[6].operands = {{0, Access::kWrite}};
  EXPECT_EQ(found(events), "6: storage 0 is used after its death.\n");
}

TEST(TraceValidator, BirthsOutOfTurn) {
  Events events = good();
  events[0].plain.storage = 3;
  EXPECT_EQ(found(events).substr(0, 54), "0: storage 3 is born where 0 is the next number.\n1: st");
  events = good();
  events[0].plain.bytes = 0;
  EXPECT_EQ(found(events), "0: storage 0 is born with no bytes.\n");
}

TEST(TraceValidator, OpsThatDoNotMatch) {
  Events events = good();
  events[2].plain.thread = 9;
  EXPECT_EQ(found(events), "2: An op ends on thread 9 where none has begun.\n"
                           "6: On thread 0 1 of the ops have no end.\n");
}

TEST(TraceValidator, TimeThatGoesBack) {
  Events events = good();
  events[3].plain.time = 1;
  EXPECT_EQ(found(events), "3: Time goes back by 2 ns.\n");
}

TEST(TraceValidator, AccessModesFlagsAndCauses) {
  Events events = good();
  events[1].operands[0].access = static_cast<Access>(2);
  events[1].plain.op_flags = 16;
  events[1].plain.site = with_idiom_class(0, 63);
  EXPECT_EQ(found(events), "1: An op has flags that are not known: 16.\n"
                           "1: An op has an idiom class that is not known: 63.\n"
                           "1: An op's access to storage 0 is neither a read nor a write.\n");
  events = good();
  events.insert(events.begin() + 3, on(Event::Kind::kWait, 3));
  events[3].plain.cause = static_cast<WaitCause>(4);
  events[3].plain.duration = 4;
  EXPECT_EQ(found(events), "3: A wait has a cause that is not known.\n3: A wait is longer than the trace so far.\n");
}

TEST(TraceValidator, PinsThatDoNotMatch) {
  Events events = good();
  events[3].plain.kind = Event::Kind::kExpose;
  EXPECT_EQ(found(events), "4: storage 0 is unpinned and was not pinned.\n");
}

TEST(TraceValidator, TheEnd) {
  Events events = good();
  events.pop_back();
  EXPECT_EQ(found(events), "6: The trace has no end.\n");
  events = good();
  events.push_back(on(Event::Kind::kStep, 8));
  EXPECT_EQ(found(events), "6: An event follows the end.\n");
}

TEST(TraceValidator, TotalsThatDoNotAgree) {
  const Totals told{.events = 7, .ops = 2, .steps = 3, .births = 4, .deaths = 5, .born_bytes = 6};
  EXPECT_EQ(found(good(), &told), "6: The end counts 7 events, and the trace has 6.\n"
                                  "6: The end counts 2 ops, and the trace has 1.\n"
                                  "6: The end counts 3 steps, and the trace has 0.\n"
                                  "6: The end counts 4 births, and the trace has 1.\n"
                                  "6: The end counts 5 deaths, and the trace has 1.\n"
                                  "6: The end counts 6 bytes born, and the trace has 64.\n");
}

TEST(TraceValidator, KeepsTheFirstProblemsAndCountsAll) {
  Validator validator;
  for (int i = 0; i < 500; ++i) borrowed(on(Event::Kind::kOpEnd, i), [&](const Event& e) { validator.event(e); });
  EXPECT_EQ(validator.problems().size(), Validator::kProblemsMax);
  EXPECT_EQ(validator.found(), 500U);
}

}  // namespace
}  // namespace outsize::trace
