// Reads the operator logs of DTR's public simulator (uwsampl/dtr-prototype at eff53cc, simrd/logs):
// one JSON object a line, `INSTRUCTION` says what it is.
//
//   CONSTANT NAME                   a weight; followed by its MEMORY
//   CALL NAME ARGS RESULT TIME      an op; followed by MEMORY and ALIAS of each result, in turn
//   MEMORY NAME MEMORY              bytes
//   ALIAS NAME ALIAS                the operand whose storage it shares; -1: it has its own
//   MUTATE NAME ARGS MUTATE TIME    an op that writes those operands (indices) in place
//   COPY DST SRC                    a new name for a tensor
//   COPY_FROM DST SRC               a name moves to another tensor
//   RELEASE NAME                    a name goes
//   ANNOTATE ANNOTATION             START: what stands before does not count
//
// Bytes and times (nanoseconds) are integers, written as numbers or as strings. A log without START
// counts from its first line.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "sim/simrd/program.h"

namespace outsize::sim::simrd {

// Errors name the line: "line 12 of LOG cannot be read: ...". `name` is for them.
Result<Program> read_log(std::string_view text, const std::string& name);
Result<Program> read_log_file(const std::string& path);

}  // namespace outsize::sim::simrd
