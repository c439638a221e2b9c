// Memory limits of control groups, v1 and v2, from text files. Takes the root to read from, so that
// tests can lay out a tree of their own.
#pragma once

#include <string>

#include "core/base/types.h"

namespace outsize::host {

struct CgroupMemory {
  Bytes limit = 0;  // 0: none
  Bytes used = 0;   // of the group that has the tightest limit
};

// The tightest limit on the path of this process: every group up to the root counts. `root` is ""
// for the real machine. `total` is the machine's RAM: a limit of at least that is none (v1 says
// "no limit" with a huge number).
CgroupMemory cgroup_memory(const std::string& root, Bytes total);

}  // namespace outsize::host
