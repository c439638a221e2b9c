// Replaying a decision log, live or simulated: its inputs go to a fresh engine, whose log must be
// the same byte for byte (invariant 10), and its commands to the judge of core/check.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/types.h"
#include "predictors/oracle/recording.h"

namespace outsize::sim {

struct ReplayResult {
  std::string policy;
  Bytes budget = 0;
  std::size_t lines = 0;               // that both logs have, the header left out
  std::size_t inputs = 0, moves = 0;   // moves: fetches, writes and evictions
  bool same = false;
  std::size_t first_difference = 0;    // line, from 1; 0 where there is none
  std::string recorded, replayed;      // that line in both; empty where one log had ended
  std::vector<std::string> violations; // what the judge says of the recorded log
};

// What a run began with (predictors/pilot/model.h), and its name in logs.
struct ReplayModel {
  std::string bytes, name;
};
// The recorded run that it foresaw from (predictors/oracle/recording.h), likewise.
struct ReplayRun {
  std::unique_ptr<const oracle::Recording> recording;
  std::string name;
};

// Fails where the text is no decision log of this version, or has a line that cannot be read. Where
// `cancelled` is given it is asked now and then, and ends the replay.
Result<ReplayResult> replay(std::string_view log, const std::function<bool()>& cancelled = nullptr,
                            const ReplayModel& model = {}, ReplayRun run = {});

}  // namespace outsize::sim
