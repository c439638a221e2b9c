// For tests: clocks that stand still, and a program that runs as the choice goes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "platforms/host/page_choice.h"

namespace outsize::host {

constexpr Nanos kMilli = 1'000'000;

// The choice asks functions without a state.
struct TestClock {
  static inline Nanos time = 0, used = 0;
  static Nanos now() { return time; }
  static Nanos busy() { return used; }
  static void run(Nanos nanos) {
    time += nanos;
    used += nanos;
  }
};

// A program whose ops take so long with huge pages and so long with small ones; one in `step` ends a step.
struct TestProgram {
  PageChoice& choice;
  Nanos huge = 10 * kMilli, small = 10 * kMilli;
  Nanos remakes = kMilli;  // with huge pages, an op
  int step = 40;           // 0: it tells of no steps
  std::int64_t ops = 0;
  Nanos waited = 0;        // so far
  bool idle = false;       // ops use no processor
  bool waits = false;      // they tell that they wait, before one looks
  int switches = 0;

  void op() {
    const bool before = choice.small();
    const Nanos takes = before ? small : huge;
    TestClock::time += takes;
    if (!idle) TestClock::used += takes;
    if (!before) choice.remade(remakes);
    ++ops;
    if (waits) waited = TestClock::time;
    if (step > 0 && ops % step == 0) choice.step();
    choice.look(ops, waited);
    if (choice.small() != before) ++switches;
  }
  void run(Nanos nanos) {
    for (const Nanos end = TestClock::time + nanos; TestClock::time < end;) op();
  }
};

inline void choose_small(PageChoice& choice) {
  TestProgram{choice, 10 * kMilli, 5 * kMilli}.run(75'000 * kMilli);
  EXPECT_TRUE(choice.small());
}

}  // namespace outsize::host
