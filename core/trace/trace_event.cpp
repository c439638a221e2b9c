#include "core/trace/trace_event.h"

namespace outsize::trace {

const char* to_string(WaitCause cause) {
  switch (cause) {
    case WaitCause::kOperands: return "operands";
    case WaitCause::kRoom: return "room";
    case WaitCause::kRawAccess: return "raw access";
    case WaitCause::kPages: return "fresh pages";
  }
  return "?";
}

const char* to_string(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kMeta: return "meta";
    case Event::Kind::kSiteName: return "site name";
    case Event::Kind::kOpBegin: return "op begin";
    case Event::Kind::kOpEnd: return "op end";
    case Event::Kind::kBirth: return "birth";
    case Event::Kind::kAdopt: return "adoption";
    case Event::Kind::kDeath: return "death";
    case Event::Kind::kExpose: return "exposed";
    case Event::Kind::kRawAccess: return "raw access";
    case Event::Kind::kPin: return "pin";
    case Event::Kind::kUnpin: return "unpin";
    case Event::Kind::kHint: return "hint";
    case Event::Kind::kWait: return "wait";
    case Event::Kind::kUntracked: return "untracked";
    case Event::Kind::kStep: return "step";
    case Event::Kind::kSample: return "sample";
    case Event::Kind::kEnd: return "end";
  }
  return "?";
}

void Totals::count(const Event& event) {
  ++events;
  switch (event.kind) {
    case Event::Kind::kOpBegin: ++ops; break;
    case Event::Kind::kStep: ++steps; break;
    case Event::Kind::kDeath: ++deaths; break;
    case Event::Kind::kBirth:
    case Event::Kind::kAdopt:
      ++births;
      born_bytes += event.bytes;
      break;
    default: break;
  }
}

}  // namespace outsize::trace
