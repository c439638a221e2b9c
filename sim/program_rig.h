// For tests: a program of one thread, action by action.
#pragma once

#include <algorithm>

#include <gtest/gtest.h>

#include "sim/program.h"

namespace outsize::sim {

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() { program.threads.emplace_back(); }
  Action& add(Action::Kind kind, ObjectId object = 0, Bytes bytes = 0) {
    Action& action = program.threads[0].emplace_back();
    action.kind = kind;
    action.object = object;
    action.bytes = bytes;
    program.objects = std::max(program.objects, object + 1);
    return action;
  }
  Program program;
};

}  // namespace outsize::sim
