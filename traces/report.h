// What a trace says, in short, and in forms that other programs draw. All of them read a trace once,
// from its start, in memory that depends on what lives and on the number of op sites, not on its length.
//
// Errors are the reader's (trace_file.h), and kIo where the export cannot be written.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/trace/trace_event.h"
#include "core/trace/trace_validator.h"
#include "traces/trace_file.h"

namespace outsize::traces {

// An op site with the time that its ops took themselves, without the ops inside them.
struct SiteTime {
  SiteId site = 0;
  std::string name;   // empty: the trace has none
  std::uint64_t ops = 0;
  Nanos self = 0;
};

struct Summary {
  std::string meta;  // JSON; empty: the trace has none
  trace::Totals totals;
  std::uint64_t file_bytes = 0, block_bytes = 0, blocks = 0;
  std::uint64_t adoptions = 0, raw_accesses = 0, samples = 0, threads = 0, sites = 0;
  Nanos duration = 0;
  Bytes peak_bytes = 0;  // of storages that live together
  Nanos peak_time = 0;   // when that was first so
  Bytes alive_bytes = 0;  // at the end
  std::array<Nanos, trace::kWaitCauses> waited{};
  std::vector<SiteTime> longest;  // sites by their own time, longest first
};
inline constexpr std::size_t kLongestMax = 10;

Result<Summary> summarize(const std::string& path, const Cancelled& cancelled = nullptr);

struct Verdict {
  std::vector<trace::Problem> problems;
  std::uint64_t found = 0;  // all of them, also those that were not kept
  std::uint64_t events = 0;
};
Result<Verdict> validate(const std::string& path, const Cancelled& cancelled = nullptr);

enum class ExportFormat : std::uint8_t {
  kChrome,  // JSON for Perfetto and chrome://tracing: ops as slices of their thread, bytes alive as a counter
  kMemory,  // CSV: a line for each change of the bytes alive, with the op that bore them
};
// Writes `to`, which may not be the trace itself. Where that turns out to be damaged, or is cancelled,
// `to` is removed again.
Status export_trace(const std::string& path, ExportFormat format, const std::string& to,
                    const Cancelled& cancelled = nullptr);

}  // namespace outsize::traces
