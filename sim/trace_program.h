// A recorded run as a modelled program: what would have happened under another budget, policy or disk.
//
// Ops, births and deaths come in the order in which they were recorded, and as much time passes between
// them as passed then, less what threads waited for bytes, room or fresh pages. Storages become extents as in the live
// driver: large ones have one each, small ones share. Which small ones lie together is chosen by how long
// they live, which the live driver learns and a trace knows.
//
// For another device the measured times are replaced: each op that has no other inside takes what the roofline
// says (roofline.h), and what passed between such ops is taken to be hidden behind them.
//
// A model with an allocator of its own (sim/uvm) takes the storages as they were instead: one object each, of their bytes.
//
// Where two threads were inside ops at once each keeps its own row of actions, and nothing but time holds
// them together; else all actions stand in one row.
#pragma once

#include <string>
#include <unordered_map>

#include "core/base/result.h"
#include "sim/program.h"
#include "sim/roofline.h"
#include "traces/trace_file.h"

namespace outsize::sim {

struct TraceProgram {
  Program program;
  std::string meta;     // JSON, as recorded; empty: none
  Bytes peak = 0;       // of extents alive together: with that budget nothing moves
  Bytes largest = 0;    // extent
  Nanos duration = 0;   // of the run, waits left out; the sum over threads where they keep rows of their own
  std::uint64_t ops = 0, steps = 0;
  bool threads_overlap = false;
  std::unordered_map<SiteId, std::string> names;  // of op sites
};

// What an object of the program is.
enum class ObjectIs : std::uint8_t { kExtent, kStorage };

// Errors are the reader's (trace_file.h). With a `device` the times are that device's.
Result<TraceProgram> read_trace_program(const std::string& path, const traces::Cancelled& cancelled = nullptr,
                                        const Roofline* device = nullptr, ObjectIs object = ObjectIs::kExtent);

}  // namespace outsize::sim
